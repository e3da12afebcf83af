"""Processes that follow a script instead of running: the machine of tests and simulations.

Keeps the promise of `node/processes.py` as the real one does: its memory outlives the agent, so
a test kills the agent by cancelling it and starts another one on the same machine.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runnerscale.core.clock import Clock
from runnerscale.node.processes import (
    CommandResult,
    ExitStatus,
    PodRef,
    Process,
    ProcessSpec,
    RecoveredContainer,
    RecoveredPod,
    StartFailed,
    VolumeFile,
)


class ScriptedProcess:
    """Runs until it is told to end."""

    def __init__(self, spec: ProcessSpec, clock: Clock, *, heeds_term: bool) -> None:
        self.spec = spec
        self.started_s = clock.now_s()
        self.exit: ExitStatus | None = None
        self.terminated_s: float | None = None
        self._clock = clock
        self._heeds_term = heeds_term
        self._calls: list[Callable[[], None]] = []

    def on_exit(self, call: Callable[[], None]) -> None:
        if self.exit is not None:
            call()
        else:
            self._calls.append(call)

    def end(self, code: int, *, reason: str = "", signal: int | None = None) -> None:
        """It ends, once."""
        if self.exit is not None:
            return
        self.exit = ExitStatus(
            code, signal, reason, started_s=self.started_s, finished_s=self._clock.now_s()
        )
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def terminate(self) -> None:
        self.terminated_s = self._clock.now_s()
        if self._heeds_term:
            self.end(143, signal=15)

    def kill(self, *, reason: str = "") -> None:
        self.end(137, signal=9, reason=reason)


@dataclass
class ScriptedPod:
    ref: PodRef
    grace_s: int
    volumes: dict[str, dict[str, bytes] | None] = field(default_factory=dict)
    attempts: dict[str, list[ScriptedProcess]] = field(default_factory=dict)


class ScriptedProcesses:
    """Implements `ProcessStarter`. `refuse` may raise; `heeds_term`: SIGTERM ends a process."""

    def __init__(self, clock: Clock) -> None:
        self.pods: dict[str, ScriptedPod] = {}
        self.heeds_term = True
        self.start_s = 0.0  # how long a start takes
        self.refuse: Callable[[ProcessSpec], StartFailed | None] = lambda _spec: None
        self.beside: Callable[[Sequence[str]], int] = lambda _argv: 0
        self._clock = clock

    def of(self, name: str, container: str = "runner") -> list[ScriptedProcess]:
        """All attempts of a container of the newest pod of that name."""
        found = [pod for pod in self.pods.values() if pod.ref.name == name]
        return found[-1].attempts.get(container, []) if found else []

    async def recover(self) -> Sequence[RecoveredPod]:
        return [self._recovered(pod) for pod in self.pods.values()]

    async def recover_pod(self, pod: PodRef) -> RecoveredPod | None:
        return self._recovered(self.pods[pod.uid]) if pod.uid in self.pods else None

    def _recovered(self, pod: ScriptedPod) -> RecoveredPod:
        containers = {
            name: RecoveredContainer(
                attempts=len(attempts),
                latest=attempts[-1] if attempts else None,
                previous=attempts[-2].exit if len(attempts) > 1 else None,
            )
            for name, attempts in pod.attempts.items()
        }
        return RecoveredPod(pod.ref, pod.grace_s, containers)

    async def admit(self, pod: PodRef, *, grace_s: int) -> None:
        if pod.uid not in self.pods:
            self.pods[pod.uid] = ScriptedPod(pod, grace_s)

    async def write_volume(
        self, pod: PodRef, volume: str, files: Mapping[str, VolumeFile] | None
    ) -> None:
        content = None if files is None else {path: file.content for path, file in files.items()}
        self.pods[pod.uid].volumes[volume] = content

    async def start(self, spec: ProcessSpec) -> Process:
        problem = self.refuse(spec)
        if problem is not None:
            raise problem
        attempts = self.pods[spec.pod.uid].attempts.setdefault(spec.container, [])
        assert all(attempt.exit is not None for attempt in attempts), "started while it runs"
        assert len(attempts) == spec.earlier, "the agent has lost count"
        process = ScriptedProcess(spec, self._clock, heeds_term=self.heeds_term)
        attempts.append(process)
        # The process is there before the agent hears of it, as with the real one.
        await self._clock.sleep(self.start_s)
        return process

    async def run_beside(
        self, spec: ProcessSpec, argv: Sequence[str], *, timeout_s: float
    ) -> CommandResult:
        return CommandResult(self.beside(argv))

    def log_tail(self, pod: PodRef, container: str, *, lines: int, max_bytes: int) -> str:
        return f"last words of {container}"

    async def remove(self, pod: PodRef) -> None:
        await asyncio.sleep(0)
        self.pods.pop(pod.uid, None)

    async def close(self) -> None:
        return
