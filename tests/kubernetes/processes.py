"""Processes of a test cluster: started, watched, and ended by id whatever happens to us.

A child is ended when its owner says so. Should this interpreter die first, even by SIGKILL, a
guard process sees our end of a pipe close and ends what is left: nothing that a test starts may
outlive it. What the processes are is `cluster.py`'s business.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_TIMEOUT_S = 20.0
TAIL_LINES = 15

# Reads "+pid" and "-pid"; a pid counts only while its start time is the one that it had then.
GUARD = """
import os, signal, sys
def born(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""
alive = {}
for line in sys.stdin:
    pid = int(line[1:])
    if line[0] == "+":
        alive[pid] = born(pid)
    else:
        alive.pop(pid, None)
for pid, start in alive.items():
    if start and born(pid) == start:
        os.kill(pid, signal.SIGKILL)
"""


class Guard:
    """Ends our children when we can no longer do it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def _tell(self, sign: str, pid: int) -> None:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-c", GUARD], stdin=subprocess.PIPE, start_new_session=True
            )
            atexit.register(self._close)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{sign}{pid}\n".encode())
        self._process.stdin.flush()

    def started(self, pid: int) -> None:
        """It is ended with us."""
        self._tell("+", pid)

    def ended(self, pid: int) -> None:
        """No longer."""
        self._tell("-", pid)

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(STOP_TIMEOUT_S)
            self._process = None


GUARDS = Guard()


class Child:
    """One process with its log file."""

    def __init__(
        self, name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(env) if env is not None else None,
                start_new_session=True,  # Ctrl-C is for pytest: it ends us in order
            )
        self.pid = self._process.pid
        GUARDS.started(self.pid)

    def running(self) -> bool:
        """It has not ended by itself."""
        return self._process.poll() is None

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM, and SIGKILL for the one that does not listen."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        GUARDS.ended(self.pid)

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)
        self._process.wait(STOP_TIMEOUT_S)
        GUARDS.ended(self.pid)

    def _signal(self, number: signal.Signals) -> None:
        if self.running():
            os.kill(self.pid, number)

    def rss_mib(self) -> float:
        """Resident memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def tail(self) -> str:
        """The last lines of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-TAIL_LINES:]) or "(its log is empty)"


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on now."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def listening(port: int) -> bool:
    """Somebody answers there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


class Deadline:
    """So that no wait is for ever."""

    def __init__(self, within_s: float) -> None:
        self._end_s = time.monotonic() + within_s

    def passed(self) -> bool:
        """It is too late."""
        return time.monotonic() > self._end_s

    def pause(self, seconds: float = 0.05) -> None:
        """Before the next look."""
        time.sleep(seconds)
