"""Invariant: what blocks work longer than a minute is a condition, an Event and a metric.

The catalogue is walked mechanically: every reason, on every kind, said by a reconciler that has
no condition of its own for it. That the reasons are said at all is asked of the source.
"""

import ast
import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.catalogue import Severity
from runnerscale.api.conditions import RECONCILED
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.condition_writer import ConditionWriter
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.controllers.reporting import Reporter
from runnerscale.controllers.stuck import StuckPasses
from runnerscale.core.clock import LoopClock, ManualClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.controller import Controller
from runnerscale.kube.objects import key_of, reference_to
from runnerscale.kube.reconcile import Plan
from runnerscale.kube.resource import Resource
from tests.plan.memory_api import MemoryApi

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]
SRC = Path(__file__).resolve().parents[3] / "src/runnerscale"
KINDS: list[Resource[Any]] = [
    AUTOSCALING_RUNNER_SETS,
    AUTOSCALING_LISTENERS,
    EPHEMERAL_RUNNER_SETS,
    EPHEMERAL_RUNNERS,
]
# About a CRD, on which conditions are the API server's: readiness and Events tell, and the gauge.
ABOUT_CRDS = {Reason.CRD_MISSING, Reason.CRD_OUTDATED}


class World:
    """One object for each reason, all of one kind, and a reconciler that only complains."""

    def __init__(self, resource: Resource[Any]) -> None:
        clock = LoopClock(1_700_000_000.0)
        self.resource = resource
        self.registry = CollectorRegistry()
        self.events: list[tuple[str, str, str]] = []
        self.silent = False
        self.api = MemoryApi(ManualClock())
        self.cache = self.api.cache(resource)
        self.reporter = Reporter(self, ControllerMetrics(self.registry))
        self.writer = ConditionWriter(self.api, clock=clock)  # type: ignore[arg-type]
        stuck = StuckPasses(self.cache, reporter=self.reporter, writer=self.writer, clock=clock)
        self.controller = Controller(
            name="x",
            reconciler=self,
            keys=self.cache.store.keys,
            clock=clock,
            random=seeded(1),
            ended=stuck.ended,
        )
        for reason in Reason:
            self.api.put(resource, "ns", {"metadata": {"name": reason.value}})

    def observe(self, key: str) -> Any:
        return self.cache.store.get(key)

    def plan(self, seen: Any) -> Plan[Any, Any]:
        if self.silent:
            return Plan()
        reason = Reason(seen.metadata.name)  # type: ignore[call-arg]
        return Plan(troubles=(trouble(reason, about=key_of(seen), happened="it is so"),))

    async def apply(self, action: Any) -> None:
        raise AssertionError

    def learn(self, seen: Any, answers: Any) -> Any:
        return seen

    def report(self, key: str, seen: Any, troubles: Any) -> None:
        self.reporter.report(reference_to(seen), key, troubles)

    def record(self, about: Any, *, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.events.append((about.name, type, reason))

    def condition(self, reason: Reason) -> tuple[str, str] | None:
        body = self.api.body(self.resource, "ns", reason.value) or {}
        for item in body.get("status", {}).get("conditions", []):
            if item["type"] == RECONCILED:
                return item["status"], item["reason"]
        return None

    def gauge(self, reason: Reason) -> float | None:
        labels = {"kind": self.resource.kind, "namespace": "ns", "name": reason.value}
        metric = {**labels, "reason": reason.value}
        return self.registry.get_sample_value("runnerscale_trouble", metric)

    def state_of_all(self) -> dict[Reason, tuple[Any, Any]]:
        return {reason: (self.condition(reason), self.gauge(reason)) for reason in Reason}


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind)
def test_what_lasts_a_minute_is_condition_event_and_metric_on_every_kind(
    run_virtual: RunVirtual, resource: Resource[Any]
) -> None:
    async def scenario() -> None:
        world = World(resource)
        tasks = [asyncio.create_task(w) for w in (world.controller.run(), world.writer.run())]
        await asyncio.sleep(60)
        assert world.state_of_all() == {reason: (("False", reason), 1) for reason in Reason}
        typed = {Severity.INFO: "Normal"}
        assert sorted(world.events) == sorted(
            (reason.value, typed.get(reason.severity, "Warning"), reason.value) for reason in Reason
        )
        world.api.changes()
        await asyncio.sleep(300)
        assert world.api.changes() == []  # once said, it stands
        world.silent = True
        await asyncio.sleep(130)
        assert world.state_of_all() == dict.fromkeys(Reason, (("True", "Recovered"), None))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    run_virtual(scenario())


def test_what_an_own_condition_tells_is_not_told_twice(run_virtual: RunVirtual) -> None:
    own = {"type": "Healthy", "status": "False", "reason": "QuotaExceeded", "message": ""}

    async def scenario() -> None:
        world = World(EPHEMERAL_RUNNERS)
        change = {"status": {"conditions": [own]}}
        world.api.change(EPHEMERAL_RUNNERS, "ns", Reason.QUOTA_EXCEEDED.value, change)
        tasks = [asyncio.create_task(w) for w in (world.controller.run(), world.writer.run())]
        await asyncio.sleep(100)
        assert world.condition(Reason.QUOTA_EXCEEDED) is None
        assert world.condition(Reason.EVICTED) is not None
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    run_virtual(scenario())


def sayers() -> dict[str, set[str]]:
    """Which files of ours name which reason."""
    found: dict[str, set[str]] = {}
    for path in SRC.rglob("*.py"):
        if path.name == "reasons.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Reason":
                found.setdefault(node.attr, set()).add(path.relative_to(SRC).as_posix())
    return found


def test_every_reason_is_said_somewhere() -> None:
    assert {reason.name for reason in Reason} - set(sayers()) == set()


def test_what_is_about_definitions_is_said_by_no_controller() -> None:
    for reason in ABOUT_CRDS:
        assert sayers()[reason.name] == {"app/api_check.py"}
