"""One listener process: configuration in, signals in, exit code out.

What a process needs from outside (clients, logging, vault) comes through `Wiring`, which
`app/` implements; the listener itself is `loop.py`. Exit codes: 0 after a stop that was asked
for, 1 for a failure while running, 2 for a configuration that cannot be used. Whatever
waiting can heal ends nothing.

Contract: github-service-and-listener 5.1, 5.6; replaces W13 (always 1) and W31 (metrics ended
the listener).
"""

import asyncio
import itertools
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog
from prometheus_client import CollectorRegistry

from runnerscale.api.listener_word import CONTROLLER_VARIABLE
from runnerscale.api.reasons import Reason
from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random, uuid_text
from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import AzureKeyVault, PlaceTrouble
from runnerscale.credentials.record import credentials_of
from runnerscale.kube.client import Client
from runnerscale.kube.errors import ConfigError as KubeConfigError
from runnerscale.listener.config import (
    ConfigError,
    ListenerConfig,
    checked_record,
    read_config,
    read_vault_record,
)
from runnerscale.listener.config_file import ConfigFile, read_file
from runnerscale.listener.loop import Listener
from runnerscale.listener.metrics import ListenerMetrics
from runnerscale.listener.server import MetricsServer
from runnerscale.listener.states import Situation, State
from runnerscale.listener.teller import Teller
from runnerscale.scaleset.config_url import ConfigUrl, force_ghes_in, parse_config_url
from runnerscale.scaleset.credentials import Credentials
from runnerscale.scaleset.errors import InvalidConfigUrl, InvalidCredentials, ScaleSetError
from runnerscale.scaleset.interface import ScaleSetApi

log = structlog.get_logger(__name__)

CONFIG_PATH_VARIABLE = "LISTENER_CONFIG_PATH"
VAULT_LOOK_EVERY_S = 60.0  # rotated credentials are taken up within a minute
VAULT_BACKOFF = Backoff(first_s=2.0, cap_s=60.0)
SIGNALS = (signal.SIGTERM, signal.SIGINT)

EXIT_STOPPED = 0
EXIT_FAILED = 1
EXIT_CONFIG = 2


class LiveScaleSetApi(ScaleSetApi, Protocol):
    """A client that can be given other credentials while its session stays open."""

    def use_credentials(self, credentials: Credentials) -> None:
        """Go to GitHub with these from now on."""
        ...


class Wiring(Protocol):
    """What `app/` provides."""

    def configure_logging(self, level: str, log_format: str) -> None:
        """From now on log so; may be called again."""
        ...

    def scale_set_client(
        self, config: ListenerConfig, credentials: Credentials
    ) -> AbstractAsyncContextManager[LiveScaleSetApi]:
        """A client for the configuration's place, with its proxies and certificates.

        Raises:
            ScaleSetError: the certificates or the URL cannot be used.
        """
        ...

    def kube_client(self) -> AbstractAsyncContextManager[Client]:
        """The in-cluster client; never through a proxy (W54)."""
        ...

    async def vault_item(self, vault: AzureKeyVault, name: str) -> SecretText:
        """The latest text of a vault item.

        Raises:
            PlaceTrouble: the vault cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ended:
    """How the process is to end; `error` goes to standard error when there is one."""

    code: int
    error: str = ""


async def run_listener(
    environ: Mapping[str, str],
    wiring: Wiring,
    *,
    clock: Clock,
    random: Random,
    host_name: Callable[[], str] = socket.gethostname,
    registry: CollectorRegistry | None = None,
) -> Ended:
    """The whole life of a listener process; `registry`: for its metrics, if not one of its own."""
    path_text = environ.get(CONFIG_PATH_VARIABLE, "")
    if not path_text:
        return Ended(
            EXIT_CONFIG,
            f"the environment variable {CONFIG_PATH_VARIABLE} is not set. Set it to the path of "
            "the listener's config.json",
        )
    path = Path(path_text)
    try:
        content = read_file(path)
        config = read_config(content)
        wiring.configure_logging(config.log_level, config.log_format)
        place = parse_config_url(config.config_url, force_ghes=force_ghes_in(environ))
        for_arc = not environ.get(CONTROLLER_VARIABLE)
        async with AsyncExitStack() as stack:
            early = EarlyWord(config, wiring, stack, clock=clock, for_arc=for_arc)
            credentials = await _credentials_at_last(
                config, wiring, early, clock=clock, random=random
            )
    except (ConfigError, InvalidConfigUrl, InvalidCredentials) as error:
        return Ended(EXIT_CONFIG, f"Failed to read config: {error}")
    try:
        async with AsyncExitStack() as stack:
            github = await stack.enter_async_context(wiring.scale_set_client(config, credentials))
            kube = await stack.enter_async_context(wiring.kube_client())
            parts = _Parts(
                config, content, path, place, github, kube, for_arc, registry or CollectorRegistry()
            )
            await _listen(parts, wiring, clock=clock, random=random, host_name=host_name)
    except (ScaleSetError, KubeConfigError) as error:
        return Ended(EXIT_CONFIG, f"The clients cannot be set up: {error}")
    return Ended(EXIT_STOPPED)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the start has put together."""

    config: ListenerConfig
    content: bytes
    path: Path
    place: ConfigUrl
    github: LiveScaleSetApi
    kube: Client
    for_arc: bool  # our controller says of itself that it is ours
    registry: CollectorRegistry


async def _listen(
    parts: _Parts,
    wiring: Wiring,
    *,
    clock: Clock,
    random: Random,
    host_name: Callable[[], str],
) -> None:
    config = parts.config
    registry = parts.registry
    metrics = ListenerMetrics(
        config.metrics,
        place=parts.place,
        set_name=config.set_name,
        namespace=config.namespace,
        registry=registry,
    )
    listener = Listener(
        config,
        scale_set_client=parts.github,
        kube_client=parts.kube,
        owner_name=owner_name(host_name, random),
        clock=clock,
        random=random,
        metrics=metrics,
        for_arc=parts.for_arc,
    )
    life = _Life(listener, parts.github, wiring, clock=clock)
    file = ConfigFile(parts.path, clock=clock, metrics=metrics, follow=life.follow)
    others = [file.run(config, parts.content), life.watch_vault()]
    if config.metrics_addr:
        server = MetricsServer(
            config.metrics_addr,
            path=config.metrics_path,
            registry=registry,
            readiness=listener.readiness,
            clock=clock,
            random=random,
        )
        others.append(server.run())
    await _run_together(listener, others)


async def _credentials_at_last(
    config: ListenerConfig, wiring: Wiring, early: "EarlyWord", *, clock: Clock, random: Random
) -> Credentials:
    """The credentials; a vault that cannot be reached is waited for, and told."""
    for attempt in itertools.count():
        try:
            return await read_credentials(config, wiring)
        except PlaceTrouble as error:
            delay_s = VAULT_BACKOFF.delay_s(attempt, random)
            log.error(
                "the credentials cannot be read from the vault",
                component="listener",
                reason=error.reason,
                error=str(error),
                again_in_s=round(delay_s, 1),
            )
            await early.say(error)
            await clock.sleep(delay_s)
    raise AssertionError("the loop has no end")


class EarlyWord:
    """Tells what keeps the listener from its start on its set, as it does later of all else.

    Nothing is taken back here: the listener does that with its first poll.
    """

    def __init__(
        self,
        config: ListenerConfig,
        wiring: Wiring,
        stack: AsyncExitStack,
        *,
        clock: Clock,
        for_arc: bool,
    ) -> None:
        """`stack`: closed when the start has succeeded, or failed for good."""
        self._config = config
        self._wiring = wiring
        self._stack = stack
        self._clock = clock
        self._for_arc = for_arc
        self._teller: Teller | None = None
        self._situation = Situation()

    async def say(self, error: PlaceTrouble) -> None:
        """It waits for this."""
        reason = Reason(error.reason)  # type: ignore[call-arg]
        if self._situation.reason is not reason:
            now_s = self._clock.now_s()
            self._situation = Situation(State.WAITING, reason, error.happened, now_s)
        with suppress(KubeConfigError):  # said once more when it is time to work
            if self._teller is None:
                self._teller = await self._opened()
            self._teller.now_in(self._situation)

    async def _opened(self) -> Teller:
        config = self._config
        teller = Teller(
            await self._stack.enter_async_context(self._wiring.kube_client()),
            namespace=config.namespace,
            set_name=config.set_name,
            scale_set_id=config.scale_set_id,
            clock=self._clock,
            metrics=ListenerMetrics(
                config.metrics,
                place=parse_config_url(config.config_url),
                set_name=config.set_name,
                namespace=config.namespace,
                registry=CollectorRegistry(),  # nobody reads these yet
            ),
            for_arc=self._for_arc,
        )
        task = asyncio.get_running_loop().create_task(teller.run())
        self._stack.callback(task.cancel)
        return teller


async def read_credentials(config: ListenerConfig, wiring: Wiring) -> Credentials:
    """From the file, or from the vault it names.

    Raises:
        ConfigError, InvalidCredentials, PlaceTrouble: they cannot be had or used.
    """
    record = config.record
    if config.azure_key_vault is not None and config.vault_type:
        record = read_vault_record(
            await wiring.vault_item(config.azure_key_vault, config.vault_lookup_key)
        )
    return credentials_of(checked_record(record))


def owner_name(host_name: Callable[[], str], random: Random) -> str:
    """This machine's name (in a pod: the pod's), or a random id where it has none."""
    with suppress(OSError):
        name = host_name()
        if name:
            return name
    log.info("the host has no name; the session is owned by a random id", component="listener")
    return uuid_text(random)


class _Life:
    """What may change while the listener lives, apart from what it does itself."""

    def __init__(
        self, listener: Listener, github: LiveScaleSetApi, wiring: Wiring, *, clock: Clock
    ) -> None:
        self._listener = listener
        self._github = github
        self._wiring = wiring
        self._clock = clock

    async def follow(self, config: ListenerConfig) -> None:
        """A changed file of the same place. Raises ConfigError if the credentials are no good."""
        before = self._listener.config
        logging = (config.log_level, config.log_format)
        if logging != (before.log_level, before.log_format):
            self._wiring.configure_logging(*logging)
        if config.record != before.record or config.vault_lookup_key != before.vault_lookup_key:
            await self._use_credentials(config)
        self._listener.apply(config)

    async def watch_vault(self) -> None:
        """Read a vault again and again; nothing to do without one."""
        while True:
            await self._clock.sleep(VAULT_LOOK_EVERY_S)
            if self._listener.config.vault_type:
                await self._use_credentials(self._listener.config)

    async def _use_credentials(self, config: ListenerConfig) -> None:
        try:
            credentials = await read_credentials(config, self._wiring)
        except (ConfigError, InvalidCredentials, PlaceTrouble) as error:
            log.error(
                "the new credentials cannot be used; the last good ones stay in use",
                component="listener",
                error=str(error),
            )
            return
        self._github.use_credentials(credentials)
        self._listener.retry_now()


async def _run_together(listener: Listener, others: Sequence[Coroutine[Any, Any, None]]) -> None:
    """The listener until it ends, the others beside it; signals ask it to stop."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        with suppress(ValueError, RuntimeError):  # not in the main thread, or no such loop
            loop.add_signal_handler(number, listener.stop)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_beside(work)) for work in others]
            try:
                await listener.run()
            finally:
                for task in tasks:
                    task.cancel()
    finally:
        for number in SIGNALS:
            with suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)


async def _beside(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:  # our own bug in a side task: the jobs must not wait for it
        log.exception("a side task of the listener failed", component="listener")
