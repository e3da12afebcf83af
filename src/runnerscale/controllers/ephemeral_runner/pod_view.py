"""What a runner's pod says, reduced to the facts that the stages decide on.

The runner container is looked at first and by name; init containers that are sidecars
(`restartPolicy: Always`) never count as failures, because their exit code says nothing about
the runner (W26). A container that the kubelet started a second time has ended, as far as we
are concerned: its JIT config was spent by the first start. Pure.

What follows from the facts: `placement.py` up to `pod_ended.py`.
Contract: resources-and-controllers 4.4.3.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from runnerscale.core.clock import parse_time
from runnerscale.core.plain_text import CUT_MARK
from runnerscale.kube.builtin import (
    Container,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
)

RUNNER_CONTAINER = "runner"
LAST_WORDS_CHARS_MAX = 300  # of 4096 bytes at most; it is the end that says why
POD_OVER = frozenset({"Succeeded", "Failed"})
# A node refused the pod before it started any container; "OutOf..." besides.
REFUSED_BY_NODE = frozenset(
    {
        "NodeAffinity",
        "NodeShutdown",
        "NodePorts",
        "NodeName",
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
    }
)


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended."""

    container: str
    code: int
    reason: str = ""  # `OOMKilled`, `Error`, `Completed`, ...
    message: str = ""  # the termination message, or the last log lines if the template says so
    at_s: float | None = None

    @property
    def last_words(self) -> str:
        """The end of that message, to be put after a sentence: the pod and its log go at once."""
        words = " ".join(self.message.split())
        if len(words) > LAST_WORDS_CHARS_MAX:
            words = CUT_MARK + words[-LAST_WORDS_CHARS_MAX:]
        return f", its last words: {words}" if words else ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container does not run yet."""

    container: str
    image: str
    reason: str
    message: str


class PodView(msgspec.Struct, frozen=True):
    """One runner's pod."""

    uid: str
    created_s: float
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    disruption: str = ""  # the reason of a true `DisruptionTarget` condition
    placed_s: float | None = None  # when it got a node; None: it has none
    unplaced: str = ""  # the scheduler's words
    going_s: float | None = None  # being deleted by somebody; when its grace period ends
    ready: bool = False
    reported: bool = False  # the node reports a runner container
    started_s: float | None = None  # the runner container; None: never started
    exit: Exit | None = None  # of the runner container
    failed: Exit | None = None  # of an init container that must succeed, or of a sidecar
    waiting: tuple[Waiting, ...] = ()
    all_ended: bool = False  # no container of it runs any more
    has_address: bool = False
    resource_version: str = ""
    changed_s: float = 0.0  # when a pod that is over last changed a condition
    gone: bool = False  # we know that it is gone, though the cache still showed it

    @property
    def over(self) -> bool:
        """Nothing of it will run any more, whatever the containers' states say."""
        return self.phase in POD_OVER

    @property
    def ended(self) -> bool:
        """The runner's one container has ended, or never will run."""
        return self.exit is not None or self.over or self.gone

    @property
    def refused_by_node(self) -> bool:
        """A node turned it down, and it certainly started nothing."""
        if self.phase != "Failed":
            return False
        ran = self.started_s is not None or self.exit is not None or self.has_address
        return not ran and (self.reason.startswith("OutOf") or self.reason in REFUSED_BY_NODE)


def pod_view(pod: Pod) -> PodView:
    """The facts of a pod."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    created_s = _time(meta.creation_timestamp) or 0.0
    statuses = (status.container_statuses if status else None) or []
    inits = (status.init_container_statuses if status else None) or []
    runner = next((item for item in statuses if item.name == RUNNER_CONTAINER), None)
    conditions = (status.conditions if status else None) or []
    phase = (status.phase if status else "") or "Pending"
    placed = bool(spec and spec.node_name)
    scheduled = _newest(conditions, "PodScheduled")
    disruption = _newest(conditions, "DisruptionTarget")
    must_succeed = _must_succeed((spec.init_containers if spec else None) or [])
    failures = [_failed(item) for item in inits if item.name in must_succeed]
    failures += [_failed(item) for item in statuses if item.name != RUNNER_CONTAINER]
    ready = _newest(conditions, "Ready")
    return PodView(
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        created_s=created_s,
        phase=phase,
        reason=(status.reason if status else None) or "",
        message=(status.message if status else None) or "",
        disruption=disruption.reason if disruption and disruption.status == "True" else "",
        placed_s=(_placed_s(scheduled, created_s) if placed else None),
        unplaced=_unplaced(scheduled),
        going_s=_time(meta.deletion_timestamp),
        ready=ready is not None and ready.status == "True",
        reported=runner is not None,
        started_s=_started_s(runner, created_s) if runner else None,
        exit=_exit(runner) if runner else None,
        failed=next((item for item in failures if item is not None), None),
        waiting=tuple(_waiting([*statuses, *inits])),
        all_ended=_all_ended(spec.containers if spec else [], statuses, inits),
        has_address=bool(status and status.pod_ip),
        changed_s=_changed_s(conditions, created_s) if phase in POD_OVER else created_s,
    )


def _exit(status: ContainerStatus) -> Exit | None:
    ended = status.state.terminated if status.state else None
    if ended is None and status.last_state is not None:
        ended = status.last_state.terminated  # started again by the kubelet: too late for us
    return None if ended is None else _as_exit(status.name, ended)


def _as_exit(container: str, ended: ContainerStateTerminated) -> Exit:
    return Exit(
        container,
        ended.exit_code,
        reason=ended.reason or "",
        message=ended.message or "",
        at_s=_time(ended.finished_at),
    )


def _failed(status: ContainerStatus) -> Exit | None:
    ended = status.state.terminated if status.state else None
    if ended is None or ended.exit_code == 0:
        return None
    return _as_exit(status.name, ended)


def _started_s(status: ContainerStatus, created_s: float) -> float | None:
    state = status.state
    if state is not None and state.running is not None:
        return _time(state.running.started_at) or created_s
    for known in (state, status.last_state):
        if known is not None and known.terminated is not None:
            return _time(known.terminated.started_at) or created_s
    return created_s if status.restart_count > 0 or status.started else None


def _must_succeed(inits: Sequence[Container]) -> set[str]:
    return {item.name for item in inits if item.restart_policy != "Always"}


def _waiting(statuses: Sequence[ContainerStatus]) -> Iterator[Waiting]:
    for status in statuses:
        waiting = status.state.waiting if status.state else None
        if waiting is not None and waiting.reason:
            yield Waiting(status.name, status.image, waiting.reason, waiting.message or "")


def _all_ended(
    containers: Sequence[Container],
    statuses: Sequence[ContainerStatus],
    inits: Sequence[ContainerStatus],
) -> bool:
    ended = {item.name for item in statuses if item.state and item.state.terminated}
    runs = any(item.state and item.state.running for item in [*statuses, *inits])
    return not runs and bool(ended) and all(item.name in ended for item in containers)


def _placed_s(scheduled: PodCondition | None, created_s: float) -> float:
    at_s = _time(scheduled.last_transition_time) if scheduled else None
    return at_s if at_s is not None else created_s


def _changed_s(conditions: Sequence[PodCondition], created_s: float) -> float:
    times = (_time(item.last_transition_time) or 0.0 for item in conditions)
    return max((created_s, *times))


def _unplaced(scheduled: PodCondition | None) -> str:
    if scheduled is None or scheduled.status == "True":
        return ""
    return scheduled.message or scheduled.reason


def _newest(conditions: Sequence[PodCondition], type: str) -> PodCondition | None:  # noqa: A002 - the API's word
    """The latest word on a type: readiness gates may leave more than one."""
    found = [item for item in conditions if item.type == type]
    if len(found) < 2:
        return found[0] if found else None
    return max(found, key=lambda item: _time(item.last_transition_time) or 0.0)


def _time(text: str | None) -> float | None:
    """None too where somebody wrote nonsense: a hostile pod must not stop anybody."""
    try:
        return parse_time(text) if text else None
    except (ValueError, OverflowError):
        return None
