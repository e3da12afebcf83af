"""Churn: so many busy runners finish at once while as many jobs wait; several rounds.

Reported: from a container's end to its runner object gone, and to its replacement's job started.
"""

import asyncio

from benchmarks.eyes import delays, percentile
from benchmarks.floor import Floor
from benchmarks.report import Row, with_ratios
from benchmarks.world import World, world

WITHIN_S = 300.0
Figures = dict[str, float | None]
RATIOS = ("gone p95 s", "replaced p95 s")


async def measure(server: str, count: int, *, rounds: int) -> Row:
    """All rounds in one world, ours and the floor's."""
    least = await floor(server, count, rounds)
    ours = await subject(server, count, rounds)
    return Row(f"churn {count}", server, with_ratios(ours, least, RATIOS))


async def subject(server: str, count: int, rounds: int) -> Figures:
    """Our controller and listener."""
    async with world(server) as made:
        await made.start_controller()
        await made.add_set("bench", low=0, high=count)
        await made.until_listening()
        return await _rounds(made, "bench", count, rounds)


async def floor(server: str, count: int, rounds: int) -> Figures:
    """The script: removes what has ended, and makes as many anew."""
    async with world(server) as made:
        script = Floor(made)
        await script.prepare()
        idle = set(made.eyes.sights.online)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(script.listen())
            replacing = group.create_task(_replace(made, script, idle))
            await script.create(count)
            figures = await _rounds(made, "floor", count, rounds)
            listening.cancel()
            replacing.cancel()
        await script.close()
        return figures


async def _replace(made: World, script: Floor, known: set[str]) -> None:
    done = set(known)
    async with asyncio.TaskGroup() as group:
        while True:
            await made.eyes.news()
            for name in [n for n in made.eyes.sights.exited if n not in done]:
                done.add(name)
                group.create_task(script.remove(name))
                group.create_task(script.create(1))


async def _rounds(made: World, scale_set: str, count: int, rounds: int) -> Figures:
    """A job's end is told to all its round at once, so that all end together."""
    sights = made.eyes.sights
    for number in range(rounds + 1):
        for _ in range(count):
            made.github.queue(scale_set, seconds=0.0)
        if number:
            made.nodes.let_go()
        await made.eyes.until_started((number + 1) * count, within_s=WITHIN_S)
    made.nodes.let_go()
    await made.eyes.until(lambda s: len(s.gone) >= rounds * count, within_s=WITHIN_S)
    gone = delays(sights.exited, sights.gone)
    # The n-th to end is replaced by the n-th to start after the first round.
    ends = sorted(sights.exited.values())[: rounds * count]
    starts = sorted(sights.started.values())[count : (rounds + 1) * count]
    replaced = [start - end for end, start in zip(ends, starts, strict=True)]
    return {
        "gone p50 s": percentile(gone, 0.5),
        "gone p95 s": percentile(gone, 0.95),
        "gone p99 s": percentile(gone, 0.99),
        "replaced p50 s": percentile(replaced, 0.5),
        "replaced p95 s": percentile(replaced, 0.95),
        "replaced p99 s": percentile(replaced, 0.99),
    }
