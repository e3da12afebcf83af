"""A runner set in the tiny world, with a GitHub that keeps scale sets in a dictionary."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.controllers.autoscaling_listener.controller import by_runner_set
from runnerscale.controllers.autoscaling_runner_set.controller import RunnerSetReconciler
from runnerscale.controllers.autoscaling_runner_set.observed import Caches, by_claim
from runnerscale.controllers.autoscaling_runner_set.snapshot import Settings
from runnerscale.controllers.autoscaling_runner_set.wish import same_address
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.controllers.reporting import Reporter
from runnerscale.core.clock import ManualClock
from runnerscale.credentials.place import GitHubPlace, PlaceTrouble
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.patching import owner_index
from runnerscale.kube.reconcile import Pass, PassEnd
from runnerscale.scaleset.errors import RunnerGroupNotFound, ScaleSetAmbiguous, ScaleSetNotFound
from runnerscale.scaleset.model import RunnerGroup, RunnerScaleSet
from tests.plan.memory_api import MemoryApi

HOME = "arc-systems"
RUNNERS = "arc-runners"
NAME = "linux"
KEY = f"{RUNNERS}/{NAME}"
IMAGE = "ghcr.io/runnerscale/runnerscale:0.14.2"
URL = "https://github.com/octo-org/octo-repo"
AL_NAME = "linux-5b5868b7-listener"  # H("arc-runners@@<URL>"), contract 2.7

TEMPLATE: dict[str, Any] = {
    "spec": {"containers": [{"name": "runner", "image": "runner:1", "command": ["/run.sh"]}]}
}
SPEC: dict[str, Any] = {
    "githubConfigUrl": URL,
    "githubConfigSecret": "github",
    "template": TEMPLATE,
    "minRunners": 1,
    "maxRunners": 10,
}


class GitHub:
    """Groups and scale sets by place, what was asked, and what goes wrong."""

    def __init__(self) -> None:
        self.groups = {"Default": 1, "testgroup": 2, "testgroup2": 3}
        self.at: dict[str, dict[int, RunnerScaleSet]] = {URL: {}}
        self.calls: list[tuple[Any, ...]] = []
        self.places: list[GitHubPlace] = []
        self.fault: Callable[[str, GitHubPlace], Exception | None] = lambda call, place: None
        self.next_id = 7
        self.ignores_labels = False
        self.ignores_names = False
        self.is_busy: Callable[[str, int], bool] = lambda url, scale_set_id: False
        self.killed: list[tuple[str, int]] = []  # scale sets deleted under a job

    # credentials.place.Clients
    async def client_for(self, place: GitHubPlace) -> "PlaceClient":
        error = self.fault("client", place)
        if error is not None:
            raise error
        self.places.append(place)
        return PlaceClient(self, place)

    @property
    def sets(self) -> dict[int, RunnerScaleSet]:
        """Those at the usual place."""
        return self.at[URL]

    def writes(self) -> list[tuple[Any, ...]]:
        """Create, update and delete calls so far."""
        return [call for call in self.calls if call[0] in ("create", "update", "delete")]


class PlaceClient:
    """The client of one place."""

    def __init__(self, github: GitHub, place: GitHubPlace) -> None:
        self.github = github
        self.place = place
        url = place.config_url  # however it is spelled
        known = next((at for at in github.at if same_address(at, url)), url)
        self.sets = github.at.setdefault(known, {})

    def _call(self, *call: Any) -> None:
        self.github.calls.append(call)
        error = self.github.fault(call[0], self.place)
        if error is not None:
            raise error

    def _group_name(self, group_id: int) -> str:
        return next(name for name, number in self.github.groups.items() if number == group_id)

    async def get_runner_group(self, name: str, **_: Any) -> RunnerGroup:
        self._call("group", name)
        if name not in self.github.groups:
            raise RunnerGroupNotFound(f"no runner group found with name {name}")
        return RunnerGroup(self.github.groups[name], name)

    async def find_scale_set(self, name: str, group: int, **_: Any) -> RunnerScaleSet | None:
        self._call("find", name, group)
        found = [s for s in self.sets.values() if (s.name, s.runner_group_id) == (name, group)]
        if len(found) > 1:
            raise ScaleSetAmbiguous(f"multiple runner scale sets found with name {name}")
        return found[0] if found else None

    async def get_scale_set(self, scale_set_id: int, **_: Any) -> RunnerScaleSet | None:
        self._call("get", scale_set_id)
        if scale_set_id not in self.sets:
            raise ScaleSetNotFound(f"scale set {scale_set_id} not found")
        return self.sets[scale_set_id]

    async def create_scale_set(
        self,
        name: str,
        group: int,
        *,
        labels: Sequence[str] = (),
        disable_update: bool = True,
        **_: Any,
    ) -> RunnerScaleSet:
        self._call("create", name, group, tuple(labels), disable_update)
        number = self.github.next_id
        group_name = self._group_name(group)
        made = RunnerScaleSet(number, name, group, group_name, tuple(labels), disable_update)
        self.github.next_id += 1
        self.sets[number] = made
        return made

    async def update_scale_set(self, scale_set_id: int, **changes: Any) -> RunnerScaleSet:
        changes.pop("timeout_s", None)
        given = {key: value for key, value in changes.items() if value is not None}
        self._call("update", scale_set_id, dict(given))
        if scale_set_id not in self.sets:
            raise ScaleSetNotFound(f"scale set {scale_set_id} not found")
        if "runner_group_id" in given:
            given["runner_group_name"] = self._group_name(given["runner_group_id"])
        if self.github.ignores_labels:
            given.pop("labels", None)
        if self.github.ignores_names:
            given.pop("name", None)
        self.sets[scale_set_id] = replace(self.sets[scale_set_id], **given)
        return self.sets[scale_set_id]

    async def delete_scale_set(self, scale_set_id: int, **_: Any) -> None:
        self._call("delete", scale_set_id)
        if self.github.is_busy(self.place.config_url, scale_set_id):
            self.github.killed.append((self.place.config_url, scale_set_id))
        if scale_set_id not in self.sets:
            raise ScaleSetNotFound(f"scale set {scale_set_id} not found")
        del self.sets[scale_set_id]


class Events:
    """What was said in Events."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def record(self, about: Any, *, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.said.append((type, str(reason), message))

    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.said]


class World:
    """One runner set (or several) and everything around."""

    def __init__(self, *, create: bool = True, **spec: Any) -> None:
        self.clock = ManualClock()
        self.api = MemoryApi(self.clock)
        self.github = GitHub()
        self.github.is_busy = self._is_busy
        self.events = Events()
        self.said_busy: set[str] = set()  # runners that GitHub does not forget: they have a job
        self.registry = CollectorRegistry()
        self.settings = Settings(namespace=HOME, image=IMAGE, build_version="0.14.2")
        self.caches = Caches(
            runner_sets=self.api.cache(AUTOSCALING_RUNNER_SETS, claim=by_claim),
            runner_sets_owned=self.api.cache(EPHEMERAL_RUNNER_SETS, owner=owner_index),
            listeners=self.api.cache(AUTOSCALING_LISTENERS, **{"runner-set": by_runner_set}),
            runners=self.api.cache(EPHEMERAL_RUNNERS, owner=owner_index),
            is_said_busy=lambda runner: runner.metadata.name in self.said_busy,
        )
        self.reporter = Reporter(self.events, ControllerMetrics(self.registry))
        self.start()
        if create:
            self.create(**spec)

    def start(self, **settings: Any) -> None:
        """A controller process with these settings, and no memory."""
        self.settings = replace(self.settings, **settings)
        self.reconciler = RunnerSetReconciler(
            client=self.api,  # type: ignore[arg-type]
            clients=self.github,  # type: ignore[arg-type]
            caches=self.caches,
            settings=self.settings,
            reporter=self.reporter,
            own_writes=OwnWrites(clock=self.clock),
            clock=self.clock,
        )

    def create(self, name: str = NAME, meta: dict[str, Any] | None = None, **spec: Any) -> None:
        """Somebody creates a runner set."""
        labels = {keys.VERSION: "0.14.2", "team": "a"}
        metadata = {"name": name, "labels": labels, **(meta or {})}
        self.api.put(AUTOSCALING_RUNNER_SETS, RUNNERS, {"metadata": metadata, "spec": SPEC | spec})

    async def one_pass(self, key: str = KEY) -> PassEnd:
        """One pass of the controller."""
        running = Pass(self.reconciler, key)
        end = await running.run()
        running.report()
        return end

    async def settle(self, key: str = KEY, passes: int = 8) -> PassEnd:
        """Passes until nothing is written or asked any more."""
        for _ in range(passes):
            self.api.changes()
            calls = len(self.github.calls)
            end = await self.one_pass(key)
            for error in end.errors:
                raise error
            if not self.api.writes and len(self.github.calls) == calls:
                return end
        raise AssertionError(f"never comes to rest: {self.api.writes} {self.github.calls}")

    async def later(self, seconds: float) -> PassEnd:
        """Time passes, then it settles."""
        self.clock.advance(seconds)
        return await self.settle()

    def edit(self, **spec: Any) -> None:
        """Somebody changes the spec (a merge patch)."""
        self.api.change(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME, {"spec": spec})

    def edit_meta(self, **metadata: Any) -> None:
        """Somebody changes labels or annotations (a merge patch)."""
        self.api.change(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME, {"metadata": metadata})

    def image(self, image: str) -> dict[str, Any]:
        """A template with another image."""
        return {"spec": {"containers": [{"name": "runner", "image": image}]}}

    def set_status(self, **status: Any) -> None:
        """The EphemeralRunnerSet controller writes its status."""
        self.api.change(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME, {"status": status})

    def runner(self, name: str, *, status: dict[str, Any] | None = None, **spec: Any) -> None:
        """An EphemeralRunner of the set, as it was made from its present spec."""
        owner = self.ers["metadata"]
        reference = {
            "apiVersion": "actions.github.com/v1alpha1",
            "kind": "EphemeralRunnerSet",
            "name": owner["name"],
            "uid": owner["uid"],
            "controller": True,
        }
        body = {
            "metadata": {"name": name, "ownerReferences": [reference]},
            "spec": {**self.ers["spec"]["ephemeralRunnerSpec"], **spec},
            "status": status or {},
        }
        self.api.put(EPHEMERAL_RUNNERS, RUNNERS, body)

    def delete(self) -> None:
        """Somebody deletes the runner set."""
        from runnerscale.core.clock import format_time

        stamp = format_time(self.clock.now_s())
        self.edit_meta(deletionTimestamp=stamp)

    def hold_by_finalizer(self, resource: Any, namespace: str, name: str) -> None:
        """Somebody's finalizer is on it."""
        self.api.change(resource, namespace, name, {"metadata": {"finalizers": ["test/hold"]}})

    def let_go(self, resource: Any, namespace: str, name: str) -> None:
        """And is taken away."""
        self.api.change(resource, namespace, name, {"metadata": {"finalizers": None}})

    def _is_busy(self, url: str, scale_set_id: int) -> bool:
        return any(
            body["spec"].get("githubConfigUrl") == url
            and body["spec"].get("runnerScaleSetId") == scale_set_id
            and "jobId" in body.get("status", {})
            for (plural, _, _), body in self.api.objects.items()
            if plural == EPHEMERAL_RUNNERS.plural
        )

    # --- what is there ---------------------------------------------------------------------

    @property
    def ars(self) -> Any:
        return self.api.body(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME)

    @property
    def annotations(self) -> Any:
        return self.ars["metadata"].get("annotations", {})

    @property
    def status(self) -> Any:
        return self.ars.get("status", {})

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        found = [c for c in self.status["conditions"] if c["type"] == kind]
        return (found[0]["status"], found[0]["reason"]) if found else ("", "")

    @property
    def ers(self) -> Any:
        return self.api.body(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME)

    @property
    def listeners(self) -> list[str]:
        return self.api.names(AUTOSCALING_LISTENERS)

    @property
    def al(self) -> Any:
        (name,) = self.listeners
        return self.api.body(AUTOSCALING_LISTENERS, HOME, name)


def no_secret(place: GitHubPlace) -> PlaceTrouble:
    """What the credentials room says of a missing Secret."""
    return PlaceTrouble(
        "CredentialsMissing",
        f'failed to get kubernetes secret: "{place.namespace}/{place.secret_name}"',
        "Create it",
    )
