"""A part that cannot be started: the remedy is about what was missing, and it is tried again."""

import asyncio
import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from runnerscale.app.problem import Problem
from runnerscale.app.supervisor import Child, Supervisor, start_remedy
from runnerscale.core.clock import SystemClock

CHILD = Child("api-server", ["/bin/python"], Path("/logs/api-server.log"))


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EMFILE, "open files"),
        (errno.ENFILE, "open files"),
        (errno.EAGAIN, "limit of processes"),
        (errno.ENOMEM, "memory"),
        (errno.ENOSPC, "/logs/api-server.log"),
        (errno.ENOENT, "/bin/python exists"),
        (errno.EACCES, "/bin/python exists"),
    ],
)
def test_the_remedy_fits_what_was_missing(number: int, remedy: str) -> None:
    assert remedy in start_remedy(OSError(number, os.strerror(number)), CHILD)


def test_a_log_that_cannot_be_written_is_not_the_programs_fault() -> None:
    error = OSError(errno.EACCES, "Permission denied", "/logs/api-server.log")
    assert "/logs/api-server.log" in start_remedy(error, CHILD)


async def test_files_that_run_out_are_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    child = Child("api-server", [sys.executable], tmp_path / "log")
    with pytest.raises(Problem, match=r"Too many open files. Raise the limit of open files"):
        await Supervisor(SystemClock()).start(child)


async def test_a_part_that_cannot_be_started_again_is_tried_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnerscale.app.supervisor.RESTART_WAIT_S", 0.01)
    real = asyncio.create_subprocess_exec
    refused = [errno.EMFILE, errno.EMFILE]

    async def scarce(*words: Any, **more: Any) -> asyncio.subprocess.Process:
        if child.starts > 1 and refused:
            number = refused.pop()
            raise OSError(number, os.strerror(number))
        return await real(*words, **more)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", scarce)
    child = Child("part", [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log")
    supervisor = Supervisor(SystemClock())
    with capture_logs() as logs:
        await supervisor.start(child)
        first = child.pid
        supervisor.kill("part")
        async with asyncio.timeout(20):
            while child.pid in (0, first):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert sum(line["event"] == "process cannot be started" for line in logs) == 2
    await supervisor.stop()
