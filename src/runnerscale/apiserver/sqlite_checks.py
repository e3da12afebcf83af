"""What is checked before a database file is believed: that it is the one, pages, rows, journal.

SQLite checks neither the bytes of a row nor tells that the end of its journal was cut: a damaged
disk or a careless copy would be served as if it were the truth. Opening, locking and writing is
`sqlite_journal.py`.
"""

import sqlite3
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runnerscale.apiserver.record import Key
from runnerscale.apiserver.store import Row, StoreError
from runnerscale.core.small_file import open_regular

WAL_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24
FRAMES_MAX = 1_000_000  # some gigabytes; a journal is written back after a thousand
LOST = (
    "the database is {}, but {} beside it says that there was a cluster; restore it from a copy, or"
    " remove the whole folder {} to begin with an empty cluster"
)
UNUSABLE = "this is not a usable database ({}); move it away or choose another data folder"
DAMAGED = (
    "the stored object {} is damaged; restore the database from a copy, or choose another data"
    " folder"
)


def checksum(key: Key, version: int, data: bytes) -> int:
    """Of a row: what was written under this name is what is read."""
    return zlib.crc32(data, zlib.crc32("\0".join((*key, str(version))).encode()))


@dataclass(frozen=True, slots=True)
class History:
    """What is known of a cluster before its database is opened."""

    beside: str = ""  # a file that is only made when there is a database
    now_s: float = 0.0

    @property
    def first_version(self) -> int:
        """Of a new cluster, and beyond those of any older one: its clients may still be there.

        A microsecond a version: nobody writes as fast, and a leap after a crash is ten seconds.
        """
        return int(self.now_s * 1_000_000)


def check_is_there(path: Path, history: History) -> None:
    """No database is only right where there never was one: SQLite would make a new one, and throw
    the journal of the old one away.

    Raises:
        StoreError: one sentence without the file's name.
    """
    found = path.stat() if path.exists() else None  # a link that leads nowhere is none
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise StoreError(UNUSABLE.format("it is no file"))
    if found is not None and found.st_size:
        return
    journal = path.with_name(path.name + "-wal")
    written = journal.exists() and journal.stat().st_size
    evidence = journal.name if written else history.beside
    if evidence:
        what = "missing" if found is None else "empty"
        raise StoreError(LOST.format(what, evidence, path.parent))


def check_was_ours(meta: Mapping[str, str], path: Path, history: History) -> None:
    """The same of a database that is there and has nothing of ours in it.

    Raises:
        StoreError: one sentence without the file's name.
    """
    if "version" not in meta and history.beside:
        raise StoreError(LOST.format("empty", history.beside, path.parent))


def check_pages(db: sqlite3.Connection) -> None:
    """Every page is where it belongs.

    Raises:
        StoreError: one sentence without the file's name.
    """
    try:
        found = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise StoreError(UNUSABLE.format(error)) from None
    if found != ("ok",):
        first = str(found[0]).strip().splitlines()[-1]
        raise StoreError(UNUSABLE.format(f"a page is damaged: {first}"))


def read_rows(db: sqlite3.Connection) -> Iterator[Row]:
    """Every object; rows of an older layout have no checksum.

    Raises:
        StoreError: one sentence without the file's name.
    """
    asked = "SELECT resource, namespace, name, version, data, checksum FROM objects"
    try:
        found: Iterable[tuple[str, str, str, int, bytes, int | None]] = db.execute(asked)
        for resource, namespace, name, version, data, known in found:
            key = (resource, namespace, name)
            if not _is_whole(key, version, data, known):
                raise StoreError(DAMAGED.format("/".join(str(part) for part in key)))
            yield Row(key, version, data)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise StoreError(UNUSABLE.format(error)) from None


def _is_whole(key: Key, version: int, data: bytes, known: int | None) -> bool:
    try:
        return known is None or checksum(key, version, data) == known
    except (TypeError, UnicodeEncodeError):
        return False  # not even of the right type


def frames_written(wal: Path) -> int:
    """How many pages were put into the journal since it was begun anew; 0: there is none.

    Read before the database is opened: SQLite begins it anew when it likes.
    """
    try:
        with open_regular(wal) as file:
            header = file.read(WAL_HEADER_BYTES)
            if len(header) < WAL_HEADER_BYTES:
                return 1 if header else 0
            page_bytes = struct.unpack_from(">I", header, 8)[0]
            salts = header[16:24]
            for number in range(FRAMES_MAX):
                frame = file.read(FRAME_HEADER_BYTES)
                if len(frame) < FRAME_HEADER_BYTES or frame[8:16] != salts:
                    # Of an earlier round, or cut: one that was begun counts as written.
                    return number + (0 < len(frame) < FRAME_HEADER_BYTES)
                file.seek(page_bytes, 1)
    except (OSError, struct.error):
        return 0
    return FRAMES_MAX


def frames_read(db: sqlite3.Connection) -> int:
    """How many of them SQLite takes for good."""
    _busy, frames, _written_back = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return max(0, int(frames))
