"""Jobs that GitHub counts as ours and that no idle runner is ever given.

After an incident at GitHub the number of assigned jobs can stay too high for good: then runners
are kept for jobs that do not exist, and no restart changes it (issue log 38). What shows it is
runners that could have taken them: online and idle for half an hour, more of them than
`minRunners` asks for. Nothing else would do, because where jobs come all the time some always
wait for a runner that is just starting.

It is a doubt and no proof: GitHub may be unable to hand jobs out. So one runner stays for them
all, and the first that turns out to be real makes all of them believed again.

Pure. How many runners the set then wants: `wanted.py`.
"""

from dataclasses import dataclass

from runnerscale.api.reasons import Reason, Trouble, trouble

IDLE_LONG_S = 1800.0
PROBES = 1
BELIEVED_S = 1800.0  # once one of them was real
COUNT_EVERY_S = 30.0  # how often a set's runners are gone through for this


@dataclass(frozen=True, slots=True)
class Doubt:
    """So many jobs are not believed in. Times are wall time."""

    jobs: int = 0
    believed_until_s: float = 0.0


def waiting(*, replicas: int, low: int, busy: int) -> int:
    """How many jobs have no runner yet, as far as the wanted number tells."""
    return replicas - low - busy


def judged(before: Doubt, *, waiting: int, low: int, idle_long: int, now_s: float) -> Doubt:
    """The doubt after a look. `idle_long`: runners that are online and idle for IDLE_LONG_S."""
    if waiting <= 0:
        return Doubt()
    if before.jobs > max(0, waiting - PROBES):
        return Doubt(0, now_s + BELIEVED_S)  # a runner got one of them
    if now_s < before.believed_until_s:
        return before
    found = min(idle_long - low, waiting) - PROBES
    jobs = max(before.jobs, found)
    return before if jobs == before.jobs else Doubt(jobs, before.believed_until_s)


def said(doubt: Doubt, *, about: str, waiting: int) -> tuple[Trouble, ...]:
    """What is told of it."""
    if not doubt.jobs:
        return ()
    happened = (
        f"GitHub says that {waiting} jobs wait for a runner, but runners have been online and "
        f"idle for {IDLE_LONG_S / 60:.0f} minutes: {doubt.jobs} of them are not believed in"
    )
    return (trouble(Reason.DEMAND_DOUBTED, about=about, happened=happened),)
