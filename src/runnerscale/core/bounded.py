"""Bounded concurrency: many things at once, but never more than so many.

Two shapes. `run_bounded` carries out a batch. `Gate` guards a shared resource (a host):
who is urgent is let in before who is not, and nobody holds anything while it waits.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def run_bounded(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], *, limit: int
) -> list[R]:
    """`work` on each item, at most `limit` at a time; the results in the items' order.

    The first exception cancels the rest and is raised in an ExceptionGroup (TaskGroup rules).
    """
    todo = list(items)
    results: list[R | None] = [None] * len(todo)
    places = iter(range(len(todo)))

    async def worker() -> None:
        for place in places:
            results[place] = await work(todo[place])

    async with asyncio.TaskGroup() as group:
        for _ in range(min(limit, len(todo))):
            group.create_task(worker())
    return results  # type: ignore[return-value]  # every place was filled, or we raised


class Gate:
    """At most `limit` inside at once; a lower `urgency` number enters first, then who came first.

    Fresh demand must not queue behind clean-up: callers say how urgent they are.
    """

    def __init__(self, limit: int) -> None:
        """`limit`: how many may be inside at once, at least 1."""
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        self._limit = limit
        self._inside = 0
        self._tickets = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @property
    def inside(self) -> int:
        """How many are inside now."""
        return self._inside

    @property
    def waiting(self) -> int:
        """How many wait outside now."""
        return sum(1 for _, _, future in self._waiting if not future.done())

    @asynccontextmanager
    async def enter(self, urgency: int = 0) -> AsyncIterator[None]:
        """Wait for a place, hold it for the block."""
        await self._acquire(urgency)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, urgency: int) -> None:
        if self._inside < self._limit and not self._waiting:
            self._inside += 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tickets += 1
        heapq.heappush(self._waiting, (urgency, self._tickets, future))
        try:
            await future
        except asyncio.CancelledError:
            # The place may have been given to us in the same instant: pass it on.
            if future.done() and not future.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        self._inside -= 1
        while self._waiting and self._inside < self._limit:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                self._inside += 1
                future.set_result(None)
