"""What the agent holds of one container of one pod: its process, its tries, its health.

State only, no rule: what follows from it is `pod_plan.py`, which sees it as a `ContainerView`.
"""

from dataclasses import dataclass, replace

from runnerscale.kube.builtin import ContainerStatus
from runnerscale.node.pod_spec import Container
from runnerscale.node.pod_view import ContainerView, Kind, Waiting
from runnerscale.node.preparation import NotStarted
from runnerscale.node.prober import Health
from runnerscale.node.processes import CODE_KILLED, ExitStatus, Process, RecoveredContainer
from runnerscale.node.restart import CONFIG_BACKOFF, PULL_BACKOFF

# A failed pull is told as ErrImagePull first, then as waiting for the next try.
PULL_TOLD_S = 1.0
LOST = ExitStatus(
    CODE_KILLED,
    reason="ContainerStatusUnknown",
    message="The node has no record of this container, which had been started",
)


@dataclass(slots=True)
class ContainerRun:
    """Changed by the pod's worker only."""

    spec: Container
    kind: Kind
    attempts: int = 0
    process: Process | None = None
    exit: ExitStatus | None = None
    previous: ExitStatus | None = None
    starting: bool = False
    trouble: Waiting | None = None
    refused_s: float = 0.0
    failures: int = 0
    try_again_s: float = 0.0
    term_sent_s: float | None = None
    kill_sent: bool = False
    health: Health | None = None

    def view(self, now_s: float) -> ContainerView:
        """As the rules see it."""
        running = self.process is not None and self.exit is None
        health = self.health if running and self.health else Health()
        return ContainerView(
            name=self.spec.name,
            kind=self.kind,
            image=self.spec.image or "",
            attempts=self.attempts,
            running_since_s=self.process.started_s if running and self.process else None,
            exit=self.exit,
            previous=self.previous,
            started=health.started,
            ready=health.ready and self.kind is not Kind.INIT,
            unhealthy=health.unhealthy,
            starting=self.starting,
            trouble=self._told_trouble(now_s),
            try_again_s=self.try_again_s,
            term_sent_s=self.term_sent_s,
            kill_sent=self.kill_sent,
        )

    def took(self, process: Process) -> None:
        """A new attempt runs, or has run."""
        if self.exit is not None:
            self.previous = self.exit
        self.process = process
        self.exit = None
        self.attempts += 1
        self.starting = False
        self.trouble = None
        self.failures = 0
        self.try_again_s = 0.0
        self.term_sent_s = None
        self.kill_sent = False
        self.health = None

    def refused(self, answer: NotStarted, now_s: float) -> None:
        """A try to start it has failed; nothing runs."""
        self.starting = False
        self.trouble = answer.waiting
        self.refused_s = now_s
        if answer.kind == "never":
            self.try_again_s = float("inf")
            return
        backoff = PULL_BACKOFF if answer.kind == "pull" else CONFIG_BACKOFF
        self.try_again_s = now_s + backoff.delay_s(self.failures)
        self.failures += 1

    def ended(self, message: str) -> None:
        """Its process has ended. `message`: what to tell where the process left no word."""
        if self.process is None or self.process.exit is None:
            return
        ended = self.process.exit
        self.exit = ended if ended.message else replace(ended, message=message)

    def told_again_s(self, now_s: float) -> float | None:
        """When its state will read differently although nothing happens (seconds, epoch)."""
        flips_s = self.refused_s + PULL_TOLD_S
        pulling = self.trouble is not None and self.trouble.reason == "ErrImagePull"
        return flips_s if pulling and now_s < flips_s else None

    def recover(self, found: RecoveredContainer) -> None:
        """Take over what an earlier agent started."""
        self.attempts = found.attempts
        self.process = found.latest
        self.previous = found.previous

    def believe(self, told: ContainerStatus) -> None:
        """There is nothing on this machine, but the API server was told that it had started.

        It must not be started as if it were new: what it was given may be good for one use.
        """
        state, last = told.state, told.last_state
        ended = state.terminated if state else None
        started = bool(told.restart_count or (state and state.running) or ended)
        if not (started or (last and last.terminated)):
            return
        self.attempts = told.restart_count + 1
        self.exit = (
            ExitStatus(ended.exit_code, reason=ended.reason or "", message=ended.message or "")
            if ended
            else LOST
        )

    def _told_trouble(self, now_s: float) -> Waiting | None:
        trouble = self.trouble
        if trouble is None or trouble.reason != "ErrImagePull":
            return trouble
        if now_s < self.refused_s + PULL_TOLD_S:
            return trouble
        message = f'Back-off pulling image "{self.spec.image}": ErrImagePull: {trouble.message}'
        return Waiting("ImagePullBackOff", message)
