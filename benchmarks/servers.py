"""The API servers under which it is measured: the embedded one, and a real kube-apiserver.

Both give kubeconfigs for the administrator and for the controller's service account, and count
the requests that they answered by user, verb and resource.
"""

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Protocol

import yaml

from benchmarks.children import Child, start
from runnerscale.api.crds import crd_documents
from runnerscale.app.api_server import ADMIN, CONTROLLER, kubeconfig_path
from runnerscale.app.manifests import CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.kube.cluster import load_config, open_client

START_TIMEOUT_S = 60.0
WRITES = ("create", "update", "patch", "delete")

Requests = Counter[tuple[str, str, str]]


class ServerUnderTest(Protocol):
    """One API server, empty at first."""

    name: str

    async def start(self, folder: Path) -> None:
        """Up, with our CRDs."""
        ...

    async def stop(self) -> None:
        """Gone, with its data."""
        ...

    @property
    def admin(self) -> Path:
        """The administrator's kubeconfig."""
        ...

    async def controller(self) -> Path:
        """The kubeconfig of the controller's account, which exists by now."""
        ...

    def pids(self) -> list[int]:
        """The processes it consists of."""
        ...

    async def requests(self) -> Requests:
        """How many it answered since its start."""
        ...


class EmbeddedServer:
    """`runnerscale api-server`, with its SQLite store."""

    name = "embedded"
    module = "runnerscale.cli.main"

    def __init__(self) -> None:
        self._child: Child | None = None
        self._folder = Path()

    async def start(self, folder: Path) -> None:
        """See `ServerUnderTest`."""
        from runnerscale.app.single_machine import free_ports

        self._folder = folder / "api"
        words = ["api-server", "--data", str(self._folder), "--port", f"{free_ports().api}"]
        self._child = await start(
            "api-server", words, folder / "api-server.log", module=self.module
        )
        async with asyncio.timeout(START_TIMEOUT_S):
            while not self.admin.exists():
                assert not self._child.has_ended, self._child.tail()
                await asyncio.sleep(0.05)
            await _until_ready(self.admin)

    async def stop(self) -> None:
        """See `ServerUnderTest`."""
        if self._child is not None:
            await self._child.stop()

    @property
    def admin(self) -> Path:
        """See `ServerUnderTest`."""
        return kubeconfig_path(self._folder, ADMIN)

    async def controller(self) -> Path:
        """See `ServerUnderTest`."""
        return kubeconfig_path(self._folder, CONTROLLER)

    def pids(self) -> list[int]:
        """See `ServerUnderTest`."""
        return [] if self._child is None else [self._child.pid]

    async def requests(self) -> Requests:
        """See `ServerUnderTest`."""
        client = open_client(
            load_config(self.admin, {}), clock=SystemClock(), random=system_random()
        )
        try:
            text = (await client._calls.call("GET", "/metrics")).decode()
        finally:
            await client.close()
        found: Requests = Counter()
        line = re.compile(
            r'^runnerscale_apiserver_requests_total\{resource="([^"]*)",subresource="([^"]*)",'
            r'user="([^"]*)",verb="([^"]*)"\} ([0-9.e+]+)$',
            re.MULTILINE,
        )
        for resource, subresource, user, verb, count in line.findall(text):
            what = f"{resource}/{subresource}" if subresource else resource
            found[(user, verb, what)] += int(float(count))
        return found


class MemoryServer(EmbeddedServer):
    """The same with its objects in memory, as tests have it."""

    name = "embedded, memory"
    module = "benchmarks.memory_server"


class RealServer:
    """kube-apiserver and etcd, as `make kube` builds them; without other controllers."""

    name = "kube-apiserver"

    def __init__(self) -> None:
        from tests.kubernetes.cluster import Cluster

        self._cluster = Cluster()
        self._starting: asyncio.Future[None] | None = None

    async def start(self, folder: Path) -> None:
        """See `ServerUnderTest`."""
        self._starting = asyncio.ensure_future(asyncio.to_thread(self._cluster.start))
        await asyncio.shield(self._starting)
        crds = folder / "crds.yaml"
        crds.write_text(yaml.safe_dump_all(crd_documents()))
        await asyncio.to_thread(self._cluster.kubectl, "apply", "--server-side", "-f", str(crds))
        wait = ("wait", "--for=condition=Established", "--timeout=60s", "-f", str(crds))
        await asyncio.to_thread(self._cluster.kubectl, *wait)

    async def stop(self) -> None:
        """See `ServerUnderTest`."""
        await asyncio.to_thread(self._cluster.close)
        if self._starting is not None and not self._starting.done():
            # Given up on the way: its thread may have started one more part meanwhile.
            await asyncio.wait([self._starting])
            await asyncio.to_thread(self._cluster.close)

    @property
    def admin(self) -> Path:
        """See `ServerUnderTest`."""
        return self._cluster.kubeconfig()

    async def controller(self) -> Path:
        """See `ServerUnderTest`."""
        return await asyncio.to_thread(
            self._cluster.kubeconfig_for_service_account, SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT
        )

    def pids(self) -> list[int]:
        """See `ServerUnderTest`."""
        return self._cluster.pids()

    async def requests(self) -> Requests:
        """See `ServerUnderTest`."""
        events = await asyncio.to_thread(self._cluster.audit_log.events)
        return Counter(
            (e.user, e.verb, f"{e.resource}/{e.subresource}" if e.subresource else e.resource)
            for e in events
        )


async def _until_ready(kubeconfig: Path) -> None:
    from runnerscale.kube.errors import KubeError

    client = open_client(load_config(kubeconfig, {}), clock=SystemClock(), random=system_random())
    try:
        while True:
            try:
                await client._calls.call("GET", "/readyz")
                return
            except KubeError:
                await asyncio.sleep(0.05)
    finally:
        await client.close()
