"""One attempt of a container that has started, as the agent follows it: through its shim.

A pidfd tells when the shim ends; what it wrote tells how. An agent that has no free descriptor at
the moment looks again a little later: "cannot look" must never be taken for "is gone".
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

import structlog

from runnerscale.core.clock import Clock
from runnerscale.node import process_identity
from runnerscale.node.attempt_files import AttemptFolder, ExitRecord, exit_status
from runnerscale.node.processes import CODE_KILLED, ExitStatus

log = structlog.get_logger(__name__)

LOOK_AGAIN_S = 1.0
LOST_REASON = "ContainerStatusUnknown"
LOST_MESSAGE = "The container could not be located when the node agent looked for it"


class ShimProcess:
    """A container attempt below its shim. Implements `processes.Process`."""

    def __init__(self, attempt: AttemptFolder, *, started_s: float, clock: Clock) -> None:
        """`follow` or `settle` is called next."""
        self.started_s = started_s
        self.exit: ExitStatus | None = None
        self._attempt = attempt
        self._clock = clock
        self._shim: int | None = None  # pidfd
        self._again: asyncio.TimerHandle | None = None  # nothing could be opened: look again
        self._wishes: list[signal.Signals] = []  # for when the shim can be reached
        self._calls: list[Callable[[], None]] = []

    def on_exit(self, call: Callable[[], None]) -> None:
        """See `processes.Process`."""
        if self.exit is not None:
            call()
        else:
            self._calls.append(call)

    def terminate(self) -> None:
        """See `processes.Process`."""
        self._send(signal.SIGTERM)

    def kill(self, *, reason: str = "") -> None:
        """See `processes.Process`."""
        if self.exit is None and reason:
            self._attempt.note_kill_reason(reason)
        self._send(signal.SIGUSR1)

    def _send(self, number: signal.Signals) -> None:
        if self._shim is not None:
            process_identity.send(self._shim, number)
        elif self.exit is None:
            self._wishes.append(number)

    def follow(self) -> None:
        """Find the shim by what it wrote, and watch it."""
        try:
            claimed = self._attempt.claimed()
            shim = None
            if claimed is not None and claimed.shim_pid:
                shim = process_identity.open_process(claimed.shim_pid, claimed.ticks)
        except OSError as error:
            self._look_again(self.follow, error)
            return
        if shim is None:
            self.settle()
            return
        self._shim = shim
        asyncio.get_running_loop().add_reader(shim, self.settle)
        wishes, self._wishes = self._wishes, []
        for number in wishes:
            process_identity.send(shim, number)

    def _look_again(self, look: Callable[[], None], error: OSError) -> None:
        if self._again is None:
            log.warning(
                "a container cannot be looked at, it is tried again",
                folder=str(self._attempt.path),
                error=error.strerror or str(error),
            )
        self._again = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, look)

    def settle(self) -> None:
        """The shim has ended: read what it wrote; if it could not, the end is unknown."""
        again = self._again
        self.release()
        try:
            record = self._attempt.ended()
        except OSError as error:
            self._again = again
            self._look_again(self.settle, error)
            return
        if record is None:
            record = ExitRecord(
                CODE_KILLED,
                reason=LOST_REASON,
                message=LOST_MESSAGE,
                started_s=self.started_s,
                finished_s=self._clock.now_s(),
            )
            with contextlib.suppress(OSError):  # a full disk must not make it look alive
                self._attempt.note_lost(record)
        self.exit = exit_status(record, self._attempt.kill_reason())
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def release(self) -> None:
        """Stop following; the container goes on."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._shim is not None:
            asyncio.get_running_loop().remove_reader(self._shim)
            os.close(self._shim)
            self._shim = None
