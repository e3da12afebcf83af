"""What the node writes to disk: volumes that change all at once, logs that stay bounded."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runnerscale.core.clock import LoopClock
from runnerscale.node.attempt_files import (
    AttemptFolder,
    ExitRecord,
    NodeFolder,
    PodRecord,
    StartingRecord,
    exit_status,
    write_record,
)
from runnerscale.node.log_files import LogReader, LogRequest, parse_line
from runnerscale.node.processes import PodRef, VolumeFile
from runnerscale.node.shim_logs import PART_MAX_BYTES, LogFile
from runnerscale.node.volume_files import write_volume

POD = PodRef("jobs", "one", "uid-1")
BEGUN = StartingRecord("boot", 1.0, PodRecord("jobs", "one", "uid-1", grace_s=9))


# --- volumes ------------------------------------------------------------------------------------


def shown(folder: Path) -> dict[str, bytes]:
    names = [entry.name for entry in folder.iterdir() if not entry.name.startswith("..")]
    return {name: (folder / name).read_bytes() for name in names}


def test_an_update_swaps_one_link(tmp_path: Path) -> None:
    assert write_volume(tmp_path, {"a": VolumeFile(b"1"), "b": VolumeFile(b"2")})
    first = (tmp_path / "..data").readlink()
    assert write_volume(tmp_path, {"a": VolumeFile(b"1!"), "c": VolumeFile(b"3")})
    assert shown(tmp_path) == {"a": b"1!", "c": b"3"}
    assert (tmp_path / "..data").readlink() != first
    assert not (tmp_path / first).exists()


def test_what_has_not_changed_is_not_written(tmp_path: Path) -> None:
    write_volume(tmp_path, {"deep/a": VolumeFile(b"1")})
    assert not write_volume(tmp_path, {"deep/a": VolumeFile(b"1")})
    assert (tmp_path / "deep" / "a").read_bytes() == b"1"


def test_modes_are_kept_and_an_interrupted_update_is_repeated(tmp_path: Path) -> None:
    write_volume(tmp_path, {"token": VolumeFile(b"1", 0o600)})
    (tmp_path / "..version_2").mkdir()  # an agent was killed before its swap
    assert write_volume(tmp_path, {"token": VolumeFile(b"2", 0o600)})
    assert (tmp_path / "token").read_bytes() == b"2"
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


def test_an_empty_folder_is_left_to_the_containers(tmp_path: Path) -> None:
    assert write_volume(tmp_path / "work", None)
    (tmp_path / "work" / "result").write_text("kept")
    assert not write_volume(tmp_path / "work", None)
    assert (tmp_path / "work" / "result").read_text() == "kept"


# --- attempts -----------------------------------------------------------------------------------


def attempt(tmp_path: Path) -> AttemptFolder:
    made = NodeFolder(tmp_path).new_attempt(POD.uid, "runner")
    made.begin(BEGUN)
    return made


def test_an_attempt_that_the_agent_takes_is_lost_to_the_shim(tmp_path: Path) -> None:
    made = attempt(tmp_path)
    assert made.take(2.0)
    mine = made.path / "claimed.9"
    mine.write_text("{}")
    try:
        os.link(mine, made.path / "claimed")
    except FileExistsError:
        return
    raise AssertionError("the shim could claim it too")


def test_an_attempt_that_a_shim_has_cannot_be_taken(tmp_path: Path) -> None:
    made = attempt(tmp_path)
    (made.path / "claimed").write_text('{"shim_pid": 7, "ticks": 1, "at_s": 1.0}')
    assert not made.take(2.0)


def test_numbers_grow_and_only_two_attempts_are_kept(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    for _ in range(4):
        folder.new_attempt(POD.uid, "runner").begin(BEGUN)
        folder.prune(POD.uid, "runner")
    assert [a.number for a in folder.attempts(POD.uid, "runner")] == [2, 3]


def test_a_pod_is_known_once_it_is_admitted_and_forgotten_once_removed(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    folder.admit(POD, 12)
    (folder.pods / "stray").mkdir()
    assert [(r.name, r.uid, r.grace_s) for r in folder.admitted()] == [("one", "uid-1", 12)]
    stubborn = folder.work(POD.uid, "runner") / "read-only"
    stubborn.mkdir(parents=True)
    (stubborn / "file").write_text("x")
    stubborn.chmod(0o500)
    folder.remove(POD.uid)
    assert folder.admitted() == []
    folder.remove(POD.uid)  # may be repeated


def test_a_pod_whose_record_was_lost_with_the_power_is_known_by_what_it_started(
    tmp_path: Path,
) -> None:
    folder = NodeFolder(tmp_path)
    folder.admit(POD, 9)
    folder.new_attempt(POD.uid, "runner").begin(BEGUN)
    (folder.pod(POD.uid) / "pod.json").write_bytes(b"")
    assert [(r.name, r.grace_s) for r in folder.admitted()] == [("one", 9)]


def test_a_torn_record_is_none(tmp_path: Path) -> None:
    made = attempt(tmp_path)
    (made.path / "exit.json").write_text('{"code": ')
    assert made.ended() is None


def test_the_agents_own_reason_counts_only_when_its_kill_ended_the_container(
    tmp_path: Path,
) -> None:
    killed = ExitRecord(137, signal=9)
    assert exit_status(killed, "OOMKilled").reason == "OOMKilled"
    assert exit_status(killed, "").reason == ""
    assert exit_status(ExitRecord(0), "OOMKilled").reason == ""
    write_record(tmp_path / "exit.json", killed)
    assert AttemptFolder(tmp_path).ended() == killed


# --- logs ---------------------------------------------------------------------------------------


def test_streams_are_kept_apart_and_lines_whole(tmp_path: Path) -> None:
    sink = LogFile(str(tmp_path), 10_000)
    sink.write("stdout", b"on")
    sink.write("stderr", b"bad\n")
    sink.write("stdout", b"e\ntwo\nthr")
    sink.close()
    assert LogReader(tmp_path).read(LogRequest()) == b"bad\none\ntwo\nthr"


def test_a_long_line_is_stored_in_parts_and_read_as_one(tmp_path: Path) -> None:
    sink = LogFile(str(tmp_path), 10_000_000)
    text = b"x" * (PART_MAX_BYTES * 2 + 5)
    sink.write("stdout", text[:100])
    sink.write("stdout", text[100:] + b"\nnext\n")
    assert LogReader(tmp_path).read(LogRequest()) == text + b"\nnext\n"


def test_a_log_never_takes_more_than_two_files(tmp_path: Path) -> None:
    sink = LogFile(str(tmp_path), 1000)
    for number in range(200):
        sink.write("stdout", f"line {number}\n".encode())
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["log", "log.1"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2000
    last = LogReader(tmp_path).read(LogRequest(tail_lines=20)).split()
    assert last[-1] == b"199"
    assert len(last) == 40  # the tail reaches back into the older file


def test_readers_choose_the_end_the_size_and_the_time_in_front(tmp_path: Path) -> None:
    sink = LogFile(str(tmp_path), 10_000)
    sink.write("stdout", b"a\nb\nc\n")
    reader = LogReader(tmp_path)
    assert reader.read(LogRequest(tail_lines=2)) == b"b\nc\n"
    assert reader.read(LogRequest(tail_lines=0)) == b""
    assert reader.read(LogRequest(limit_bytes=3)) == b"a\nb"
    assert reader.tail(lines=1, max_bytes=100) == "c\n"
    timed = reader.read(LogRequest(tail_lines=1, timestamps=True))
    assert timed.endswith(b"Z c\n")
    assert reader.read(LogRequest(since_s=4e9)) == b""
    assert parse_line(b"torn") is None


def test_a_follower_sees_everything_once_across_a_rotation(
    tmp_path: Path, run_virtual: Callable[[Any], Any]
) -> None:
    async def story() -> bytes:
        clock = LoopClock(0.0)
        sink = LogFile(str(tmp_path), 2000)
        over = False
        sink.write("stdout", b"0\n1\n")
        seen = bytearray()

        async def read() -> None:
            reader = LogReader(tmp_path)
            async for chunk in reader.follow(LogRequest(), clock=clock, ended=lambda: over):
                seen.extend(chunk)

        task = asyncio.get_running_loop().create_task(read())
        for number in range(2, 100):
            await clock.sleep(0.3)
            sink.write("stdout", f"{number}\n".encode())
        over = True
        await task
        return bytes(seen)

    assert run_virtual(story()) == b"".join(b"%d\n" % number for number in range(100))
    assert (tmp_path / "log.1").exists()
