"""Idle: so many runners wait and nothing happens; what is written, read and asked, and the CPU.

Also how long a controller takes from its start to its first effect with as many runners there.
"""

import asyncio
import time

from benchmarks.report import Row
from benchmarks.servers import WRITES
from benchmarks.world import NAMESPACE, World, world
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS

WITHIN_S = 600.0
CALM_S = 15.0  # after the burst, until late writes are over


async def measure(server: str, count: int, *, seconds: float) -> list[Row]:
    """The idle row, then the restart row, in one world."""
    async with world(server) as made:
        await made.start_controller()
        await made.add_set("bench", low=count, high=count + 10)
        await made.until_listening()
        await made.eyes.until(lambda s: len(s.online) >= count, within_s=WITHIN_S)
        await asyncio.sleep(CALM_S)
        return [await _idle(made, server, count, seconds), await _restart(made, server, count)]


async def _idle(made: World, server: str, count: int, seconds: float) -> Row:
    before, asked, calls = made.ours(), await made.server.requests(), made.github.calls()
    await asyncio.sleep(seconds)
    after, now_asked = made.ours(), await made.server.requests()
    spent = now_asked - asked
    ours = {k: n for k, n in spent.items() if "serviceaccount" in k[0]}
    now_calls = made.github.calls()
    minutes = seconds / 60.0
    controller = [made.controller.pid] if made.controller else []
    from benchmarks.machine import used

    return Row(
        f"idle {count}",
        server,
        {
            "minutes": minutes,
            "writes/min": sum(n for (_, v, _), n in ours.items() if v in WRITES) / minutes,
            "reads/min": sum(n for (_, v, _), n in ours.items() if v in ("get", "list")) / minutes,
            "GitHub calls/min": (sum(now_calls.values()) - sum(calls.values())) / minutes,
            "CPU ms/min": 1000 * (after.cpu_s - before.cpu_s) / minutes,
            "controller RSS MiB": used(controller).rss_mib,
            "listener RSS MiB": after.rss_mib - used(controller).rss_mib,
        },
    )


async def _restart(made: World, server: str, count: int) -> Row:
    """The minimum was raised while the controller was away: its first effect is a new runner."""
    assert made.controller is not None
    await made.controller.stop()
    path = EPHEMERAL_RUNNER_SETS
    sets = await made.client.list(path, NAMESPACE)
    name = sets.items[0].metadata.name or ""
    await made.client.patch(path, NAMESPACE, name, {"spec": {"replicas": count + 1}})
    there = len(made.eyes.sights.created)
    began_s = time.monotonic()
    await made.start_controller()
    await made.eyes.until(lambda s: len(s.created) > there, within_s=120.0)
    return Row(f"restart {count}", server, {"first effect s": time.monotonic() - began_s})
