"""A listener that is being deleted: first its pod, with time to give the session back.

Everything that still exists is asked to go in one pass; when nothing is left, as the server has
it, the finalizer goes. That something is already gone is no error (W39).

Pure. Contract: resources-and-controllers 4.2 L1.
"""

from runnerscale.api.labels import LISTENER_FINALIZER
from runnerscale.controllers.autoscaling_listener import pod_life
from runnerscale.controllers.autoscaling_listener import restarts as ends
from runnerscale.controllers.autoscaling_listener.snapshot import (
    Action,
    Child,
    PatchSelf,
    Read,
    Remove,
    Snapshot,
)
from runnerscale.controllers.stages import Stage
from runnerscale.core.clock import parse_time
from runnerscale.kube.builtin import Pod
from runnerscale.kube.objects import KubeObject, is_deleting
from runnerscale.kube.patching import drop_finalizers, has_finalizer, is_controlled_by

AGAIN_S = 1.0
# A pod may stay for long (its node is away), and its cache tells of its end: what is in no cache
# is not read every second all the while.
SOON_S = 15.0
LATER_AGAIN_S = 10.0


def stage(seen: Snapshot) -> Stage[Action]:
    """Empty the house, then let go."""
    if not has_finalizer(seen.listener, LISTENER_FINALIZER):
        return Stage(stop=True)
    unasked = tuple(Read(child) for child in Child if seen.is_unasked(child))
    if unasked:
        return Stage(unasked, stop=True)
    left = [
        (child, found) for child in Child if (found := seen.child(child)) and _ours(seen, child)
    ]
    refused = tuple(seen.refused.values())
    if not left and not refused:
        patch = drop_finalizers(seen.listener.metadata, [LISTENER_FINALIZER])
        return Stage((PatchSelf(patch),) if patch else (), stop=True)
    actions = tuple(
        action
        for child, found in left
        if child not in seen.refused
        for action in _removal(seen, child, found)
    )
    pod = seen.pod
    held = pod_life.going(seen, pod).troubles if pod is not None and is_deleting(pod) else ()
    told = (*refused, *held)
    stamp = seen.listener.metadata.deletion_timestamp
    is_late = stamp is not None and seen.now_s - parse_time(stamp) > SOON_S
    again_s = LATER_AGAIN_S if is_late else AGAIN_S
    return Stage(actions, told, again_s=again_s, failed=bool(refused), stop=True)


def _ours(seen: Snapshot, child: Child) -> bool:
    found = seen.child(child)
    if found is None or child in (Child.ROLE, Child.ROLE_BINDING):
        return found is not None
    return is_controlled_by(found, seen.reference)


def _removal(seen: Snapshot, child: Child, found: KubeObject) -> tuple[Action, ...]:
    if is_deleting(found):
        return pod_life.going(seen, found).actions if isinstance(found, Pod) else ()
    # A listener that has ended has nothing to give back.
    at_once = isinstance(found, Pod) and ends.end_of(found) is not None
    return (Remove(child, found.metadata.uid or "", at_once=at_once),)
