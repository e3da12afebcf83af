"""How a pod looks in a table: READY, STATUS, RESTARTS. Its own file: the rules are many."""

from typing import Any

Json = dict[str, Any]


def pod_cells(obj: Json, age: str) -> list[Any]:
    """The cells of a pod after its name."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    containers = [c.get("name") for c in spec.get("containers") or ()]
    states = status.get("containerStatuses") or []
    sidecars = {
        c.get("name")
        for c in spec.get("initContainers") or ()
        if c.get("restartPolicy") == "Always"
    }
    init_states = status.get("initContainerStatuses") or []
    total = len(containers) + len(sidecars)
    ready = sum(bool(s.get("ready")) for s in states)
    ready += sum(bool(s.get("ready")) for s in init_states if s.get("name") in sidecars)
    restarts = sum(s.get("restartCount", 0) for s in states)
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    gates = spec.get("readinessGates") or ()
    passed = sum(conditions.get(g.get("conditionType"), {}).get("status") == "True" for g in gates)
    return [
        f"{ready}/{total}",
        _reason(obj, conditions),
        str(restarts),
        age,
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"{passed}/{len(gates)}" if gates else "<none>",
    ]


def _reason(obj: Json, conditions: dict[Any, Json]) -> str:
    """The STATUS column: the most telling word about a pod."""
    status, meta = obj.get("status") or {}, obj.get("metadata") or {}
    reason = str(status.get("reason") or status.get("phase") or "")
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    reason = _init_reason(obj) or _container_reason(status, conditions, reason)
    if meta.get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _init_reason(obj: Json) -> str:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    init = spec.get("initContainers") or []
    states = status.get("initContainerStatuses") or []
    sidecars = {c.get("name") for c in init if c.get("restartPolicy") == "Always"}
    for place, container in enumerate(states):
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if container.get("name") in sidecars and container.get("started"):
            continue
        if ended is not None:
            return "Init:" + _ended_reason(ended)
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{place}/{len(init)}"
    return ""


def _ended_reason(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _container_reason(status: Json, conditions: dict[Any, Json], reason: str) -> str:
    running = False
    for container in reversed(status.get("containerStatuses") or []):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting"), state.get("terminated")
        if waiting is not None and waiting.get("reason"):
            reason = str(waiting["reason"])
        elif ended is not None:
            reason = _ended_reason(ended)
        elif container.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        ready = (conditions.get("Ready") or {}).get("status") == "True"
        reason = "Running" if ready else "NotReady"
    return reason
