"""All parts on one machine, as separate processes on loopback: started, ready, ended.

The API server, the pretended GitHub, the node agent and the controller; the controller starts
listeners as pods, which the node agent runs. What is done with them is `demo.py`.
"""

import contextlib
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import structlog

from runnerscale.app.api_server import ADMIN, CONTROLLER, NODE, ensure_token, kubeconfig_path
from runnerscale.app.github_control import GitHubControl
from runnerscale.app.manifests import (
    CONTROLLER_IMAGE,
    SYSTEM_NAMESPACE,
    Manifest,
    set_namespace_manifests,
    system_manifests,
)
from runnerscale.app.problem import Problem
from runnerscale.app.supervisor import Child, Supervisor
from runnerscale.core.clock import Clock
from runnerscale.core.deadline import Deadline
from runnerscale.core.private_folder import make_private
from runnerscale.core.randomness import Random
from runnerscale.core.secret import SecretText
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import load_config, open_client, tls_context
from runnerscale.kube.errors import AlreadyExists
from runnerscale.node.config import NodeConfigError
from runnerscale.node.server import clear_node

log = structlog.get_logger(__name__)

READY_WITHIN_S = 60.0
LOOK_EVERY_S = 0.05
PROBE_TIMEOUT_S = 2.0
NAMESPACE = "demo"
SESSION_LIFE_S = 5.0  # a dead listener's session ends soon, so that its successor need not wait
POLL_HOLD_S = 10.0
PODS_MAX = 1000

API_SERVER, GITHUB, NODE_AGENT, MANAGER = "api-server", "fake-github", "node", "controller"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where everybody listens, on 127.0.0.1."""

    api: int
    github: int
    node: int
    metrics: int
    probes: int
    listener_metrics: int


@dataclass(slots=True)
class Machine:
    """What runs, and how to reach it."""

    folder: Path
    ports: Ports
    supervisor: Supervisor
    clock: Clock
    random: Random
    client: KubeClient | None = None

    @property
    def kubeconfig(self) -> Path:
        """Of the administrator."""
        return kubeconfig_path(self.folder / "api", ADMIN)

    @property
    def github_url(self) -> str:
        """Base URL of the pretended GitHub."""
        return f"http://127.0.0.1:{self.ports.github}"

    @property
    def node_token(self) -> SecretText:
        """What the node agent's server asks for."""
        return ensure_token(self.folder / "api" / "node.token")

    @property
    def admin(self) -> KubeClient:
        """The administrator's client."""
        assert self.client is not None
        return self.client

    async def start(self) -> None:
        """Start all parts and wait until each can work.

        Raises:
            Problem: one of them does not get ready.
        """
        prepare_folder(self.folder)
        first = [self._api_server(), self._github()]
        for child in first:
            await self.supervisor.start(child)
        await self._until_file(self.kubeconfig, first[0])
        await self._until_ready(f"https://127.0.0.1:{self.ports.api}/readyz", first[0])
        self.client = self._open_admin()
        await self.apply([*system_manifests(), *set_namespace_manifests(NAMESPACE)])
        then = [self._node(), self._controller()]
        for child in then:
            await self.supervisor.start(child)
        async with GitHubControl(self.github_url) as github:
            await self._until(github.healthy, first[1])
        await self._until_ready(f"http://127.0.0.1:{self.ports.node}/healthz", then[0])
        await self._until_ready(f"http://127.0.0.1:{self.ports.probes}/readyz", then[1])

    async def stop(self) -> None:
        """End all parts, and every container that the node agent left."""
        if self.client is not None:
            await self.client.close()
        await self.supervisor.stop()
        with contextlib.suppress(NodeConfigError):
            await clear_node(self.folder / "node", clock=self.clock)

    async def apply(self, manifests: Iterable[Manifest]) -> None:
        """Create what is not there.

        Raises:
            KubeError: the server refuses one.
        """
        for each in manifests:
            with contextlib.suppress(AlreadyExists):
                await self.admin.create(each.resource, each.namespace, each.body)

    def api_tls(self) -> ssl.SSLContext | None:
        """Trusts the API server's own authority, and nobody else on its port."""
        return tls_context(load_config(self.kubeconfig, {}), None)

    def _open_admin(self) -> KubeClient:
        config = load_config(self.kubeconfig, {})
        return open_client(config, clock=self.clock, random=self.random, user_agent="demo")

    def _child(self, name: str, *words: str, **environ: str) -> Child:
        argv = [sys.executable, "-m", "runnerscale.cli.main", *words]
        return Child(name, argv, self.folder / "logs" / f"{name}.log", environ)

    def _api_server(self) -> Child:
        data = str(self.folder / "api")
        return self._child(API_SERVER, "api-server", "--data", data, "--port", f"{self.ports.api}")

    def _github(self) -> Child:
        times = ("--hold-seconds", f"{POLL_HOLD_S:g}", "--session-seconds", f"{SESSION_LIFE_S:g}")
        return self._child(GITHUB, "fake-github", "--port", f"{self.ports.github}", *times)

    def _node(self) -> Child:
        return self._child(
            NODE_AGENT,
            *("node", "--data", str(self.folder / "node")),
            *("--kubeconfig", str(kubeconfig_path(self.folder / "api", NODE))),
            *("--token-file", str(self.folder / "api" / "node.token")),
            *("--port", f"{self.ports.node}", "--pods-max", f"{PODS_MAX}", "--stop-pods"),
        )

    def _controller(self) -> Child:
        return self._child(
            MANAGER,
            *("controller", "--log-level=info", "--log-format=json"),
            f"--kubeconfig={kubeconfig_path(self.folder / 'api', CONTROLLER)}",
            f"--metrics-addr=127.0.0.1:{self.ports.metrics}",
            f"--health-probe-bind-address=127.0.0.1:{self.ports.probes}",
            f"--listener-metrics-addr=127.0.0.1:{self.ports.listener_metrics}",
            CONTROLLER_MANAGER_POD_NAMESPACE=SYSTEM_NAMESPACE,
            CONTROLLER_MANAGER_CONTAINER_IMAGE=CONTROLLER_IMAGE,
        )

    async def _until_file(self, path: Path, child: Child) -> None:
        async def there() -> bool:
            return os.path.exists(path)  # noqa: PTH110, ASYNC240 - local, at once

        await self._until(there, child)

    async def _until_ready(self, url: str, child: Child) -> None:
        timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
        tls = self.api_tls() if url.startswith("https:") else None
        async with aiohttp.ClientSession(timeout=timeout) as session:

            async def ready() -> bool:
                try:
                    async with session.get(url, ssl=tls or True) as answer:
                        return answer.status in (200, 401, 403)
                except (aiohttp.ClientError, TimeoutError):
                    return False

            await self._until(ready, child)

    async def _until(self, check: Callable[[], Awaitable[bool]], child: Child) -> None:
        deadline = Deadline.after(self.clock, READY_WITHIN_S)
        starts_max = 3
        while not await check():
            if deadline.passed or child.starts > starts_max:
                said = " | ".join(child.tail().splitlines())  # one sentence, on one line
                raise Problem(
                    f"{child.name} did not get ready; the end of its log: {said or 'it is empty'}",
                    f"The whole log is in {child.log_path}",
                )
            await self.clock.sleep(LOOK_EVERY_S)


def prepare_folder(folder: Path) -> None:
    """Make the folder and its log folder.

    Raises:
        Problem: it cannot be written.
    """
    try:
        make_private(folder / "logs")
    except OSError as error:
        raise Problem(
            f"the folder {folder} cannot be used: {error.strerror}",
            "Choose one that this user may write to",
        ) from error


def free_ports() -> Ports:
    """Ports that nobody uses now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(6)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return Ports(*(each.getsockname()[1] for each in sockets))


def peak_rss_mib(pid: int) -> float:
    """The most memory a process has held, in MiB; 0 if it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def processes_with(argument: str, *, variable: str, value: str) -> list[int]:
    """Ids of processes that have `argument` on their command line and the variable so set."""
    found = []
    wanted = f"{variable}={value}".encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            command = Path(entry.path, "cmdline").read_bytes().split(b"\0")
            if argument.encode() not in command:
                continue
            if wanted in Path(entry.path, "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
