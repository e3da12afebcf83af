"""How a listener's pod ended, and how long the next one waits.

The memory is the pod itself: a pod that ended stays until its successor may start (so that its
log can be read), and the successor carries the count. Starts slow down to one in five minutes
(W19); what came from outside (eviction, a node shut down) is no crash and waits shortly.

Pure. Contract: resources-and-controllers 4.2 L12-L14, W21.
"""

from dataclasses import dataclass

from runnerscale.controllers.autoscaling_listener.snapshot import Ended, restarts_of
from runnerscale.controllers.autoscaling_listener.template import CONTAINER
from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import format_time, parse_time
from runnerscale.kube.builtin import ContainerStateTerminated, ContainerStatus, Pod

# A listener that lived so long has proven its configuration: its end begins a new row.
HEALTHY_AFTER_S = 600.0
# 2, 4, 8 ... 300 s: nine starts in the first ten minutes, then one in five.
DELAY = Backoff(first_s=2.0, cap_s=300.0)
OUTSIDE_DELAY_S = 1.0
# A signal that neither the kernel's memory killer nor the listener itself explains came from
# outside. It is counted (so that it shows), but jobs need not wait long for what is healthy.
KILLED_DELAY_MAX_S = 5.0
KILLED_CODES = (137, 143)  # SIGKILL, SIGTERM
OUT_OF_MEMORY = "OOMKilled"
TEXT_MAX = 200
ENDED_PHASES = ("Failed", "Succeeded")


@dataclass(frozen=True, slots=True)
class End:
    """The end of a pod, and from when its successor may start."""

    ended: Ended
    ready_s: float  # wall time; 0: now


def end_of(pod: Pod) -> End | None:
    """How it ended; None: it has not."""
    status = container_status(pod)
    terminated = status.state.terminated if status and status.state else None
    phase = pod.status.phase if pod.status else ""
    if terminated is None and phase not in ENDED_PHASES:
        return None
    before = restarts_of(pod)
    reason = (pod.status.reason if pod.status else None) or ""
    if terminated is None or reason:
        # Nobody saw the listener fail: the node, or who commands it, ended the pod.
        return End(Ended(before, _text(pod, terminated)), 0.0)
    finished_s = _time(terminated.finished_at)
    ran_s = finished_s - _time(terminated.started_at)
    if ran_s >= HEALTHY_AFTER_S:
        return End(Ended(0, _text(pod, terminated)), 0.0)
    delay_s = DELAY.delay_s(before)
    if terminated.exit_code in KILLED_CODES and terminated.reason != OUT_OF_MEMORY:
        delay_s = min(delay_s, KILLED_DELAY_MAX_S)
    ready_s = finished_s + delay_s if finished_s else 0.0
    return End(Ended(before + 1, _text(pod, terminated)), ready_s)


def container_status(pod: Pod) -> ContainerStatus | None:
    """The status of the listener's container; sidecars do not count."""
    found = (pod.status.container_statuses if pod.status else None) or ()
    return next((status for status in found if status.name == CONTAINER), None)


def is_running(pod: Pod) -> bool:
    """Whether the listener's container runs."""
    status = container_status(pod)
    return bool(status and status.state and status.state.running)


def running_since_s(pod: Pod) -> float:
    """Since when, wall time; 0: unknown."""
    status = container_status(pod)
    running = status.state.running if status and status.state else None
    return _time(running.started_at) if running else 0.0


def _time(text: str | None) -> float:
    try:
        return parse_time(text) if text else 0.0
    except ValueError:
        return 0.0


def _text(pod: Pod, terminated: ContainerStateTerminated | None) -> str:
    parts = []
    if terminated is not None:
        finished_s = _time(terminated.finished_at)
        if finished_s:
            parts.append(format_time(finished_s))
        parts.append(f"exit code {terminated.exit_code}")
        parts += [text for text in (terminated.reason, terminated.message) if text]
    if pod.status:
        parts += [text for text in (pod.status.reason, pod.status.message) if text]
    return ", ".join(parts)[:TEXT_MAX] or "ended"
