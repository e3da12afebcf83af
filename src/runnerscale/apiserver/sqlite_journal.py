"""Durability: one SQLite file, one writer thread, many writes a commit.

The thread takes whatever has piled up while the last commit was under way and commits it in
one transaction (WAL, synchronous FULL), so throughput grows with load and an answer waits
for one commit at most. Reading happens once, at start; from then on `store.py` is the truth
and this file only follows it. What is checked of the file before: `sqlite_checks.py`.

A version that was given away is never given again, not even when a disk has lost the end of
the journal: after an end that was not in order the counter leaps. Whoever watches lists anew. A new
cluster begins beyond the versions of any older one, and only where there never was one.
"""

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from runnerscale.apiserver.sqlite_checks import (
    UNUSABLE,
    History,
    check_is_there,
    check_pages,
    check_was_ours,
    checksum,
    frames_read,
    frames_written,
    read_rows,
)
from runnerscale.apiserver.store import Row, Store, StoreError

log = structlog.get_logger(__name__)

SCHEMA_VERSION = 2  # 2: rows have checksums
ROWS_PER_COMMIT_MAX = 2000
# More versions than a journal can hold: it is written back after a thousand pages.
LEAP = 10_000_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    version INTEGER NOT NULL, data BLOB NOT NULL, checksum INTEGER,
    PRIMARY KEY (resource, namespace, name)
);
"""


def open_sqlite_store(path: Path | str, history: History | None = None) -> Store:
    """The store in a SQLite file, made where there never was one; the folder must exist.

    Raises:
        StoreError: one sentence: read-only folder, in use, lost, no database, of a newer version.
    """
    store = Store(SqliteJournal(Path(path), history or History()))
    store.open()
    return store


class SqliteJournal:
    """The file and its writer thread."""

    def __init__(self, path: Path, history: History) -> None:
        """Open and check the file; the thread starts with `start`."""
        self._path = path
        self._rows: queue.SimpleQueue[list[Row] | None] = queue.SimpleQueue()
        self._taken: list[Row] = []  # in this turn of the loop, not yet with the thread
        self._thread: threading.Thread | None = None
        self._db = _connect(path, history)
        try:
            self._version = _prepare(self._db, path, history)
        except BaseException:  # broad: whatever it was, the file is closed again
            self._db.close()
            raise

    def load(self) -> tuple[int, Iterable[Row]]:
        """Every object, and the version counter."""
        try:
            return self._version, list(read_rows(self._db))
        except StoreError as error:
            self._db.close()
            raise StoreError(f"{self._path}: {error}") from None

    def start(self, done: Callable[[int], None], failed: Callable[[str], None]) -> None:
        """Start the writer thread; the callbacks are called on the running loop."""
        self._done = done
        self._failed = failed

    def append(self, row: Row) -> bool:
        """Hand a write to the thread."""
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(
                target=self._write, args=(loop,), name="sqlite writer", daemon=True
            )
            self._thread.start()
        if not self._taken:
            # One hand-over a turn of the loop: waking the thread costs more than a row.
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._taken.append(row)
        return False

    def _hand_over(self) -> None:
        if self._taken:
            taken, self._taken = self._taken, []
            self._rows.put(taken)

    async def close(self) -> None:
        """Write what was taken, then close the file."""
        if self._thread is not None:
            self._hand_over()
            self._rows.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        try:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('open', '0')")
        except sqlite3.Error:
            pass  # no disk, or closed before: the next start then takes it for a crash
        self._db.close()

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            batch, more = self._take()
            try:
                if batch:
                    self._commit(batch)
            except Exception as error:  # noqa: BLE001 - whatever it is: nobody may wait for ever
                why = f"{self._path}: cannot store objects ({_cause(error)})"
                _call(loop, self._failed, f"{why}; free the disk and restart")
                return
            if batch:
                _call(loop, self._done, batch[-1].version)
            if not more:
                return

    def _take(self) -> tuple[list[Row], bool]:
        """What has piled up; False: close was asked for."""
        batch: list[Row] = []
        rows = self._rows.get()
        while rows is not None:
            batch += rows
            if len(batch) >= ROWS_PER_COMMIT_MAX:
                return batch, True
            try:
                rows = self._rows.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _commit(self, batch: list[Row]) -> None:
        # Only the last state of an object in the batch needs to be written.
        last = {row.key: row for row in batch}
        gone = [key for key, row in last.items() if row.data is None]
        kept = [
            (*key, row.version, row.data, checksum(key, row.version, row.data))
            for key, row in last.items()
            if row.data is not None
        ]
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        if gone:
            db.executemany("DELETE FROM objects WHERE resource=? AND namespace=? AND name=?", gone)
        if kept:
            db.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)", kept)
        db.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (str(batch[-1].version),))
        db.execute("COMMIT")


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], argument: object) -> None:
    try:
        loop.call_soon_threadsafe(callback, argument)
    except RuntimeError:
        pass  # the loop is closed: nobody waits any more


def _connect(path: Path, history: History) -> sqlite3.Connection:
    try:
        check_is_there(path, history)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # secrets are in it
        os.close(fd)
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.2)
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from None
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StoreError(
            f"{path}: the database cannot be opened for writing ({reason});"
            " choose a folder that this user may write to"
        ) from None


def _prepare(db: sqlite3.Connection, path: Path, history: History) -> int:
    """Lock and check the file; the version counter."""
    written = frames_written(path.with_name(path.name + "-wal"))
    try:
        db.execute("PRAGMA locking_mode=EXCLUSIVE")  # one server a file; ends with the process
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        lost = written - frames_read(db)
        check_pages(db)
        version = _begin(db, path, history)
        # That it is open is known even if the whole journal gets lost.
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _sync_folder(path.parent)  # before anything is made that says that there is a database
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {_explained(error)}") from None
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from None
    except (ValueError, TypeError):
        raise StoreError(f"{path}: {UNUSABLE.format('its version is no number')}") from None
    if lost > 0:
        log.warning(
            "the end of the journal is no whole write, it is left out",
            file=str(path),
            pages=lost,
            remedy="after a crash nothing is to be done: what was answered is there, unless the"
            " disk has lost it",
        )
    return version


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # not every file system can
            os.fsync(handle)
    finally:
        os.close(handle)


def _begin(db: sqlite3.Connection, path: Path, history: History) -> int:
    """The layout is ours, and whoever opens the file next can see how we ended."""
    db.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA.split(";"):
        db.execute(statement)
    meta = dict(db.execute("SELECT key, value FROM meta"))
    found = int(meta.get("schema", SCHEMA_VERSION))
    version = int(meta.get("version", history.first_version))
    check_was_ours(meta, path, history)
    if found > SCHEMA_VERSION:
        db.execute("ROLLBACK")
        raise StoreError(
            "the database was written by a newer version of runnerscale"
            f" (its layout is {found}, this one knows up to {SCHEMA_VERSION});"
            " use that version, or another data folder"
        )
    columns = {row[1] for row in db.execute("PRAGMA table_info(objects)")}
    if "checksum" not in columns:
        db.execute("ALTER TABLE objects ADD COLUMN checksum INTEGER")
    if meta.get("open", "0") != "0":
        version += LEAP
    now = {"schema": SCHEMA_VERSION, "version": version, "open": 1}
    rows = [(key, str(value)) for key, value in now.items()]
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
    db.execute("COMMIT")
    return version


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


def _explained(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text:
        return "the database is in use by another API server; stop that one first"
    if "not a database" in text or "malformed" in text:
        return UNUSABLE.format(text)
    if "readonly" in text or "read-only" in text:
        return "the database is read-only; choose a folder that this user may write to"
    if "full" in text:
        return "the disk is full; free some of it, then start again"
    return f"the database cannot be used ({text})"
