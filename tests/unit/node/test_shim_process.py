"""Following a container when the agent has no descriptor or no disk left: never taken for gone."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from runnerscale.core.clock import SystemClock
from runnerscale.node import (
    attempt_files,
    process_identity,
    shim,
    shim_process,
    system_processes,
)
from runnerscale.node.attempt_files import AttemptFolder, ClaimedRecord, ExitRecord, write_record
from runnerscale.node.config import NodeConfig
from runnerscale.node.processes import PodRef, ProcessSpec, StartFailed
from runnerscale.node.shim_logs import LogFile
from runnerscale.node.shim_process import ShimProcess
from runnerscale.node.system_processes import SystemProcesses


def attempt(tmp_path: Path) -> AttemptFolder:
    made = AttemptFolder(tmp_path / "0")
    made.path.mkdir()
    ticks = process_identity.start_ticks(os.getpid())
    assert ticks is not None
    write_record(made.path / "claimed", ClaimedRecord(os.getpid(), ticks, 1.0))
    return made


async def test_no_free_descriptor_is_not_the_end_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim_process, "LOOK_AGAIN_S", 0.01)
    real, missing = process_identity.open_process, 2
    sent: list[Any] = []

    def scarce(pid: int, ticks: int) -> int | None:
        nonlocal missing
        if missing:
            missing -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(pid, ticks)

    monkeypatch.setattr(process_identity, "open_process", scarce)
    monkeypatch.setattr(process_identity, "send", lambda _, number: sent.append(number))
    process = ShimProcess(attempt(tmp_path), started_s=1.0, clock=SystemClock())
    process.follow()
    process.terminate()  # while nobody can be reached
    assert process.exit is None
    async with asyncio.timeout(5):
        while not sent:  # noqa: ASYNC110 - a timer tells nobody
            await asyncio.sleep(0.01)
    assert process.exit is None
    assert len(sent) == 1
    process.release()


async def test_a_full_disk_does_not_make_a_dead_container_look_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(attempt_files, "write_record", full)
    process = ShimProcess(AttemptFolder(tmp_path), started_s=1.0, clock=SystemClock())
    process.settle()
    assert process.exit is not None
    assert (process.exit.code, process.exit.reason) == (137, "ContainerStatusUnknown")


async def test_an_end_that_cannot_be_read_yet_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim_process, "LOOK_AGAIN_S", 0.01)
    folder = attempt(tmp_path)
    folder.note_lost(ExitRecord(3))
    real, missing = folder.ended, [True]

    def scarce() -> ExitRecord | None:
        if missing:
            missing.pop()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real()

    monkeypatch.setattr(folder, "ended", scarce)
    process = ShimProcess(folder, started_s=1.0, clock=SystemClock())
    ended = asyncio.Event()
    process.on_exit(ended.set)
    process.settle()
    assert process.exit is None
    async with asyncio.timeout(5):
        await ended.wait()
    assert process.exit is not None
    assert process.exit.code == 3


async def test_no_container_is_begun_that_could_not_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_processes.resource, "getrlimit", lambda _: (10, 10))
    machine = SystemProcesses(tmp_path, config=NodeConfig(), clock=SystemClock())
    spec = ProcessSpec(PodRef("ns", "a", "uid"), "runner", ("true",), {})
    with pytest.raises(StartFailed, match=r"of 10 file descriptors in use\. Raise its limit"):
        await machine.start(spec)
    await machine.close()


def test_a_claim_on_a_full_disk_leaves_no_folder_that_a_late_shim_could_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    made = AttemptFolder(tmp_path / "0")
    made.path.mkdir()
    monkeypatch.setattr(attempt_files, "write_record", full)
    assert made.take(1.0)
    assert not made.path.exists()


def test_a_pod_folder_goes_when_there_is_no_room_for_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = attempt_files.NodeFolder(tmp_path)
    folder.admit(PodRef("ns", "a", "uid"), 1)
    monkeypatch.setattr(
        attempt_files, "make_private", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "x"))
    )
    folder.remove("uid")
    assert not folder.pod("uid").exists()


def test_a_log_that_cannot_be_put_aside_does_not_end_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogFile(str(tmp_path), 100)
    log.write("stdout", b"x" * 90 + b"\n")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        log.write("stdout", b"lost\n")
    log.write("stdout", b"there again\n")
    assert (tmp_path / "log").read_bytes().endswith(b"there again\n")
    assert (tmp_path / "log.1").exists()


def test_room_for_the_exit_status_is_taken_before_the_start(tmp_path: Path) -> None:
    shim.reserve(str(tmp_path))
    assert (tmp_path / "exit.new").stat().st_size == shim.RESERVED_BYTES
    shim.write_record(str(tmp_path), "exit", {"code": 3})
    assert (tmp_path / "exit.json").read_bytes() == b'{"code": 3}'
