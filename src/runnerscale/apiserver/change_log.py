"""What happened to one resource type lately: the window that watches read from.

One shared list of changes a type; a watcher is only a position in it, so an event is kept
and encoded once however many watch. The window is bounded by count and bytes: who falls out
of it is told 410 and lists again. Which changes a watcher may see is `watching.py`.
"""

import asyncio
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum

from runnerscale.apiserver.record import Record

EVENTS_MAX = 8192  # a burst of 1,000 runners is about 8,000 changes of one type
BYTES_MAX = 64 * 1024 * 1024


class ChangeType(StrEnum):
    """What a watch event says."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(slots=True, eq=False)
class Change:
    """One committed write. `record` is the state after it (of a deletion: the last one)."""

    version: int
    type: ChangeType
    record: Record
    before: Record | None
    _line: bytes | None = None
    _left_line: bytes | None = None

    def line(self) -> bytes:
        """The watch line, encoded once for all watchers."""
        if self._line is None:
            self._line = event_line(self.type, self.record.data)
        return self._line

    def left_line(self) -> bytes:
        """The line for those whose selector it no longer matches: the old state, deleted."""
        if self._left_line is None:
            before = self.before or self.record
            self._left_line = event_line(ChangeType.DELETED, before.data_at(self.version))
        return self._left_line


def event_line(kind: str, data: bytes) -> bytes:
    """One line of a watch stream."""
    return b'{"type":"' + kind.encode() + b'","object":' + data + b"}\n"


class ChangeLog:
    """The window of one resource type, oldest first."""

    def __init__(
        self, floor: int, *, events_max: int = EVENTS_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        """`floor`: everything up to this version happened before the window."""
        self.floor = floor
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._changes: list[Change] = []
        self._versions: list[int] = []
        self._base = 0  # position of the first change, counted from the start of the process
        self._bytes = 0
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def end(self) -> int:
        """The position after the newest change."""
        return self._base + len(self._changes)

    def append(self, change: Change) -> None:
        """Add a committed change and wake who waits."""
        self._changes.append(change)
        self._versions.append(change.version)
        self._bytes += len(change.record.data)
        if len(self._changes) > 2 * self._events_max or self._bytes > 2 * self._bytes_max:
            self._trim()
        if self._waiters:
            waiters, self._waiters = self._waiters, set()
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def next_change(self) -> "asyncio.Future[None]":
        """Done at the next change; take it after finding nothing new, and before any await."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        return waiter

    def forget_waiter(self, waiter: "asyncio.Future[None]") -> None:
        """The one who waited has gone."""
        self._waiters.discard(waiter)

    def position_after(self, version: int) -> int | None:
        """Where to read on after `version`; None: that is no longer in the window."""
        if version < self.floor:
            return None
        return self._base + bisect_right(self._versions, version)

    def read(self, position: int, *, limit: int) -> list[Change] | None:
        """Up to `limit` changes from a position on; None: it fell out of the window."""
        start = position - self._base
        if start < 0:
            return None
        return self._changes[start : start + limit]

    def forget(self) -> None:
        """Empty the window, as a compaction does."""
        if self._changes:
            self._drop(len(self._changes))

    def _trim(self) -> None:
        """Back to the bounds, in one go, so that appending stays cheap."""
        drop = max(0, len(self._changes) - self._events_max)
        left = self._bytes - sum(len(c.record.data) for c in self._changes[:drop])
        while left > self._bytes_max and drop < len(self._changes) - 1:
            left -= len(self._changes[drop].record.data)
            drop += 1
        self._drop(drop)

    def _drop(self, count: int) -> None:
        if count == 0:
            return
        self.floor = self._versions[count - 1]
        self._bytes -= sum(len(c.record.data) for c in self._changes[:count])
        del self._changes[:count]
        del self._versions[:count]
        self._base += count
