"""Many sets, one GitHub host that hangs: the others must not notice.

Paired rounds: with the hanging host and without, the same load on the other sets.
"""

import asyncio
import time

from benchmarks import github as pretended
from benchmarks.eyes import percentile
from benchmarks.report import Row, median_of
from benchmarks.world import NAMESPACE, World, world
from runnerscale.app.manifests import runner_set
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.fake_github.faults import Action, Match, Rule

WITHIN_S = 300.0
JOBS_EACH = 4
Figures = dict[str, float | None]


async def measure(server: str, sets: int, *, rounds: int) -> Row:
    """The p95 from queued to online on all sets but the one whose host hangs."""
    calm: list[Figures] = []
    hanging: list[Figures] = []
    for _ in range(rounds):
        calm.append(await _round(server, sets, hangs=False))
        hanging.append(await _round(server, sets, hangs=True))
    without, with_ = median_of(calm), median_of(hanging)
    least, mine = without["queued to online p95 s"], with_["queued to online p95 s"]
    ratio = mine / least if mine is not None and least else None
    figures: Figures = {
        "undisturbed p95 s": least,
        "one host hangs p95 s": mine,
        "× p95": ratio,
    }
    return Row(f"sets {sets}", server, figures)


async def _round(server: str, sets: int, *, hangs: bool) -> Figures:
    async with world(server) as made, pretended.serving() as other:
        made.nodes.githubs.append(other)
        await made.start_controller()
        names = [f"set-{number:02d}" for number in range(sets - 1)]
        for name in names:
            await made.add_set(name, low=0, high=JOBS_EACH)
        await _add_elsewhere(made, other.url)
        await made.until_listening(len(names))
        await _until_listening(other)
        if hangs:
            other.hub.faults.add(Rule(Match(), Action(black_hole=True)))
        queued: dict[str, list[float]] = {}
        for _ in range(JOBS_EACH):
            for name in names:
                made.github.queue(name, seconds=3600.0)
                queued.setdefault(name, []).append(time.monotonic())
            other.queue("elsewhere", seconds=3600.0)
        wanted = len(names) * JOBS_EACH
        await made.eyes.until(lambda s: _of(s.online, names) >= wanted, within_s=WITHIN_S)
        waits = []
        for name in names:
            online = sorted(
                at for who, at in made.eyes.sights.online.items() if who.startswith(f"{name}-")
            )
            waits += [at - since for since, at in zip(queued[name], online, strict=False)]
        return {"queued to online p95 s": percentile(waits, 0.95)}


def _of(online: dict[str, float], names: list[str]) -> int:
    starts = tuple(f"{name}-" for name in names)
    return sum(who.startswith(starts) for who in online)


async def _add_elsewhere(made: World, url: str) -> None:
    await made.apply(
        [
            runner_set(
                NAMESPACE,
                "elsewhere",
                config_url=f"{url}/demo-org/demo",
                min_runners=0,
                max_runners=JOBS_EACH,
                version=COMPATIBLE_VERSION,
            )
        ]
    )


async def _until_listening(other: pretended.GitHub) -> None:
    async with asyncio.timeout(60.0):
        while not other.hub.state.sessions:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.02)
