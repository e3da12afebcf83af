"""A damaged database: said, never served; and versions never go back."""

import asyncio
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from runnerscale.apiserver import sqlite_journal
from runnerscale.apiserver.credentials import IdentityRequest
from runnerscale.apiserver.server import ApiServerOptions, CannotServe, Serving, run_api_server
from runnerscale.apiserver.sqlite_checks import FRAME_HEADER_BYTES, WAL_HEADER_BYTES, History
from runnerscale.apiserver.sqlite_journal import LEAP, open_sqlite_store
from runnerscale.apiserver.store import Store, StoreError
from runnerscale.core.clock import ManualClock, SystemClock
from runnerscale.core.randomness import seeded

PAGE = 4096
FRAME = FRAME_HEADER_BYTES + PAGE


async def filled(path: Path, count: int = 40) -> Store:
    """A store with objects, each in a commit of its own."""
    store = open_sqlite_store(path)
    table = store.table("things")
    for number in range(count):
        obj = {"metadata": {"name": f"n{number}"}, "text": "x" * 2000}
        store.put(table, "ns", f"n{number}", obj, {})
        await store.settled()
    return store


async def crashed(tmp_path: Path, count: int = 40) -> Path:
    """The files as a killed server leaves them."""
    store = await filled(tmp_path / "live.sqlite", count)
    path = tmp_path / "objects.sqlite"
    for end in ("", "-wal"):
        shutil.copy(tmp_path / f"live.sqlite{end}", f"{path}{end}")
    await store.close()
    return path


async def names(path: Path) -> tuple[list[str], int]:
    store = open_sqlite_store(path)
    found = [record.name for record in store.table("things").list("ns")]
    version = store.version
    await store.close()
    return sorted(found, key=lambda name: int(name[1:])), version


async def test_after_a_crash_everything_is_there_and_versions_leap(tmp_path: Path) -> None:
    path = await crashed(tmp_path)
    with capture_logs() as logs:
        found, version = await names(path)
    assert found == [f"n{number}" for number in range(40)]
    assert version == 40 + LEAP
    assert not logs  # an ordinary crash is nothing to worry about
    assert (await names(path))[1] == 40 + LEAP  # closed in order: no leap


def harm_journal(wal: Path, harm: str) -> None:
    data = bytearray(wal.read_bytes())
    frames = (len(data) - WAL_HEADER_BYTES) // FRAME
    assert frames > 40
    if harm == "flipped":  # a bit in the last third
        data[WAL_HEADER_BYTES + (frames * 2 // 3) * FRAME + 1000] ^= 0x10
    elif harm == "torn":  # in the middle of a page
        del data[-FRAME - 100 :]
    elif harm == "cut":  # between two pages, which nobody can see
        del data[WAL_HEADER_BYTES + (frames // 2) * FRAME :]
    elif harm == "header":
        data[3] ^= 0xFF
    else:
        data.clear()
    wal.write_bytes(data)


@pytest.mark.parametrize("harm", ["flipped", "torn", "cut", "header", "gone"])
async def test_a_lost_end_of_the_journal_is_said_and_its_versions_are_never_given_again(
    tmp_path: Path, harm: str
) -> None:
    path = await crashed(tmp_path)
    harm_journal(Path(f"{path}-wal"), harm)
    with capture_logs() as logs:
        found, version = await names(path)
    assert found == [f"n{number}" for number in range(len(found))]  # a beginning, nothing mixed
    assert version > 40
    said = [line for line in logs if line["event"].startswith("the end of the journal")]
    assert bool(said) == (harm in ("flipped", "torn", "header"))


async def test_a_damaged_page_is_said_and_nothing_of_it_is_served(tmp_path: Path) -> None:
    store = await filled(tmp_path / "objects.sqlite", 200)
    await store.close()
    whole = (tmp_path / "objects.sqlite").read_bytes()
    pages = len(whole) // PAGE
    assert pages > 50
    for number in range(0, pages, 7):
        path = tmp_path / f"page-{number}.sqlite"
        damaged = bytearray(whole)
        at = number * PAGE
        damaged[at : at + PAGE] = os.urandom(64) + bytes(PAGE - 64)
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=r"page-\d+\.sqlite: .*; (move|restore)"):
            open_sqlite_store(path)


async def test_one_wrong_byte_of_an_object_is_said(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    store = await filled(path, 3)
    await store.close()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"xxxxxxxx", b"xxxyxxxx", 1))  # still an object, another text
    with pytest.raises(StoreError, match=r"the stored object things/ns/n\d is damaged; restore"):
        open_sqlite_store(path)


async def test_a_database_of_the_first_layout_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        db.execute("INSERT INTO meta VALUES ('schema', '1'), ('version', '7')")
        db.execute(
            "CREATE TABLE objects (resource TEXT NOT NULL, namespace TEXT NOT NULL,"
            " name TEXT NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL,"
            " PRIMARY KEY (resource, namespace, name))"
        )
        row = ("things", "ns", "n0", 7, b'{"metadata":{"name":"n0"}}')
        db.execute("INSERT INTO objects VALUES (?, ?, ?, ?, ?)", row)
    db.close()
    assert await names(path) == (["n0"], 7)
    store = open_sqlite_store(path)
    store.put(store.table("things"), "ns", "n1", {"metadata": {"name": "n1"}}, {})
    await store.settled()
    await store.close()
    assert await names(path) == (["n0", "n1"], 8)


async def test_whatever_keeps_a_write_from_the_disk_ends_every_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await filled(tmp_path / "objects.sqlite", 1)

    def no_memory(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr(sqlite_journal, "checksum", no_memory)
    store.put(store.table("things"), "ns", "n1", {"metadata": {"name": "n1"}}, {})
    with pytest.raises(StoreError, match=r"cannot store objects \(MemoryError\)"):
        await store.settled()
    await store.close()


LOST = (
    r"objects\.sqlite: the database is {}, but {} beside it says that there was a cluster; restore"
)


@pytest.mark.parametrize("harm", ["missing", "empty"])
async def test_a_journal_without_its_database_is_not_thrown_away(tmp_path: Path, harm: str) -> None:
    path = await crashed(tmp_path)
    wal = path.with_name(path.name + "-wal")
    whole, journal = path.read_bytes(), wal.read_bytes()
    path.unlink()
    if harm == "empty":
        path.touch()
    with pytest.raises(StoreError, match=LOST.format(harm, "objects.sqlite-wal")):
        open_sqlite_store(path)
    assert wal.read_bytes() == journal
    path.write_bytes(whole)  # restored: nothing was lost
    assert len((await names(path))[0]) == 40


async def test_an_empty_journal_of_a_first_start_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    path.touch()  # it died after the first byte of none
    (tmp_path / "objects.sqlite-wal").touch()
    assert await names(path) == ([], 0)


async def test_a_database_without_anything_of_ours_is_a_lost_one(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE other (x)")
    db.close()
    with pytest.raises(StoreError, match=LOST.format("empty", r"tokens\.json")):
        open_sqlite_store(path, History("tokens.json"))
    assert await names(path) == ([], 0)  # where nothing says so, somebody died before the tables


def test_something_else_in_the_place_of_the_database_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "objects.sqlite")
    with pytest.raises(StoreError, match=r"not a usable database .it is no file"):
        open_sqlite_store(tmp_path / "objects.sqlite")


async def served_once(folder: Path) -> int:
    """A whole start and an orderly end; the version of then."""
    ready: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
    wanted = (IdentityRequest("admin", ("system:masters",)),)
    options = ApiServerOptions(data_dir=folder, identities=wanted, on_ready=ready.set_result)
    work = asyncio.create_task(run_api_server(options, clock=SystemClock(), random=seeded(1)))
    await asyncio.wait([ready, work], return_when=asyncio.FIRST_COMPLETED)
    work.cancel()
    await asyncio.wait([work])
    if not work.cancelled() and (error := work.exception()) is not None:
        raise error
    with sqlite3.connect(folder / "objects.sqlite") as db:
        found = db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
    db.close()
    return int(found[0])


@pytest.mark.parametrize("harm", ["missing", "empty"])
@pytest.mark.parametrize("beside", ["tokens.json", "service-account.key", "certificates/ca.crt"])
async def test_a_lost_database_is_no_empty_cluster(tmp_path: Path, harm: str, beside: str) -> None:
    await served_once(tmp_path)
    for name in ("tokens.json", "service-account.key", "certificates/ca.crt"):
        if name != beside:
            (tmp_path / name).unlink()
    path = tmp_path / "objects.sqlite"
    saved = path.read_bytes()
    path.unlink()
    if harm == "empty":
        path.touch()
    with pytest.raises(StoreError, match=LOST.format(harm, beside) + ".*remove the whole folder"):
        await served_once(tmp_path)
    path.write_bytes(saved)
    await served_once(tmp_path)


async def test_a_first_start_that_died_at_any_point_starts_again(tmp_path: Path) -> None:
    """Nothing that says that there was a cluster is made before the database is whole."""
    for made in range(4):
        folder = tmp_path / str(made)
        (folder / "certificates").mkdir(parents=True)
        (folder / "node.token").write_text("t" * 32)  # made by whoever starts the server
        if made >= 1:
            (folder / "objects.sqlite").touch()
        if made >= 2:
            await open_sqlite_store(folder / "objects.sqlite").close()
        if made >= 3:
            (folder / "certificates" / "ca.key.new").touch()
        assert await served_once(folder) > 0


async def test_who_cannot_make_its_tokens_lets_go_of_the_database(tmp_path: Path) -> None:
    await served_once(tmp_path)
    (tmp_path / "tokens.json").write_text("garbage")
    with pytest.raises(CannotServe, match=r"tokens\.json"):
        await served_once(tmp_path)
    (tmp_path / "tokens.json").unlink()
    await served_once(tmp_path)


async def test_a_cluster_that_is_begun_anew_gives_no_version_twice(tmp_path: Path) -> None:
    before = await served_once(tmp_path / "data")
    shutil.rmtree(tmp_path / "data")
    after = await served_once(tmp_path / "data")
    assert after > before
    assert after < 2**53  # a number in every JSON reader
    now_s = ManualClock(now_s=1_800_000_000.0).now_s()
    store = open_sqlite_store(tmp_path / "objects.sqlite", History(now_s=now_s))
    assert store.version == 1_800_000_000_000_000
    await store.close()
    # From then on the clock does not count: it may go back.
    store = open_sqlite_store(tmp_path / "objects.sqlite", History("tokens.json", 1.0))
    assert store.version == 1_800_000_000_000_000
    await store.close()
