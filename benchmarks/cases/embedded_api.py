"""The embedded API server alone: writes, lists and watch events a second, in memory and on disk."""

import asyncio
import time
from typing import Any

from benchmarks.report import Row
from benchmarks.world import NAMESPACE, world
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.kube.builtin import CONFIG_MAPS
from runnerscale.kube.informer import Informer

AT_ONCE = 64
PAYLOAD = {"text": "x" * 1500}


async def measure(count: int) -> Row:
    """With SQLite, as the single machine has it."""
    async with world("embedded") as made:
        client = made.client
        events = 0

        def heard(_change: Any) -> None:
            nonlocal events
            events += 1

        informer = Informer(client, CONFIG_MAPS, clock=SystemClock(), random=system_random())
        informer.on_change(heard)
        watching = asyncio.ensure_future(informer.run())
        await informer.wait_synced()
        room = asyncio.Semaphore(AT_ONCE)

        async def timed(work: Any) -> float:
            began_s = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for number in range(count):
                    group.create_task(work(f"thing-{number:05d}"))
            return count / (time.monotonic() - began_s)

        async def create(name: str) -> None:
            async with room:
                await client.create(
                    CONFIG_MAPS, NAMESPACE, {"metadata": {"name": name}, "data": PAYLOAD}
                )

        async def patch(name: str) -> None:
            async with room:
                await client.patch(CONFIG_MAPS, NAMESPACE, name, {"data": {"more": name}})

        async def delete(name: str) -> None:
            async with room:
                await client.delete(CONFIG_MAPS, NAMESPACE, name)

        heard_before, began_s = events, time.monotonic()
        creates = await timed(create)
        patches = await timed(patch)
        lists_s = time.monotonic()
        await client.list(CONFIG_MAPS, NAMESPACE)
        list_s = time.monotonic() - lists_s
        deletes = await timed(delete)
        async with asyncio.timeout(30.0):
            while events - heard_before < 3 * count:  # noqa: ASYNC110 - counted by a callback
                await asyncio.sleep(0.01)
        per_s = (events - heard_before) / (time.monotonic() - began_s)
        watching.cancel()
        figures: dict[str, float | None] = {
            "creates/s": creates,
            "patches/s": patches,
            "deletes/s": deletes,
            f"list of {count} ms": 1000 * list_s,
            "watch events/s": per_s,
        }
        return Row(f"embedded API {count}", "embedded", figures)
