"""One seed: which sets there are, what users do, what goes wrong and when. Drawn, not decided.

`draw` is pure: the same seed gives the same scenario, and a scenario can be made smaller
(fewer jobs, fewer faults) while the rest stays as it was.
"""

import math
from dataclasses import dataclass, field, replace

from runnerscale.core.randomness import Random, seeded

FAULTS_UNTIL_S = 300.0
JOBS_MAX = 12
FAULTS_MIN, FAULTS_MAX = 5, 11

# Two controllers with a lease: a renewal every two seconds of each, so these are short.
LEASE_RATE = 0.25
LEASE_UNTIL_S = 70.0
LEASE_FAULTS = 2
LEASE_JOBS_MAX = 5
LEASE_MARKS = ("leader-", "lease-", "both-")  # kinds that strike only there

# Kinds that take an hour: little else happens in it.
HOUR_RATE = 0.06
HOUR_KINDS = ("github-hour-outage",)
HOUR_JOBS_MAX = 4
HOUR_LEASE_RATE = 0.04  # of these, with two controllers

# Jobs that go on until all else has come to rest, so that it is seen what is said of them then.
LASTING_RATE = 0.35
LASTING_S = math.inf

# How often a kind is drawn, against 1 for the others: what finds nothing to strike in one history
# of six is drawn more, so that each strikes 500 times in 10,000 seeds.
RATES: dict[str, float] = {
    **dict.fromkeys(
        (
            "github-job-still-running",
            "github-runner-ghost",
            "github-runner-twice",
            "github-runner-version-refused",
        ),
        1.25,
    ),
    **dict.fromkeys(
        ("github-runner-lookup-lags", "github-runner-unknown", "github-scale-set-exists"), 1.2
    ),
    **dict.fromkeys(
        (
            "github-acknowledge-refused",
            "github-jit-lost-answer",
            "github-lying-statistics",
            "github-queue-unauthorized",
            "github-runner-name-taken",
            "runner-evicted",
        ),
        1.15,
    ),
    **dict.fromkeys(
        (
            "github-acknowledged-otherwise",
            "github-rate-limited",
            "github-registration-unknown",
            "github-reordered-messages",
            "github-session-lost-answer",
            "github-unknown-envelope-type",
        ),
        1.05,
    ),
}


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """Queued at a time, for one set."""

    at_s: float
    set_name: str
    seconds: float  # infinite: until everything else has come to rest


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
    controllers: int = 1
    lease: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """What kind of history a seed is."""

    until_s: float = FAULTS_UNTIL_S
    jobs_max: int = JOBS_MAX
    faults: tuple[int, int] = (FAULTS_MIN, FAULTS_MAX)
    lease: bool = False
    hour: bool = False


USUAL = Shape()
WITH_LEASE = Shape(LEASE_UNTIL_S, LEASE_JOBS_MAX, (3, 6), lease=True)
WITH_HOUR = Shape(200.0, HOUR_JOBS_MAX, (2, 4), hour=True)


def draw(seed: int, kinds: tuple[str, ...]) -> Scenario:
    """The scenario of a seed, with faults of these kinds."""
    random = seeded(seed * 7_919 + 1)
    shape = _shape(random)
    sets = tuple(_set(random, number) for number in range(1 + (random.random() < 0.3)))
    jobs = tuple(
        sorted(
            (
                PlannedJob(
                    at_s=random.random() * shape.until_s * 0.8,
                    set_name=random.choice(sets).name,
                    seconds=random.choice((0.0, 1.0, 5.0, 20.0, 60.0)) * (0.5 + random.random()),
                )
                for _ in range(random.randint(1, shape.jobs_max))
            ),
            key=lambda job: job.at_s,
        )
    )
    faults = sorted(_faults(random, shape, kinds), key=lambda fault: fault.at_s)
    controllers = 2 if shape.lease else 1
    jobs += _lasting(seeded(seed * 7_919 + 2), shape, sets)
    return Scenario(seed, sets, jobs, tuple(faults), controllers, shape.lease)


def _lasting(random: Random, shape: Shape, sets: tuple[PlannedSet, ...]) -> tuple[PlannedJob, ...]:
    if random.random() >= LASTING_RATE:
        return ()
    at_s = random.random() * shape.until_s
    return (PlannedJob(at_s, random.choice(sets).name, LASTING_S),)


def _shape(random: Random) -> Shape:
    place = random.random()
    if place < LEASE_RATE:
        return WITH_LEASE
    if place >= LEASE_RATE + HOUR_RATE:
        return USUAL
    return replace(WITH_HOUR, lease=random.random() < HOUR_LEASE_RATE)


def _faults(random: Random, shape: Shape, kinds: tuple[str, ...]) -> list[PlannedFault]:
    apart = [kind for kind in kinds if kind in HOUR_KINDS]
    leading = [kind for kind in kinds if kind.startswith(LEASE_MARKS)]
    others = [kind for kind in kinds if kind not in apart and kind not in leading]
    chosen = []
    if others:
        weights = [RATES.get(kind, 1.0) for kind in others]
        chosen = random.choices(others, weights, k=random.randint(*shape.faults))
    if shape.lease and leading:
        chosen += [random.choice(leading) for _ in range(LEASE_FAULTS)]
    if shape.hour and apart:
        chosen.append(random.choice(apart))
    return [
        PlannedFault(
            at_s=1.0 + random.random() * shape.until_s,
            kind=kind,
            seconds=random.choice((1.0, 5.0, 20.0, 60.0)) * (0.5 + random.random()),
            draw=random.random(),
        )
        for kind in chosen
    ]


def _set(random: Random, number: int) -> PlannedSet:
    low = random.choice((0, 0, 0, 1, 2))
    return PlannedSet(f"set-{number}", low, low + random.randint(1, 5))
