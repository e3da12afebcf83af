"""Which idle runners a set lets go.

A file of its own, because no other rule can kill a user's build: everything that guards
against it (registration, job fields, GitHub's own word) is on this page. How many are wanted
is `wanted.py`; new ones are made in `scale_up.py`.

GitHub is asked first, and what it has forgotten can never get a job: only that is deleted.
"A job still runs" is final. The question is not waited for: it goes out, and its answer comes
with a later pass, so that a GitHub that hangs holds up nobody.

Pure. Contract: resources-and-controllers 4.3.1; replaces weakness W13.
"""

from collections.abc import Iterable

from runnerscale.api.phase import RunnerPhase
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Action,
    AskGitHub,
    DeleteRunner,
    Removal,
    Runner,
    Snapshot,
)
from runnerscale.controllers.ephemeral_runner_set.wanted import surplus
from runnerscale.controllers.stages import Stage

# A runner that has just come online may already have been given a job of which nobody told us
# yet: GitHub would say so, but an older server was seen not to (issue log 20).
ONLINE_GRACE_S = 10.0
# "A job still runs on it", though none is stored: the listener's write is on its way, or the
# job ends before it is.
JOB_WORD_HOLDS_S = 60.0
# A question without an answer is asked again after this.
ASK_AGAIN_S = 10.0
# Not registered for so long: it hangs, and its own controller undoes what there may be.
UNREGISTERED_STUCK_S = 120.0
NEVER_S = float("inf")
ASKED_AT_ONCE_MAX = 32  # of one set: demand that comes meanwhile is not to wait for answers


def stage(seen: Snapshot, *, cap: int | None = None) -> Stage[Action]:
    """Ask GitHub about as many idle runners as are surplus; delete what it forgot."""
    # GitHub has forgotten these: they can never take a job, whatever the count says now.
    deletes: list[Action] = [
        DeleteRunner(r.name, r.uid, r.resource_version, why="GitHub has forgotten it")
        for r in seen.runners
        if r.removal is Removal.FORGOTTEN and not r.has_job
    ]
    left = surplus(seen, cap=cap)
    if left <= 0:
        return Stage(tuple(deletes))
    troubles = tuple(r.removal_trouble for r in seen.runners if r.removal_trouble is not None)[:1]
    left -= sum(1 for r in seen.runners if r.removal is Removal.ASKED)
    stuck = [r for r in in_order(seen.runners) if is_stuck(r, now_s=seen.now_s)][: max(0, left)]
    deletes += [
        DeleteRunner(r.name, r.uid, r.resource_version, why="surplus, never registered")
        for r in stuck
    ]
    left = max(0, left - len(stuck))
    asks = questions(seen, in_order(seen.runners), at_most=left)
    again_s = next_look_s(seen) if left > len(asks) else None
    return Stage((*deletes, *asks), troubles, again_s=again_s)


def next_look_s(seen: Snapshot) -> float | None:
    """When the first runner that may not be asked about now, may."""
    times = (next_question_s(r, now_s=seen.now_s) for r in seen.runners)
    return min((t for t in times if 0 < t < NEVER_S), default=None)


def questions(seen: Snapshot, runners: Iterable[Runner], *, at_most: int) -> list[AskGitHub]:
    """Ask about the first so many that may be asked about now."""
    asked = sum(1 for r in seen.runners if r.removal is Removal.ASKED)
    room = max(0, min(at_most, ASKED_AT_ONCE_MAX - asked))
    free = [r for r in runners if may_be_asked(r, now_s=seen.now_s)]
    return [AskGitHub(r.name, uid=r.uid, runner_id=r.runner_id) for r in free[:room]]


def in_order(runners: Iterable[Runner]) -> list[Runner]:
    """Who goes first: made from an old spec, then pending, then the oldest.

    A `Running` without a job is a leftover of an older controller (contract 1.7).
    """
    return sorted(
        runners, key=lambda r: (r.current, r.phase == RunnerPhase.RUNNING, r.created_s, r.name)
    )


def may_be_asked(runner: Runner, *, now_s: float) -> bool:
    """Idle as far as we know, and not asked about already."""
    return runner.idle and next_question_s(runner, now_s=now_s) <= 0


def next_question_s(runner: Runner, *, now_s: float) -> float:
    """Seconds until GitHub may be asked about an idle runner; 0: now, or never."""
    if not runner.idle:
        return 0.0
    match runner.removal:
        case Removal.NOT_ASKED:
            online_s = runner.online_s
            return 0.0 if online_s is None else max(0.0, online_s + ONLINE_GRACE_S - now_s)
        case Removal.HAS_JOB:
            return max(0.0, runner.removal_s + JOB_WORD_HOLDS_S - now_s)
        case Removal.NO_ANSWER:
            return max(0.0, runner.removal_s + ASK_AGAIN_S - now_s)
        case Removal.ASKED | Removal.FORGOTTEN:
            return NEVER_S


def is_stuck(runner: Runner, *, now_s: float) -> bool:
    """It never got as far as a registration, and had the time."""
    waits_s = now_s - runner.created_s
    return runner.runner_id == 0 and not runner.has_job and waits_s > UNREGISTERED_STUCK_S
