"""Churn: so many busy runners finish at once while as many jobs wait; several times.

Reported: from a container's end to its runner object gone, and to its replacement's job started.
"""

from collections.abc import Callable

from benchmarks.budget import Rounds
from benchmarks.cases.burst import ready
from benchmarks.eyes import Sights, delays, percentile
from benchmarks.floor.script import floor_of
from benchmarks.report import Figures, Row, median_of, ratios_of
from benchmarks.spent import cpu_ms, moment
from benchmarks.world import Setting, World, world

WITHIN_S = 300.0
TIMES = 5  # that all finish, in one round; two rounds make the ten of the table


async def measure(setting: Setting, count: int, rounds: Rounds) -> list[Row]:
    """Interleaved rounds of the floor and of ours, each `TIMES` times in one world."""
    ours: list[Figures] = []
    floors: list[Figures] = []
    for _ in rounds:
        floors.append(await floor(setting, count))
        ours.append(await subject(setting, count))
    return [
        Row(
            f"churn {count}",
            setting.server,
            median_of(ours),
            median_of(floors),
            ratios_of(ours, floors),
            rounds.done,
            rounds.note or f"each {TIMES} times",
        )
    ]


async def subject(setting: Setting, count: int) -> Figures:
    """Our controller and listener."""
    async with world(setting) as made:
        await ready(made, count)
        before = await moment(made)
        found = await _all_times(made, "bench", count, lambda _: None)
        cost = cpu_ms(before, await moment(made), (TIMES + 1) * count)
        made.say_problems()
        return found | cost


async def floor(setting: Setting, count: int) -> Figures:
    """The script: removes what has ended, and makes as many anew."""
    async with world(setting) as made, floor_of(made, setting) as script:
        before = await moment(made, script)

        def begins(is_last: bool) -> None:
            script.replaces = not is_last
            if not script.made:
                script.create(count)

        found = await _all_times(made, "floor", count, begins)
        cost = cpu_ms(before, await moment(made, script), (TIMES + 1) * count)
        made.say_problems()
        return found | cost


async def _all_times(
    made: World, scale_set: str, count: int, begins: Callable[[bool], None]
) -> Figures:
    """The end of its job is told to each runner at once; `begins` hears whether it is the last."""
    for number in range(TIMES + 1):
        for _ in range(count):
            made.github.queue(scale_set, seconds=0.0)
        begins(False)
        if number:
            made.nodes.let_go()
        await made.eyes.until_started((number + 1) * count, within_s=WITHIN_S)
    await made.eyes.until(lambda s: len(s.gone) >= TIMES * count, within_s=WITHIN_S)
    figures = _figures(made.eyes.sights, count)
    begins(True)
    made.nodes.let_go()
    await made.eyes.until(lambda s: len(s.gone) >= (TIMES + 1) * count, within_s=WITHIN_S)
    return figures


def _figures(sights: Sights, count: int) -> Figures:
    gone = delays(sights.exited, sights.gone)
    # The n-th to end is replaced by the n-th to start after the first lot.
    ends = sorted(sights.exited.values())
    starts = sorted(sights.started.values())[count:]
    replaced = [start - end for end, start in zip(ends, starts, strict=True)]
    found: Figures = {}
    for name, values in (("gone", gone), ("replaced", replaced)):
        for share in (50, 95, 99):
            found[f"{name} p{share} s"] = percentile(values, share / 100)
    late = delays(sights.started, sights.running)
    return {**found, "started to Running p95 s": percentile(late, 0.95)}
