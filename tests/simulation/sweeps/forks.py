"""One history, split: the child goes another way from here, the parent goes on undisturbed.

All of a simulation is memory and virtual sockets of one thread, so a fork is a second world that
is equal to the first in every byte. What a child costs is the rest of the history and no more.
A child tells its end over a pipe and leaves without looking back; a child that does not end in
its time is ended by the kernel and counts as failed.
"""

import asyncio
import gc
import json
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ALIVE_MAX = 2
CPU_S_MAX = 60  # of one child
WALL_S_MAX = 600
CHUNK = 1 << 16
YES, NO = b"y", b"n"

Json = dict[str, Any]


@dataclass(slots=True)
class _Child:
    pid: int
    label: Any
    pipe: int
    said: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True)
class Told:
    """What a child told of its end; None: it said nothing."""

    label: Any
    report: Json | None


class Forks:
    """The children of one history."""

    def __init__(
        self,
        alive_max: int = ALIVE_MAX,
        *,
        at_birth: Callable[[], None],
        heard: Callable[["Told"], None],
    ) -> None:
        """`at_birth`: what a child does first of all; `heard`: the parent, when one has ended."""
        self.told: list[Told] = []
        self.is_child = False
        self.cpu_s = 0.0  # of all children that ended
        self._alive_max = alive_max
        self._alive: list[_Child] = []
        self._out = -1
        self._at_birth = at_birth
        self._heard = heard

    def split(self, label: Any) -> bool:
        """True in the child, False in the parent."""
        return self._fork(label) == 0

    def split_if(self, label: Any) -> "Verdict | None":
        """None in the child, which goes on once the parent has found that there is a point.

        The parent gets what it has to say that to.
        """
        hears, tells = os.pipe()
        pid = self._fork(label)
        if pid:
            os.close(hears)
            return Verdict(self, pid, tells)
        os.close(tells)
        if os.read(hears, 1) != YES:
            os._exit(0)
        os.close(hears)
        return None

    def _fork(self, label: Any) -> int:
        """0 in the child."""
        while len(self._alive) >= self._alive_max:
            self._hear()
        loop = asyncio.get_running_loop()
        reads, writes = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writes)
            self._alive.append(_Child(pid, label, reads))
            return pid
        os.close(reads)
        self.is_child = True
        self._alive.clear()
        self._out = writes
        _bound_myself()
        asyncio._set_running_loop(loop)  # asyncio remembers in which process a loop runs
        self._at_birth()
        return 0

    def report(self, report: Json) -> None:
        """The child's last word."""
        assert self.is_child
        text = json.dumps(report).encode()
        while text:
            text = text[os.write(self._out, text) :]
        os._exit(0)

    def collect(self) -> list[Told]:
        """What all children told, in order of their ends."""
        while self._alive:
            self._hear()
        return self.told

    def _hear(self) -> None:
        """Whatever the children say; who says nothing more has ended."""
        ready, _, _ = select.select([child.pipe for child in self._alive], [], [])
        for child in [child for child in self._alive if child.pipe in ready]:
            said = os.read(child.pipe, CHUNK)
            child.said += said
            if not said:
                self._bury(child)
                told = Told(child.label, _read(child.said))
                self.told.append(told)
                self._heard(told)

    def _bury(self, child: _Child) -> None:
        os.close(child.pipe)
        _, _, used = os.wait4(child.pid, 0)
        self.cpu_s += used.ru_utime + used.ru_stime
        self._alive.remove(child)

    def forget(self, pid: int) -> None:
        """That child was none."""
        for child in [child for child in self._alive if child.pid == pid]:
            self._bury(child)


@dataclass(slots=True)
class Verdict:
    """Whether the child that waits is to go on."""

    forks: Forks
    pid: int
    tells: int

    def say(self, go_on: bool) -> None:
        """Once."""
        os.write(self.tells, YES if go_on else NO)
        os.close(self.tells)
        if not go_on:
            self.forks.forget(self.pid)


def apart(work: Callable[[], Json]) -> Json:
    """The result of `work`, done by a process of its own that leaves nothing behind.

    Raises:
        RuntimeError: it ended without one.
    """
    reads, writes = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reads)
        try:
            text = json.dumps(work()).encode()
            while text:
                text = text[os.write(writes, text) :]
        except BaseException:  # noqa: BLE001 - whatever it was, it is told and this process ends
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        said = bytearray(pipe.read())
    os.waitpid(pid, 0)
    found = _read(said)
    if found is None:
        raise RuntimeError("a history ended without its result; what it wrote stands above")
    return found


def _bound_myself() -> None:
    """The kernel ends what does not end by itself. What is garbage here stays: life is short."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(WALL_S_MAX)
    gc.disable()


def _read(said: bytearray) -> Json | None:
    try:
        found = json.loads(said)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
