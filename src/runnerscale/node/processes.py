"""The seam between the node agent and the machine: folders, volumes and processes of pods.

The agent decides, this carries out. `system_processes.py` is the real machine; a simulation
hands in scripted processes. Whatever is behind it must keep one promise: a container attempt
that may have started is never started again, even when the agent was killed in between.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

CODE_KILLED = 137  # 128 + SIGKILL, also "nobody knows how it ended"
CODE_NOT_STARTED = 128


@dataclass(frozen=True, slots=True)
class PodRef:
    """Which pod. The uid tells it from a namesake."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How one attempt of a container ended. Times are seconds since the epoch."""

    code: int
    signal: int | None = None
    reason: str = ""  # kubelet's word where it is not simply Completed or Error
    message: str = ""
    started_s: float = 0.0
    finished_s: float = 0.0


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """One file of a volume."""

    content: bytes = field(repr=False)
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class MountRequest:
    """A volume, or a part of it, at an absolute path. `host_path` stands instead of a volume."""

    volume: str
    path: str
    sub_path: str = ""
    read_only: bool = False
    host_path: str = ""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One container, ready to start. The environment holds secrets: never in a repr or a log."""

    pod: PodRef
    container: str
    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    working_dir: str = ""
    mounts: tuple[MountRequest, ...] = ()
    earlier: int = 0  # how often this container was started before


class StartFailed(Exception):
    """A container could not be started; nothing of it runs, nothing of it ever ran."""

    def __init__(self, reason: str, message: str) -> None:
        """`reason`: a waiting reason of kubelet."""
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class Process(Protocol):
    """One attempt of a container that has started, and may have ended."""

    @property
    def started_s(self) -> float:
        """When, in seconds since the epoch."""
        ...

    @property
    def exit(self) -> ExitStatus | None:
        """How it ended; None while it runs."""
        ...

    def on_exit(self, call: Callable[[], None]) -> None:
        """`call` once when it has ended; at once if it has."""
        ...

    def terminate(self) -> None:
        """SIGTERM to the container's process group; nothing if it has ended."""
        ...

    def kill(self, *, reason: str = "") -> None:
        """SIGKILL to everything of the container; nothing if it has ended.

        `reason`: what the exit status shall say, such as OOMKilled, if this is what ends it.
        """
        ...


@dataclass(frozen=True, slots=True)
class RecoveredContainer:
    """What is known of a container after the agent's own restart."""

    attempts: int  # how often it was really started
    latest: Process | None  # the newest attempt, running or ended
    previous: ExitStatus | None = None  # the attempt before that


@dataclass(frozen=True, slots=True)
class RecoveredPod:
    """A pod with a folder on this machine."""

    pod: PodRef
    grace_s: int
    containers: Mapping[str, RecoveredContainer]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that was run beside a container: its exit code and the head of its output."""

    code: int
    output: str = ""


class ProcessStarter(Protocol):
    """All that the node agent can do to the machine."""

    async def recover(self) -> Sequence[RecoveredPod]:
        """What an earlier agent left, running or not. Called once, before anything else."""
        ...

    async def recover_pod(self, pod: PodRef) -> RecoveredPod | None:
        """What there is of one pod; None: it has no folder."""
        ...

    async def admit(self, pod: PodRef, *, grace_s: int) -> None:
        """Make the pod's folder: from now on `recover` knows it. May be repeated."""
        ...

    async def write_volume(
        self, pod: PodRef, volume: str, files: Mapping[str, VolumeFile] | None
    ) -> None:
        """Make the files of a volume visible all at once; None: an empty writable folder."""
        ...

    async def start(self, spec: ProcessSpec) -> Process:
        """Start a container.

        Raises:
            StartFailed: it does not run and did not run.
        """
        ...

    async def run_beside(
        self, spec: ProcessSpec, argv: Sequence[str], *, timeout_s: float
    ) -> CommandResult:
        """Run a command as the container would see the machine: an exec probe.

        Raises:
            StartFailed: it could not be run, or did not end in time.
        """
        ...

    def log_tail(self, pod: PodRef, container: str, *, lines: int, max_bytes: int) -> str:
        """The end of the newest attempt's log."""
        ...

    async def remove(self, pod: PodRef) -> None:
        """Remove the pod's folder; nothing of it runs any more. May be repeated."""
        ...

    async def close(self) -> None:
        """Let go of what this agent holds; containers go on."""
        ...
