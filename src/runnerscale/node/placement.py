"""Whether a pod fits on this node, and in which order pods are placed. Pure.

One node, one question: may it come here. Processor and memory are not counted, local processes
share the machine; the number of pods is the limit. The words are the scheduler's of Kubernetes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runnerscale.node.pod_spec import NodePod, is_terminal, uid_of

SCHEDULER = "default-scheduler"
COMMON_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})


@dataclass(frozen=True, slots=True)
class Room:
    """What the node offers."""

    labels: Mapping[str, str]
    pods_max: int
    ready: bool = True


def may_be_placed(pod: NodePod) -> bool:
    """It has no node yet, wants the default scheduler, and nobody holds it back."""
    spec = pod.spec
    ours = (spec.scheduler_name or SCHEDULER) == SCHEDULER
    free = not spec.node_name and not spec.scheduling_gates
    return ours and free and not pod.metadata.deletion_timestamp and not is_terminal(pod)


def in_order(pods: Iterable[NodePod]) -> list[NodePod]:
    """Who was created first is placed first."""
    return sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", uid_of(pod)))


def takes_room(pod: NodePod) -> bool:
    """It counts against the number of pods."""
    return not is_terminal(pod)


def misfit(pod: NodePod, room: Room, *, used: int) -> str | None:
    """Why it cannot be placed now, in the scheduler's words; None: it can."""
    if not room.ready:
        return _no_node("1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }")
    wanted = pod.spec.node_selector or {}
    if any(room.labels.get(name) != value for name, value in wanted.items()):
        return _no_node("1 node(s) didn't match Pod's node affinity/selector")
    missing = _unknown_resource(pod)
    if missing:
        return _no_node(f"1 Insufficient {missing}")
    if used >= room.pods_max:
        return _no_node("1 Too many pods")
    return None


def _no_node(why: str) -> str:
    return f"0/1 nodes are available: {why}. preemption: not helpful for scheduling"


def _unknown_resource(pod: NodePod) -> str:
    everyone = [*(pod.spec.init_containers or ()), *pod.spec.containers]
    for container in everyone:
        resources = container.resources
        if resources is None:
            continue
        # A limit without a request is a request too.
        asked: dict[str, str | int | float] = {
            **(resources.limits or {}),
            **(resources.requests or {}),
        }
        for name, amount in asked.items():
            if name not in COMMON_RESOURCES and str(amount) not in ("0", "0.0"):
                return name
    return ""
