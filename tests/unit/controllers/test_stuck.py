"""An object whose every pass fails says so within a minute: condition, Event, metric."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from runnerscale.api.conditions import READY, RECONCILED
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.condition_writer import ConditionWriter
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.controllers.reporting import Reporter
from runnerscale.controllers.stuck import StuckPasses
from runnerscale.core.clock import LoopClock, ManualClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.controller import Controller
from runnerscale.kube.errors import Conflict, Forbidden, KubeError, ServerFault
from runnerscale.kube.objects import ObjectReference
from runnerscale.kube.reconcile import Plan
from tests.plan.memory_api import MemoryApi

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]
KIND = "EphemeralRunnerSet"
OTHERS = {"type": READY, "status": "True", "reason": "Ready", "message": ""}


def _drop(*_: Any) -> Any:
    raise structlog.DropEvent


class World:
    """A controller whose passes fail as `error` says, and what becomes visible of that."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.hangs_s = 0.0
        self.unanswered = ""
        self.troubles: tuple[Trouble, ...] = ()
        self.events: list[tuple[str, str, str]] = []
        self.registry = CollectorRegistry()
        clock = LoopClock(1_700_000_000.0)
        self.api = MemoryApi(ManualClock())
        self.cache = self.api.cache(EPHEMERAL_RUNNER_SETS)
        self.writer = ConditionWriter(self.api, clock=clock)  # type: ignore[arg-type]
        reporter = Reporter(self, ControllerMetrics(self.registry))
        stuck = StuckPasses(self.cache, reporter=reporter, writer=self.writer, clock=clock)
        self.controller = Controller(
            name="sets",
            reconciler=self,
            keys=self.cache.store.keys,
            clock=clock,
            random=seeded(1),
            ended=stuck.ended,
        )
        self.put("s", conditions=[OTHERS])

    def put(self, name: str, *, conditions: list[Any]) -> None:
        body = {"metadata": {"name": name}, "status": {"conditions": conditions}}
        self.api.put(EPHEMERAL_RUNNER_SETS, "ns", body)

    # the reconciler
    def observe(self, key: str) -> Any:
        return self.cache.store.get(key)

    def plan(self, seen: Any) -> Plan[Any, Any]:
        if seen.metadata.name == "s" and self.error is not None:
            raise self.error
        if seen.metadata.name == "s" and self.hangs_s:
            return Plan((self.hangs_s,))
        if seen.metadata.name == "s" and self.unanswered:
            return Plan(failed=True, unanswered=self.unanswered)
        if seen.metadata.name == "s":
            return Plan(troubles=self.troubles)
        return Plan()

    async def apply(self, action: Any) -> None:
        await asyncio.sleep(action)
        raise ServerFault(500, "InternalError", "no answer")

    def learn(self, seen: Any, answers: Any) -> Any:
        return seen

    def report(self, key: str, seen: Any, troubles: Any) -> None:
        pass

    # the recorder
    def record(self, about: Any, *, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.events.append((about.name, reason, message))

    @asynccontextmanager
    async def running(self) -> Any:
        structlog.configure(processors=[_drop])  # tracebacks drawn for people take seconds
        tasks = [asyncio.create_task(w) for w in (self.controller.run(), self.writer.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def condition(self, name: str = "s") -> tuple[str, str] | None:
        body = self.api.body(EPHEMERAL_RUNNER_SETS, "ns", name) or {}
        for item in body["status"]["conditions"]:
            if item["type"] == RECONCILED:
                return item["status"], item["reason"]
        return None

    def gauge(self, reason: str, name: str = "s") -> float | None:
        labels = {"kind": KIND, "namespace": "ns", "name": name, "reason": reason}
        return self.registry.get_sample_value("runnerscale_trouble", labels)


@pytest.mark.parametrize(
    ("error", "reason", "said"),
    [
        (ZeroDivisionError("s3cret"), "ReconcileFailed", "an unexpected ZeroDivisionError in plan"),
        (KubeError("the pass did not end within 120 s"), "ReconcileFailed", "within 120 s"),
        (ServerFault(500, "InternalError", "disk is full"), "ApiServerRefused", "disk is full"),
        (Forbidden(403, "Forbidden", "cannot patch resource x"), "RightsMissing", "cannot patch"),
        (Conflict(409, "Conflict", "modified"), "ControllersCompete", "meets a conflict"),
    ],
)
def test_what_fails_for_a_minute_is_condition_event_and_metric(
    run_virtual: RunVirtual, error: Exception, reason: str, said: str
) -> None:
    world = World()
    world.error = error

    async def scenario() -> None:
        async with world.running():
            world.controller.enqueue("ns/s")
            await asyncio.sleep(40)
            assert (world.condition(), world.events) == (None, [])  # it may pass
            await asyncio.sleep(20)
            assert world.condition() == ("False", reason)
            assert world.gauge(reason) == 1
            [(name, told, message)] = world.events
            assert (name, told) == ("s", reason)
            assert said in message
            assert "s3cret" not in message  # an unexpected error may quote anything
            world.api.changes()
            await asyncio.sleep(3600)
            assert world.api.changes() == []  # said once, however long it lasts
            assert len(world.events) == 1

    run_virtual(scenario())


def test_an_answer_that_does_not_come_for_a_minute_is_told_too(run_virtual: RunVirtual) -> None:
    world = World()
    world.unanswered = "failed calling webhook: no endpoints"

    async def scenario() -> None:
        async with world.running():
            world.controller.enqueue("ns/s")
            await asyncio.sleep(40)
            assert (world.condition(), world.events) == (None, [])
            await asyncio.sleep(20)
            assert world.condition() == ("False", "ReconcileFailed")
            assert world.gauge("ReconcileFailed") == 1
            assert "failed calling webhook" in world.events[0][2]
            world.unanswered = ""
            await asyncio.sleep(130)
            assert world.condition() == ("True", "Recovered")

    run_virtual(scenario())


def test_it_is_taken_back_with_the_first_pass_that_ends_well(run_virtual: RunVirtual) -> None:
    world = World()
    world.error = KeyError("x")

    async def scenario() -> None:
        async with world.running():
            await asyncio.sleep(60)
            assert world.condition() == ("False", "ReconcileFailed")
            world.error = None
            await asyncio.sleep(130)  # the level pass
            assert world.condition() == ("True", "Recovered")
            assert world.gauge("ReconcileFailed") is None
            body = world.api.body(EPHEMERAL_RUNNER_SETS, "ns", "s") or {}
            assert body["status"]["conditions"][0] == OTHERS  # nobody else's word is lost

    run_virtual(scenario())


def test_a_word_of_an_earlier_process_is_taken_back(run_virtual: RunVirtual) -> None:
    world = World()
    left = {"type": RECONCILED, "status": "False", "reason": "ReconcileFailed", "message": "x"}
    world.put("left", conditions=[left])

    async def scenario() -> None:
        async with world.running():
            await asyncio.sleep(1)
            assert world.condition("left") == ("True", "Recovered")

    run_virtual(scenario())


def test_failures_that_pass_are_nobodys_business(run_virtual: RunVirtual) -> None:
    world = World()

    async def scenario() -> None:
        async with world.running():
            for _ in range(10):
                world.error = ServerFault(500, "InternalError", "away")
                world.controller.enqueue("ns/s")
                await asyncio.sleep(30)
                world.error = None
                world.controller.enqueue("ns/s")
                await asyncio.sleep(30)
        assert (world.condition(), world.events, world.api.changes()) == (None, [], [])

    run_virtual(scenario())


def test_an_object_that_goes_takes_it_along(run_virtual: RunVirtual) -> None:
    world = World()
    world.error = KeyError("x")

    async def scenario() -> None:
        async with world.running():
            await asyncio.sleep(60)
            assert world.gauge("ReconcileFailed") == 1
            world.api.drop(EPHEMERAL_RUNNER_SETS, "ns", "s")
            await asyncio.sleep(120)
            assert world.gauge("ReconcileFailed") is None

    run_virtual(scenario())


def test_a_call_that_hangs_until_its_deadline_is_told_within_a_minute_of_its_begin(
    run_virtual: RunVirtual,
) -> None:
    world = World()
    world.hangs_s = 30.0

    async def scenario() -> None:
        async with world.running():
            await asyncio.sleep(60)  # the second call has not ended yet
            assert world.condition() == ("False", "ApiServerRefused")
            assert world.gauge("ApiServerRefused") == 1

    run_virtual(scenario())


def waits_for(reason: Reason) -> tuple[Trouble, ...]:
    return (trouble(reason, about=f"{KIND} ns/s", happened="it is to go"),)


def test_what_takes_the_place_of_another_trouble_is_told_without_another_minute(
    run_virtual: RunVirtual,
) -> None:
    # Seed 1552: GitHub refused to forget a runner, then said that it is busy. Between the two
    # words was most of a minute in which nothing said why the runner stayed.
    world = World()
    world.troubles = waits_for(Reason.GITHUB_REFUSED)

    async def scenario() -> None:
        async with world.running():
            world.controller.enqueue("ns/s")
            await asyncio.sleep(60)
            assert world.condition() == ("False", "GitHubRefused")
            world.troubles = waits_for(Reason.DELETION_WAITS)
            world.controller.enqueue("ns/s")
            await asyncio.sleep(1)
            assert world.condition() == ("False", "DeletionWaits")
            world.troubles = ()
            world.controller.enqueue("ns/s")
            await asyncio.sleep(1)
            assert world.condition() == ("True", "Recovered")
            world.troubles = waits_for(Reason.DELETION_WAITS)  # another time: it may pass
            world.controller.enqueue("ns/s")
            await asyncio.sleep(30)
            assert world.condition() == ("True", "Recovered")

    run_virtual(scenario())


def test_a_trouble_beside_one_that_lasts_has_its_own_minute(run_virtual: RunVirtual) -> None:
    world = World()
    world.troubles = waits_for(Reason.DELETION_WAITS)

    async def scenario() -> None:
        async with world.running():
            world.controller.enqueue("ns/s")
            await asyncio.sleep(60)
            world.troubles += waits_for(Reason.CLEANUP_BLOCKED)  # worse, but it may pass
            world.controller.enqueue("ns/s")
            await asyncio.sleep(30)
            assert world.condition() == ("False", "DeletionWaits")
            await asyncio.sleep(20)
            assert world.condition() == ("False", "CleanupBlocked")

    run_virtual(scenario())


class Hearing:
    """Who speaks for an object that cannot be written on."""

    def __init__(self) -> None:
        self.mute: set[str] = set()

    def refused(self, about: ObjectReference, error: Any) -> None:
        self.mute.add(about.name)

    def accepted(self, about: ObjectReference) -> None:
        self.mute.discard(about.name)


@pytest.mark.parametrize("fails", [False, True])
def test_an_object_that_cannot_be_written_on_is_told_of_until_nothing_is_wrong(
    run_virtual: RunVirtual, fails: bool
) -> None:
    world, hearing = World(), Hearing()
    world.writer.tell(EPHEMERAL_RUNNER_SETS, hearing)
    world.api.fault = lambda verb, plural, name: (
        Forbidden(403, "Forbidden", "a webhook said no") if verb == "patch" else None
    )

    async def scenario() -> None:
        async with world.running():
            if fails:
                world.error = KeyError("x")
            else:
                world.troubles = waits_for(Reason.API_SERVER_REFUSED)
            world.controller.enqueue("ns/s")
            await asyncio.sleep(40)
            assert not hearing.mute  # it may pass
            await asyncio.sleep(20)
            assert hearing.mute == {"s"}
            await asyncio.sleep(200)  # longer than the writer tries
            assert hearing.mute == {"s"}
            world.error, world.troubles = None, ()
            world.controller.enqueue("ns/s")
            await asyncio.sleep(130)
            assert not hearing.mute
            assert world.condition() is None

    run_virtual(scenario())
