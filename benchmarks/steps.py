"""Which cases a run has, in which order, and how long each takes: reckoned from earlier runs.

The order is that of importance, for a run that has only ten minutes.
"""

from collections.abc import Awaitable, Callable, Sequence

from benchmarks.budget import Rounds, Step
from benchmarks.cases import (
    burst,
    churn,
    embedded_api,
    fake_github,
    idle,
    life,
    listener,
    many_sets,
    scale,
    steady,
)
from benchmarks.report import Row
from benchmarks.world import Setting

EMBEDDED, REAL = "embedded", "kube-apiserver"
# In a short run, in a full one; the other cases repeat within themselves. Churn: five times each.
ROUNDS = {"burst": (2, 3), "churn": (2, 2), "scale": (2, 3), "sets": (2, 3)}
JOBS_PER_S = 20.0
IDLE_SIZE = 100

SHORT = ("burst", "churn", "idle", "listener")
FULL = (*("life", "burst", "churn", "steady", "scale"), *("sets", "idle", "listener"))
ALONE = ("embedded", "github")  # of one server, or of none
CASES = (*FULL, *ALONE)

SIZES: dict[str, tuple[Sequence[int], Sequence[int]]] = {  # in a short run, in a full one
    "life": ([60], [60]),
    "burst": ([100, 500], [100, 500, 1000]),
    "churn": ([100], [100, 500]),
    "steady": ([60], [300]),  # seconds
    "scale": ([100, 500], [100, 500, 1000, 2500, 5000]),
    "sets": ([50], [50]),
    "idle": ([60], [600]),  # seconds
    "listener": ([100], [200]),
    "embedded": ([2000], [5000]),
    "github": ([2000], [5000]),
}
# Of a round: what starting and stopping takes, and what each of its size takes; on the real API
# server. The embedded one starts faster, and lists and writes of it are no dearer.
SECONDS: dict[str, tuple[float, float]] = {
    "life": (30.0, 0.1),
    "burst": (38.0, 0.075),
    "churn": (38.0, 0.4),
    "steady": (60.0, 1.0),
    "scale": (60.0, 0.12),
    "sets": (60.0, 2.0),
    "idle": (45.0, 1.0),
    "listener": (40.0, 0.1),
    "embedded": (20.0, 0.01),
    "github": (2.0, 0.003),
}


def steps(
    cases: Sequence[str],
    servers: Sequence[str],
    *,
    is_full: bool,
    sizes: Sequence[int] = (),
    rounds: int | None = None,
) -> list[Step]:
    """All that is to be done. `sizes` and `rounds` instead of the cases' own."""
    found = []
    for case in cases:
        own_rounds = ROUNDS.get(case, (1, 1))[is_full]
        own_sizes = sizes or SIZES[case][is_full]
        if case == "scale":  # all sizes round by round: one step, named by its largest
            own_sizes = [max(own_sizes)]
        for server in _servers(case, servers):
            found += [
                Step(case, server, size, rounds or own_rounds, seconds(case, size, sizes, is_full))
                for size in own_sizes
            ]
    return found


def seconds(case: str, size: int, sizes: Sequence[int], is_full: bool) -> float:
    """Of one round on an idle machine."""
    start_s, each_s = SECONDS[case]
    if case == "scale":
        return sum(start_s + each_s * each for each in sizes or SIZES[case][is_full])
    return start_s + each_s * size


def _servers(case: str, servers: Sequence[str]) -> Sequence[str]:
    if case == "embedded":
        return [EMBEDDED]
    return servers[:1] if case == "github" else servers


async def measure(
    step: Step, rounds: Rounds, setting: Setting, *, scale_sizes: Sequence[int]
) -> list[Row]:
    """Its rows."""
    if step.case == "scale":
        return await scale.measure(setting, sorted(scale_sizes), rounds)
    if step.case == "steady":
        return await steady.measure(setting, JOBS_PER_S, float(step.size), rounds)
    if step.case == "idle":
        return await idle.measure(setting, IDLE_SIZE, float(step.size), rounds)
    return await _BY_SIZE[step.case](setting, step.size, rounds)


_BY_SIZE: dict[str, Callable[[Setting, int, Rounds], Awaitable[list[Row]]]] = {
    "life": life.measure,
    "burst": burst.measure,
    "churn": churn.measure,
    "sets": many_sets.measure,
    "listener": listener.measure,
    "embedded": embedded_api.measure,
    "github": fake_github.measure,
}
