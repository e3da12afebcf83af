"""An EphemeralRunner that is being deleted: pod, registration, leftovers, then the finalizers.

What is local never waits for a GitHub that is away: a pod that has ended goes at once, one that
never started as soon as GitHub was asked in vain. One that may have a job goes only after GitHub
forgot the runner; a person who deletes a busy runner waits for the end of its job. Both finalizers
go in one patch, once the pod is really gone and GitHub is dealt with or given up; whatever
finalizers others put there stay.

The Secret is left to owner garbage collection. Pure.
Contract: resources-and-controllers 4.4 R1, R2, 4.4.6; issue log 32-34.
"""

from runnerscale.api.labels import EPHEMERAL_RUNNER_FINALIZERS
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    Action,
    DeleteLeftovers,
    DeletePod,
    SetFinalizers,
    Step,
)
from runnerscale.controllers.ephemeral_runner.deadlines import POD_STUCK_AFTER_S
from runnerscale.controllers.ephemeral_runner.deregistration import deregistration
from runnerscale.controllers.ephemeral_runner.pod_view import PodView
from runnerscale.controllers.ephemeral_runner.snapshot import Snapshot
from runnerscale.controllers.ephemeral_runner.status import told


def look(seen: Snapshot) -> Step:
    """What still has to go, and then the object itself."""
    runner, deleted_s = seen.runner, seen.runner.deleted_s
    if deleted_s is None or not set(runner.finalizers) & set(EPHEMERAL_RUNNER_FINALIZERS):
        return NOTHING
    github = deregistration(seen, since_s=deleted_s)
    troubles = [*told(seen), *github.step.troubles]
    actions: list[Action] = [*github.step.actions]
    again_s = github.step.again_s
    gone = True
    if seen.pod is not None and seen.pod_there:
        delete, left_s, stuck = _pod(seen, seen.pod, may_kill=github.settled)
        actions += [delete] if delete else []
        again_s = soonest(again_s, left_s)
        troubles += [stuck] if stuck else []
        gone = stuck is not None
    swept = not runner.uses_hooks or seen.hand.leftovers_gone
    if not swept and (github.settled or not seen.pod_alive):
        actions.append(DeleteLeftovers(runner.ref))
    if gone and swept and github.settled:
        kept = tuple(f for f in runner.finalizers if f not in EPHEMERAL_RUNNER_FINALIZERS)
        return Step(
            (SetFinalizers(runner.ref, runner.resource_version, kept, tuple(troubles)),),
            troubles=tuple(troubles),
        )
    return Step(tuple(actions), again_s=again_s, troubles=tuple(troubles))


def _pod(
    seen: Snapshot, pod: PodView, *, may_kill: bool
) -> tuple[DeletePod | None, float | None, Trouble | None]:
    """How the pod goes; when to look again; why the object is let go though it stays."""
    ref = seen.runner.ref
    if pod.going_s is not None:
        left_s = pod.going_s + POD_STUCK_AFTER_S - seen.now_s
        if left_s > 0:
            return None, left_s, None
        if not may_kill:
            return None, None, None
        if not seen.hand.forced:
            return DeletePod(ref, pod.uid, grace_s=0), None, None
        happened = "its pod does not go away, not even without grace"
        return None, None, trouble(Reason.CLEANUP_BLOCKED, about=seen.about, happened=happened)
    if pod.over or pod.all_ended:
        return DeletePod(ref, pod.uid, grace_s=0), None, None
    if may_kill or pod.exit is not None:
        return DeletePod(ref, pod.uid, grace_s=None), None, None
    if pod.started_s is None and not seen.had_job and seen.hand.talk.trouble is not None:
        # As far as we have heard: its start, and a job, may be on their way to us. Nor does its
        # node know at once, and may start it yet: a GitHub that answers is asked first.
        version = pod.resource_version
        return DeletePod(ref, pod.uid, grace_s=None, resource_version=version), None, None
    return None, None, None


def soonest(one: float | None, other: float | None) -> float | None:
    """The earlier of two times to look again."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
