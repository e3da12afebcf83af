"""When what happened, on one monotonic clock: seen by a watch of the runners and told by nodes."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunner
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.kube.client import KubeClient
from runnerscale.kube.informer import Informer
from runnerscale.kube.store import Change


@dataclass(slots=True)
class Sights:
    """Name of a runner -> seconds of `time.monotonic`, for each thing that can happen to one."""

    created: dict[str, float] = field(default_factory=dict)
    pod: dict[str, float] = field(default_factory=dict)  # it has one
    online: dict[str, float] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)  # its phase says so
    exited: dict[str, float] = field(default_factory=dict)
    reported: dict[str, float] = field(default_factory=dict)  # its node's word is stored
    gone: dict[str, float] = field(default_factory=dict)


class Eyes:
    """Watches; wakes whoever waits for a count."""

    def __init__(self, client: KubeClient) -> None:
        self.sights = Sights()
        self.on_seen: Callable[[str, str], None] | None = None  # (what, name)
        self._news = asyncio.Event()
        self._informer = Informer(
            client, EPHEMERAL_RUNNERS, clock=SystemClock(), random=system_random()
        )
        self._informer.on_change(self._changed)

    async def run(self) -> None:
        """Until cancelled."""
        await self._informer.run()

    def seen(self, what: str, name: str) -> None:
        """Told by the nodes."""
        getattr(self.sights, what).setdefault(name, time.monotonic())
        self._news.set()
        if self.on_seen is not None:
            self.on_seen(what, name)

    def forget(self) -> None:
        """What was seen so far was not meant."""
        self.sights = Sights()

    def _changed(self, change: Change[EphemeralRunner]) -> None:
        name = change.key.rpartition("/")[2]
        if change.new is None:
            self.seen("gone", name)
            return
        if change.old is None:
            self.seen("created", name)
        status = change.new.status
        if status is not None and str(status.phase) == "Running":
            self.seen("running", name)

    async def until(self, there: Callable[[Sights], bool], *, within_s: float) -> None:
        """Until that is true.

        Raises:
            TimeoutError: it did not become so.
        """
        async with asyncio.timeout(within_s):
            while not there(self.sights):
                self._news.clear()
                await self._news.wait()

    async def until_started(self, count: int, *, within_s: float) -> None:
        """Until so many jobs have been started; raises as `until` does."""
        await self.until(lambda sights: len(sights.started) >= count, within_s=within_s)


def percentile(values: Iterable[float], share: float) -> float:
    """The value that `share` of all do not exceed; not a number where there are none."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def delays(start: dict[str, float], end: dict[str, float]) -> list[float]:
    """From one thing to another, of those to whom both happened."""
    return [end[name] - at_s for name, at_s in start.items() if name in end]
