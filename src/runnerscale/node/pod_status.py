"""What the API server is told about a pod: phase, conditions, container states, as kubelet does.

The words here (`CrashLoopBackOff`, `OOMKilled`, `ContainersNotReady`, ...) are what the controllers
and people look for; they must not be ours. Pure: sending is `status_writer.py`.
"""

from collections.abc import Sequence
from typing import Any

from runnerscale.core.clock import format_time
from runnerscale.kube.builtin import PodCondition
from runnerscale.node.environment import LOOPBACK
from runnerscale.node.pod_plan import inits_done, verdict
from runnerscale.node.pod_view import ContainerView, Kind, PodView, Waiting
from runnerscale.node.processes import ExitStatus
from runnerscale.node.restart import comes_back, restart_delay_s

MESSAGE_MAX = 4096  # kubelet's bound of a termination message
OURS = frozenset({"PodScheduled", "Initialized", "ContainersReady", "Ready", "DisruptionTarget"})

Json = dict[str, Any]


def build_status(view: PodView, existing: Sequence[PodCondition] | None) -> Json:
    """The whole status. Conditions of others are kept, transition times too."""
    phase = phase_of(view)
    status: Json = {
        "phase": phase,
        "hostIP": LOOPBACK,
        "hostIPs": [{"ip": LOOPBACK}],
        "podIP": LOOPBACK,
        "podIPs": [{"ip": LOOPBACK}],
        "startTime": format_time(view.started_s),
        "reason": None,
        "message": None,
    }
    if view.over and phase == "Failed":
        status |= {"reason": view.over.reason, "message": view.over.message}
    inits = [_container_status(c, view) for c in view.inits]
    if inits:
        status["initContainerStatuses"] = inits
    status["containerStatuses"] = [_container_status(c, view) for c in view.mains]
    status["conditions"] = _conditions(view, phase, existing or ())
    return status


def refused_status(view: PodView, existing: Sequence[PodCondition] | None) -> Json:
    """A pod that the node does not take: over at once, nothing of it was ever made."""
    assert view.over is not None
    return {
        "phase": "Failed",
        "reason": view.over.reason,
        "message": view.over.message,
        "startTime": format_time(view.started_s),
        "conditions": _conditions(view, "Failed", existing or ()),
    }


def phase_of(view: PodView) -> str:
    """kubelet's phase: one word for all containers together."""
    live = any(c.live for c in view.containers)
    if (view.over or view.deleting) and not live:
        return _phase_at_end(view)
    decided = verdict(view)
    if decided is not None:
        # Sidecars may still be ending: the pod is over when they are.
        return "Running" if live else decided
    if not inits_done(view):
        return "Pending"
    if any(c.running for c in view.mains) or any(c.attempts for c in view.mains):
        never_ran = [c for c in view.mains if not c.attempts]
        return "Pending" if never_ran and not any(c.running for c in view.mains) else "Running"
    return "Pending"


def _phase_at_end(view: PodView) -> str:
    if view.over:
        return "Failed"
    ran = [c.exit for c in view.mains if c.exit]
    if not ran:
        return "Failed" if any(c.exit and c.exit.code for c in view.inits) else "Pending"
    clean = len(ran) == len(view.mains) and all(ended.code == 0 for ended in ran)
    return "Succeeded" if clean else "Failed"


def _container_status(container: ContainerView, view: PodView) -> Json:
    state, last = _states(container, view)
    return {
        "name": container.name,
        "image": container.image,
        "imageID": container.image,
        "containerID": _container_id(container, view.uid) if container.attempts else "",
        "restartCount": max(0, container.attempts - 1),
        "ready": container.ready or (container.kind is Kind.INIT and _ended_well(container)),
        "started": container.running and container.started,
        "state": state,
        "lastState": last,
    }


def _states(container: ContainerView, view: PodView) -> tuple[Json, Json]:
    """`state` and `lastState`."""
    cid = _container_id(container, view.uid)
    previous = {"terminated": _terminated(container.previous, cid)} if container.previous else {}
    if container.running_since_s is not None:
        return {"running": {"startedAt": format_time(container.running_since_s)}}, previous
    ended = container.exit
    last = {"terminated": _terminated(ended, cid)} if ended else {}
    if container.trouble and not (view.over or view.deleting):
        return {"waiting": _waiting(container.trouble)}, last
    if ended is None:
        return {"waiting": _waiting(_not_yet(view))}, previous
    if _crash_loops(container, view):
        return {"waiting": _waiting(_crash_loop(container, view))}, last
    return {"terminated": _terminated(ended, cid)}, previous


def _not_yet(view: PodView) -> Waiting:
    if view.inits and not inits_done(view):
        return Waiting("PodInitializing")
    return Waiting("ContainerCreating")


def _crash_loops(container: ContainerView, view: PodView) -> bool:
    if view.over or view.deleting or verdict(view) is not None:
        return False
    return comes_back(container, view.restart_policy) and restart_delay_s(container) > 0


def _crash_loop(container: ContainerView, view: PodView) -> Waiting:
    delay_s = restart_delay_s(container)
    pod = f"{view.name}_{view.namespace}({view.uid})"
    message = f"back-off {delay_s:.0f}s restarting failed container={container.name} pod={pod}"
    return Waiting("CrashLoopBackOff", message)


def _waiting(waiting: Waiting) -> Json:
    body: Json = {"reason": waiting.reason}
    if waiting.message:
        body["message"] = waiting.message
    return body


def _terminated(ended: ExitStatus, container_id: str) -> Json:
    body: Json = {
        "exitCode": ended.code,
        "reason": ended.reason or ("Error" if ended.code else "Completed"),
        "containerID": container_id,
    }
    if ended.signal:
        body["signal"] = ended.signal
    if ended.message:
        body["message"] = ended.message[-MESSAGE_MAX:]
    if ended.started_s:
        body["startedAt"] = format_time(ended.started_s)
    if ended.finished_s:
        body["finishedAt"] = format_time(ended.finished_s)
    return body


def _container_id(container: ContainerView, uid: str) -> str:
    return f"process://{uid}/{container.name}/{max(0, container.attempts - 1)}"


def _ended_well(container: ContainerView) -> bool:
    return container.exit is not None and container.exit.code == 0 and not container.live


def _conditions(view: PodView, phase: str, existing: Sequence[PodCondition]) -> list[Json]:
    ours: list[tuple[str, bool, str, str]] = [("PodScheduled", True, "", "")]
    ours.append(("Initialized", *_initialized(view, phase)))
    ready = _readiness(view, phase)
    ours += [("ContainersReady", *ready), ("Ready", *ready)]
    if view.over and view.over.disrupted:
        message = f"The pod was ended by the node: {view.over.message}"
        ours.append(("DisruptionTarget", True, "TerminationByKubelet", message))
    old = {condition.type: condition for condition in existing}
    kept = [_plain(condition) for condition in existing if condition.type not in OURS]
    if "DisruptionTarget" in old and not (view.over and view.over.disrupted):
        kept.append(_plain(old["DisruptionTarget"]))  # somebody else's: an eviction by the API
    return [*(_condition(item, old, view.now_s) for item in ours), *kept]


def _initialized(view: PodView, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return True, "PodCompleted", ""
    if inits_done(view):
        return True, "", ""
    waiting = [c.name for c in view.inits if not (c.started or _ended_well(c))]
    names = " ".join(waiting)
    message = f"containers with incomplete status: [{names}]"
    return False, "ContainersNotInitialized", message


def _readiness(view: PodView, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    counted = [c for c in view.containers if c.kind is not Kind.INIT]
    unready = [c.name for c in counted if not c.ready]
    if not unready:
        return True, "", ""
    names = " ".join(unready)
    return False, "ContainersNotReady", f"containers with unready status: [{names}]"


def _condition(
    item: tuple[str, bool, str, str], old: dict[str, PodCondition], now_s: float
) -> Json:
    kind, true, reason, message = item
    status = "True" if true else "False"
    before = old.get(kind)
    since = before.last_transition_time if before and before.status == status else None
    body: Json = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since or format_time(now_s),
    }
    if reason:
        body["reason"] = reason
    if message:
        body["message"] = message
    return body


def _plain(condition: PodCondition) -> Json:
    body: Json = {
        "type": condition.type,
        "status": condition.status,
        "lastTransitionTime": condition.last_transition_time,
    }
    if condition.reason:
        body["reason"] = condition.reason
    if condition.message:
        body["message"] = condition.message
    return body
