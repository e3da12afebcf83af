"""Many sets, one GitHub host that hangs: the others must not notice.

Paired rounds: with the hanging host and without, the same load on the other sets.
"""

import asyncio
import time

from benchmarks import github as pretended
from benchmarks.budget import Rounds
from benchmarks.eyes import percentile
from benchmarks.report import Figures, Row, median_of, ratios_of
from benchmarks.world import NAMESPACE, Setting, World, world
from runnerscale.app.manifests import runner_set
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.fake_github.faults import Action, Match, Rule

WITHIN_S = 300.0
JOBS_EACH = 4


async def measure(setting: Setting, sets: int, rounds: Rounds) -> list[Row]:
    """From queued to online, on all sets but the one whose host hangs.

    Of each pair the one comes first as often as the other.
    """
    calm: list[Figures] = []
    hanging: list[Figures] = []
    for number in rounds:
        for hangs in (False, True) if number % 2 else (True, False):
            found = await _round(setting, sets, hangs=hangs)
            (hanging if hangs else calm).append(found)
    figures: Figures = {}
    for name, value in median_of(hanging).items():
        figures[f"undisturbed {name}"] = median_of(calm)[name]
        figures[f"one host hangs {name}"] = value
        figures[f"× {name}"] = ratios_of(hanging, calm)[name]
    return [Row(f"sets {sets}", setting.server, figures, rounds=rounds.done, note=rounds.note)]


async def _round(setting: Setting, sets: int, *, hangs: bool) -> Figures:
    async with world(setting) as made, pretended.serving() as other:
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
        return {"p50 s": percentile(waits, 0.5), "p95 s": percentile(waits, 0.95)}


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
