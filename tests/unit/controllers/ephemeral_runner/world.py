"""A small world in memory: API server, GitHub, node, set and listener around one controller.

The API server keeps the rules that the controller relies on (versions, preconditions,
finalizers, owner garbage collection) and nothing more; the judge of what happened is the
pretended GitHub and the node, never our own objects. Everything runs on virtual time.
"""

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.labels import EPHEMERAL_RUNNER_FINALIZERS
from runnerscale.controllers.ephemeral_runner.controller import EphemeralRunnerReconciler
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.controllers.reporting import Reporter
from runnerscale.core.clock import LoopClock, format_time
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.kube.builtin import PODS, SECRETS
from runnerscale.kube.client import Listed
from runnerscale.kube.controller import Controller
from runnerscale.kube.errors import AlreadyExists, Conflict, NotFound
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import ObjectReference
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.patching import merge_apply
from runnerscale.kube.resource import Resource
from runnerscale.kube.watch import Added, Deleted, Modified, ResourceDecoder
from runnerscale.scaleset.errors import (
    JobStillRunning,
    RunnerExists,
    RunnerNotFound,
    ScaleSetError,
)
from runnerscale.scaleset.model import JitConfig, RunnerReference

Names = list[str]  # inside Api, `list` is the method

EPOCH_S = 1_800_000_000.0
NS = "ns"
SCALE_SET = 3
KINDS: dict[str, Resource[Any]] = {
    item.plural: item for item in (EPHEMERAL_RUNNERS, EPHEMERAL_RUNNER_SETS, PODS, SECRETS)
}


@dataclass
class Call:
    """One request as the server saw it."""

    verb: str
    plural: str
    name: str
    subresource: str = ""
    body: Any = None

    def __str__(self) -> str:
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.plural}{sub}"


class Faults:
    """What goes wrong in the controller's own calls: asked before and after each takes effect."""

    def __init__(self) -> None:
        self.calls: list[str] = []  # those that change something, in order
        self.crash_at: tuple[int, str] | None = None  # which of them; "before" or "after"
        self.crashed = asyncio.Event()
        self.before: Callable[[str, Call | None], Exception | None] = lambda _name, _call: None
        self.after: Callable[[str, Call | None], Exception | None] = lambda _name, _call: None

    async def around(self, name: str, effect: Callable[[], Any], call: Call | None = None) -> Any:
        """Count the call; die or fail where that is wished; else carry it out."""
        self.calls.append(name)
        number = len(self.calls) - 1
        await asyncio.sleep(0.005)
        await self._die_if(number, "before")
        error = self.before(name, call)
        if error is not None:
            raise error
        result = effect()
        await self._die_if(number, "after")
        error = self.after(name, call)
        if error is not None:
            raise error
        return result

    async def _die_if(self, number: int, when: str) -> None:
        if self.crash_at == (number, when):
            self.crash_at = None
            self.crashed.set()
            await asyncio.Event().wait()  # no answer will ever be read


class Api:
    """Objects with versions; the part of the API server that matters here."""

    def __init__(self, faults: Faults, clock: LoopClock) -> None:
        self._faults = faults
        self._clock = clock
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = 100
        self.reads = 0
        self.sent: list[Call] = []
        self.phases: list[tuple[str, str]] = []  # every phase that was ever stored, in order
        self._watches: list[tuple[str, asyncio.Queue[Any]]] = []
        self._uids = 0
        self._decoders = {plural: ResourceDecoder(kind) for plural, kind in KINDS.items()}

    # --- what the controller may ask: `kube.client.Client` -------------------------------------

    async def get(self, resource: Resource[Any], namespace: str, name: str, **_: Any) -> Any:
        self.reads += 1
        return self._decode(resource.plural, self._must(resource.plural, name))

    async def list(
        self, resource: Resource[Any], namespace: str = "", *, label_selector: str = "", **_: Any
    ) -> Listed[Any]:
        wanted = dict([label_selector.split("=")]) if label_selector else {}
        items = [
            self._decode(plural, item)
            for (plural, _), item in self.objects.items()
            if plural == resource.plural
            and wanted.items() <= (item["metadata"].get("labels") or {}).items()
        ]
        return Listed(items, str(self.version))

    async def watch(
        self, resource: Resource[Any], namespace: str = "", **_: Any
    ) -> AsyncGenerator[Any, None]:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self._watches.append((resource.plural, queue))
        while True:
            yield await queue.get()

    async def create(
        self, resource: Resource[Any], namespace: str, body: Mapping[str, Any], **_: Any
    ) -> Any:
        name = body["metadata"]["name"]
        call = Call("create", resource.plural, name, body=body)
        self.sent.append(call)
        return await self._faults.around(
            str(call), lambda: self.put_new(resource.plural, dict(body)), call
        )

    async def patch(
        self,
        resource: Resource[Any],
        namespace: str,
        name: str,
        body: Any,
        *,
        subresource: str = "",
        **_: Any,
    ) -> Any:
        call = Call("patch", resource.plural, name, subresource, body)
        self.sent.append(call)
        return await self._faults.around(
            str(call), lambda: self.merge(resource.plural, name, body, subresource), call
        )

    async def delete(
        self,
        resource: Resource[Any],
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_s: int | None = None,
        **_: Any,
    ) -> Any:
        call = Call("delete", resource.plural, name, body={"grace": grace_period_s})
        self.sent.append(call)
        return await self._faults.around(
            str(call),
            lambda: self.remove(
                resource.plural,
                name,
                uid=uid,
                version=resource_version,
                grace_s=grace_period_s,
            ),
            call,
        )

    # --- the rules, for everybody -----------------------------------------------------------

    def names(self, plural: str) -> Names:
        return [name for kind, name in self.objects if kind == plural]

    def put_new(self, plural: str, body: dict[str, Any]) -> Any:
        name = body["metadata"]["name"]
        if (plural, name) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{plural} {name} already exists")
        item = copy.deepcopy(body)
        self._uids += 1
        item["metadata"] |= {
            "namespace": NS,
            "uid": f"uid-{self._uids}",
            "creationTimestamp": format_time(self._clock.now_s()),
        }
        return self._store(plural, name, item, Added)

    def merge(self, plural: str, name: str, body: Any, subresource: str = "") -> Any:
        item = self._must(plural, name)
        wanted = (body.get("metadata") or {}).get("resourceVersion")
        if wanted and wanted != item["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", f"{plural} {name} was changed")
        part = {"status": body.get("status")} if subresource else body
        if not subresource:
            part = {key: value for key, value in body.items() if key != "status"}
        new = merge_apply(item, part)
        if new == item:
            return self._decode(plural, item)
        phase = (new.get("status") or {}).get("phase", "")
        before = (item.get("status") or {}).get("phase", "")
        if plural == "ephemeralrunners" and phase != before:
            self.phases.append((name, str(phase)))
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return self._drop(plural, name, new)
        return self._store(plural, name, new, Modified)

    def remove(
        self,
        plural: str,
        name: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace_s: int | None = None,
    ) -> Any:
        item = self.objects.get((plural, name))
        if item is None:
            return None
        meta = item["metadata"]
        if uid not in (None, meta["uid"]) or version not in (None, meta["resourceVersion"]):
            raise Conflict(409, "Conflict", "precondition failed")
        placed = bool((item.get("spec") or {}).get("nodeName"))
        lingers = bool(meta.get("finalizers")) or (plural == "pods" and placed and grace_s != 0)
        if not lingers:
            self._drop(plural, name, item)
            return self._decode(plural, item) if plural == "pods" else None
        if meta.get("deletionTimestamp"):
            return self._decode(plural, item)
        new = copy.deepcopy(item)
        grace = 30 if plural == "pods" else 0
        new["metadata"]["deletionTimestamp"] = format_time(self._clock.now_s() + grace)
        return self._store(plural, name, new, Modified)

    def raw(self, plural: str, name: str) -> dict[str, Any] | None:
        return self.objects.get((plural, name))

    def _must(self, plural: str, name: str) -> dict[str, Any]:
        item = self.objects.get((plural, name))
        if item is None:
            raise NotFound(404, "NotFound", f"{plural} {name} not found")
        return item

    def _store(self, plural: str, name: str, item: dict[str, Any], event: Any) -> Any:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects[plural, name] = item
        self._tell(plural, event(self._decode(plural, item)))
        return self._decode(plural, item)

    def _drop(self, plural: str, name: str, item: dict[str, Any]) -> Any:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects.pop((plural, name), None)
        self._tell(plural, Deleted(self._decode(plural, item)))
        uid = item["metadata"]["uid"]
        for (kind, child), other in list(self.objects.items()):
            owners = other["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == uid for owner in owners):
                self.remove(kind, child)
        return self._decode(plural, item)

    def _tell(self, plural: str, event: Any) -> None:
        for kind, queue in self._watches:
            if kind == plural:
                queue.put_nowait(event)

    def _decode(self, plural: str, item: dict[str, Any]) -> Any:
        return self._decoders[plural].object(msgspec.json.encode(item))


@dataclass
class Registration:
    """A runner as GitHub knows it."""

    id: int
    name: str
    scale_set_id: int = SCALE_SET
    config: str = ""
    status: str = "offline"
    busy: bool = False


class GitHub:
    """The scale-set service: registrations, jobs, and what is asked of it."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self.runners: dict[int, Registration] = {}
        self.calls: list[str] = []
        self.work_folders: list[str] = []
        self.down: ScaleSetError | None = None
        self._ids = 0
        self.made = 0

    async def client_for(self, place: Any) -> "GitHub":
        return self

    def by_name(self, name: str) -> Registration | None:
        return next((item for item in self.runners.values() if item.name == name), None)

    async def generate_jit_config(
        self, scale_set_id: int, runner_name: str, *, work_folder: str = "", **_: Any
    ) -> JitConfig:
        self.work_folders.append(work_folder)

        def effect() -> JitConfig:
            if self.by_name(runner_name):
                raise RunnerExists("taken")
            self._ids += 1
            self.made += 1
            config = f"config-{self._ids}"
            self.runners[self._ids] = Registration(
                self._ids, runner_name, scale_set_id, config=config
            )
            reference = RunnerReference(self._ids, runner_name, scale_set_id)
            return JitConfig(reference, SecretText(config))

        return await self._call("generate", effect)  # type: ignore[no-any-return]

    async def find_runner(self, runner_name: str, **_: Any) -> RunnerReference | None:
        found = await self._call("find", lambda: self.by_name(runner_name))
        return None if found is None else _reference(found)

    async def get_runner(self, runner_id: int, **_: Any) -> RunnerReference:
        return _reference(await self._call("get", lambda: self._known(runner_id)))

    async def remove_runner(self, runner_id: int, **_: Any) -> None:
        def effect() -> None:
            assert runner_id != 0, "id 0 is nobody"
            if self._known(runner_id).busy:
                raise JobStillRunning("busy")
            del self.runners[runner_id]

        await self._call("remove", effect)

    def _known(self, runner_id: int) -> Registration:
        if runner_id not in self.runners:
            raise RunnerNotFound("unknown")
        return self.runners[runner_id]

    async def _call(self, name: str, effect: Callable[[], Any]) -> Any:
        self.calls.append(name)
        if self.down is not None:
            await asyncio.sleep(0.005)
            raise self.down
        return await self._faults.around(f"github {name}", effect)


def _reference(item: Registration) -> RunnerReference:
    return RunnerReference(item.id, item.name, item.scale_set_id, status=item.status)


class Events:
    """Where Events go."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def record(self, about: ObjectReference, *, type: str, reason: str, message: str) -> None:  # noqa: A002 - the API's word
        self.seen.append((about.name, str(reason), message))


@dataclass
class Job:
    """Work that waits at GitHub."""

    seconds: float = 5.0
    runner: str = ""
    ends_s: float = 0.0
    done: bool = False
    killed: bool = False


@dataclass
class World:
    """All of it; `async with World() as world`."""

    jobs: list[Job] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)  # containers ever started, by runner
    node_works: bool = True
    set_works: bool = True
    listener_works: bool = True
    start_after_s: float = 1.0
    loss_is_seen: bool = True  # GitHub lets go of a lost job at once
    idle_wanted: int = 0  # runners on top of the jobs that wait

    async def __aenter__(self) -> "World":
        self.clock = LoopClock(EPOCH_S)
        self.faults = Faults()
        self.api = Api(self.faults, self.clock)
        self.github = GitHub(self.faults)
        self.events = Events()
        self.restarts = 0
        self.names = 0
        self.metrics = ControllerMetrics(CollectorRegistry())
        self._controller: asyncio.Task[None] | None = None
        self._around = asyncio.create_task(self._live())
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._around.cancel()
        await self.stop()
        await asyncio.wait([self._around])
        if not self._around.cancelled():
            self._around.result()

    # --- the controller's process --------------------------------------------------------------

    def start(self) -> None:
        self._controller = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._controller is not None:
            self._controller.cancel()
            await asyncio.wait([self._controller])
            self._controller = None

    async def _run(self) -> None:
        random = seeded(self.restarts)
        shared: dict[str, Any] = {"clock": self.clock, "random": random}
        client: Any = self.api
        runners = Informer(client, EPHEMERAL_RUNNERS, **shared)
        pods = Informer(client, PODS, **shared)
        sets = Informer(client, EPHEMERAL_RUNNER_SETS, **shared)
        own_writes = OwnWrites(clock=self.clock)
        clients: Any = self.github
        self.reconciler = EphemeralRunnerReconciler(
            client=client,
            clients=clients,
            runners=runners,
            pods=pods,
            runner_sets=sets,
            own_writes=own_writes,
            reporter=Reporter(self.events, self.metrics),
            clock=self.clock,
            build_version="0.14.2",
        )
        controller = Controller(
            name="ephemeralrunner",
            reconciler=self.reconciler,
            keys=self.reconciler.keys,
            own_writes=own_writes,
            **shared,
        )
        self.reconciler.connect(controller.enqueue)
        self.informers = (runners, pods, sets)
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run())
            for informer in self.informers:
                await informer.wait_synced()
            group.create_task(controller.run())

    # --- everybody else --------------------------------------------------------------------------

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            if self.faults.crashed.is_set():
                self.faults.crashed.clear()
                await self.stop()
                self.restarts += 1
                await asyncio.sleep(1)
                self.start()
            if self.set_works:
                self._set()
            if self.node_works:
                for name in self.api.names("pods"):
                    self._node(name)
            self._jobs()

    def _set(self) -> None:
        """Makes runners while work waits; replaces the disturbed, keeps the failed."""
        waiting = sum(not job.done and not job.killed for job in self.jobs) + self.idle_wanted
        live = [
            item
            for name in self.api.names("ephemeralrunners")
            if (item := self.api.raw("ephemeralrunners", name))
            and not item["metadata"].get("deletionTimestamp")
            and (item.get("status") or {}).get("phase") not in ("Failed", "Outdated")
        ]
        for _ in range(waiting - len(live)):
            self.add_runner()

    def add_runner(self, name: str = "", **status: Any) -> str:
        self.names += 1
        name = name or f"runner-{self.names}"
        self.api.put_new("ephemeralrunners", runner_body(name, **status))
        return name

    def _node(self, name: str) -> None:
        pod = self.api.raw("pods", name)
        if pod is None:
            return
        meta, now_s = pod["metadata"], self.clock.now_s()
        status = pod.get("status") or {}
        running = status.get("phase") == "Running"
        if meta.get("deletionTimestamp"):
            self._stop_container(name)
            self.api.remove("pods", name, grace_s=0)
        elif not status.get("phase") and self.api.raw("secrets", name):
            if now_s - _time(meta["creationTimestamp"]) >= self.start_after_s:
                self.start_container(name)
        elif running:
            registration = self.github.by_name(name)
            if registration is not None:
                registration.status = "online"

    def start_container(self, name: str) -> None:
        self.starts[name] = self.starts.get(name, 0) + 1
        self.pod_is(name, {"running": {"startedAt": format_time(self.clock.now_s())}}, "Running")

    def _stop_container(self, name: str) -> None:
        for job in self.jobs:
            if job.runner == name and not job.done:
                job.killed = True
                registration = self.github.by_name(name)
                if registration is not None and self.loss_is_seen:
                    registration.busy = False

    def pod_is(self, name: str, state: dict[str, Any], phase: str, **status: Any) -> None:
        ready = "True" if "running" in state else "False"
        condition = {
            "type": "Ready",
            "status": ready,
            "lastTransitionTime": format_time(self.clock.now_s()),
        }
        self.api.merge("pods", name, {"spec": {"nodeName": "node"}})
        self.api.merge(
            "pods",
            name,
            {
                "status": {
                    "phase": phase,
                    "conditions": [condition],
                    "containerStatuses": [{"name": "runner", "state": state}],
                    **status,
                }
            },
            "status",
        )

    def exit_container(self, name: str, code: int, **more: Any) -> None:
        now = format_time(self.clock.now_s())
        state = {"terminated": {"exitCode": code, "startedAt": now, "finishedAt": now, **more}}
        self.pod_is(name, state, "Failed" if code else "Succeeded")

    def _jobs(self) -> None:
        now_s = self.clock.now_s()
        for job in self.jobs:
            if job.done or job.killed:
                continue
            if job.runner and now_s >= job.ends_s:
                job.done = True
                if (ended := self.github.by_name(job.runner)) is not None:
                    del self.github.runners[ended.id]
                self.exit_container(job.runner, 0)
            elif not job.runner:
                free = (r for r in self.github.runners.values() if r.status == "online")
                runner = next((r for r in free if not r.busy and self._runs(r.name)), None)
                if runner is not None:
                    runner.busy, job.runner = True, runner.name
                    job.ends_s = now_s + job.seconds
                    if self.listener_works:
                        self.job_started(runner.name)

    def _runs(self, name: str) -> bool:
        pod = self.api.raw("pods", name)
        alive = pod is not None and not pod["metadata"].get("deletionTimestamp")
        return alive and (pod.get("status") or {}).get("phase") == "Running"  # type: ignore[union-attr]

    def job_started(self, name: str) -> None:
        item = self.api.raw("ephemeralrunners", name)
        assert item is not None, "a job started on a runner that is not there"
        status = {"phase": "Running", "jobId": f"job-{name}", "jobRequestId": 5}
        if (item.get("status") or {}).get("phase") in ("Failed", "Outdated"):
            del status["phase"]
        body = {"metadata": {"resourceVersion": item["metadata"]["resourceVersion"]}}
        self.api.merge("ephemeralrunners", name, body | {"status": status}, "status")

    # --- questions ---------------------------------------------------------------------------

    def status(self, name: str) -> dict[str, Any]:
        item = self.api.raw("ephemeralrunners", name)
        return (item or {}).get("status") or {}

    def writes(self) -> list[str]:
        """The controller's own, as the server took them."""
        return [call for call in self.faults.calls if not call.startswith("github")]

    def left(self) -> dict[str, Any]:
        """What is left when everything should be gone."""
        return {
            plural: names
            for plural in ("ephemeralrunners", "pods", "secrets")
            if (names := self.api.names(plural))
        } | ({"registrations": self.github.runners} if self.github.runners else {})

    async def until(self, what: Callable[[], Any], *, within_s: float = 60) -> None:
        deadline_s = self.clock.monotonic_s() + within_s
        while not what():
            assert self.clock.monotonic_s() < deadline_s, f"not within {within_s} s: {self.left()}"
            assert not self._around.done(), self._around.exception()
            assert self._controller is None or not self._controller.done()
            await asyncio.sleep(0.1)


def _time(text: str) -> float:
    from runnerscale.core.clock import parse_time

    return parse_time(text)


def runner_body(name: str, **status: Any) -> dict[str, Any]:
    owner = {"kind": "EphemeralRunnerSet", "name": "set", "uid": "set-uid", "controller": True}
    return {
        "metadata": {
            "name": name,
            "finalizers": [*EPHEMERAL_RUNNER_FINALIZERS],
            "ownerReferences": [owner],
            "labels": {"a": "1"},
        },
        "spec": {
            "githubConfigUrl": "https://github.com/o/r",
            "githubConfigSecret": "s",
            "runnerScaleSetId": SCALE_SET,
            "spec": {"containers": [{"name": "runner", "image": "i", "workingDir": "/w"}]},
        },
        **({"status": status} if status else {}),
    }
