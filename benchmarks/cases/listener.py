"""The listener alone: start to session, memory, messages a second, from poll to patch."""

import time

from benchmarks.eyes import delays, percentile
from benchmarks.machine import used
from benchmarks.report import Row
from benchmarks.world import world

WITHIN_S = 180.0


async def measure(server: str, count: int) -> Row:
    """One job after the other, each a message of its own, on runners that wait."""
    async with world(server) as made:
        await made.start_controller()
        await made.add_set("bench", low=0, high=count)
        await made.until_listening()
        session_s = time.monotonic() - made.nodes.listener_starts[0]
        pids = [child.pid for child in made.nodes.listeners.values()]
        at_start = used(pids)
        for _ in range(count):
            made.github.queue("bench", seconds=3600.0)
        await made.eyes.until(lambda s: len(s.running) >= count, within_s=WITHIN_S)
        late = delays(made.eyes.sights.started, made.eyes.sights.running)
        after = used(pids)
        figures: dict[str, float | None] = {
            "start to session s": session_s,
            "RSS MiB": at_start.rss_mib,
            "RSS after MiB": after.rss_mib,
            "started to Running p50 s": percentile(late, 0.5),
            "started to Running p95 s": percentile(late, 0.95),
            "CPU ms/job": 1000 * (after.cpu_s - at_start.cpu_s) / count,
        }
        return Row(f"listener {count}", server, figures)
