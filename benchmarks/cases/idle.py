"""Idle: so many runners wait and nothing happens; what is written, read and asked, and the CPU.

Also how long a controller takes from its start to its first effect with as many runners there.
"""

import time

from benchmarks.budget import Rounds
from benchmarks.report import Row
from benchmarks.servers import WRITES
from benchmarks.spent import READS, SETS, is_ours, moment
from benchmarks.world import NAMESPACE, Setting, World, world
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS

WITHIN_S = 600.0
CALM_S = 15.0  # after the burst, until late writes are over
POLL = "poll"


async def measure(setting: Setting, count: int, seconds: float, _rounds: Rounds) -> list[Row]:
    """The idle row, then the restart row, in one world."""
    async with world(setting) as made:
        await made.start_controller()
        await made.add_set("bench", low=count, high=count + 10)
        await made.until_listening()
        await made.eyes.until(lambda s: len(s.online) >= count, within_s=WITHIN_S)
        await made.pause(CALM_S)
        return [await _idle(made, count, seconds), await _restart(made, count)]


async def _idle(made: World, count: int, seconds: float) -> Row:
    before = await moment(made)
    await made.pause(seconds)
    after = await moment(made)
    minutes = seconds / 60.0
    spent = {k: n for k, n in (after.requests - before.requests).items() if is_ours(k[0])}
    calls = after.calls - before.calls

    def a_minute(verbs: tuple[str, ...], *resources: str) -> float:
        """Of these resources, or of all."""
        found = (
            n for (_, v, what), n in spent.items() if v in verbs and what in (resources or (what,))
        )
        return sum(found) / minutes

    cpu_s = after.controller.cpu_s - before.controller.cpu_s
    cpu_s += after.listeners.cpu_s - before.listeners.cpu_s
    return Row(
        f"idle {count}",
        made.server.name,
        {
            "minutes": minutes,
            "set patches/min": a_minute(WRITES, *SETS),
            "other writes/min": a_minute(WRITES) - a_minute(WRITES, *SETS),
            "Secret reads/min": a_minute(READS, "secrets"),
            "ConfigMap reads/min": a_minute(READS, "configmaps"),
            "other reads/min": a_minute(READS) - a_minute(READS, "secrets", "configmaps"),
            "polls/min": calls[POLL] / minutes,
            "GitHub calls/min": sum(calls.values()) / minutes,
            "CPU ms/min": 1000 * cpu_s / minutes,
            "controller RSS MiB": after.controller.rss_mib,
            "listener RSS MiB": after.listeners.rss_mib,
        },
    )


async def _restart(made: World, count: int) -> Row:
    """More were wanted while the controller was away: its first effect is a new runner."""
    assert made.controller is not None
    await made.controller.stop()
    sets = await made.client.list(EPHEMERAL_RUNNER_SETS, NAMESPACE)
    name = sets.items[0].metadata.name or ""
    await made.client.patch(
        EPHEMERAL_RUNNER_SETS, NAMESPACE, name, {"spec": {"replicas": count + 1}}
    )
    there = len(made.eyes.sights.created)
    began_s = time.monotonic()
    await made.start_controller()
    await made.eyes.until(lambda s: len(s.created) > there, within_s=120.0)
    return Row(f"restart {count}", made.server.name, {"first effect s": time.monotonic() - began_s})
