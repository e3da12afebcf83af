"""Every part asked to end (SIGTERM): in order, within its grace, with exit code 0, nothing lost."""

import asyncio
import os
import signal
from pathlib import Path

from tests.system.plant import Part, Plant, until


async def test_each_part_ends_in_order_when_it_is_asked_to(tmp_path: Path) -> None:
    # A session that outlives its listener by far: only a goodbye lets the next one in at once.
    plant = Plant(tmp_path, session_s=600.0)
    async with plant.running():
        await plant.witness()
        await plant.queue(2, seconds=4)
        await plant.until_started(2)
        kept = await plant.kept()
        await _ends_in_order(plant.controller)
        await plant.queue(1)  # heard by the listener, served when the controller is back
        plant.controller.start()
        await plant.until_done(3)

        [listener] = await _listener(plant)
        os.kill(listener, signal.SIGTERM)
        await until(lambda: _gone(plant, listener), why=plant.tell)
        await plant.queue(1)  # served within a minute: the session was closed
        await plant.until_done(4)

        await _ends_in_order(plant.api)
        assert not (tmp_path / "api" / "objects.sqlite-wal").exists()  # written back
        plant.api.start()
        await plant.until_api()
        assert await plant.kept() == kept
        await plant.queue(1)
        await plant.until_done(5)
        await plant.until_clean()

        # The node takes its containers with it (--stop-pods) and says so; then it comes back.
        await _ends_in_order(plant.node)
        assert plant.listener_pids() == []
        plant.node.start()
        await plant.queue(1)
        await plant.until_done(6)
        await _ends_in_order(plant.controller)
        await _ends_in_order(plant.node)
        await _ends_in_order(plant.api)
        await _ends_in_order(plant.github)


async def _ends_in_order(part: Part) -> None:
    part.signal(signal.SIGTERM)
    code = await part.ended()
    assert code == 0, part.said()
    assert "Traceback" not in part.said(), part.said()


async def _listener(plant: Plant) -> list[int]:
    async def there() -> bool:
        return len(plant.listener_pids()) == 1

    await until(there, why=plant.tell)
    return plant.listener_pids()


async def _gone(plant: Plant, pid: int) -> bool:
    await asyncio.sleep(0)
    return pid not in plant.listener_pids()
