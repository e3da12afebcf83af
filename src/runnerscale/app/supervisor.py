"""Child processes of the single machine and the demo: started, watched, restarted, ended.

Each child has a session of its own (so that Ctrl-C reaches only us, and a whole group can be
ended), and a log file; it ends when we are killed (`supervised.py`). Only processes started here
are ever signalled, by their id.
"""

import asyncio
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from runnerscale.app.file_limit import OUT_OF_FILES
from runnerscale.app.problem import Problem
from runnerscale.app.supervised import SUPERVISOR
from runnerscale.core.clock import Clock

log = structlog.get_logger(__name__)

STOP_GRACE_S = 15.0  # a listener deletes its session within 10 s
RESTART_WAIT_S = 0.2
RESTART_WAIT_MAX_S = 5.0
STEADY_S = 10.0  # who lived that long is restarted without growing waits
LOG_TAIL_LINES = 15


@dataclass(slots=True)
class Child:
    """One process of ours."""

    name: str
    argv: Sequence[str]
    log_path: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None
    starts: int = 0

    @property
    def pid(self) -> int:
        """Process id; 0 when not running."""
        running = self.process is not None and self.process.returncode is None
        return self.process.pid if self.process is not None and running else 0

    def tail(self) -> str:
        """The last lines of its log, for an error message."""
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-LOG_TAIL_LINES:])


def start_remedy(error: OSError, child: Child) -> str:
    """What to do about a child that cannot be started."""
    if error.errno in OUT_OF_FILES:
        return "Raise the limit of open files (ulimit -n, LimitNOFILE=), then start again"
    if error.errno == errno.EAGAIN:
        return "Raise the limit of processes (ulimit -u, TasksMax=), then start again"
    if error.errno == errno.ENOMEM:
        return "Free some memory, then start again"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) or (
        error.filename == str(child.log_path)
    ):
        return f"Make room for its log, {child.log_path}, in a folder that this user may write to"
    return f"Check that {child.argv[0]} exists and may be run"


class Supervisor:
    """Keeps children running until `stop`. A child that ends is started again."""

    def __init__(self, clock: Clock) -> None:
        """No child yet."""
        self._clock = clock
        self._children: dict[str, Child] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._stopping = False

    @property
    def children(self) -> Sequence[Child]:
        """In the order of their start."""
        return list(self._children.values())

    def child(self, name: str) -> Child:
        """By name."""
        return self._children[name]

    async def start(self, child: Child) -> None:
        """Start it and keep it running."""
        self._children[child.name] = child
        await self._spawn(child)
        loop = asyncio.get_running_loop()
        self._keepers[child.name] = loop.create_task(self._keep(child), name=f"keep {child.name}")

    def kill(self, name: str) -> bool:
        """SIGKILL, as a crash would; it comes back by itself. False: it was not running."""
        child = self._children[name]
        if not child.pid:
            return False
        os.kill(child.pid, signal.SIGKILL)
        return True

    async def stop(self) -> None:
        """SIGTERM in reverse order of start, SIGKILL after the grace; waits for each."""
        self._stopping = True
        for keeper in self._keepers.values():
            keeper.cancel()
        for child in reversed(self.children):
            await self._end(child)

    async def _spawn(self, child: Child) -> None:
        child.starts += 1
        try:
            with child.log_path.open("ab") as sink:
                child.process = await asyncio.create_subprocess_exec(
                    *child.argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=sink,
                    stderr=asyncio.subprocess.STDOUT,
                    env={**os.environ, **child.environ, SUPERVISOR: str(os.getpid())},
                    start_new_session=True,
                )
        except OSError as error:
            happened = f"{child.name} cannot be started: {error.strerror}"
            raise Problem(happened, start_remedy(error, child)) from error
        log.info("process started", process=child.name, pid=child.pid, start=child.starts)

    async def _keep(self, child: Child) -> None:
        wait_s, failed = RESTART_WAIT_S, False
        while True:
            assert child.process is not None
            began_s = self._clock.monotonic_s()
            code = await child.process.wait()
            if self._stopping:
                return
            log.warning("process ended", process=child.name, exit_code=code)
            steady = self._clock.monotonic_s() - began_s >= STEADY_S
            wait_s = RESTART_WAIT_S if steady else min(wait_s * 2, RESTART_WAIT_MAX_S)
            await self._clock.sleep(RESTART_WAIT_S if code < 0 and not failed else wait_s)
            try:
                await self._spawn(child)
                failed = False
            except Problem as problem:  # files or memory may be there again
                failed = True
                log.error("process cannot be started", process=child.name, error=str(problem))

    async def _end(self, child: Child) -> None:
        process = child.process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_GRACE_S):
                await process.wait()
        except TimeoutError:
            log.warning("process did not end in time", process=child.name, grace_s=STOP_GRACE_S)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            await process.wait()
