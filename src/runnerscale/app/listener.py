"""The listener process: real clients, real clock, logging; its life is `listener/process.py`."""

import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from runnerscale.app.logs import Style, configure_logging
from runnerscale.app.problem import Problem
from runnerscale.app.process import run_process
from runnerscale.app.versions import COMPATIBLE_VERSION, SYSTEM, commit_sha
from runnerscale.core.clock import Clock, SystemClock
from runnerscale.core.randomness import Random, system_random
from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import AzureKeyVault
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import load_config, open_client
from runnerscale.listener.config import ListenerConfig
from runnerscale.listener.process import run_listener
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.config_url import force_ghes_in, parse_config_url
from runnerscale.scaleset.credentials import Credentials
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.proxy import proxies_in
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.user_agent import SystemInfo

SUBSYSTEM = "ghalistener"


class ProcessWiring:
    """What `listener/process.py` asks for, made of the real things."""

    def __init__(self, environ: Mapping[str, str], *, clock: Clock, random: Random) -> None:
        """`environ`: of the process; read once."""
        self._environ = environ
        self._clock = clock
        self._random = random

    def configure_logging(self, level: str, log_format: str) -> None:
        """Log so from now on."""
        configure_logging(level, log_format, style=Style.LISTENER, clock=self._clock)

    @asynccontextmanager
    async def scale_set_client(
        self, config: ListenerConfig, credentials: Credentials
    ) -> AsyncIterator[ScaleSetClient]:
        """A client of the configured place, through the environment's proxies."""
        place = parse_config_url(config.config_url, force_ghes=force_ghes_in(self._environ))
        transport = open_transport(
            NetworkOptions(proxies=proxies_in(self._environ), root_ca_pem=config.server_root_ca)
        )
        client = ScaleSetClient(
            place,
            credentials,
            transport=transport,
            clock=self._clock,
            random=self._random,
            system_info=SystemInfo(
                system=SYSTEM,
                version=COMPATIBLE_VERSION,
                commit_sha=commit_sha(),
                scale_set_id=config.scale_set_id,
                subsystem=SUBSYSTEM,
            ),
        )
        async with client:
            yield client

    @asynccontextmanager
    async def kube_client(self) -> AsyncIterator[KubeClient]:
        """The in-cluster client."""
        config = load_config(None, self._environ)
        client = open_client(config, clock=self._clock, random=self._random)
        try:
            yield client
        finally:
            await client.close()

    async def vault_item(self, vault: AzureKeyVault, name: str) -> SecretText:
        """The latest text of a vault item."""
        from runnerscale.credentials.vault import read_item  # heavy, and rarely needed

        environment = proxies_in(self._environ)  # for a vault without proxies of its own
        return await read_item(vault, name, clock=self._clock, environment=environment)


def run_listener_process() -> int:
    """Run until SIGTERM; the exit code.

    Raises:
        Problem: the configuration cannot be used, or the process failed.
    """
    clock = SystemClock()
    random = system_random()
    wiring = ProcessWiring(os.environ, clock=clock, random=random)

    async def work() -> int:
        ended = await run_listener(
            os.environ, wiring, clock=clock, random=random, host_name=socket.gethostname
        )
        if ended.error:
            raise Problem(ended.error.rstrip("."), "", exit_code=ended.code)
        return ended.code

    return run_process(work, own_signals=False)
