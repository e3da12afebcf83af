"""One seed: which sets there are, what users do, what goes wrong and when. Drawn, not decided.

`draw` is pure: the same seed gives the same scenario, and a scenario can be made smaller
(fewer jobs, fewer faults) while the rest stays as it was.
"""

from dataclasses import dataclass, field

from runnerscale.core.randomness import Random, seeded

FAULTS_UNTIL_S = 300.0
JOBS_MAX = 12


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """Queued at a time, for one set."""

    at_s: float
    set_name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault of a kind from a time on; `seconds` where it lasts."""

    at_s: float
    kind: str
    seconds: float
    draw: float  # 0 to 1, for whatever the fault has to choose


@dataclass(frozen=True, slots=True)
class PlannedSet:
    """A scale set from the beginning on."""

    name: str
    min_runners: int
    max_runners: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that happens from outside."""

    seed: int
    sets: tuple[PlannedSet, ...]
    jobs: tuple[PlannedJob, ...]
    faults: tuple[PlannedFault, ...] = field(default=())

    def __str__(self) -> str:
        lines = [f"seed {self.seed}"]
        lines += [f"  set {s.name}: {s.min_runners} to {s.max_runners}" for s in self.sets]
        lines += [f"  job at {j.at_s:.1f} s on {j.set_name}, {j.seconds:.1f} s" for j in self.jobs]
        lines += [f"  {f.kind} at {f.at_s:.1f} s for {f.seconds:.1f} s" for f in self.faults]
        return "\n".join(lines)


def draw(seed: int, kinds: tuple[str, ...]) -> Scenario:
    """The scenario of a seed, with faults of these kinds."""
    random = seeded(seed * 7_919 + 1)
    sets = tuple(_set(random, number) for number in range(1 + (random.random() < 0.3)))
    jobs = tuple(
        sorted(
            (
                PlannedJob(
                    at_s=random.random() * FAULTS_UNTIL_S * 0.8,
                    set_name=random.choice(sets).name,
                    seconds=random.choice((0.0, 1.0, 5.0, 20.0, 60.0)) * (0.5 + random.random()),
                )
                for _ in range(random.randint(1, JOBS_MAX))
            ),
            key=lambda job: job.at_s,
        )
    )
    faults = tuple(
        sorted(
            (
                PlannedFault(
                    at_s=1.0 + random.random() * FAULTS_UNTIL_S,
                    kind=random.choice(kinds),
                    seconds=random.choice((1.0, 5.0, 20.0, 60.0)) * (0.5 + random.random()),
                    draw=random.random(),
                )
                for _ in range(random.randint(2, 7) if kinds else 0)
            ),
            key=lambda fault: fault.at_s,
        )
    )
    return Scenario(seed, sets, jobs, faults)


def _set(random: Random, number: int) -> PlannedSet:
    low = random.choice((0, 0, 0, 1, 2))
    return PlannedSet(f"set-{number}", low, low + random.randint(1, 5))
