"""One watch: what it has to be told next, from the shared window of changes.

A watcher holds a position and nothing else. It is told what it may see of each change (an
object that leaves its selector is deleted for it), a bookmark when it is quiet, and 410 when
it fell out of the window. Sending lines is the caller's, so a slow client slows only itself.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from runnerscale.apiserver.change_log import Change, ChangeType, event_line
from runnerscale.apiserver.failures import expired
from runnerscale.apiserver.lists import Selection
from runnerscale.apiserver.record import Record, encode_json
from runnerscale.apiserver.store import Store
from runnerscale.core.clock import WAIT_MIN_S, Clock

Json = dict[str, Any]

BOOKMARK_PERIOD_S = 60.0
BOOKMARK_BEFORE_END_S = 2.0
BATCH_MAX = 512
INITIAL_END = "k8s.io/initial-events-end"


@dataclass(slots=True)
class WatchOptions:
    """How to watch."""

    version: int  # from here on; the version of `initial`, if that is given
    timeout_s: float
    bookmarks: bool = False
    initial_events_end: bool = False  # a bookmark says when the initial state was sent


@dataclass(slots=True)
class _Handle:
    """One running watch."""

    resource: str
    cut: bool = False
    waiting: "asyncio.Future[None] | None" = None


class Watches:
    """All running watches; a fault may cut them."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """None is running."""
        self._store = store
        self._clock = clock
        self._running: dict[int, _Handle] = {}
        self._count = 0

    @property
    def running(self) -> int:
        """How many watches are open."""
        return len(self._running)

    def cut(self, resource: str = "") -> int:
        """End the watches of a resource type (or all); how many."""
        hit = [h for h in self._running.values() if resource in ("", h.resource)]
        for handle in hit:
            handle.cut = True
            if handle.waiting is not None and not handle.waiting.done():
                handle.waiting.set_result(None)
        return len(hit)

    async def events(
        self, selection: Selection, options: WatchOptions, initial: list[Record]
    ) -> AsyncIterator[list[tuple[str, bytes]]]:
        """Batches of (event type, line), until time is up.

        `initial`: the state at `options.version`, for a watch that begins with it.
        """
        self._count += 1
        number, handle = self._count, _Handle(selection.kind.resource)
        self._running[number] = handle
        try:
            async for batch in self._run(selection, options, initial, handle):
                yield batch
        finally:
            del self._running[number]

    async def _run(
        self,
        selection: Selection,
        options: WatchOptions,
        initial: list[Record],
        handle: "_Handle",
    ) -> AsyncIterator[list[tuple[str, bytes]]]:
        kind = selection.kind
        changes = self._store.table(kind.resource, kind.selectable).log
        version = options.version
        await self._store.settled(version)
        end_s = self._clock.monotonic_s() + options.timeout_s
        position = changes.position_after(version)
        if position is None:
            yield [_too_old(version, changes.floor + 1)]
            return
        for start in range(0, len(initial), BATCH_MAX):
            part = initial[start : start + BATCH_MAX]
            yield [(ChangeType.ADDED, event_line(ChangeType.ADDED, r.data)) for r in part]
        if options.initial_events_end:
            yield [("BOOKMARK", bookmark(selection, version, end_of_initial=True))]
        bookmark_s = _next_bookmark_s(self._clock.monotonic_s(), end_s)
        while not handle.cut:
            batch = changes.read(position, limit=BATCH_MAX)
            if batch is None:
                yield [_too_old(version, changes.floor + 1)]
                return
            if batch:
                position += len(batch)
                version = batch[-1].version
                seen = [event for change in batch if (event := visible(change, selection))]
                if seen:
                    yield seen
                continue
            now_s = self._clock.monotonic_s()
            if options.bookmarks and now_s >= bookmark_s:
                bookmark_s = _next_bookmark_s(now_s, end_s)
                version = max(version, self._store.durable)
                yield [("BOOKMARK", bookmark(selection, version))]
            if now_s >= end_s:
                return
            wake_s = min(end_s, bookmark_s if options.bookmarks else end_s)
            handle.waiting = changes.next_change()
            try:
                async with asyncio.timeout(max(WAIT_MIN_S, wake_s - now_s)):
                    await handle.waiting
            except TimeoutError:
                continue
            finally:
                changes.forget_waiter(handle.waiting)


def _next_bookmark_s(now_s: float, end_s: float) -> float:
    """Every minute, and shortly before the end: from there a watcher comes back."""
    last_s = end_s - BOOKMARK_BEFORE_END_S
    return min(now_s + BOOKMARK_PERIOD_S, last_s) if last_s > now_s else now_s + BOOKMARK_PERIOD_S


def visible(change: Change, selection: Selection) -> tuple[str, bytes] | None:
    """What a watcher is told of a change; None: nothing."""
    record = change.record
    if selection.namespace and record.namespace != selection.namespace:
        return None
    match = selection.match
    if match is None:
        return change.type, change.line()
    if change.type is ChangeType.DELETED:
        return (change.type, change.line()) if match(record) else None
    now = match(record)
    before = change.before is not None and match(change.before)
    if now and before:
        return ChangeType.MODIFIED, change.line()
    if now:
        return ChangeType.ADDED, _as_added(change)
    if before:
        return ChangeType.DELETED, change.left_line()
    return None


def _as_added(change: Change) -> bytes:
    if change.type is ChangeType.ADDED:
        return change.line()
    return event_line(ChangeType.ADDED, change.record.data)


def _too_old(version: int, oldest: int) -> tuple[str, bytes]:
    status = expired(f"too old resource version: {version} ({oldest})").body()
    return "ERROR", event_line("ERROR", encode_json(status))


def bookmark(selection: Selection, version: int, *, end_of_initial: bool = False) -> bytes:
    """The line of a bookmark."""
    meta: Json = {"resourceVersion": str(version)}
    if end_of_initial:
        meta["annotations"] = {INITIAL_END: "true"}
    kind = selection.kind
    body = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
    return event_line("BOOKMARK", encode_json(body))
