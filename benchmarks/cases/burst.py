"""Burst: no runner, then so many jobs at once; then all jobs end at once.

Whole lives, so that what they cost can be compared with the floor's: from no runner to all pods
made, all online, all `Running`; from the containers' end to all objects gone.
"""

import time

from benchmarks.budget import Rounds
from benchmarks.eyes import delays, percentile
from benchmarks.floor.script import Floor, floor_of
from benchmarks.report import Figures, Row, median_of, ratios_of
from benchmarks.spent import Moment, cpu_ms, moment, requests_of
from benchmarks.world import Setting, World, world

WITHIN_S = 600.0
# A new controller reads whatever may have been a predecessor's once more before it registers it.
SETTLED_S = 6.0
LATE_S = 0.5  # what is written after the last runner has gone


async def measure(setting: Setting, count: int, rounds: Rounds) -> list[Row]:
    """The medians of interleaved rounds of the floor and of ours."""
    ours: list[Figures] = []
    floors: list[Figures] = []
    for _ in rounds:
        floors.append(await floor(setting, count))
        ours.append(await subject(setting, count))
    return [
        Row(
            f"burst {count}",
            setting.server,
            median_of(ours),
            median_of(floors),
            ratios_of(ours, floors),
            rounds.done,
            rounds.note,
        )
    ]


async def subject(setting: Setting, count: int) -> Figures:
    """Our controller and listener."""
    async with world(setting) as made:
        await ready(made, count)
        return await _lives(made, "bench", count, None)


async def ready(made: World, high: int) -> None:
    """A controller, and a set without runners that listens."""
    await made.start_controller()
    await made.add_set("bench", low=0, high=high)
    await made.until_listening()
    await made.pause(SETTLED_S)


async def floor(setting: Setting, count: int) -> Figures:
    """The same requests without a thought."""
    async with world(setting) as made, floor_of(made, setting) as script:
        return await _lives(made, "floor", count, script)


async def _lives(made: World, scale_set: str, count: int, script: Floor | None) -> Figures:
    before = await moment(made, script)
    began_s = time.monotonic()
    for _ in range(count):
        made.github.queue(scale_set, seconds=0.0)
    if script is not None:
        script.create(count)
    await until_running(made, count)
    born = await moment(made, script)
    made.nodes.let_go()
    await made.eyes.until(lambda s: len(s.gone) >= count, within_s=WITHIN_S)
    await made.pause(LATE_S)
    after = await moment(made, script)
    made.say_problems()
    return _times(made, began_s) | _costs(before, born, after, count)


async def until_running(made: World, count: int) -> None:
    """So many runners are online, and their objects say that they have a job."""
    await made.eyes.until(lambda s: len(s.online) >= count, within_s=WITHIN_S)
    await made.eyes.until(lambda s: len(s.running) >= count, within_s=WITHIN_S)


def _times(made: World, began_s: float) -> Figures:
    sights = made.eyes.sights
    late, gone = delays(sights.started, sights.running), delays(sights.exited, sights.gone)
    return {
        "pods s": max(sights.pod.values()) - began_s,
        "online s": max(sights.online.values()) - began_s,
        "started to Running p95 s": percentile(late, 0.95),
        "gone p50 s": percentile(gone, 0.5),
        "gone p95 s": percentile(gone, 0.95),
    }


def _costs(before: Moment, born: Moment, after: Moment, count: int) -> Figures:
    memory: Figures = {"peak RSS MiB": after.controller.peak_rss_mib or after.floor.peak_rss_mib}
    if after.listeners.rss_mib:
        memory["listener RSS MiB"] = after.listeners.rss_mib
    birth = cpu_ms(before, born, count)["CPU ms/life"]
    return {
        **cpu_ms(before, after, count),
        "CPU ms until Running": birth,
        **requests_of(before, after, count),
        **memory,
    }
