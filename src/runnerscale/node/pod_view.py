"""The snapshot of one pod that the node's rules look at: values only, time included.

Made by `pod_worker.py`; judged by `pod_plan.py` and `restart.py`, told to the API server by
`pod_status.py`.
"""

from dataclasses import dataclass
from enum import Enum

from runnerscale.node.processes import ExitStatus


class Kind(Enum):
    """What part a container plays in its pod."""

    INIT = "init"  # runs to its end before the next one starts
    SIDECAR = "sidecar"  # an init container that keeps running beside the others
    MAIN = "main"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container does not run: a reason of kubelet and its message."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodOver:
    """The pod as a whole was ended: evicted, over its deadline, not admitted."""

    reason: str
    message: str
    grace_s: int
    disrupted: bool = False  # by the node, not by its own doing: condition DisruptionTarget


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container as it is now."""

    name: str
    kind: Kind = Kind.MAIN
    image: str = ""
    attempts: int = 0  # how often it was really started
    running_since_s: float | None = None
    exit: ExitStatus | None = None  # of the newest attempt, once that has ended
    previous: ExitStatus | None = None  # of the attempt before
    started: bool = False  # runs, and its startup probe (if any) has passed
    ready: bool = False
    unhealthy: bool = False  # a liveness or startup probe has given it up
    starting: bool = False  # a start is under way
    trouble: Waiting | None = None  # why the last try to start it failed
    try_again_s: float = 0.0  # not before; infinity: never with this pod
    term_sent_s: float | None = None
    kill_sent: bool = False

    @property
    def running(self) -> bool:
        """A process of it is there."""
        return self.running_since_s is not None

    @property
    def live(self) -> bool:
        """A process of it is there, or may be any moment."""
        return self.running or self.starting


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod as it is now; init containers (sidecars too) stand before the main ones."""

    namespace: str
    name: str
    uid: str
    containers: tuple[ContainerView, ...]
    now_s: float
    started_s: float  # when this node took it
    restart_policy: str = "Always"
    deadline_s: int | None = None  # activeDeadlineSeconds
    grace_s: int = 30
    deleting: bool = False
    stopping_since_s: float | None = None
    over: PodOver | None = None

    @property
    def mains(self) -> tuple[ContainerView, ...]:
        """The containers the pod is about."""
        return tuple(c for c in self.containers if c.kind is Kind.MAIN)

    @property
    def inits(self) -> tuple[ContainerView, ...]:
        """Init containers and sidecars, in their order."""
        return tuple(c for c in self.containers if c.kind is not Kind.MAIN)
