"""An API server, the pretended GitHub, scripted nodes: the same for us and for the floor."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import github as pretended
from benchmarks.children import Child, start
from benchmarks.eyes import Eyes
from benchmarks.github import GitHub
from benchmarks.machine import Used, used
from benchmarks.nodes import Nodes
from benchmarks.servers import EmbeddedServer, MemoryServer, RealServer, ServerUnderTest
from runnerscale.app.manifests import (
    CONTROLLER_IMAGE,
    SYSTEM_NAMESPACE,
    Manifest,
    github_secret,
    runner_set,
    set_namespace_manifests,
    system_manifests,
)
from runnerscale.app.single_machine import free_ports
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.fake_github.options import Options
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import load_config, open_client
from runnerscale.kube.errors import AlreadyExists

NAMESPACE = "bench"
SERVERS: dict[str, Callable[[], ServerUnderTest]] = {
    "embedded": EmbeddedServer,
    "embedded, memory": MemoryServer,
    "kube-apiserver": RealServer,
}
UP_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What a case is measured on."""

    server: str
    has_tail: bool = False  # five of a hundred JIT and remove calls take two seconds
    floor: str = "raw"  # its connections; `floor/script.py` has the kinds


@dataclass(slots=True)
class World:
    """All that is there before anything is measured."""

    server: ServerUnderTest
    github: GitHub
    client: KubeClient
    nodes: Nodes
    eyes: Eyes
    folder: Path
    controller: Child | None = None
    metrics_port: int = 0
    environ: dict[str, str] = field(default_factory=dict)  # of controller and listeners

    async def apply(self, manifests: Iterable[Manifest]) -> None:
        """Create what is not there."""
        for each in manifests:
            with suppress(AlreadyExists):
                await self.client.create(each.resource, each.namespace, each.body)

    async def start_controller(self) -> Child:
        """Our controller, as in production."""
        ports = free_ports()
        kubeconfig = await self.server.controller()
        self.metrics_port = ports.metrics
        words = [
            "controller",
            "--log-level=info",
            "--log-format=json",
            f"--kubeconfig={kubeconfig}",
            f"--metrics-addr=127.0.0.1:{ports.metrics}",
            f"--health-probe-bind-address=127.0.0.1:{ports.probes}",
            "--listener-metrics-addr=0",
        ]
        environ = {
            **self.environ,
            "CONTROLLER_MANAGER_POD_NAMESPACE": SYSTEM_NAMESPACE,
            "CONTROLLER_MANAGER_CONTAINER_IMAGE": CONTROLLER_IMAGE,
        }
        self.controller = await start("controller", words, self.folder / "controller.log", environ)
        return self.controller

    async def add_set(self, name: str, *, low: int, high: int) -> None:
        """A scale set, and its listener's session at GitHub."""
        await self.apply(
            [
                runner_set(
                    NAMESPACE,
                    name,
                    config_url=f"{self.github.url}/demo-org/demo",
                    min_runners=low,
                    max_runners=high,
                    version=COMPATIBLE_VERSION,
                )
            ]
        )

    async def until_listening(self, sets: int = 1) -> None:
        """Each set has an open session."""
        async with asyncio.timeout(UP_WITHIN_S):
            while len(self.github.hub.state.sessions) < sets:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.02)

    def ours(self) -> Used:
        """CPU and memory of controller and listeners together."""
        controller = self.controller
        alive = [] if controller is None or controller.has_ended else [controller.pid]
        return used([*alive, *self.listener_pids()])

    def listener_pids(self) -> list[int]:
        """Of all that run."""
        return [child.pid for child in self.nodes.listeners.values() if not child.has_ended]

    async def pause(self, seconds: float) -> None:
        """Nothing is done for a while."""
        await asyncio.sleep(seconds)

    def say_problems(self) -> None:
        """Of the scripted nodes: figures with these are to be doubted."""
        for problem in self.nodes.problems[:3]:
            print(f"  nodes: {problem}", flush=True)

    def logs(self) -> list[Path]:
        """Of controller and listeners."""
        return [self.folder / "controller.log", *self.folder.glob("*/log")]


@asynccontextmanager
async def _closing(client: KubeClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.close()


@asynccontextmanager
async def world(
    setting: Setting, *, options: Options | None = None, environ: Mapping[str, str] | None = None
) -> AsyncIterator[World]:
    """A world of its own, gone with all its processes at the end."""
    folder = Path(tempfile.mkdtemp(prefix="runnerscale-bench-"))
    server = SERVERS[setting.server]()
    try:
        await server.start(folder)
        config = load_config(server.admin, {})
        client = open_client(config, clock=SystemClock(), random=system_random())
        async with (
            pretended.serving(options, has_tail=setting.has_tail) as github,
            _closing(client),
            asyncio.TaskGroup() as group,
        ):
            eyes = Eyes(client)
            nodes = Nodes(client, config, github, folder, seen=eyes.seen)
            made = World(server, github, client, nodes, eyes, folder)
            made.environ.update(environ or {})
            nodes.environ = made.environ
            await made.apply([*system_manifests(), *set_namespace_manifests(NAMESPACE)])
            await made.apply([github_secret(NAMESPACE, "a-token")])
            watching = [group.create_task(nodes.run()), group.create_task(eyes.run())]
            try:
                yield made
            finally:
                if made.controller is not None:
                    await made.controller.stop()
                await nodes.stop()
                for task in watching:
                    task.cancel()
    finally:
        await server.stop()
        shutil.rmtree(folder, ignore_errors=True)
