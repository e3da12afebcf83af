"""A set in a tiny world: an API server in memory, a GitHub that answers, time by hand.

The runners' own controller is played by the test (`register`, `take_job`, `finish`, ...), the
listener too (`says`).
"""

import asyncio
import copy
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.controllers.ephemeral_runner_set.controller import (
    BATCH_MAX,
    EphemeralRunnerSetReconciler,
)
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.controllers.reporting import Reporter
from runnerscale.core.clock import ManualClock, format_time
from runnerscale.core.randomness import seeded
from runnerscale.credentials.place import GitHubPlace, PlaceTrouble, Resolved
from runnerscale.kube.errors import Conflict
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.patching import owner_index
from runnerscale.kube.reconcile import Pass, PassEnd
from runnerscale.kube.resource import Resource
from runnerscale.scaleset.errors import ScaleSetError
from tests.plan.memory_api import MemoryApi

NS, SET = "runners", "set"
KEY = f"{NS}/{SET}"
IMAGE_2 = {
    "spec": {
        "ephemeralRunnerSpec": {"spec": {"containers": [{"name": "runner", "image": "img:2"}]}}
    }
}
RUNNER_SPEC: dict[str, Any] = {
    "githubConfigUrl": "https://github.com/org/repo",
    "githubConfigSecret": "github",
    "runnerScaleSetId": 7,
    "spec": {"containers": [{"name": "runner", "image": "img:1"}]},
}


class Api(MemoryApi):
    """With dry runs, and deletion guarded by version."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.dry_runs: list[dict[str, Any]] = []
        self.in_flight = 0
        self.in_flight_peak = 0
        self.after: Callable[[str, str, str], None] = lambda verb, plural, name: None

    async def create(
        self,
        resource: Resource[Any],
        namespace: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        **more: Any,
    ) -> Any:
        if dry_run:
            self._fail("dry-run", resource.plural, body["metadata"]["name"])
            self.dry_runs.append(copy.deepcopy(dict(body)))
            return self._decoded(resource, body)
        self.in_flight += 1
        self.in_flight_peak = max(self.in_flight_peak, self.in_flight)
        await asyncio.sleep(0)
        try:
            made = await super().create(resource, namespace, body, **more)
        finally:
            self.in_flight -= 1
        self.after("create", resource.plural, body["metadata"]["name"])
        return made

    async def delete(
        self,
        resource: Resource[Any],
        namespace: str,
        name: str,
        *,
        resource_version: str | None = None,
        **more: Any,
    ) -> Any:
        found = self.objects.get((resource.plural, namespace, name))
        version = found["metadata"]["resourceVersion"] if found else None
        if found and resource_version is not None and resource_version != version:
            raise Conflict(409, "Conflict", "the object has been modified")
        return await super().delete(resource, namespace, name, **more)


class GitHub:
    """One client for every place; what it answers is laid out by runner id."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answers: dict[int, ScaleSetError] = {}
        self.trouble: PlaceTrouble | None = None
        self.hangs = asyncio.Event()
        self.hangs.set()
        self.on_remove: Callable[[int], None] = lambda runner_id: None
        self.places: list[GitHubPlace] = []
        self.proxy = Resolved(None, "", 0, None, None, None, (), "")
        self.resolved = 0

    async def client_for(self, place: GitHubPlace) -> Any:
        self.places.append(place)
        if self.trouble is not None:
            raise self.trouble
        return self

    async def resolve(self, place: GitHubPlace) -> Resolved:
        self.resolved += 1
        if self.trouble is not None:
            raise self.trouble
        return self.proxy

    async def remove_runner(self, runner_id: int, **_: Any) -> None:
        await self.hangs.wait()
        self.asked.append(runner_id)
        error = self.answers.get(runner_id)
        if error is not None:
            raise error
        self.on_remove(runner_id)


class Events:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []

    def record(self, about: Any, *, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.told.append((type, reason, message))


class World:
    def __init__(self, *, served: bool = True) -> None:
        self.clock = ManualClock()
        self.api = Api(self.clock)
        self.github = GitHub()
        self.events = Events()
        self.registry = CollectorRegistry()
        self.metrics = ControllerMetrics(self.registry)
        self.sets = self.api.cache(EPHEMERAL_RUNNER_SETS)
        self.runners = self.api.cache(EPHEMERAL_RUNNERS, owner=owner_index)
        self.queued: list[tuple[str, float]] = []
        self.served = served
        self.low: int | None = None  # the runner set's minRunners; None: nobody knows
        self.high: int | None = None  # likewise its maxRunners
        self.ids = 100
        self.restart()

    def restart(self) -> None:
        """A new process: caches as they are, memory empty."""
        for cache in (self.sets, self.runners):
            cache.handlers.clear()
        self.reconciler = EphemeralRunnerSetReconciler(
            client=self.api,  # type: ignore[arg-type]
            clients=self.github,
            sets=self.sets,
            runners=self.runners,
            own_writes=OwnWrites(clock=self.clock),
            reporter=Reporter(self.events, self.metrics),
            metrics=self.metrics if self.served else None,
            clock=self.clock,
            random=seeded(1),
            build_version="0.14.2",
            min_runners=lambda item: self.low,
            max_runners=lambda item: self.high,
        )
        self.reconciler.connect(
            lambda key, urgent=False: self.queued.append((key, 0.0)),
            lambda key, after_s: self.queued.append((key, after_s)),
        )

    # --- passes ---------------------------------------------------------------------------------

    async def one_pass(self) -> PassEnd:
        running = Pass(self.reconciler, KEY, batch_max=BATCH_MAX)
        end = await running.run()
        running.report()
        for _ in range(4):  # answers of GitHub that are there already
            await asyncio.sleep(0)
        return end

    async def settle(self, passes_max: int = 200) -> PassEnd:
        """Passes until nothing wakes the set any more, and nothing is to be done within 2 s."""
        for _ in range(passes_max):
            self.queued.clear()
            end = await self.one_pass()
            assert not [e for e in end.errors if not isinstance(e, Conflict)], end.errors
            if end.again_s is not None and end.again_s <= 2.0:
                self.clock.advance(end.again_s)  # the next batch, or a status that was put off
                continue
            busy = self.queued or end.unfinished or end.failed or end.errors
            if not busy and not len(self.reconciler.removals):
                return end
        raise AssertionError("it never comes to rest")

    async def passes(self, number: int) -> None:
        """So many passes, whatever is still under way."""
        for _ in range(number):
            await self.one_pass()

    async def later(self, seconds: float) -> PassEnd:
        self.clock.advance(seconds)
        return await self.settle()

    # --- the set --------------------------------------------------------------------------------

    def make(self, *, replicas: int = 0, patch_id: int = 0, **spec: Any) -> None:
        runner_spec = {**RUNNER_SPEC, **spec.pop("runner", {})}
        self.api.put(
            EPHEMERAL_RUNNER_SETS,
            NS,
            {
                "metadata": {
                    "name": SET,
                    "labels": {
                        keys.COMPONENT: keys.COMPONENT_RUNNER_SET,
                        keys.SCALE_SET_NAME: "set",
                        keys.SCALE_SET_NAMESPACE: NS,
                    },
                    **spec.pop("meta", {}),
                },
                "spec": {
                    "patchID": patch_id,
                    "replicas": replicas,
                    "ephemeralRunnerSpec": runner_spec,
                    **spec,
                },
            },
        )

    def says(self, replicas: int, patch_id: int, settled: list[str] | None = None) -> None:
        """The listener patches the set."""
        spec: dict[str, Any] = {"replicas": replicas, "patchID": patch_id}
        if settled is not None:
            spec["settledRunners"] = settled
        self.change_set({"spec": spec})

    def change_set(self, patch: Mapping[str, Any]) -> None:
        self.api.change(EPHEMERAL_RUNNER_SETS, NS, SET, patch)

    def delete_set(self) -> None:
        self.change_set({"metadata": {"deletionTimestamp": format_time(self.clock.now_s())}})

    @property
    def set(self) -> dict[str, Any]:
        found = self.api.body(EPHEMERAL_RUNNER_SETS, NS, SET)
        assert found is not None
        return found

    @property
    def set_is_gone(self) -> bool:
        return self.api.body(EPHEMERAL_RUNNER_SETS, NS, SET) is None

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.set.get("status", {})
        return found

    @property
    def counters(self) -> tuple[int, int, int, int]:
        """current, pending, running, failed"""
        names = ("currentReplicas", "pendingEphemeralRunners", "runningEphemeralRunners")
        found = [self.status.get(name, 0) for name in (*names, "failedEphemeralRunners")]
        return found[0], found[1], found[2], found[3]

    def condition(self, kind: str) -> dict[str, Any]:
        return next(c for c in self.status.get("conditions", ()) if c["type"] == kind)

    # --- runners --------------------------------------------------------------------------------

    def body(self, name: str) -> dict[str, Any]:
        found = self.api.body(EPHEMERAL_RUNNERS, NS, name)
        assert found is not None, f"{name} is gone"
        return found

    @property
    def names(self) -> list[str]:
        """All runners that nobody deletes, the oldest first (creation order)."""
        return [
            name
            for (plural, _, name), body in self.api.objects.items()
            if plural == "ephemeralrunners" and not body["metadata"].get("deletionTimestamp")
        ]

    @property
    def going(self) -> list[str]:
        return [name for name in self.api.names(EPHEMERAL_RUNNERS) if name not in self.names]

    def runner(self, name: str, *, age_s: float = 0.0, ours: bool = True, **status: Any) -> str:
        """A runner that exists already."""
        owner = {
            "apiVersion": "actions.github.com/v1alpha1",
            "kind": "EphemeralRunnerSet",
            "name": SET,
            "uid": self.set["metadata"]["uid"],
            "controller": True,
        }
        spec = copy.deepcopy(self.set["spec"]["ephemeralRunnerSpec"])
        self.api.put(
            EPHEMERAL_RUNNERS,
            NS,
            {
                "metadata": {
                    "name": name,
                    "finalizers": list(keys.EPHEMERAL_RUNNER_FINALIZERS),
                    "ownerReferences": [owner],
                    "creationTimestamp": format_time(self.clock.now_s() - age_s),
                },
                "spec": spec,
                "status": status,
            },
        )
        return name

    def change(self, name: str, **status: Any) -> None:
        self.api.change(EPHEMERAL_RUNNERS, NS, name, {"status": status})

    def register(self, *names: str) -> None:
        """The runners' controller registers them (all that are not, by default)."""
        for name in names or self.names:
            if not self.body(name).get("status", {}).get("runnerId"):
                self.ids += 1
                self.change(name, runnerId=self.ids, runnerName=name, phase="Pending")

    def come_online(self, *names: str) -> None:
        """The pods of these (of all, by default) are ready, and were seen to be."""
        at = format_time(self.clock.now_s())
        started = {"type": "Started", "status": "True", "reason": "Started", "message": ""}
        for name in names or self.names:
            if not self.body(name).get("status", {}).get("ready"):
                conditions = [{**started, "lastTransitionTime": at}]
                self.change(name, ready=True, conditions=conditions)

    def id_of(self, name: str) -> int:
        found: int = self.body(name)["status"]["runnerId"]
        return found

    def take_job(self, name: str) -> None:
        self.change(name, phase="Running", jobId=f"job-{name}", jobRepositoryName="o/r")

    def fail(self, name: str, reason: str = "RunnerFailed", phase: str = "Failed") -> None:
        condition = {
            "type": "Healthy",
            "status": "False",
            "reason": reason,
            "message": "it failed",
            "lastTransitionTime": format_time(self.clock.now_s()),
        }
        self.change(name, phase=phase, reason=reason, message="it failed", conditions=[condition])

    def vanish(self, name: str) -> None:
        """The runners' controller lets go of a runner that is being deleted."""
        self.api.change(EPHEMERAL_RUNNERS, NS, name, {"metadata": {"finalizers": None}})

    def ask_deletion(self, name: str) -> None:
        stamp = format_time(self.clock.now_s())
        patch = {"metadata": {"deletionTimestamp": stamp}}
        self.api.change(EPHEMERAL_RUNNERS, NS, name, patch)

    def finish(self, name: str) -> None:
        """The runners' controller saw its job done: the object is deleted, without a word."""
        item = self.runners.store.get(f"{NS}/{name}")
        assert item is not None
        self.reconciler.note_ending(item)
        self.ask_deletion(name)
        self.vanish(name)

    def disturb(self, name: str, reason: str = "Evicted") -> None:
        """Lost while idle: the reason is stored, then the object deleted."""
        self.change(name, reason=reason, message="gone")
        self.finish(name)

    def sweep(self) -> None:
        """Everything that is being deleted goes."""
        for name in self.going:
            self.vanish(name)
