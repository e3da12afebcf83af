"""The embedded API server alone: writes, lists and watch events a second, on disk and in memory.

On disk it is as durable as in production: what was answered survives kill -9. The client is in
this process, and on the same machine: what it takes is not there for the server.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from benchmarks.budget import Rounds
from benchmarks.report import Figures, Row
from benchmarks.world import NAMESPACE, Setting, World, world
from runnerscale.kube.builtin import CONFIG_MAPS

AT_ONCE = 64
WATCHES = 10
PAYLOAD = {"text": "x" * 1500}
WITHIN_S = 120.0


async def measure(setting: Setting, count: int, _rounds: Rounds) -> list[Row]:
    """One row for each way to keep the objects."""
    rows = []
    for server in (setting.server, f"{setting.server}, memory"):
        async with world(Setting(server)) as made:
            rows.append(Row(f"embedded API {count}", server, await _figures(made, count)))
    return rows


async def _figures(made: World, count: int) -> Figures:
    client = made.client
    names = [f"thing-{number:05d}" for number in range(count)]

    async def create(name: str) -> None:
        body = {"metadata": {"name": name}, "data": PAYLOAD}
        await client.create(CONFIG_MAPS, NAMESPACE, body)

    async def patch(name: str) -> None:
        await client.patch(CONFIG_MAPS, NAMESPACE, name, {"data": {"more": name}})

    async def patch_again(name: str) -> None:
        await client.patch(CONFIG_MAPS, NAMESPACE, name, {"data": {"more": "again"}})

    async def delete(name: str) -> None:
        await client.delete(CONFIG_MAPS, NAMESPACE, name)

    found: Figures = {
        "creates/s": count / await _timed(create, names),
        "patches/s": count / await _timed(patch, names),
    }
    began_s = time.monotonic()
    listed = await client.list(CONFIG_MAPS, NAMESPACE)
    found[f"list of {count} ms"] = 1000 * (time.monotonic() - began_s)
    found[f"watch events/s to {WATCHES}"] = await _watched(
        made, listed.resource_version, patch_again, names
    )
    found["deletes/s"] = count / await _timed(delete, names)
    return found


async def _timed(work: Callable[[str], Awaitable[None]], names: list[str]) -> float:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with room:
            await work(name)

    began_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))
    return time.monotonic() - began_s


async def _watched(
    made: World, version: str, work: Callable[[str], Awaitable[None]], names: list[str]
) -> float:
    """Each change is told to all watches; their number by the time until the last was told."""
    began_s = time.monotonic()

    async def watch() -> None:
        heard = 0
        async for _ in made.client.watch(CONFIG_MAPS, NAMESPACE, resource_version=version):
            heard += 1
            if heard >= len(names):
                return

    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
        for _ in range(WATCHES):
            group.create_task(watch())
        await _timed(work, names)
    return WATCHES * len(names) / (time.monotonic() - began_s)
