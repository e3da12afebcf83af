"""Sixth stage: a runner with a job. It is left alone.

Whatever happens to templates, credentials, GitHub or this process, a busy runner runs on. Only
GitHub itself can say that the job is over while the container still runs: because the listener
heard that it completed, or because the registration is gone, as it is after every job.

Pure. Design section 4; issue log 16-18, 21.
"""

from msgspec.structs import replace

from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.ephemeral_runner.actions import NOTHING, Ending, How, Step
from runnerscale.controllers.ephemeral_runner.deadlines import (
    OVER_WITHIN_S,
    TOLD_AFTER_S,
    busy_asked_every_s,
)
from runnerscale.controllers.ephemeral_runner.online import ask, next_question_s
from runnerscale.controllers.ephemeral_runner.snapshot import Snapshot, Where, where


def look(seen: Snapshot) -> Step:
    """Whether the job of a busy runner is over, and the runner does not know."""
    pod, hand = seen.pod, seen.hand
    if pod is None or where(seen) is not Where.RUNNING or not seen.busy:
        return NOTHING
    if not seen.registered_id:
        return NOTHING  # `registration.py` finds the id first
    if seen.runner.job_over and hand.over_s is not None:
        why = _stuck(seen, "its job was said to be complete")
        if seen.now_s - hand.over_s < OVER_WITHIN_S:
            return _soon(seen, hand.over_s, why)
        return Step(ending=Ending(How.FAILED, why))
    talk = hand.talk
    if talk.missing_s is not None and talk.asked_s is not None:
        why = _stuck(seen, "GitHub no longer knows it")
        if talk.asked_s - talk.missing_s >= OVER_WITHIN_S:
            return Step(ending=Ending(How.FAILED, why))
        if seen.now_s - talk.missing_s < OVER_WITHIN_S:
            return _soon(seen, talk.missing_s, why)
        return replace(ask(seen, talk.missing_s + OVER_WITHIN_S), troubles=(why,))
    every_s = busy_asked_every_s(alive=seen.alive)
    first_s = (pod.started_s or 0.0) + every_s
    return ask(seen, next_question_s(seen, first_s=first_s, every_s=every_s))


def _soon(seen: Snapshot, since_s: float, why: Trouble) -> Step:
    """It has a while yet. Meanwhile it keeps a place that a job may wait for: that is told."""
    waited_s = seen.now_s - since_s
    if waited_s < TOLD_AFTER_S:
        return Step(again_s=TOLD_AFTER_S - waited_s)
    return Step(again_s=OVER_WITHIN_S - waited_s, troubles=(why,))


def _stuck(seen: Snapshot, words: str) -> Trouble:
    happened = f"{words}, but the container of runner {seen.registered_id} runs on"
    return trouble(Reason.STUCK_AFTER_JOB, about=seen.about, happened=happened)
