"""What the node does next about one pod: start, end, kill, or nothing for so many seconds.

The order of a pod's life is on this page: init containers one by one, sidecars as soon as their
turn comes, then the main containers together; the end of the pod the other way round. Whether an
ended container comes back is `restart.py`; what the API server is told is `pod_status.py`.

Pure. Contract: resources-and-controllers 4.4.3 (what the controllers look at).
"""

from dataclasses import dataclass

from runnerscale.node.pod_view import ContainerView, Kind, PodOver, PodView
from runnerscale.node.restart import comes_back, restart_at_s

# A sidecar that is told to end when the grace is used up by the others still gets this long.
SIDECAR_GRACE_MIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Start:
    """Start this container."""

    container: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask this container to end."""

    container: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End this container now."""

    container: str


Action = Start | Terminate | Kill


@dataclass(frozen=True, slots=True)
class PodPlan:
    """`again_s`: when to look again though nothing happens (seconds from now)."""

    actions: tuple[Action, ...] = ()
    again_s: float | None = None
    over: PodOver | None = None  # remember this: it never becomes None again
    stopping: bool = False  # the pod is being ended as a whole
    finished: bool = False  # nothing runs and nothing will


def plan(view: PodView) -> PodPlan:
    """The next steps for this pod."""
    over = view.over or _over_deadline(view)
    if view.deleting or over:
        grace_s = min(view.grace_s, over.grace_s) if over else view.grace_s
        return _stop(view, over, grace_s)
    if verdict(view) is not None:
        return _stop(view, None, view.grace_s)
    found = _Found(view)
    for container in view.containers:
        if container.running and container.unhealthy:
            found.end(container, view.grace_s)
    if _initialised(view, found):
        for container in view.mains:
            found.start_if_due(container)
    if view.deadline_s is not None:
        found.look_again_at(view.started_s + view.deadline_s)
    return PodPlan(tuple(found.actions), found.again_s)


def verdict(view: PodView) -> str | None:
    """`Succeeded` or `Failed` once the pod's own containers are through, else None."""
    for container in view.inits:
        ended = container.exit
        failed = container.kind is Kind.INIT and ended is not None and ended.code != 0
        if failed and _is_through(container, view.restart_policy):
            return "Failed"
    if not view.mains or not all(_is_through(c, view.restart_policy) for c in view.mains):
        return None
    codes = [c.exit.code for c in view.mains if c.exit]
    return "Failed" if any(codes) else "Succeeded"


def inits_done(view: PodView) -> bool:
    """The main containers may start, or have."""
    return any(c.attempts for c in view.mains) or all(_init_is_done(c) for c in view.inits)


def _is_through(container: ContainerView, policy: str) -> bool:
    return not container.live and container.exit is not None and not comes_back(container, policy)


def _init_is_done(container: ContainerView) -> bool:
    if container.kind is Kind.SIDECAR:
        return container.started
    return container.exit is not None and container.exit.code == 0 and not container.live


def _over_deadline(view: PodView) -> PodOver | None:
    if view.deadline_s is None or view.now_s < view.started_s + view.deadline_s:
        return None
    if verdict(view) is not None:
        return None
    message = "Pod was active on the node longer than the specified deadline"
    return PodOver("DeadlineExceeded", message, grace_s=view.grace_s)


def _initialised(view: PodView, found: "_Found") -> bool:
    begun = any(c.attempts for c in view.mains)
    for container in view.inits:
        if container.kind is Kind.SIDECAR:
            found.start_if_due(container)
            if not begun and not container.started:
                return False
        elif not begun and not _init_is_done(container):
            found.start_if_due(container)
            return False
    return True


def _stop(view: PodView, over: PodOver | None, grace_s: float) -> PodPlan:
    """End what runs: the main and init containers first, then the sidecars."""
    found = _Found(view)
    since_s = view.now_s if view.stopping_since_s is None else view.stopping_since_s
    live = [c for c in view.containers if c.live]
    first = [c for c in live if c.kind is not Kind.SIDECAR]
    for container in first or live:
        left_s = since_s + grace_s - view.now_s
        if container.kind is Kind.SIDECAR and grace_s > 0 and not first:
            left_s = max(left_s, _sidecar_left_s(container, view.now_s))
        found.end(container, grace_s, left_s=left_s)
    if grace_s <= 0 and first:
        for container in live:
            if container.kind is Kind.SIDECAR:
                found.end(container, 0)
    return PodPlan(tuple(found.actions), found.again_s, over=over, stopping=True, finished=not live)


def _sidecar_left_s(container: ContainerView, now_s: float) -> float:
    asked_s = now_s if container.term_sent_s is None else container.term_sent_s
    return asked_s + SIDECAR_GRACE_MIN_S - now_s


class _Found:
    """Collects the actions of one look at the pod."""

    def __init__(self, view: PodView) -> None:
        self._view = view
        self.actions: list[Action] = []
        self.again_s: float | None = None

    def look_again_at(self, at_s: float) -> None:
        left_s = max(0.0, at_s - self._view.now_s)
        self.again_s = left_s if self.again_s is None else min(self.again_s, left_s)

    def start_if_due(self, container: ContainerView) -> None:
        if container.live:
            return
        if container.exit is not None and not comes_back(container, self._view.restart_policy):
            return
        due_s = max(restart_at_s(container) if container.exit else 0.0, container.try_again_s)
        if due_s <= self._view.now_s:
            self.actions.append(Start(container.name))
        elif due_s != float("inf"):
            self.look_again_at(due_s)

    def end(self, container: ContainerView, grace_s: float, *, left_s: float | None = None) -> None:
        """TERM first, KILL when the grace is used up; once each."""
        if not container.running or container.kill_sent:
            return
        if left_s is None:
            asked_s = container.term_sent_s
            left_s = grace_s if asked_s is None else asked_s + grace_s - self._view.now_s
        if left_s <= 0:
            self.actions.append(Kill(container.name))
            return
        if container.term_sent_s is None:
            self.actions.append(Terminate(container.name))
        self.look_again_at(self._view.now_s + left_s)
