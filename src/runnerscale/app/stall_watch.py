"""Who keeps the event loop from its other work: told when it stands still for too long.

Everything in a process shares one loop: what computes for a tenth of a second delays every watch,
lease and job by as much. Switched on by `RUNNERSCALE_STALL_MS`, because it costs a thread that
wakes often; benchmarks do, and whoever looks for a culprit in production.

A beat on the loop that comes late is a stall. A thread looks meanwhile at what the loop is doing,
so that the culprit is named, not the victim; the garbage collector, which no thread can look at,
says itself how long it took. Where the machine is too busy to run us, beats come
late too: then nearly no CPU time went by on our thread, and that is told beside it. The time is not
the loop's, as everywhere else: that one stands still with it.
"""

import gc
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sys import _current_frames
from types import FrameType

import structlog

from runnerscale.core.clock import Clock
from runnerscale.core.whole_number import whole_number

log = structlog.get_logger(__name__)

VARIABLE = "RUNNERSCALE_STALL_MS"
OURS = "/runnerscale/"
IDLE = "/selectors.py"
FRAMES_MAX = 200  # a recursion without end must not be walked to its end
BEATS = 4  # in one threshold


@dataclass(frozen=True, slots=True)
class Stall:
    """One time that the loop stood still."""

    wall_s: float
    cpu_s: float  # that its thread used meanwhile
    culprit: str  # "" where it was over before anybody looked


def threshold_s(environ: Mapping[str, str]) -> float | None:
    """What the environment asks for; None: nothing, or nothing that makes sense."""
    milliseconds = whole_number(environ.get(VARIABLE, ""))
    return milliseconds / 1000 if milliseconds else None


def culprit(frame: FrameType | None) -> str:
    """The innermost function, and the innermost of our own that called it."""
    innermost = ""
    for _ in range(FRAMES_MAX):
        if frame is None:
            break
        code = frame.f_code
        if code.co_filename.endswith(IDLE):
            return ""  # the loop waits there: it has just been let go
        place = f"{code.co_qualname} ({_short(code.co_filename)}:{frame.f_lineno})"
        innermost = innermost or place
        if OURS in code.co_filename:
            return place if place == innermost else f"{innermost}, called by {place}"
        frame = frame.f_back
    return innermost


def _short(path: str) -> str:
    return path.rpartition(OURS)[2] if OURS in path else path.rpartition("/")[2]


def tell(stall: Stall) -> None:
    """In the log."""
    log.warning(
        "the event loop stood still",
        ms=round(stall.wall_s * 1000),
        cpu_ms=round(stall.cpu_s * 1000),
        culprit=stall.culprit or "unknown",
    )


class StallWatch:
    """Watches the loop that runs it."""

    def __init__(
        self, over_s: float, *, clock: Clock, told: Callable[[Stall], None] = tell
    ) -> None:
        """`told` hears of every stall longer than `over_s` seconds, on the loop."""
        self._clock = clock
        self._over_s = over_s
        self._told = told
        self._thread_id = 0
        self._beat_s = 0.0
        self._seen = ""  # what the loop was doing as its beat was overdue
        self._stopped = threading.Event()
        self._collecting_s = 0.0
        self._collected_s = 0.0  # since the last beat

    async def run(self) -> None:
        """Until cancelled."""
        every_s = self._over_s / BEATS
        self._thread_id = threading.get_ident()
        self._beat_s = time.perf_counter()
        looking = threading.Thread(target=self._look, args=(every_s,), daemon=True)
        looking.start()
        gc.callbacks.append(self._collects)
        try:
            while True:
                before_s, cpu_s = self._beat_s, time.thread_time()
                await self._clock.sleep(every_s)
                self._beat_s = time.perf_counter()
                late_s = self._beat_s - before_s - every_s
                if late_s > self._over_s:
                    self._told(Stall(late_s, time.thread_time() - cpu_s, self._blamed(late_s)))
                self._seen, self._collected_s = "", 0.0
        finally:
            gc.callbacks.remove(self._collects)
            self._stopped.set()

    def _blamed(self, late_s: float) -> str:
        if self._collected_s < late_s / 2:
            return self._seen
        return f"the garbage collector, for {self._collected_s * 1000:.0f} ms"

    def _collects(self, phase: str, _info: object) -> None:
        now_s = time.perf_counter()
        if phase == "start":
            self._collecting_s = now_s
        else:
            self._collected_s += now_s - self._collecting_s

    def _look(self, every_s: float) -> None:
        while not self._stopped.wait(every_s):
            if time.perf_counter() - self._beat_s > self._over_s / 2 + every_s:
                self._seen = culprit(_current_frames().get(self._thread_id)) or self._seen
