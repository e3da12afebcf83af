"""In which order a runner lives: the stages, one line each.

Each stage looks at one thing, does nothing once that is settled, and otherwise wants a step.
Trouble in one does not stop the others. At most one of them decides that the life is over:
they act in different places (`snapshot.where`), so their order is for the reader only.

Pure: time, answers and memory are in the snapshot.
"""

from collections.abc import Callable

from msgspec.structs import replace

from runnerscale.api.labels import EPHEMERAL_RUNNER_FINALIZERS
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.ephemeral_runner import (
    busy,
    cleanup,
    closing,
    online,
    placement,
    pod,
    pod_ended,
    registration,
    retired,
    start,
    status,
)
from runnerscale.controllers.ephemeral_runner.actions import Action, SetFinalizers, Step
from runnerscale.controllers.ephemeral_runner.deadlines import AGAIN_MIN_S
from runnerscale.controllers.ephemeral_runner.snapshot import Snapshot
from runnerscale.kube.reconcile import Plan

LIFE: tuple[Callable[[Snapshot], Step], ...] = (
    registration.look,
    pod.look,
    placement.look,
    start.look,
    online.look,
    busy.look,
    pod_ended.look,
)


def plan(seen: Snapshot) -> Plan[Action, Trouble]:
    """What to do about a runner now, and when to look again."""
    if seen.gone:
        return Plan(troubles=seen.last_words)
    if seen.stale:  # somebody wrote in between: decide again on what is true now
        return Plan(stale=True)
    if seen.deleting:
        step = cleanup.look(seen)
    elif seen.retired:
        step = retired.look(seen)
    else:
        step = live(seen)
    actions = tuple(action for action in step.actions if action not in seen.failed)
    troubles = (*step.troubles, *seen.kube_troubles, *seen.last_words)
    again_s = None if step.again_s is None else max(step.again_s, AGAIN_MIN_S)
    return Plan(
        actions,
        again_s,
        failed=bool(seen.failed),
        troubles=troubles,
        unanswered=seen.unanswered,
    )


def live(seen: Snapshot) -> Step:
    """All stages of a life together."""
    unprotected = protect(seen)
    if unprotected.actions:
        return unprotected
    steps = [look(seen) for look in LIFE]
    ending = next((step.ending for step in steps if step.ending is not None), None)
    if ending is not None:
        step = closing.close(seen, ending)
        if step.actions:
            return step
        # It waits for GitHub's word: what it waits with is said meanwhile.
        return replace(step, actions=status.look(seen, step.troubles).actions)
    troubles = tuple(trouble for step in steps for trouble in step.troubles)
    failed_pod = next((step.failed_pod for step in steps if step.failed_pod), "")
    steps.append(status.look(seen, troubles, failed_pod))
    waits = [step.again_s for step in steps if step.again_s is not None]
    return Step(
        tuple(action for step in steps for action in step.actions),
        again_s=min(waits, default=None),
        troubles=troubles,
    )


def protect(seen: Snapshot) -> Step:
    """Both finalizers, in one patch, before anything outside exists (W27)."""
    runner = seen.runner
    missing = [f for f in EPHEMERAL_RUNNER_FINALIZERS if f not in runner.finalizers]
    if not missing:
        return Step()
    wanted = (*runner.finalizers, *missing)
    return Step((SetFinalizers(runner.ref, runner.resource_version, wanted),))
