"""Steady: jobs come at an even pace for minutes; how long each waits, what it costs and grows."""

import asyncio
import time

from benchmarks.budget import Rounds
from benchmarks.eyes import percentile
from benchmarks.report import Figures, Row
from benchmarks.world import Setting, world

WITHIN_S = 300.0
SAMPLE_EVERY_S = 5.0
JOB_S = 30.0
WARM_UP = 0.2  # of the time: memory of the first jobs is no leak


async def measure(
    setting: Setting, jobs_per_s: float, seconds: float, _rounds: Rounds
) -> list[Row]:
    """Our controller and listener under this load."""
    async with world(setting) as made:
        await made.start_controller()
        high = int(jobs_per_s * (JOB_S + 30.0))
        await made.add_set("bench", low=0, high=high)
        await made.until_listening()
        before = made.ours()
        began_s = time.monotonic()
        queued: dict[int, float] = {}
        samples: list[tuple[float, float]] = []
        next_sample_s = 0.0
        for number in range(int(jobs_per_s * seconds)):
            at_s = number / jobs_per_s
            await asyncio.sleep(max(0.0, began_s + at_s - time.monotonic()))
            job = made.github.queue("bench", seconds=JOB_S)
            queued[job.number] = time.monotonic()
            if at_s >= next_sample_s:
                next_sample_s += SAMPLE_EVERY_S
                samples.append((at_s, made.ours().rss_mib))
        wall_s = time.monotonic() - began_s
        cpu_share = (made.ours().cpu_s - before.cpu_s) / wall_s
        await made.eyes.until(lambda s: len(s.gone) >= len(queued), within_s=WITHIN_S)
        waits = [
            made.nodes.job_starts[number] - at_s
            for number, at_s in queued.items()
            if number in made.nodes.job_starts
        ]
        made.say_problems()
        figures: Figures = {
            "jobs": float(len(queued)),
            "minutes": wall_s / 60.0,
            "queue to start p50 s": percentile(waits, 0.5),
            "queue to start p99 s": percentile(waits, 0.99),
            "CPU share of a core": cpu_share,
            "RSS slope MiB/min": slope(samples[int(len(samples) * WARM_UP) :]) * 60.0,
            "RSS at the end MiB": samples[-1][1],
            "jobs not started": float(len(queued) - len(waits)),
        }
        return [Row(f"steady {jobs_per_s:g}/s", setting.server, figures)]


def slope(points: list[tuple[float, float]]) -> float:
    """Least squares; 0 where there are too few points."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
