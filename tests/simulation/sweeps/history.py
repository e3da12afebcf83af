"""Plays one canonical scenario: undisturbed, split at all its points, or disturbed at one.

Each history runs in a process of its own, because a killed component is never finalised and
because some scenarios change what is global.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from runnerscale.core.randomness import seeded
from runnerscale.fake_github.options import Options
from tests.simulation.loop import SimulationLoop
from tests.simulation.settlement import missing
from tests.simulation.sweeps.act import Act
from tests.simulation.sweeps.ends import difference, end_of
from tests.simulation.sweeps.forks import Forks, Told
from tests.simulation.sweeps.points import Points
from tests.simulation.sweeps.scenarios import SECOND_GROUP, Canonical
from tests.simulation.sweeps.stage import Stage

Json = dict[str, Any]

SEED = 1  # orders the tasks and nothing else
LOOK_EVERY_S = 2.0
JUDGE_EVERY_S = 5.0
QUIET_LOOKS = 8  # an undisturbed end has been one for so many looks
EQUAL_LOOKS = 2  # a disturbed one is the same for so many
SETTLE_MAX_S = 900.0  # evidence of a failure is kept for ten minutes
OPTIONS = replace(
    Options(), session_life_s=20.0, requeue_delays_s=(10.0,) * 50, runner_groups=(SECOND_GROUP,)
)


class Ground:
    """Where the files of a world are: the present folder, which a child takes along as a copy."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._go()

    def _go(self) -> None:
        folder = tempfile.mkdtemp(dir=self._base)
        os.chdir(folder)

    def move(self) -> None:
        """The parent goes on writing in the old place."""
        before = Path.cwd()
        self._go()
        shutil.copytree(before, Path.cwd(), dirs_exist_ok=True)

    def leave(self) -> None:
        """A child takes its files with it: thousands of folders are not to wait for the end."""
        gone = Path.cwd()
        os.chdir(self._base)
        shutil.rmtree(gone, ignore_errors=True)


def play(canonical: Canonical, points: Points, reference: Json | None) -> Json:
    """The history; its end, and what was wrong. `reference`: the end that is expected."""
    loop = SimulationLoop(seeded(SEED))
    return loop.run(_history(canonical, points, reference))


async def _history(canonical: Canonical, points: Points, reference: Json | None) -> Json:
    stage = Stage(SEED, Path("volumes"), points, github=OPTIONS)
    await stage.start()
    act = Act(stage)
    act.prepare()
    judging = asyncio.get_running_loop().create_task(_judge(stage))
    await canonical.play(act)
    script_s = stage.clock.monotonic_s()
    unlike = await _come_to_rest(stage, reference)
    points.armed = False
    judging.cancel()
    struck = points.struck
    return {
        "point": struck.as_json() if struck else None,
        "breaches": [str(breach) for breach in stage.judge.breaches],
        "missing": [*act.gave_up, *_missing(stage)],
        "unlike": unlike,
        "end": end_of(stage) if struck is None else {},
        "script_s": script_s,
        "virtual_s": stage.clock.monotonic_s(),
        "counts": dict(points.counts),
        "numbers": sorted(points.numbers),
        "same_view": points.same_view,
        "trace": list(stage.trace.lines) if points.only or points.forks is None else [],
    }


def _missing(stage: Stage) -> list[str]:
    assert stage.api is not None
    return missing(stage)


async def _judge(stage: Stage) -> None:
    while True:
        await stage.clock.sleep(JUDGE_EVERY_S)
        stage.judge.tick(stage)


async def _come_to_rest(stage: Stage, reference: Json | None) -> list[str]:
    """Until nothing is missing and the end is the expected one; the least it ever differed."""
    until_s = stage.clock.monotonic_s() + SETTLE_MAX_S
    unlike: list[str] = []
    least: list[str] = []
    quiet = 0
    while stage.clock.monotonic_s() < until_s:
        await stage.clock.sleep(LOOK_EVERY_S)
        struck = stage.points.struck is not None
        wrong = bool(_missing(stage))
        if struck and reference is not None and not wrong:
            unlike = difference(reference, end_of(stage))
            least = unlike if not least or len(unlike) < len(least) else least
        quiet = 0 if wrong or unlike else quiet + 1
        if quiet >= (EQUAL_LOOKS if struck else QUIET_LOOKS):
            return []
    return least


def undisturbed(canonical: Canonical, base: Path) -> Json:
    """The history as it is meant to be."""
    Ground(base)
    return play(canonical, Points(), None)


def alone(canonical: Canonical, points: Points, base: Path, reference: Json) -> Json:
    """Disturbed at the one point that `points` names."""
    Ground(base)
    return play(canonical, points, reference)


def split(
    canonical: Canonical,
    points: Points,
    base: Path,
    reference: Json,
    *,
    alive: int,
    heard: Callable[[Told], None],
) -> Json:
    """Split at every point; `heard` is called with what each child tells, and all is returned."""
    ground = Ground(base)
    forks = Forks(alive, at_birth=ground.move, heard=heard)
    points.forks = forks
    found = play(canonical, points, reference)
    if forks.is_child:
        ground.leave()
        forks.report(found)
    found["told"] = [
        {"label": told.label.as_json(), "report": told.report} for told in forks.collect()
    ]
    found["children_cpu_s"] = forks.cpu_s
    return found
