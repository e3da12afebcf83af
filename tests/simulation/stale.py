"""Reads from the past: lists and watches as an API server gives them that lags behind.

A client (by its User-Agent, which is its component's name here) is frozen at a revision: every
list shows the state of then, every watch says nothing. Released, it is told all that happened,
in order. Reads of one object and writes are always those of the present, as in a real cluster,
where they go to the database and not to a cache. Streams can also be slow instead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from runnerscale.apiserver.change_log import Change, ChangeType
from runnerscale.apiserver.lists import Page, Selection
from runnerscale.apiserver.record import Key, Record
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.watching import WatchOptions
from runnerscale.core.clock import Clock
from tests.simulation.requests import AGENT

CHANGES_MAX = 20_000

Batch = list[tuple[str, bytes]]


class History:
    """What one server's store was at each of its last versions."""

    def __init__(self, server: ApiServer) -> None:
        self._changes: deque[Change] = deque(maxlen=CHANGES_MAX)
        server.store.on_change(self._changes.append)

    @property
    def oldest(self) -> int:
        """The earliest revision that can be shown: before the first change known."""
        return self._changes[0].version - 1 if self._changes else 0

    def revisions(self) -> list[int]:
        """Of all changes known, oldest first."""
        return [change.version for change in self._changes]

    def records(self, present: list[Record], resource: str, version: int) -> dict[Key, Record]:
        """The objects of a resource as they were at that version."""
        then = {record.key: record for record in present}
        for change in reversed(self._changes):
            if change.version <= version:
                break
            key = change.record.key
            if key[0] != resource:
                continue
            if change.type is ChangeType.ADDED:
                then.pop(key, None)
            else:
                then[key] = change.before or change.record
        return then


class Stale:
    """Who is frozen at which revision; outlives the API servers of a world."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._frozen: dict[str, int] = {}
        self._thaw = asyncio.Event()
        self.late_s: dict[str, float] = {}  # agent: so much later it hears of everything
        self.history: History | None = None

    def freeze(self, agent: str, version: int) -> None:
        """From now on that client reads the past."""
        self._frozen[agent] = version

    def release(self, agent: str) -> None:
        """The truth again, with all that was missed."""
        if self._frozen.pop(agent, None) is not None:
            self._thaw.set()
            self._thaw = asyncio.Event()

    def release_all(self) -> None:
        """Nobody is frozen or late any more."""
        self.late_s.clear()
        for agent in list(self._frozen):
            self.release(agent)

    def attach(self, server: ApiServer) -> None:
        """Stand between that server and its readers; before it listens."""
        history = self.history = History(server)
        lists: Any = server.handler._parts.lists
        watches: Any = server.watches
        page: Callable[[Selection, dict[str, str]], Page] = lists.page
        events = watches.events

        def stale_page(selection: Selection, query: dict[str, str]) -> Page:
            version = self._frozen.get(AGENT.get())
            if version is None:
                return page(selection, query)
            return self._past_page(server, history, selection, version)

        async def stale_events(
            selection: Selection, options: WatchOptions, initial: list[Record]
        ) -> AsyncIterator[Batch]:
            agent = AGENT.get()
            async for batch in events(selection, options, initial):
                await self._wait(agent)
                yield batch

        lists.page = stale_page
        watches.events = stale_events

    def _past_page(
        self, server: ApiServer, history: History, selection: Selection, version: int
    ) -> Page:
        kind = selection.kind
        present = list(server.store.table(kind.resource, kind.selectable))
        then = history.records(present, kind.resource, version)
        records = [
            record
            for _, record in sorted(then.items())
            if (not selection.namespace or record.namespace == selection.namespace)
            and (selection.match is None or selection.match(record))
            and (not selection.only_name or record.name == selection.only_name)
        ]
        return Page(records, max(version, 1))

    async def _wait(self, agent: str) -> None:
        late_s = self.late_s.get(agent, 0.0)
        if late_s:
            await self._clock.sleep(late_s)
        while agent in self._frozen:
            await self._thaw.wait()
