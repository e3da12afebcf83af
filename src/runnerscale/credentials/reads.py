"""Reads that are remembered for a while, made once for all who want them at the same time.

A thousand runners refer to one Secret; the API server (or a vault) hears of it once in a
while, and a changed value is still live within a minute. What is read, and what it means,
is `source.py`. A failure is remembered too, more briefly; one that says nothing about the
thing itself (the server is away) leaves the last good value standing.

Contract: resources-and-controllers 5.2, weakness W23.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from runnerscale.core.clock import Clock

log = structlog.get_logger(__name__)
V = TypeVar("V")

FAILURE_KEPT_S = 5.0  # somebody may be creating what is missing right now
APART_S = 5.0  # between two reads of one thing, whatever `forget` says
ENTRIES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Reading(Generic[V]):
    """A value and when it was read, on the monotonic clock.

    `good_until_s`: it stands until then whatever its age, because nothing newer can be had.
    """

    value: V
    at_s: float
    good_until_s: float = float("-inf")


class Reads(Generic[V]):
    """The last reading of each key."""

    def __init__(
        self,
        clock: Clock,
        *,
        failures: type[Exception],
        is_passing: Callable[[Exception], bool],
    ) -> None:
        """`failures`: what is remembered like a value. `is_passing`: says nothing about it."""
        self._clock = clock
        self._failures = failures
        self._is_passing = is_passing
        self._readings: dict[Hashable, Reading[V | Exception]] = {}
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._stale: set[Hashable] = set()

    async def get(
        self, key: Hashable, read: Callable[[], Awaitable[V]], *, age_max_s: float
    ) -> Reading[V]:
        """The value, read again if the last reading is older than `age_max_s`."""
        found = self._fresh(key, age_max_s)
        if found is None:
            # One lock a key: who comes second finds what the first has read.
            async with self._locks.setdefault(key, asyncio.Lock()):
                found = self._fresh(key, age_max_s) or await self._read(key, read)
        if isinstance(found.value, Exception):
            raise found.value
        return Reading(found.value, found.at_s)

    def forget(self, key: Hashable) -> None:
        """Read again the next time, unless it was read a moment ago."""
        if key in self._readings:
            self._stale.add(key)

    def _fresh(self, key: Hashable, age_max_s: float) -> Reading[V | Exception] | None:
        found = self._readings.get(key)
        if found is None:
            return None
        now_s = self._clock.monotonic_s()
        if now_s < found.good_until_s:
            return found
        limit_s = APART_S if key in self._stale else age_max_s
        if isinstance(found.value, Exception):
            limit_s = min(limit_s, FAILURE_KEPT_S)
        return found if now_s - found.at_s < limit_s else None

    async def _read(
        self, key: Hashable, read: Callable[[], Awaitable[V]]
    ) -> Reading[V | Exception]:
        before = self._readings.get(key)
        now_s = self._clock.monotonic_s
        found: Reading[V | Exception]
        try:
            found = Reading(await read(), now_s())
        except Exception as error:  # nothing is swallowed: told apart right below
            if self._is_passing(error) and before and not isinstance(before.value, Exception):
                log.warning("not read again, the last value stands", what=key, error=str(error))
                found = Reading(before.value, before.at_s, now_s() + FAILURE_KEPT_S)
            elif isinstance(error, self._failures):
                found = Reading(error, now_s())
            else:
                raise
        if key not in self._readings and len(self._readings) >= ENTRIES_MAX:
            self._drop_oldest()
        self._readings[key] = found
        self._stale.discard(key)
        return found

    def _drop_oldest(self) -> None:
        by_age = sorted(self._readings, key=lambda key: self._readings[key].at_s)
        for key in by_age[: ENTRIES_MAX // 2]:
            del self._readings[key]
            self._stale.discard(key)
            lock = self._locks.get(key)
            if lock is not None and not lock.locked():
                del self._locks[key]
