"""Every part stands still for a minute (SIGSTOP) under jobs, then goes on (SIGCONT).

Worse than a death: nobody starts it again, its connections stay open, and it wakes up with an old
view. The worlds wait side by side.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from runnerscale.kube.builtin import LEASES
from tests.system.plant import Part, Plant, until

MINUTE_S = 60.0  # what stands in the issue; not a wait for a result
JOBS = 6
pytestmark = pytest.mark.timeout(280)


async def test_a_minute_of_standstill_of_each_part_loses_nothing(tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as group:
        for name, pids in STOPPED.items():
            group.create_task(standstill(tmp_path / name, pids), name=name)
        group.create_task(leader_stands_still(tmp_path / "leader"))


STOPPED: dict[str, Callable[[Plant], list[int]]] = {
    "api": lambda plant: [plant.api.pid],
    "node": lambda plant: [plant.node.pid],
    "listener": lambda plant: plant.listener_pids(),
}


async def standstill(folder: Path, pids_of: Callable[[Plant], list[int]]) -> None:
    """One part stands still while jobs run, end and come."""
    plant = Plant(folder)
    async with plant.running():
        await plant.witness()
        await plant.queue(2, seconds=5)
        await plant.until_started(2)
        kept = await plant.kept()
        pids = pids_of(plant)
        assert pids
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            await plant.queue(JOBS - 2, seconds=1)
            await asyncio.sleep(MINUTE_S)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        await plant.until_done(JOBS, within_s=90)
        await plant.until_clean()
        assert await plant.kept() == kept
        assert all(part.runs for part in plant.parts), plant.tell()


async def leader_stands_still(folder: Path) -> None:
    """The other one leads within the lease; who wakes up ends, and is a standby again."""
    plant = Plant(folder, leaders=2)
    async with plant.running():
        await plant.queue(1)
        await plant.until_done(1)
        first = await leader(plant)
        first.signal(signal.SIGSTOP)
        try:
            await plant.queue(JOBS - 1, seconds=1)
            await plant.until_done(JOBS, within_s=90)  # without it
            assert await leader(plant) is not first
            await asyncio.sleep(MINUTE_S / 2)
        finally:
            first.signal(signal.SIGCONT)
        # It may find itself without a lease and compete again; work of its own it must not do.
        await plant.queue(2)
        await plant.until_done(JOBS + 2)
        await plant.until_clean()
        assert await leader(plant) is not first
        if not first.runs:
            assert "lease" in first.last_words, first.said()
        assert "lease not renewed in time, stopping the work" in first.said() or (
            "lease lost" in first.said() or "lease" in first.last_words
        ), first.said()


async def leader(plant: Plant) -> Part:
    """Who holds the lease now."""
    found: list[Part] = []

    async def held() -> bool:
        leases = (await plant.admin.list(LEASES, "runnerscale-system")).items
        holders = [str(lease.spec.holder_identity) for lease in leases if lease.spec]
        found[:] = [p for p in plant.controllers if any(h.startswith(p.name) for h in holders)]
        return len(found) == 1

    await until(held, why=plant.tell)
    return found[0]
