"""Every part of the system killed under jobs: nothing is lost, and the jobs end."""

import os
import signal
from pathlib import Path

from tests.system.plant import Plant

JOBS = 9


async def test_each_part_is_killed_under_jobs_and_nothing_is_lost(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.running():
        await plant.witness()
        await plant.queue(JOBS, seconds=2)
        await plant.until_started(2)
        kept = await plant.kept()
        for part in (plant.controller, plant.api, plant.node):
            part.kill()
            part.start()
            if part is plant.api:
                await plant.until_api()
            assert await plant.kept() == kept
        for pid in plant.listener_pids():
            os.kill(pid, signal.SIGKILL)
        await plant.until_done(JOBS, within_s=90)
        await plant.until_clean()
        assert await plant.kept() == kept
