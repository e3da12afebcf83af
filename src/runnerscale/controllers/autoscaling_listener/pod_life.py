"""The life of the listener's pod: made, watched, replaced.

Independent of whether credentials can be read just now: with a configuration that was good
once, a dead listener is restarted all the same (W51). A pod that is going and does not go, as
on a node that was lost, is given up after a while (W21).

Pure. Contract: resources-and-controllers 4.2 L9-L15.
"""

from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.autoscaling_listener import config_secret, identity, pod, proxy_secret
from runnerscale.controllers.autoscaling_listener import restarts as ends
from runnerscale.controllers.autoscaling_listener.snapshot import (
    Action,
    Child,
    Create,
    Ended,
    Read,
    Remove,
    Snapshot,
    restarts_of,
)
from runnerscale.controllers.stages import Stage
from runnerscale.core.clock import parse_time
from runnerscale.kube.builtin import Pod
from runnerscale.kube.objects import controller_of, is_deleting

# After the pod's own grace period. A kubelet that lives deletes within seconds of it.
STUCK_AFTER_S = 60.0
# Image pull and scheduling normally take less; then a person should know.
START_PATIENCE_S = 120.0
CRASHING_FROM = 3  # quick ends in a row before it is called that
OWN_KIND = "AutoscalingListener"


def stage(seen: Snapshot, *, may_create: bool) -> Stage[Action]:
    """`may_create`: everything that the pod needs is as it should be, or cannot be had better."""
    if seen.is_unasked(Child.POD):
        return Stage((Read(Child.POD),))
    refused = seen.refused.get(Child.POD)
    if refused is not None:
        return Stage(troubles=(refused,), failed=True)
    try:
        found = seen.pod
        return _made(seen, may_create) if found is None else _kept(seen, found)
    except pod.PodError as error:
        return Stage(troubles=(_not_started(seen, str(error)),))


def is_gone_for_good(found: Pod, now_s: float) -> bool:
    """Whether a pod that is being deleted overstays: nobody on its node works on it."""
    deleted = found.metadata.deletion_timestamp
    # The time in it already includes the grace period.
    return bool(deleted) and now_s >= parse_time(deleted or "") + STUCK_AFTER_S


def going(seen: Snapshot, found: Pod) -> Stage[Action]:
    """A pod that is being deleted: wait, but not for ever."""
    if is_gone_for_good(found, seen.now_s):
        if found.metadata.deletion_grace_period_seconds == 0:  # asked for already
            return Stage(troubles=(_held(seen, found),))
        return Stage((Remove(Child.POD, found.metadata.uid or "", at_once=True),))
    due_s = parse_time(found.metadata.deletion_timestamp or "") + STUCK_AFTER_S
    return Stage(again_s=max(1.0, due_s - seen.now_s))


def _held(seen: Snapshot, found: Pod) -> Trouble:
    held = ", ".join(found.metadata.finalizers or ()) or "nothing that is known"
    what = f"its pod does not go away, not even without grace; it is held by {held}"
    return trouble(Reason.CLEANUP_BLOCKED, about=seen.about, happened=what)


def _made(seen: Snapshot, may_create: bool) -> Stage[Action]:
    ready = (
        may_create
        and identity.are_ready(seen)
        and config_secret.stored(seen) is not None
        and proxy_secret.is_ready(seen)
    )
    wished = pod.integrity(seen) if ready else None
    if wished is None:
        return Stage()
    return Stage((Create(Child.POD, pod.desired(seen, integrity=wished)),))


def _kept(seen: Snapshot, found: Pod) -> Stage[Action]:
    uid = found.metadata.uid or ""
    owner = controller_of(found)
    if owner is None or owner.kind != OWN_KIND:
        what = f"a pod of the listener's name {seen.name} exists and belongs to somebody else"
        return Stage(troubles=(trouble(Reason.CLEANUP_BLOCKED, about=seen.about, happened=what),))
    if is_deleting(found):
        return going(seen, found)
    if owner.uid != seen.listener.metadata.uid:
        # Of a listener of the same name that is gone; it would go by itself, later.
        return Stage((Remove(Child.POD, uid),))
    end = ends.end_of(found)
    if end is not None:
        return _restarted(seen, found, end)
    if pod.has_lost_its_account(seen, found):
        return Stage((Remove(Child.POD, uid),))
    wished = pod.integrity(seen)
    if wished is not None and pod.is_other(seen, found, wished):
        # What it remembers of crashes is about the configuration that it leaves behind.
        return Stage((Remove(Child.POD, uid, ended=Ended(0, _last_termination(seen))),))
    return _watched(seen, found)


def _restarted(seen: Snapshot, found: Pod, end: ends.End) -> Stage[Action]:
    troubles = _crashing(seen, end.ended.restarts, end.ended.termination)
    if seen.now_s < end.ready_s:
        return Stage(troubles=troubles, again_s=end.ready_s - seen.now_s)
    remove = Remove(Child.POD, found.metadata.uid or "", at_once=True, ended=end.ended)
    return Stage((remove,), troubles)


def _watched(seen: Snapshot, found: Pod) -> Stage[Action]:
    restarts = restarts_of(found)
    crashing = _crashing(seen, restarts, _last_termination(seen))
    if ends.is_running(found):
        left_s = ends.running_since_s(found) + ends.HEALTHY_AFTER_S - seen.now_s
        proven = restarts == 0 or left_s <= 0
        return Stage() if proven else Stage(troubles=crashing, again_s=left_s)
    created = found.metadata.creation_timestamp
    age_s = seen.now_s - parse_time(created) if created else 0.0
    if age_s < START_PATIENCE_S:
        return Stage(troubles=crashing, again_s=START_PATIENCE_S - age_s)
    return Stage(troubles=(*crashing, _not_started(seen, _why_not_started(found))))


def _crashing(seen: Snapshot, restarts: int, termination: str) -> tuple[Trouble, ...]:
    if restarts < CRASHING_FROM:
        return ()
    what = f"the listener ended {restarts} times in a row, last: {termination}"
    return (trouble(Reason.LISTENER_CRASHING, about=seen.about, happened=what),)


def _last_termination(seen: Snapshot) -> str:
    return seen.listener.status.last_termination


def _not_started(seen: Snapshot, why: str) -> Trouble:
    return trouble(Reason.LISTENER_NOT_STARTED, about=seen.about, happened=why)


def _why_not_started(found: Pod) -> str:
    status = ends.container_status(found)
    waiting = status.state.waiting if status and status.state else None
    if waiting is not None and waiting.reason:
        return f"its container waits: {waiting.reason} {waiting.message or ''}".strip()
    for condition in (found.status.conditions if found.status else None) or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"its pod has no node: {condition.message or condition.reason}"
    return "its pod has not started its container"
