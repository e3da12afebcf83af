"""Many at once, but never more than so many; the urgent first; nobody's place is lost."""

import asyncio

import pytest

from runnerscale.core.bounded import Gate, run_bounded


async def test_a_batch_keeps_its_order_and_its_limit() -> None:
    inside = 0
    most = 0

    async def work(number: int) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return number * 10

    assert await run_bounded(range(7), work, limit=3) == [0, 10, 20, 30, 40, 50, 60]
    assert most == 3
    assert await run_bounded([], work, limit=3) == []


async def test_the_first_error_of_a_batch_stops_the_rest() -> None:
    begun: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)
        raise ValueError(number)

    with pytest.raises(ExceptionGroup):
        await run_bounded(range(10), work, limit=2)
    assert begun == [0, 1]


async def test_urgent_callers_pass_those_who_wait_already() -> None:
    gate = Gate(1)
    order: list[str] = []

    async def enter(name: str, urgency: int) -> None:
        async with gate.enter(urgency):
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group, gate.enter():
        for name, urgency in (("clean-up 1", 10), ("clean-up 2", 10), ("demand", 0)):
            group.create_task(enter(name, urgency))
        await asyncio.sleep(0)
        assert gate.waiting == 3
    assert order == ["demand", "clean-up 1", "clean-up 2"]


async def test_who_gives_up_waiting_gives_up_no_place() -> None:
    gate = Gate(1)
    async with gate.enter():
        waiting = asyncio.ensure_future(gate._acquire(0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
    assert gate.inside == 0
    async with gate.enter():
        assert gate.inside == 1


async def test_a_place_given_in_the_instant_of_cancelling_goes_to_the_next() -> None:
    gate = Gate(1)
    await gate._acquire(0)
    given = asyncio.ensure_future(gate._acquire(0))
    after = asyncio.ensure_future(gate._acquire(0))
    await asyncio.sleep(0)
    gate._release()  # the place is `given`'s now, though it has not run yet
    given.cancel()
    await after
    assert gate.inside == 1


def test_a_gate_needs_a_place() -> None:
    with pytest.raises(ValueError):
        Gate(0)
