"""Having GitHub forget a runner that is to go: until it did, need not, or we give up.

A page of its own because three parts need it (an ending that must first take the runner off
the market, a retired runner, one that is being deleted) and because "a job still runs on it"
is final while the runner may live, but must not hold an object for ever once its pod is gone
(W25). What is given up is reported with its id. Nothing here waits with anything local.

Pure. Contract: resources-and-controllers 4.4 R1, W25, W34; design section 4.
"""

from dataclasses import dataclass

from runnerscale.api.labels import RUNNER_REGISTRATION_FINALIZER
from runnerscale.api.phase import RunnerPhase
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.ephemeral_runner.actions import NOTHING, FindRunner, RemoveRunner, Step
from runnerscale.controllers.ephemeral_runner.deadlines import (
    CLOCK_SKEW_S,
    CREDENTIALS_GIVEN_UP_AFTER_S,
    GITHUB_GIVEN_UP_AFTER_S,
    JOB_RELEASED_WITHIN_S,
    JOB_STILL_RUNNING_AGAIN_S,
    NAME_LAG_S,
    OVER_WITHIN_S,
    UNREGISTERED_GIVEN_UP_AFTER_S,
)
from runnerscale.controllers.ephemeral_runner.snapshot import Removal, Snapshot

# What only a person can change: waiting for it has a shorter bound than for GitHub itself.
FOR_PEOPLE = frozenset(
    {
        Reason.GITHUB_REFUSED,
        Reason.CREDENTIALS_MISSING,
        Reason.CREDENTIALS_INVALID,
        Reason.CREDENTIALS_REFUSED,
        Reason.VAULT_FAILED,
        Reason.PROXY_INVALID,
        Reason.CERTIFICATE_INVALID,
        Reason.CONFIG_URL_INVALID,
    }
)


@dataclass(frozen=True, slots=True)
class Deregistration:
    """Whether GitHub is dealt with, and what to do or tell for it."""

    settled: bool
    step: Step = NOTHING


def deregistration(seen: Snapshot, *, since_s: float) -> Deregistration:
    """What is left to do at GitHub; `since_s`: since when the runner is to go."""
    if not is_needed(seen):
        return Deregistration(settled=True)
    talk = seen.hand.talk
    if talk.removal is Removal.FORGOTTEN:
        return Deregistration(settled=True)
    if talk.removal is Removal.ABSENT:
        return _unknown(seen)
    if talk.foreign and not seen.registered_id:
        # Nobody's id to ask about: what runs under a job is left to end by itself.
        return Deregistration(settled=not (seen.pod_alive and seen.had_job))
    if talk.removal is Removal.BUSY:
        over_s = seen.now_s - max(since_s, _ended_s(seen))
        if not seen.pod_alive and over_s >= JOB_RELEASED_WITHIN_S:
            return given_up(seen, "GitHub still said that a job runs on it")
        due_s = talk.removal_s + JOB_STILL_RUNNING_AGAIN_S - seen.now_s
        if due_s > 0:
            return Deregistration(False, Step(again_s=due_s, troubles=(_job_running(seen),)))
    # A runner that lives and has a job is not given up: its end is waited for.
    lives = seen.pod_alive and seen.had_job
    if (
        talk.trouble is not None
        and not lives
        and seen.now_s - since_s >= patience_s(seen, talk.trouble.reason)
    ):
        return given_up(seen, talk.trouble.happened)
    return Deregistration(False, remove(seen))


def _unknown(seen: Snapshot) -> Deregistration:
    """GitHub does not know it. Where a job is stored whose container runs, one word is not enough:
    either the job is over, and then the container ends by itself in a moment, or the word is wrong.
    """
    talk = seen.hand.talk
    if not (seen.pod_alive and seen.runner.has_job):
        return Deregistration(settled=True)
    since_s = talk.missing_s if talk.missing_s is not None else talk.removal_s
    if talk.removal_s - since_s >= OVER_WITHIN_S:
        return Deregistration(settled=True)
    left_s = since_s + OVER_WITHIN_S - seen.now_s
    if left_s <= 0:
        return Deregistration(False, remove(seen))
    happened = "GitHub does not know it, but its container runs, with a job: its end is waited for"
    waits = trouble(Reason.DELETION_WAITS, about=seen.about, happened=happened)
    return Deregistration(False, Step(again_s=left_s, troubles=(waits,)))


def remove(seen: Snapshot) -> Step:
    """Ask GitHub to forget the runner, or its name if the id was never stored."""
    talk, ref = seen.hand.talk, seen.runner.ref
    wait_s = talk.not_before_s - seen.now_s
    if wait_s > 0:
        return Step(again_s=wait_s, troubles=(talk.trouble,) if talk.trouble else ())
    runner_id = seen.registered_id or talk.stray_id
    return Step((RemoveRunner(ref, runner_id) if runner_id else FindRunner(ref),))


def is_needed(seen: Snapshot) -> bool:
    """Whether GitHub may still know the runner and will not forget it by itself."""
    runner, pod, talk = seen.runner, seen.pod, seen.hand.talk
    if RUNNER_REGISTRATION_FINALIZER not in runner.finalizers:
        return False  # dealt with before
    if runner.phase == RunnerPhase.SUCCEEDED:
        return False
    if pod is not None and pod.exit is not None and pod.exit.code == 0 and seen.had_job:
        return False  # its one job is done: GitHub forgets it by itself
    if seen.registered_id or talk.stray_id:
        return True
    if talk.foreign:
        return seen.pod_alive
    if talk.looked_up_s is None:
        # A pod proves a registration. Else only an earlier process, or a call without an
        # answer, can have made one.
        return (
            seen.pod is not None
            or talk.suspect
            or runner.created_s <= seen.watching_since_s + CLOCK_SKEW_S
        )
    # Nobody has the name. Look-ups lag, so a call lost just before may still show up.
    lost_s = talk.lost_call_s
    return lost_s is not None and talk.looked_up_s - lost_s < NAME_LAG_S


def patience_s(seen: Snapshot, reason: Reason) -> float:
    """How long to try although it fails for this reason."""
    if reason not in FOR_PEOPLE:
        return GITHUB_GIVEN_UP_AFTER_S
    if seen.registered_id or seen.hand.talk.suspect:
        return CREDENTIALS_GIVEN_UP_AFTER_S
    return UNREGISTERED_GIVEN_UP_AFTER_S


def given_up(seen: Snapshot, why: str) -> Deregistration:
    """Settled, though not done."""
    runner_id = seen.registered_id or seen.hand.talk.stray_id
    who = f"the runner with id {runner_id}" if runner_id else "a runner of this name, if any,"
    happened = f"{who} may still be registered at GitHub: {why}"
    leaked = trouble(Reason.REGISTRATION_LEAKED, about=seen.about, happened=happened)
    return Deregistration(True, Step(troubles=(leaked,)))


def _job_running(seen: Snapshot) -> Trouble:
    if seen.pod_alive:
        happened = "it is to be deleted and waits for the end of its job"
        return trouble(Reason.DELETION_WAITS, about=seen.about, happened=happened)
    happened = f"GitHub says that a job still runs on runner {seen.registered_id}"
    return trouble(Reason.JOB_STILL_RUNNING, about=seen.about, happened=happened)


def _ended_s(seen: Snapshot) -> float:
    exit_ = seen.pod.exit if seen.pod else None
    return (exit_.at_s if exit_ else None) or 0.0
