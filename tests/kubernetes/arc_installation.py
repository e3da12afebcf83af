"""A scale set of ARC's in full work, without ARC: this file plays its controllers.

The objects are the contract's (`tests/arc/objects.py`), made by an administrator; the pods run
really, the runners are registered really. The listener's image is ours, in the place of ARC's,
which nobody has here: whose controller made its pod is what it goes by.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.route import open_transport
from tests.arc.objects import Arc
from tests.kubernetes.github import OWNER
from tests.kubernetes.node import MANAGER_IMAGE
from tests.kubernetes.world import GHA, RBAC, ScaleSet, World, is_ready, until

Json = dict[str, Any]
T = TypeVar("T")

TOKEN = "ghp_of-the-scenario"  # as `ScaleSet.helm` gives it
HOME = "arc-systems"
IMAGE = f"{MANAGER_IMAGE}:0.14.2"
CALL_S = 20.0


@dataclass
class ArcInstallation:
    """One scale set, and the hands of the controllers that made it."""

    world: World
    scale_set: ScaleSet
    arc: Arc
    uid: str = ""  # of the EphemeralRunnerSet
    secret_keys: dict[str, str] = field(default_factory=dict)

    # --- the parts ----------------------------------------------------------------------------

    def listener_pod(self) -> Json:
        """The listener's pod."""
        found = self.world.get(f"/api/v1/namespaces/{HOME}/pods/{self.arc.listener}")
        return found or {"metadata": {"uid": ""}}  # between two of them there is none

    def runner_set(self) -> Json:
        """The EphemeralRunnerSet."""
        found = self.world.get(self._path("ephemeralrunnersets", self.arc.name))
        assert found is not None
        return found

    def runner(self, name: str) -> Json | None:
        """An EphemeralRunner."""
        return self.world.get(self._path("ephemeralrunners", name))

    def runner_pod(self, name: str) -> Json | None:
        """A runner's pod."""
        return self.world.get(f"/api/v1/namespaces/{self.arc.namespace}/pods/{name}")

    def wanted(self) -> int:
        """What the listener asked for last."""
        return int(self.runner_set()["spec"].get("replicas") or 0)

    def make_runner(self, word: str, *, legacy: bool = False) -> str:
        """As ARC's controllers: runner, JIT config, Secret, pod, status; until it is online.

        `legacy`: by a controller that derived `Running` from the pod.
        """
        name = f"{self.arc.name}-runner-{word}"
        patch_id = int(self.runner_set()["spec"]["patchID"])
        body = self.arc.ephemeral_runner(name, self.uid, patch_id=patch_id)
        made = self.world.create(self._path("ephemeralrunners"), body)
        uid = made["metadata"]["uid"]

        async def register(client: ScaleSetClient) -> tuple[int, str]:
            config = await client.generate_jit_config(self.arc.scale_set_id, name, timeout_s=CALL_S)
            return config.runner.id, config.encoded.reveal()

        runner_id, jit = self._at_github(register)
        where = f"/api/v1/namespaces/{self.arc.namespace}"
        secret = self.arc.jit_secret(name, uid, runner_id=runner_id, jit=jit)
        self.world.create(f"{where}/secrets", secret)
        self._say(name, {"runnerId": runner_id, "runnerName": name})
        self.world.create(f"{where}/pods", self.arc.runner_pod(name, uid, patch_id=patch_id))
        until(f"{name} is ready", lambda: is_ready(self.runner_pod(name) or {"metadata": {}}))
        self._say(name, {"ready": True})
        # Over nothing only: a listener may have been quicker (C1 1.7, the guard of P7).
        if not (self.runner(name) or {"status": {}})["status"].get("phase"):
            self._say(name, {"phase": "Running" if legacy else "Pending"})
        return name

    def wait_online(self, *names: str) -> None:
        """GitHub sees them."""

        def online() -> bool:
            known = {r["name"]: r for r in self.world.github.runners(self.arc.scale_set_id)}
            return all(known.get(name, {}).get("connected_s") for name in names)

        until(f"{names} are online", online)

    def _say(self, name: str, status: Json) -> None:
        self.world.patch(f"{self._path('ephemeralrunners', name)}/status", {"status": status})

    def _path(self, plural: str, name: str = "") -> str:
        return f"{GHA}/namespaces/{self.arc.namespace}/{plural}" + (f"/{name}" if name else "")

    def _at_github(self, call: Callable[[ScaleSetClient], Awaitable[T]]) -> T:
        return at_github(self.arc.url, call)


def at_github(url: str, call: Callable[[ScaleSetClient], Awaitable[T]]) -> T:
    """One call with a client of its own."""

    async def work() -> T:
        client = ScaleSetClient(
            url,
            personal_access_token(TOKEN),
            transport=open_transport(),
            clock=SystemClock(),
            random=system_random(),
        )
        async with client:
            return await call(client)

    return asyncio.run(work())


def install_arc(
    world: World, *, minimum: int = 0, may_get: bool = True, values: Json | None = None
) -> ArcInstallation:
    """Chart objects by helm (no controller is there to be found), the rest as ARC makes it."""
    namespace = world.namespace()
    if world.get(f"/api/v1/namespaces/{HOME}") is None:
        world.create("/api/v1/namespaces", {"metadata": {"name": HOME}})
    account = {"name": "arc-gha-rs-controller", "namespace": HOME}
    scale_set = world.install_set(
        namespace,
        additions=None,
        minRunners=minimum,
        controllerServiceAccount=account,
        **(values or {}),
    )
    name, url = scale_set.name, f"{world.github.url}/{OWNER}"

    async def register(client: ScaleSetClient) -> int:
        made = await client.create_scale_set(
            name, 1, labels=(name,), disable_update=True, timeout_s=CALL_S
        )
        return made.id

    scale_set_id = at_github(url, register)
    given_back = _given_back(scale_set.runner_set()["spec"]["template"])
    arc = Arc(
        name=name,
        namespace=namespace,
        home=HOME,
        url=url,
        secret=f"{name}-gha-rs-github-secret",
        scale_set_id=scale_set_id,
        minimum=minimum,
        given_back=given_back,
        listener_image=IMAGE,
    )
    found = ArcInstallation(world, scale_set, arc)
    _accept(found)
    _make_listener(found, may_get=may_get)
    return found


def _accept(found: ArcInstallation) -> None:
    """The runner set as ARC's controller leaves it, and its EphemeralRunnerSet."""
    world, arc = found.world, found.arc
    wished = arc.runner_set()["metadata"]
    stored = found.scale_set.runner_set()
    kept = stored["metadata"].get("annotations") or {}
    meta = {
        "labels": {**wished["labels"], **stored["metadata"]["labels"]},
        "annotations": {**wished["annotations"], **kept},
        "finalizers": wished["finalizers"],
    }
    spec = {"runnerScaleSetName": arc.name}
    made = world.patch(found.scale_set.path, {"metadata": meta, "spec": spec})
    world.patch(f"{found.scale_set.path}/status", {"status": {"phase": "Running"}})
    body = arc.ephemeral_runner_set(made["metadata"]["uid"])
    labels = {**made["metadata"]["labels"], **_own(body["metadata"]["labels"])}
    body["metadata"]["labels"] = labels
    created = world.create(f"{GHA}/namespaces/{arc.namespace}/ephemeralrunnersets", body)
    found.uid = created["metadata"]["uid"]


def _make_listener(found: ArcInstallation, *, may_get: bool) -> None:
    world, arc = found.world, found.arc
    core = f"/api/v1/namespaces/{HOME}"
    listener = world.create(
        f"{GHA}/namespaces/{HOME}/autoscalinglisteners", arc.autoscaling_listener()
    )
    uid = listener["metadata"]["uid"]
    world.create(f"{core}/serviceaccounts", arc.service_account(uid))
    world.create(f"{RBAC}/namespaces/{arc.namespace}/roles", arc.role(may_get=may_get))
    world.create(f"{RBAC}/namespaces/{arc.namespace}/rolebindings", arc.role_binding())
    world.create(f"{core}/secrets", arc.config_secret(uid, github_token=TOKEN))
    world.create(f"{core}/pods", arc.listener_pod(uid))
    until("ARC's listener is ready", lambda: is_ready(found.listener_pod()), within_s=60)


def _own(labels: dict[str, str]) -> dict[str, str]:
    """What ARC computes; everything else is the runner set's."""
    keys = ("app.kubernetes.io/part-of", "app.kubernetes.io/component")
    return {key: labels[key] for key in keys}


def _given_back(template: Json) -> Json:
    """A template after its way through Go's types."""
    found = copy.deepcopy(template)
    found.setdefault("metadata", {})
    for container in found["spec"]["containers"]:
        container.setdefault("resources", {})
        for key in [key for key, value in container.items() if value in (False, [], "", None)]:
            del container[key]
    return found
