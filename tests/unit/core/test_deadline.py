"""Work that is ended early, and what it was ended by already."""

import asyncio

import pytest

from runnerscale.core.deadline import end_now


async def _ended(scope: asyncio.Timeout, begun: asyncio.Event, *, slow: asyncio.Event) -> str:
    try:
        async with scope:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await slow.wait()  # it is being ended, and takes a while
    except TimeoutError:
        return "ended"
    return "not ended"


@pytest.mark.parametrize("times", [1, 2])
async def test_it_ends_once_however_often_it_is_asked_for(times: int) -> None:
    # Seed 672: two had reason to doubt one watch in the same moment, and the second one raised.
    scope, begun, slow = asyncio.timeout(None), asyncio.Event(), asyncio.Event()
    task = asyncio.get_running_loop().create_task(_ended(scope, begun, slow=slow))
    await begun.wait()
    end_now(scope)
    while not scope.expired():  # noqa: ASYNC110 - a turn of the loop, no time
        await asyncio.sleep(0)
    for _ in range(times - 1):
        end_now(scope)
    slow.set()
    assert await task == "ended"
    end_now(scope)  # over: nothing to end any more
