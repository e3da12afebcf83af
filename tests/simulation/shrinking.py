"""The smallest scenario that still fails: fewer faults, jobs and sets, closer together.

What is left is named by its place in the scenario that the seed draws, so that it can be asked
for again: `make simulate SEED=n ARGS="--keep-faults 2,5 --keep-jobs 0"`.
"""

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, replace
from typing import TypeVar

from tests.simulation.drive import Outcome
from tests.simulation.scenario import PlannedFault, PlannedJob, Scenario

RUNS_MAX = 60
PACES = (0.1, 0.3, 0.6)

Run = Callable[[Scenario], Outcome]
Places = tuple[int, ...]
Planned = TypeVar("Planned", PlannedJob, PlannedFault)


@dataclass(frozen=True, slots=True)
class Keep:
    """Which parts of a scenario; None: all of them."""

    faults: tuple[int, ...] | None = None
    jobs: tuple[int, ...] | None = None
    sets: tuple[int, ...] | None = None
    pace: float = 1.0  # of the times at which things happen

    def of(self, scenario: Scenario) -> Scenario:
        """What is left of it; jobs whose set is gone go with it."""
        sets, jobs, faults = self.places(scenario)
        return replace(
            scenario,
            sets=tuple(scenario.sets[at] for at in sets),
            jobs=tuple(self._paced(scenario.jobs[at]) for at in jobs),
            faults=tuple(self._paced(scenario.faults[at]) for at in faults),
        )

    def places(self, scenario: Scenario) -> tuple[Places, Places, Places]:
        """Of the sets, jobs and faults that are left: where they are in the scenario."""
        sets = _kept(scenario.sets, self.sets)
        names = {scenario.sets[at].name for at in sets}
        jobs = _kept(scenario.jobs, self.jobs)
        jobs = tuple(at for at in jobs if scenario.jobs[at].set_name in names)
        return sets, jobs, _kept(scenario.faults, self.faults)

    def _paced(self, planned: Planned) -> Planned:
        return replace(planned, at_s=planned.at_s * self.pace)

    def strangers(self, scenario: Scenario) -> list[str]:
        """What is to be kept and is not there: `fault 999`."""
        parts = (
            ("fault", scenario.faults, self.faults),
            ("job", scenario.jobs, self.jobs),
            ("set", scenario.sets, self.sets),
        )
        return [
            f"{name} {place}"
            for name, there, kept in parts
            for place in kept or ()
            if not 0 <= place < len(there)
        ]

    def arguments(self) -> str:
        """As they are written in a command."""
        parts = [
            f"--keep-{name} {','.join(map(str, kept)) or 'none'}"
            for name in ("faults", "jobs", "sets")
            if (kept := getattr(self, name)) is not None
        ]
        return " ".join([*parts, *([f"--pace {self.pace}"] if self.pace != 1.0 else [])])


def smaller(scenario: Scenario, first: Outcome, run: Run, *, runs_max: int = RUNS_MAX) -> Keep:
    """What of the scenario still fails in the same way as `first`; `runs_max` bounds the search."""
    left = runs_max
    best = Keep()

    def fails(keep: Keep) -> bool:
        nonlocal left
        left -= 1
        return bool(run(keep.of(scenario)).rules & first.rules)

    for part in ("faults", "jobs", "sets"):
        for less in _fewer(len(getattr(scenario, part))):
            keep = replace(best, **{part: less(getattr(best, part))})
            if left > 0 and keep != best and fails(keep):
                best = keep
    for pace in PACES:
        if left > 0 and best.pace == 1.0 and fails(replace(best, pace=pace)):
            best = replace(best, pace=pace)
    return best


def _fewer(count: int) -> Iterator[Callable[[tuple[int, ...] | None], tuple[int, ...]]]:
    """Ways of leaving some out: all, halves, quarters, then one by one, the last ones first."""
    every = tuple(range(count))

    def without(gone: range) -> Callable[[tuple[int, ...] | None], tuple[int, ...]]:
        return lambda kept: tuple(p for p in (every if kept is None else kept) if p not in gone)

    size = count
    while size > 0:
        for end in range(count, 0, -size):
            yield without(range(max(0, end - size), end))
        size = size // 2


def _kept(items: Sized, places: Places | None) -> Places:
    return tuple(at for at in range(len(items)) if places is None or at in places)
