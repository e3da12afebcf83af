"""The mounted configuration file, read again whenever it changed.

The controller rewrites the Secret when limits, credentials or settings change, and the node
brings the new file into the pod some time later. What differs is followed by the running
listener under the session it holds; only another place at GitHub or in the cluster needs
another process, and for that the controller replaces the pod: until then this one keeps
working for the old place. What may be in the file: `config.py`.
"""

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from runnerscale.core.clock import Clock
from runnerscale.core.small_file import read_small
from runnerscale.listener.config import ConfigError, ListenerConfig, read_config
from runnerscale.listener.metrics import ListenerMetrics

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 5.0
FILE_BYTES_MAX = 4 * 1024 * 1024  # a Secret has at most one MiB


def read_file(path: Path) -> bytes:
    """The file's content.

    Raises:
        ConfigError: it cannot be read, or is absurdly large.
    """
    try:
        return read_small(path, FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error


class ConfigFile:
    """Looks at the file every few seconds and hands on what can be followed."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        metrics: ListenerMetrics,
        follow: Callable[[ListenerConfig], Awaitable[None]],
    ) -> None:
        """`follow` is awaited with each new configuration of the same place."""
        self._path = path
        self._clock = clock
        self._metrics = metrics
        self._follow = follow
        self._seen = b""

    async def run(self, current: ListenerConfig, content: bytes) -> None:
        """Until cancelled; `current` is what `content` said."""
        self._seen = _digest(content)
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            current = await self.look(current)

    async def look(self, current: ListenerConfig) -> ListenerConfig:
        """Follow the file if it changed; what is followed from now on."""
        try:
            content = read_file(self._path)
            digest = _digest(content)
            if digest == self._seen:
                return current
            self._seen = digest  # a bad file is told once, not every few seconds
            config = read_config(content)
        except ConfigError as error:
            self._tell("unusable", error=str(error))
            return current
        if not config.same_place(current):
            self._tell("other place")
            return current
        await self._follow(config)
        self._tell("followed")
        return config

    def _tell(self, result: str, *, error: str = "") -> None:
        self._metrics.count("runnerscale_listener_config_reloads_total", result)
        if result == "followed":
            log.info("a changed configuration is followed", component="listener")
        elif result == "unusable":
            log.error(
                "the configuration file cannot be used; the last good one stays in force",
                component="listener",
                file=str(self._path),
                error=error,
            )
        else:
            log.warning(
                "the configuration names another place: that needs another process; this one "
                "goes on for the old place until it is replaced",
                component="listener",
                file=str(self._path),
            )


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
