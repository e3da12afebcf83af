"""Fifth stage: the runner is online at GitHub, and idle.

GitHub is asked at one moment, some minutes after the container's start, and after that so
rarely that all runners together cost one call in ten seconds at most. Two answers in a row
that make no sense (unknown under a running container, never online) end the runner, after
GitHub has also been asked to forget it: a runner with a job refuses that, and stays.

Pure. Issue log 15-18; design section 5.
"""

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    AskRunner,
    Ending,
    How,
    Step,
)
from runnerscale.controllers.ephemeral_runner.deadlines import (
    LOST_CONFIRMED_AFTER_S,
    OFFLINE_CONFIRMED_AFTER_S,
    ONLINE_WITHIN_S,
    asked_every_s,
    spread,
)
from runnerscale.controllers.ephemeral_runner.snapshot import Snapshot, Where, where
from runnerscale.controllers.ephemeral_runner.start import failed_beside


def look(seen: Snapshot) -> Step:
    """Whether an idle runner is where it should be."""
    pod, talk = seen.pod, seen.hand.talk
    if pod is None or where(seen) is not Where.RUNNING or seen.busy or not seen.registered_id:
        return NOTHING
    if pod.failed is not None:
        return Step(ending=Ending(How.FAILED, failed_beside(seen, pod.failed)))
    asked_s = talk.asked_s
    if talk.missing_s is not None and asked_s is not None:
        if asked_s - talk.missing_s >= LOST_CONFIRMED_AFTER_S:
            happened = f"GitHub does not know runner {seen.registered_id}, whose container runs"
            why = trouble(Reason.REGISTRATION_LOST, about=seen.about, happened=happened)
            return Step(ending=Ending(How.DISTURBED, why))
        return ask(seen, talk.missing_s + LOST_CONFIRMED_AFTER_S)
    if talk.offline_s is not None and not talk.online and asked_s is not None:
        if asked_s - talk.offline_s >= OFFLINE_CONFIRMED_AFTER_S:
            happened = f"GitHub says that runner {seen.registered_id} is offline"
            why = trouble(Reason.NEVER_ONLINE, about=seen.about, happened=happened)
            return Step(ending=Ending(How.FAILED, why))
        return ask(seen, talk.offline_s + OFFLINE_CONFIRMED_AFTER_S)
    first_s = (pod.started_s or 0.0) + ONLINE_WITHIN_S
    return ask(
        seen, next_question_s(seen, first_s=first_s, every_s=asked_every_s(alive=seen.alive))
    )


def ask(seen: Snapshot, due_s: float) -> Step:
    """Ask GitHub about the runner when the time has come."""
    due_s = max(due_s, seen.hand.talk.not_before_s)
    if due_s > seen.now_s:
        return Step(again_s=due_s - seen.now_s)
    return Step((AskRunner(seen.runner.ref, seen.registered_id),))


def next_question_s(seen: Snapshot, *, first_s: float, every_s: float) -> float:
    """When to ask: at `first_s`, then at points so far apart, for each runner other ones.

    What lies before this process began is presumed asked by its predecessor: a restart must
    not ask about all runners at once.
    """
    asked_s = seen.hand.talk.asked_s
    last_s = seen.watching_since_s if asked_s is None else asked_s
    if last_s < first_s:
        return first_s
    first_again_s = first_s + every_s * spread(seen.runner.ref.uid)
    passed = int(max(0.0, last_s - first_again_s) // every_s)
    due_s = first_again_s + passed * every_s
    return due_s if due_s > last_s else due_s + every_s
