"""A controller on the embedded API server and the pretended GitHub, all on virtual time.

What `test_bad_input.py` needs: wrong objects are put in, and what is seen of them is taken out.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import async_solipsism
import async_solipsism.clock
import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS, AutoscalingRunnerSet
from runnerscale.api.crds import crd_documents
from runnerscale.apiserver.authentication import Identity
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.store import MemoryStore
from runnerscale.app.controller_manager import ControllerOptions, Manager
from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.credentials.clients import ClientCache
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.server import serve_fake_github
from runnerscale.kube.builtin import NAMESPACES, SECRETS
from runnerscale.kube.client import KubeClient
from runnerscale.kube.credentials import StaticToken
from runnerscale.kube.httptools_transport import HttptoolsTransport
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.transport import Endpoint
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.user_agent import SystemInfo
from tests.unit.fake_github.http_world import dial_to
from tests.unit.kube.virtual_network import virtual_dial

EPOCH_S = 1_800_000_000.0
NS, HOME = "team", "arc-systems"
ADMIN, LIMITED = "t0k", "l1m"
URL = "http://ghes.example:8480/my-org"
Json = dict[str, Any]


class _Clock(async_solipsism.clock.Clock):  # type: ignore[misc]
    """Moves at least one tick: timers of aiohttp spin when time rounds to a hair before them."""

    def advance(self, delta: float) -> None:
        super().advance(max(delta, self.resolution) if delta > 0 else delta)


def run(story: Coroutine[Any, Any, Any]) -> Any:
    """Play a story on virtual time."""

    def new_loop() -> asyncio.AbstractEventLoop:
        loop = async_solipsism.EventLoop()
        loop._selector.clock.__class__ = _Clock
        return loop

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(story)


@dataclass
class Api:
    """The API server, which can go away and come back with all it knew."""

    clock: LoopClock
    crds: Sequence[Json]
    store: MemoryStore = field(default_factory=MemoryStore)
    _runner: web.AppRunner | None = None
    _server: asyncio.Server | None = None

    async def start(self) -> None:
        api = ApiServer(
            self.store,
            clock=self.clock,
            random=seeded(7),
            crds=self.crds,
            identities=[
                Identity("admin", SecretText(ADMIN), ("system:masters",)),
                Identity("controller", SecretText(LIMITED), ()),
            ],
            signing_key=SecretText("k" * 32),
        )
        # aiohttp's keep-alive timer spins when virtual time rounds to a hair before it.
        never = {"keepalive_timeout": 1e9}
        self._runner = web.AppRunner(api.app, handle_signals=False, shutdown_timeout=0.1, **never)
        await self._runner.setup()
        assert self._runner.server is not None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._runner.server, "api.test", 80)

    async def stop(self) -> None:
        if self._server is not None and self._runner is not None:
            self._server.close()
            await self._runner.cleanup()
            self._server = self._runner = None


@dataclass
class World:
    api: Api
    client: KubeClient
    clock: LoopClock
    registry: CollectorRegistry
    manager: Manager
    running: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self.running = asyncio.create_task(self.manager.run(None))

    async def prepare(self) -> None:
        """Namespaces and good credentials."""
        for name in (NS, HOME):
            await self.client.create(NAMESPACES, "", {"metadata": {"name": name}})
        await self.secret("good", github_token="pat")

    async def grant(self, *rules: Json) -> None:
        """To the user of a controller that is not the administrator."""
        group = "rbac.authorization.k8s.io"
        role = {"metadata": {"name": "controller"}, "rules": list(rules)}
        path = f"/apis/{group}/v1"
        await self.post(f"{path}/clusterroles", {"kind": "ClusterRole", **role})
        binding = {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "controller"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "controller"},
            "subjects": [{"kind": "User", "name": "controller", "apiGroup": group}],
        }
        await self.post(f"{path}/clusterrolebindings", binding)

    async def post(self, path: str, document: Json) -> None:
        """Create what no resource of ours describes."""
        body = msgspec.json.encode(
            {"apiVersion": path.split("/apis/")[-1].rpartition("/")[0]} | document
        )
        await self.client._calls.call("POST", path, body=body)

    async def put(self, path: str, document: Json) -> None:
        """Replace such a thing."""
        current = await self.client.get_raw(path)
        version = current["metadata"]["resourceVersion"]
        meta = {**document["metadata"], "resourceVersion": version}
        body = msgspec.json.encode({**document, "metadata": meta})
        await self.client._calls.call("PUT", path, body=body)

    async def secret(self, name: str, **data: str) -> None:
        body = {"metadata": {"name": name}, "stringData": data, "type": "Opaque"}
        await self.client.create(SECRETS, NS, body)

    async def apply(self, name: str, spec: Json) -> AutoscalingRunnerSet:
        """As `kubectl create` does."""
        body = {"metadata": {"name": name, "namespace": NS}, "spec": spec}
        return await self.client.create(AUTOSCALING_RUNNER_SETS, NS, body)

    async def raw(self, name: str) -> Json:
        path = AUTOSCALING_RUNNER_SETS.path(NS, name)
        found: Json = await self.client.get_raw(path)
        return found

    async def events(self, namespace: str = NS) -> list[Json]:
        listed = await self.client.get_raw(f"/api/v1/namespaces/{namespace}/events")
        found: list[Json] = listed["items"]
        return found

    def troubles(self) -> set[tuple[str, str, str]]:
        """Kind, name and reason of what the gauge shows."""
        return {
            (sample.labels["kind"], sample.labels["name"], sample.labels["reason"])
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "runnerscale_trouble" and sample.value > 0
        }

    async def until(self, question: Any, *, within_s: float = 120.0) -> float:
        """Wait for an answer that counts; how long it took."""
        begun_s = self.clock.monotonic_s()
        while self.clock.monotonic_s() - begun_s < within_s:
            answer = question()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return self.clock.monotonic_s() - begun_s
            await asyncio.sleep(0.5)
        raise AssertionError(f"not within {within_s} s; readiness: {self.manager.why_not_ready()}")


def spec(**changes: Any) -> Json:
    """A good spec with some of it exchanged; None takes a member out."""
    whole = {
        "githubConfigUrl": URL,
        "githubConfigSecret": "good",
        "minRunners": 0,
        "maxRunners": 2,
        "template": {"spec": {"containers": [{"name": "runner", "image": "img:1"}]}},
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def older(documents: Sequence[Json], *fields: str) -> list[Json]:
    """CRDs as an older release has them: no CEL rules, and without these members of a status."""
    made = [copy.deepcopy(document) for document in documents]
    for document in made:
        for version in document["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            _strip_rules(schema)
            for name in fields:
                schema["properties"]["status"]["properties"].pop(name, None)
    return made


def _strip_rules(schema: Any) -> None:
    if isinstance(schema, dict):
        schema.pop("x-kubernetes-validations", None)
        for value in schema.values():
            _strip_rules(value)
    elif isinstance(schema, list):
        for value in schema:
            _strip_rules(value)


@asynccontextmanager
async def world(
    crds: Sequence[Json] | None = None,
    *,
    started: bool = True,
    limited: bool = False,
    **github: Any,
) -> AsyncIterator[World]:
    """API server (unless not `started`) and GitHub; the controller is made but not begun.

    `limited`: it may do what `grant` says; else it is the administrator.
    """
    clock = LoopClock(EPOCH_S)
    api = Api(clock, crd_documents() if crds is None else crds)
    registry = CollectorRegistry()
    metrics = KubeMetrics(registry)
    admin = client_as(ADMIN, clock, None)
    client = client_as(LIMITED if limited else ADMIN, clock, metrics)
    clients = ClientCache(
        client,
        clock=clock,
        random=seeded(3),
        system_info=SystemInfo("runnerscale", "0.14.2", "none", 0, "controller"),
        environ={},
        transport_factory=lambda options: open_transport(replace(options, dial=dial_to(8480))),
    )
    manager = Manager(
        ControllerOptions(namespace=HOME, image="img:controller"),
        client=client,
        clients=clients,
        registry=registry,
        kube_metrics=metrics,
        clock=clock,
        random=seeded(4),
    )
    options = replace(Options(port=8480), **github)
    async with serve_fake_github(options, clock=clock, random=seeded(5)):
        made = World(api, admin, clock, registry, manager)
        if started:
            await api.start()
        try:
            yield made
        finally:
            if made.running is not None:
                made.running.cancel()
                with suppress(BaseException):
                    await made.running
            await clients.close()
            await client.close()
            await admin.close()
            await api.stop()


def client_as(token: str, clock: LoopClock, metrics: KubeMetrics | None) -> KubeClient:
    return KubeClient(
        HttptoolsTransport(Endpoint("http://api.test:80"), dial=virtual_dial),
        credentials=StaticToken(SecretText(token)),
        clock=clock,
        random=seeded(1),
        metrics=metrics,
    )
