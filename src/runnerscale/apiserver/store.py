"""All objects, in memory, with one version counter; a journal makes them last.

The memory is the head: a write shows there at once, so that the next write is checked
against it. Nothing that shows the head may leave the process before the journal has it on
disk: every answer waits in `settled`, and watches only ever see what is there. The journal
is SQLite (`sqlite_journal.py`) or nothing (`MemoryStore`: no thread, for simulations).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from runnerscale.apiserver.change_log import Change, ChangeLog, ChangeType
from runnerscale.apiserver.record import Json, Key, Record


class StoreError(Exception):
    """The database cannot be used: one sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class Row:
    """One write as the journal keeps it; `data` None: deleted."""

    key: Key
    version: int
    data: bytes | None


class Journal(Protocol):
    """Where writes become durable."""

    def load(self) -> tuple[int, Iterable[Row]]:
        """The last version, and every object. Called once, before `start`."""
        ...

    def start(self, done: Callable[[int], None], failed: Callable[[str], None]) -> None:
        """Begin; `done(version)` is called on the loop when all up to it is on disk."""
        ...

    def append(self, row: Row) -> bool:
        """Take a write; True: it is already as durable as it will ever be."""
        ...

    async def close(self) -> None:
        """Write out what was taken, and stop."""
        ...


class NoJournal:
    """Memory only."""

    def load(self) -> tuple[int, Iterable[Row]]:
        """Nothing was ever written."""
        return 0, ()

    def start(self, done: Callable[[int], None], failed: Callable[[str], None]) -> None:
        """Nothing to start."""

    def append(self, row: Row) -> bool:  # noqa: ARG002 - the protocol
        """As durable as memory is."""
        return True

    async def close(self) -> None:
        """Nothing to stop."""


class Table:
    """The objects of one resource type."""

    def __init__(self, resource: str, floor: int) -> None:
        """`floor`: watches from before this version are told 410."""
        self.resource = resource
        self.by_namespace: dict[str, dict[str, Record]] = {}
        self.log = ChangeLog(floor)
        self.count = 0
        self.revision = 0  # version of the last change, for caches of what is derived

    def get(self, namespace: str, name: str) -> Record | None:
        """One object."""
        return self.by_namespace.get(namespace, {}).get(name)

    def list(self, namespace: str = "", *, everywhere: bool = False) -> list[Record]:
        """All objects of a namespace (or all), ordered by namespace and name."""
        if not everywhere:
            names = self.by_namespace.get(namespace, {})
            return [names[name] for name in sorted(names)]
        return [
            names[name] for _, names in sorted(self.by_namespace.items()) for name in sorted(names)
        ]

    def __iter__(self) -> Iterator[Record]:
        for names in self.by_namespace.values():
            yield from names.values()


class Store:
    """Tables, version counter, durability."""

    def __init__(self, journal: Journal) -> None:
        """Nothing is read before `open`."""
        self._journal = journal
        self._tables: dict[str, Table] = {}
        self._pending: deque[tuple[Table, Change]] = deque()  # applied, not yet durable
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._hooks: list[Callable[[Change], None]] = []
        self._children: dict[str, set[Key]] = {}  # owner uid: what refers to it
        self._by_uid: dict[str, Key] = {}
        self._loaded: dict[str, list[Row]] = {}
        self._started = False
        self.version = 0
        self.durable = 0
        self.failure = ""  # why nothing can be stored any more; the process must end
        self.failed = asyncio.Event()

    def open(self) -> None:
        """Read what is on disk and begin to write.

        Raises:
            StoreError: the database is unreadable, locked, or of a newer version.
        """
        if self._started:
            return
        self._started = True
        self.version, rows = self._journal.load()
        self.durable = self.version
        for row in rows:
            self._loaded.setdefault(row.key[0], []).append(row)
        self._journal.start(self._on_durable, self._on_failed)

    async def close(self) -> None:
        """Write out what is pending and stop."""
        await self._journal.close()

    def table(self, resource: str, selectable: Mapping[str, str] | None = None) -> Table:
        """The table of a type; its objects are indexed when it is first asked for."""
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = Table(resource, self.version)
            for row in self._loaded.pop(resource, ()):
                self._index(table, _stored(row, dict(selectable or {})))
        return table

    def put(
        self, table: Table, namespace: str, name: str, obj: Json, selectable: dict[str, str]
    ) -> Record:
        """Store an object; `metadata.resourceVersion` is set in `obj`."""
        before = table.get(namespace, name)
        self.version += 1
        record = Record((table.resource, namespace, name), self.version, obj, selectable)
        if before is not None:
            self._unindex(before)
        self._index(table, record)
        kind = ChangeType.ADDED if before is None else ChangeType.MODIFIED
        self._commit(
            table,
            Change(record.version, kind, record, before),
            Row(record.key, record.version, record.data),
        )
        return record

    def remove(self, table: Table, record: Record) -> None:
        """Delete an object; watchers see its last state with the version of the deletion."""
        self.version += 1
        names = table.by_namespace[record.namespace]
        del names[record.name]
        if not names:
            del table.by_namespace[record.namespace]
        table.count -= 1
        self._unindex(record)
        last = Record.__new__(Record)
        for slot in Record.__slots__:
            setattr(last, slot, getattr(record, slot))
        last.version = self.version
        last.data = record.data_at(self.version)
        self._commit(
            table,
            Change(self.version, ChangeType.DELETED, last, record),
            Row(record.key, self.version, None),
        )

    def _commit(self, table: Table, change: Change, row: Row) -> None:
        table.revision = change.version
        if self._journal.append(row) and not self._pending:
            self.durable = self.version
            table.log.append(change)
        else:
            self._pending.append((table, change))
        for hook in self._hooks:
            hook(change)

    async def settled(self, version: int | None = None) -> None:
        """Wait until everything up to `version` (default: all there is) is durable.

        Raises:
            StoreError: it never will be.
        """
        wanted = self.version if version is None else version
        if self.failure:
            raise StoreError(self.failure)
        if wanted <= self.durable:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((wanted, future))
        await future

    def on_change(self, hook: Callable[[Change], None]) -> None:
        """Be called after each write to the head, durable or not yet."""
        self._hooks.append(hook)

    def children_of(self, uid: str) -> list[Record]:
        """The objects that refer to an owner."""
        keys = self._children.get(uid, ())
        found = (self._tables[r].get(ns, name) for r, ns, name in sorted(keys))
        return [record for record in found if record is not None]

    def by_uid(self, uid: str) -> Record | None:
        """The object with this uid."""
        key = self._by_uid.get(uid)
        return self._tables[key[0]].get(key[1], key[2]) if key else None

    def _index(self, table: Table, record: Record) -> None:
        names = table.by_namespace.setdefault(record.namespace, {})
        if record.name not in names:
            table.count += 1
        names[record.name] = record
        self._by_uid[record.uid] = record.key
        for owner in record.owners:
            self._children.setdefault(owner, set()).add(record.key)

    def _unindex(self, record: Record) -> None:
        self._by_uid.pop(record.uid, None)
        for owner in record.owners:
            keys = self._children.get(owner)
            if keys is not None:
                keys.discard(record.key)
                if not keys:
                    del self._children[owner]

    def _on_durable(self, version: int) -> None:
        self.durable = max(self.durable, version)
        while self._pending and self._pending[0][1].version <= version:
            table, change = self._pending.popleft()
            table.log.append(change)
        # Waiters come nearly in order of version; one that asked for less is simply woken late.
        while self._waiters and self._waiters[0][0] <= version:
            _, future = self._waiters.popleft()
            if not future.done():
                future.set_result(None)

    def _on_failed(self, why: str) -> None:
        self.failure = why
        self.failed.set()
        while self._waiters:
            _, future = self._waiters.popleft()
            if not future.done():
                future.set_exception(StoreError(why))


class MemoryStore(Store):
    """Objects that end with the process; no threads, so it runs on a virtual loop."""

    def __init__(self) -> None:
        """Empty."""
        super().__init__(NoJournal())


def _stored(row: Row, selectable: dict[str, str]) -> Record:
    assert row.data is not None
    try:
        return Record.stored(row.key, row.version, row.data, selectable)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        what = "/".join(row.key)
        raise StoreError(
            f"the stored object {what} is damaged; restore the database, or choose another folder"
        ) from None
