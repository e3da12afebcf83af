"""Every process of the world: how it is made of production code, started, killed, started again.

Only clock, network, randomness and process start are handed in from here; the classes are the
ones that `app/` wires, with the same arguments.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.app.api_server import ADMIN, CONTROLLER, NODE
from runnerscale.app.versions import COMPATIBLE_VERSION, SYSTEM
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import AzureKeyVault
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import ClusterConfig, Login, open_client
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.listener.config import ListenerConfig
from runnerscale.listener.process import run_listener
from runnerscale.node.processes import ProcessSpec
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.config_url import parse_config_url
from runnerscale.scaleset.credentials import Credentials
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.user_agent import SystemInfo
from tests.simulation.loop import COMPONENT, Component
from tests.simulation.network import Network

API_PORT = 6443
GITHUB_PORT = 8080
API_URL = f"http://127.0.0.1:{API_PORT}"
GITHUB_URL = f"http://127.0.0.1:{GITHUB_PORT}"
TOKENS = {name: SecretText(f"static-token-of-{name}") for name in (ADMIN, CONTROLLER, NODE)}


def start(component: Component, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Run `work` as this component."""
    context = contextvars.copy_context()
    context.run(COMPONENT.set, component)
    return asyncio.get_running_loop().create_task(work, context=context)


def kube_client(
    component: Component,
    network: Network,
    login: Login,
    *,
    clock: Clock,
    random: Random,
    metrics: KubeMetrics | None = None,
) -> KubeClient:
    """A client of this component's own."""
    return open_client(
        ClusterConfig(server=API_URL, login=login),
        clock=clock,
        random=random,
        metrics=metrics,
        user_agent=component.name,
        dial=network.dial(component),
    )


class ListenerWiring:
    """`listener/process.py`'s seams in this world."""

    def __init__(
        self,
        component: Component,
        network: Network,
        login: Login,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._component = component
        self._network = network
        self._login = login
        self._clock = clock
        self._random = random

    def configure_logging(self, level: str, log_format: str) -> None:
        """One log for the whole world."""

    @asynccontextmanager
    async def scale_set_client(
        self, config: ListenerConfig, credentials: Credentials
    ) -> AsyncIterator[ScaleSetClient]:
        """As `app/listener.py`."""
        client = ScaleSetClient(
            parse_config_url(config.config_url, force_ghes=False),
            credentials,
            transport=open_transport(
                NetworkOptions(
                    root_ca_pem=config.server_root_ca,
                    dial=self._network.dial(self._component),
                )
            ),
            clock=self._clock,
            random=self._random,
            system_info=SystemInfo(
                system=SYSTEM,
                version=COMPATIBLE_VERSION,
                commit_sha=self._component.name,
                scale_set_id=config.scale_set_id,
                subsystem="ghalistener",
            ),
        )
        async with client:
            yield client

    @asynccontextmanager
    async def kube_client(self) -> AsyncIterator[KubeClient]:
        """With the token that is mounted, whichever that is when it is needed."""
        client = kube_client(
            self._component, self._network, self._login, clock=self._clock, random=self._random
        )
        try:
            yield client
        finally:
            await client.close()

    async def vault_item(self, vault: AzureKeyVault, name: str) -> SecretText:
        """No vaults here."""
        raise AssertionError(f"this world has no vault {vault.url} with {name}")


class ListenerProgram:
    """The program of every listener container."""

    def __init__(self, network: Network, *, clock: Clock, random: Random) -> None:
        self._network = network
        self._clock = clock
        self._random = random
        self.said: list[str] = []
        self.registries: dict[str, CollectorRegistry] = {}  # of the last process of each pod

    async def __call__(
        self, component: Component, environ: Mapping[str, str], spec: ProcessSpec
    ) -> int:
        """The life of one listener container; its exit code."""
        self._network.plug(component)
        login = Login(token_file=Path(environ["RUNNERSCALE_SERVICE_ACCOUNT_DIR"]) / "token")
        random = Random(self._random.random())
        wiring = ListenerWiring(component, self._network, login, clock=self._clock, random=random)
        registry = self.registries[spec.pod.name] = CollectorRegistry()
        ended = await run_listener(
            environ,
            wiring,
            clock=self._clock,
            random=random,
            host_name=lambda: spec.pod.name,
            registry=registry,
        )
        if ended.error:
            self.said.append(ended.error)
        return ended.code
