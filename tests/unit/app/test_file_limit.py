"""File descriptors: as many as may be had, and one line when they run out."""

import asyncio
import errno
import os
import resource

import pytest
from structlog.testing import capture_logs

from runnerscale.app import file_limit
from runnerscale.core.clock import ManualClock


class Turns(ManualClock):
    """Ends the watch after so many looks."""

    def __init__(self, looks: list[tuple[int, int]]) -> None:
        super().__init__()
        self.looks = looks

    async def sleep(self, seconds: float) -> None:
        if not self.looks:
            raise asyncio.CancelledError
        await super().sleep(seconds)


async def test_a_shortage_is_said_once_until_it_had_been_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = [(10, 64), (60, 64), (64, 64), (50, 64), (60, 64), (20, 64), (58, 64)]
    clock = Turns(list(looks))
    monkeypatch.setattr(file_limit, "used_files", lambda: clock.looks.pop(0))
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await file_limit.watch_files(clock)
    assert [line["used"] for line in logs] == [60, 58]
    assert all("raise the limit" in line["remedy"] for line in logs)


def test_none_left_to_count_with_means_none_left(monkeypatch: pytest.MonkeyPatch) -> None:
    used, limit = file_limit.used_files()
    assert 3 <= used < limit

    def none_left(_: str) -> list[str]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "listdir", none_left)
    assert file_limit.used_files() == (limit, limit)


def test_the_soft_limit_is_raised_but_never_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    unlimited = resource.RLIM_INFINITY
    for limits in ((1024, 4096), (1024, unlimited), (4096, 4096), (unlimited, unlimited)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, found=limits: found)
        file_limit.raise_file_limit()
    assert asked == [(4096, 4096), (file_limit.FILES_MAX, unlimited)]
