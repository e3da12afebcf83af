"""What the listener's own object says of it: conditions, the last end, what is wrong.

Where ARC's older CRD is installed the API server prunes all this; then the same text is not
written again and again (`told`). Pure.
"""

from typing import Any

from runnerscale.api import conditions as types
from runnerscale.api.fingerprint import canonical, fingerprint
from runnerscale.api.reasons import Reason, Trouble
from runnerscale.controllers.autoscaling_listener import restarts as ends
from runnerscale.controllers.autoscaling_listener.snapshot import (
    Action,
    Snapshot,
    WriteStatus,
    restarts_of,
)
from runnerscale.controllers.conditions import as_body, with_condition
from runnerscale.controllers.stages import Stage, worst
from runnerscale.kube.objects import is_deleting

POD_REASONS = (Reason.LISTENER_CRASHING, Reason.LISTENER_NOT_STARTED)


def stage(seen: Snapshot, troubles: tuple[Trouble, ...]) -> Stage[Action]:
    """Write it if it is not so already."""
    body = wished(seen, troubles)
    told = fingerprint(_timeless(body))
    if told == seen.told or canonical(_known(seen)) == canonical(body):
        return Stage()
    return Stage((WriteStatus(body, told),))


def wished(seen: Snapshot, troubles: tuple[Trouble, ...]) -> dict[str, Any]:
    """The whole status."""
    first = worst(troubles)
    restarts, termination = _memory(seen)
    conditions = seen.listener.status.conditions
    generation = seen.listener.metadata.generation
    config_wrong = worst(t for t in troubles if t.reason not in POD_REASONS)
    pod_wrong = worst(t for t in troubles if t.reason in POD_REASONS)
    conditions = with_condition(
        conditions,
        type=types.CONFIG_READY,
        status=config_wrong is None,
        reason=config_wrong.reason if config_wrong else "Current",
        message=config_wrong.message if config_wrong else "",
        now_s=seen.now_s,
        generation=generation,
    )
    running = seen.pod is not None and ends.is_running(seen.pod)
    conditions = with_condition(
        conditions,
        type=types.POD_RUNNING,
        status=running,
        reason=pod_wrong.reason if pod_wrong else "Running" if running else "Starting",
        message=pod_wrong.message if pod_wrong else "",
        now_s=seen.now_s,
        generation=generation,
    )
    return {
        "restarts": restarts,
        "lastTermination": termination,
        "reason": first.reason if first else "",
        "message": first.message if first else "",
        "conditions": as_body(conditions),
    }


def _timeless(body: dict[str, Any]) -> dict[str, Any]:
    # Where conditions are pruned, each pass would give them a new time.
    conditions = [{**item, "lastTransitionTime": None} for item in body["conditions"]]
    return {**body, "conditions": conditions}


def _memory(seen: Snapshot) -> tuple[int, str]:
    status = seen.listener.status
    pod = seen.pod
    if pod is None:
        ended = seen.ended
        return (ended.restarts, ended.termination) if ended else _stored(seen)
    end = ends.end_of(pod)
    if end is not None:
        return end.ended.restarts, end.ended.termination
    if is_deleting(pod):
        return 0, status.last_termination  # taken away while it lived: a new row begins
    since_s = ends.running_since_s(pod)
    healthy = bool(since_s) and seen.now_s - since_s >= ends.HEALTHY_AFTER_S
    return 0 if healthy else restarts_of(pod), status.last_termination


def _stored(seen: Snapshot) -> tuple[int, str]:
    return seen.listener.status.restarts, seen.listener.status.last_termination


def _known(seen: Snapshot) -> dict[str, Any]:
    status = seen.listener.status
    return {
        "restarts": status.restarts,
        "lastTermination": status.last_termination,
        "reason": status.reason,
        "message": status.message,
        "conditions": as_body(status.conditions),
    }
