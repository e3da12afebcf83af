"""A runner in a terminal phase: evidence for a while, and nothing else of it is left.

Pod and Secret go at once, GitHub forgets the registration, and then the registration finalizer
is dropped: it is the durable memory that GitHub may still know the runner, so that neither a
restart nor the later deletion asks again. The object itself is the set's to delete.

Pure. Contract: resources-and-controllers 4.4 R3; design section 4.
"""

from runnerscale.api.labels import RUNNER_REGISTRATION_FINALIZER
from runnerscale.controllers.ephemeral_runner.actions import (
    Action,
    DeleteLeftovers,
    DeletePod,
    DeleteSecret,
    SetFinalizers,
    Step,
)
from runnerscale.controllers.ephemeral_runner.cleanup import soonest
from runnerscale.controllers.ephemeral_runner.deadlines import POD_STUCK_AFTER_S
from runnerscale.controllers.ephemeral_runner.deregistration import deregistration
from runnerscale.controllers.ephemeral_runner.pod_view import PodView
from runnerscale.controllers.ephemeral_runner.snapshot import Snapshot
from runnerscale.controllers.ephemeral_runner.status import told


def look(seen: Snapshot) -> Step:
    """What of a retired runner is still there, and goes."""
    runner, hand = seen.runner, seen.hand
    actions: list[Action] = []
    again_s: float | None = None
    if seen.pod is not None and seen.pod_there:
        delete, again_s = end_pod(seen, seen.pod)
        actions += [delete] if delete else []
    if not hand.secret_gone:
        actions.append(DeleteSecret(runner.ref))
    if runner.uses_hooks and not hand.leftovers_gone:
        actions.append(DeleteLeftovers(runner.ref))
    since_s = hand.retired_s if hand.retired_s is not None else seen.now_s
    github = deregistration(seen, since_s=since_s)
    actions += github.step.actions
    if github.settled and RUNNER_REGISTRATION_FINALIZER in runner.finalizers:
        kept = tuple(f for f in runner.finalizers if f != RUNNER_REGISTRATION_FINALIZER)
        actions.append(
            SetFinalizers(runner.ref, runner.resource_version, kept, github.step.troubles)
        )
    return Step(
        tuple(actions),
        again_s=soonest(again_s, github.step.again_s),
        troubles=(*told(seen), *github.step.troubles),
    )


def end_pod(seen: Snapshot, pod: PodView) -> tuple[DeletePod | None, float | None]:
    """How its pod goes, and when to look again; nobody needs it any more."""
    ref = seen.runner.ref
    if pod.going_s is None:
        ended = pod.over or pod.all_ended
        return DeletePod(ref, pod.uid, grace_s=0 if ended else None), None
    left_s = pod.going_s + POD_STUCK_AFTER_S - seen.now_s
    if left_s > 0:
        return None, left_s
    if seen.hand.forced:
        return None, None
    return DeletePod(ref, pod.uid, grace_s=0), None
