"""The store: versions, durability, what a crash leaves, and databases that cannot be used."""

import asyncio
import sqlite3
import stat
from pathlib import Path

import pytest

from runnerscale.apiserver.change_log import Change, ChangeLog, ChangeType
from runnerscale.apiserver.record import Record
from runnerscale.apiserver.sqlite_journal import SCHEMA_VERSION, open_sqlite_store
from runnerscale.apiserver.store import MemoryStore, Store, StoreError


def put(store: Store, name: str, **meta: object) -> Record:
    obj = {"kind": "K", "apiVersion": "v1", "metadata": {"name": name, "uid": f"u-{name}", **meta}}
    return store.put(store.table("things"), "ns", name, obj, {})


async def test_each_write_has_the_next_version_and_shows_it_in_the_object() -> None:
    store = MemoryStore()
    store.open()
    first, second = put(store, "a"), put(store, "b")
    assert (first.version, second.version) == (1, 2)
    assert second.object()["metadata"]["resourceVersion"] == "2"
    store.remove(store.table("things"), first)
    assert store.version == 3
    assert [r.name for r in store.table("things").list("ns")] == ["b"]


async def test_children_are_found_by_the_uid_of_their_owner() -> None:
    store = MemoryStore()
    store.open()
    put(store, "child", ownerReferences=[{"uid": "u-owner"}])
    assert [r.name for r in store.children_of("u-owner")] == ["child"]
    put(store, "child", ownerReferences=[])
    assert store.children_of("u-owner") == []


async def test_what_was_settled_is_there_after_a_restart_and_versions_go_on(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    store = open_sqlite_store(path)
    put(store, "a")
    kept = put(store, "b")
    store.remove(store.table("things"), store.table("things").list("ns")[0])
    await store.settled()
    await store.close()
    again = open_sqlite_store(path)
    assert again.version == 3
    assert [r.data for r in again.table("things").list("ns")] == [kept.data]
    assert put(again, "c").version == 4
    await again.settled()
    await again.close()


async def test_watchers_see_a_write_only_when_it_is_on_disk(tmp_path: Path) -> None:
    store = open_sqlite_store(tmp_path / "objects.sqlite")
    table = store.table("things")
    put(store, "a")
    assert table.log.read(0, limit=9) == []  # the head shows it, the window does not yet
    await store.settled()
    changes = table.log.read(0, limit=9)
    assert changes is not None
    assert [c.record.name for c in changes] == ["a"]
    await store.close()


async def test_many_writes_share_a_commit_and_each_is_waited_for(tmp_path: Path) -> None:
    store = open_sqlite_store(tmp_path / "objects.sqlite")

    async def write(number: int) -> int:
        record = put(store, f"n{number}")
        await store.settled(record.version)
        return record.version

    versions = await asyncio.gather(*(write(n) for n in range(300)))
    assert sorted(versions) == list(range(1, 301))
    await store.close()
    rows = sqlite3.connect(tmp_path / "objects.sqlite").execute("SELECT count(*) FROM objects")
    assert rows.fetchone() == (300,)


def test_the_database_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    open_sqlite_store(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_database_of_a_newer_version_is_refused_with_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA_VERSION + 1),))
    db.close()
    with pytest.raises(StoreError, match="written by a newer version of runnerscale"):
        open_sqlite_store(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    path.write_bytes(b"this is not a database, it is a text of some length" * 50)
    with pytest.raises(StoreError, match="not a usable database"):
        open_sqlite_store(path)


def test_a_folder_that_is_missing_or_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened for writing"):
        open_sqlite_store(tmp_path / "none" / "objects.sqlite")


def test_a_database_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    store = open_sqlite_store(path)
    with pytest.raises(StoreError, match="in use by another API server"):
        open_sqlite_store(path)
    del store


async def test_a_write_that_cannot_be_stored_ends_every_wait(tmp_path: Path) -> None:
    store = open_sqlite_store(tmp_path / "objects.sqlite")
    db = store._journal._db  # type: ignore[attr-defined]
    put(store, "a")
    await store.settled()
    db.execute("DROP TABLE objects")  # as if the disk had gone
    put(store, "b")
    with pytest.raises(StoreError, match="cannot store objects"):
        await store.settled()
    with pytest.raises(StoreError):
        await store.settled()
    assert store.failed.is_set()
    await store.close()


def change(version: int, size: int = 10) -> Change:
    obj = {"metadata": {"name": f"n{version}"}, "data": "x" * size}
    record = Record(("things", "", f"n{version}"), version, obj, {})
    return Change(version, ChangeType.ADDED, record, None)


def test_the_window_is_bounded_by_count_and_who_is_too_late_is_told() -> None:
    log = ChangeLog(0, events_max=10)
    for version in range(1, 31):
        log.append(change(version))
    assert log.position_after(5) is None
    position = log.position_after(25)
    assert position is not None
    kept = log.read(position, limit=100)
    assert kept is not None
    assert [c.version for c in kept] == [26, 27, 28, 29, 30]
    assert log.read(0, limit=1) is None


def test_the_window_is_bounded_by_bytes() -> None:
    log = ChangeLog(0, bytes_max=2000)
    for version in range(1, 31):
        log.append(change(version, size=1000))
    assert log.position_after(1) is None
    assert log.position_after(29) is not None


def test_a_line_is_encoded_once() -> None:
    one = change(1)
    assert one.line() is one.line()
    assert one.line().startswith(b'{"type":"ADDED","object":{')
