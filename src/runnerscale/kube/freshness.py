"""Proof that caches show at least what there was when this process began to act.

A list is answered from the database, by the API's rules; a server that lags or a cache in between
may still show the past to a process that has just begun, and it cannot tell: no object says
what is missing beside it. What a predecessor created and this process does not see would be
created once more. A write is never of the past: its answer carries a version that is later than
all that happened before. So what must not be done on an old view waits until the first write of
this process is answered, and a list that is no older than it agrees with the caches.

Whose first write that is, and what waits for the proof, is the controllers' business.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import WAIT_MIN_S, Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.errors import KubeError
from runnerscale.kube.informer import Informer
from runnerscale.kube.versions import number_of

log = structlog.get_logger(__name__)

AGAIN = Backoff(first_s=0.5, cap_s=5.0)
# Somebody writes within milliseconds, unless it is refused: then there is nothing to go by. But who
# is refused because he goes by something old is behind, and waits until a write goes through.
WRITES_WITHIN_S = 30.0
# A server that is behind for so long stays behind: it has another history, and is believed.
BELIEVED_AFTER_S = 300.0


class Freshness:
    """Of the caches that it is given; proven once, for the life of the process."""

    def __init__(self, *informers: Informer[Any], clock: Clock, random: Random) -> None:
        """Nothing is proven before `run`, and before somebody wrote."""
        self._waiting = [*informers]
        self._clock = clock
        self._random = random
        self._version = ""
        self._is_old = False  # what we see; so we were told
        self._has_begun = asyncio.Event()  # somebody wrote, or waits for the proof
        self._has_written = asyncio.Event()
        self._calls: list[Callable[[], None]] = []
        self.is_proven = False

    def on_proven(self, call: Callable[[], None]) -> None:
        """Call when it is proven."""
        self._calls.append(call)

    def ask(self) -> bool:
        """Whether it is proven; if not, somebody waits for it from now on."""
        self._has_begun.set()
        return self.is_proven

    def wrote(self, version: str | None) -> None:
        """A write that changed something was answered with this version; the first one counts."""
        if version and not self._version:
            self._version = version
            self._has_written.set()
            self._has_begun.set()

    def found_old(self) -> None:
        """A write was refused because what it was made on is old: so may be all that we see."""
        self._is_old = True

    async def run(self) -> None:
        """Until it is proven, or cannot be."""
        await self._has_begun.wait()
        if not await self._first_write():
            log.warning("no write of ours was answered yet, the caches are believed")
        since_s = self._clock.monotonic_s()
        tries = 0
        while number_of(self._version) is not None:
            self._waiting = [i for i in self._waiting if not await self._agrees(i)]
            if not self._waiting:
                break
            if self._clock.monotonic_s() - since_s >= BELIEVED_AFTER_S:
                log.warning("the API server shows the past, and is believed", version=self._version)
                break
            await self._clock.sleep(AGAIN.delay_s(tries, self._random))
            tries += 1
        self.is_proven = True
        for call in self._calls:
            call()

    async def _first_write(self) -> bool:
        """Wait for it; False: there is nothing to wait for."""
        begin_s = self._clock.monotonic_s()
        while not self._has_written.is_set():
            patience_s = BELIEVED_AFTER_S if self._is_old else WRITES_WITHIN_S
            left_s = begin_s + patience_s - self._clock.monotonic_s()
            if left_s < WAIT_MIN_S:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._has_written.wait()
        return True

    async def _agrees(self, informer: Informer[Any]) -> bool:
        try:
            return await informer.agrees_since(self._version)
        except KubeError as error:
            log.debug("view not confirmed", error=str(error))
            return False
