"""Events that could not be stored in time: kept, bounded, tried again, told."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from runnerscale.api.reasons import Reason
from runnerscale.core.clock import ManualClock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import seeded
from runnerscale.listener import repair
from runnerscale.listener.job_started import Outcome
from runnerscale.listener.repair import EVENTS_PER_RUNNER_MAX, GIVE_UP_AFTER_S, Repairs
from runnerscale.scaleset.model import JobEvent, JobEventKind
from tests.unit.listener.conftest import metrics, value

Run = Callable[[Coroutine[Any, Any, Any]], Any]
EVENT = JobEvent(kind=JobEventKind.STARTED, index=0, job_id="a", runner_name="runner-1")


class Writer:
    def __init__(self) -> None:
        self.outcome = Outcome.NOT_STORED
        self.stored: list[JobEvent] = []

    async def store(self, event: JobEvent, deadline: Deadline) -> Outcome:
        if self.outcome.settled:
            self.stored.append(event)
        return self.outcome


class Scene:
    def __init__(self) -> None:
        self.writer, self.clock, self.metrics = Writer(), ManualClock(), metrics()
        self.told: list[tuple[Reason, str]] = []
        self.repairs = Repairs(
            self.writer,  # type: ignore[arg-type]
            clock=self.clock,
            random=seeded(1),
            metrics=self.metrics,
            happened=lambda reason, message: self.told.append((reason, message)),
        )


async def test_a_round_stores_what_can_be_stored_by_now() -> None:
    this = Scene()
    this.repairs.add(EVENT)
    this.repairs.add(EVENT)  # the message came again: still one
    assert this.repairs.waiting == 1
    assert not await this.repairs.round()
    assert {reason for reason, _ in this.told} == {Reason.JOB_STARTED_NOT_STORED}
    assert len(this.told) == 2  # when it came, and while it waits
    this.writer.outcome = Outcome.RUNNING
    assert await this.repairs.round()
    assert this.writer.stored == [EVENT] and this.repairs.waiting == 0
    assert value(this.metrics, "runnerscale_listener_unstored_job_events") == 0
    assert value(this.metrics, "runnerscale_listener_unstored_job_events_total") == 1


async def test_what_a_webhook_refuses_for_a_while_is_stored_once_it_does_not() -> None:
    this = Scene()  # seed 6065
    this.writer.outcome = Outcome.REFUSED
    this.repairs.add(EVENT)
    assert not await this.repairs.round()
    assert this.repairs.waiting == 1
    this.writer.outcome = Outcome.RUNNING
    assert await this.repairs.round()
    assert this.writer.stored == [EVENT] and this.repairs.waiting == 0


async def test_what_is_too_old_is_given_up_and_counted() -> None:
    this = Scene()
    this.repairs.add(EVENT)
    this.clock.advance(GIVE_UP_AFTER_S + 1)
    await this.repairs.round()
    assert this.repairs.waiting == 0
    assert value(this.metrics, "runnerscale_listener_lost_job_events_total") == 1


async def test_the_list_is_bounded_in_both_directions(monkeypatch: Any) -> None:
    monkeypatch.setattr(repair, "RUNNERS_MAX", 3)
    this = Scene()
    for number in range(5):
        this.repairs.add(replace(EVENT, runner_name=f"runner-{number}"))
    assert this.repairs.waiting == 3
    for number in range(EVENTS_PER_RUNNER_MAX + 5):
        this.repairs.add(replace(EVENT, runner_name="runner-4", job_id=str(number)))
    assert this.repairs.waiting == 2 + EVENTS_PER_RUNNER_MAX


async def test_a_runner_that_left_the_list_meanwhile_is_no_error() -> None:
    this = Scene()
    assert not await this.repairs._try("nobody")


def test_rounds_come_by_themselves(run_virtual: Run) -> None:
    # The whole of it, with the list filled by the loop, is in test_loop.
    async def scene() -> None:
        import asyncio

        from tests.unit.listener.fakes import clock

        writer = Writer()
        repairs = Repairs(
            writer,  # type: ignore[arg-type]
            clock=clock(),
            random=seeded(1),
            metrics=metrics(),
            happened=lambda reason, message: None,
        )
        task = asyncio.get_running_loop().create_task(repairs.run())
        await asyncio.sleep(100)
        repairs.add(EVENT)
        await asyncio.sleep(300)
        assert repairs.waiting == 1
        writer.outcome = Outcome.MOOT
        await asyncio.sleep(130)
        assert repairs.waiting == 0
        task.cancel()
        await asyncio.wait({task})

    run_virtual(scene())
