"""Which key is worked on next, and when a key comes back.

client-go's semantics. A key waits at most once; while a pass on it runs, another `add` only
marks it, and `done` puts it back: so one pass per key at a time, and no change is missed.
Urgent keys (fresh demand) go before the others (clean-up, level passes), but after
URGENT_IN_A_ROW_MAX of them one that waits gets its turn.

Our difference: client-go waits up to 1,000 s after failures; here it is 60 s with jitter,
because the level pass comes every 60 s anyway and a longer wait would be a wrong promise.
"""

import asyncio
import heapq
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.metrics import NOT_URGENT, URGENT, KubeMetrics

RETRY = Backoff(first_s=0.005, cap_s=60.0)
URGENT_IN_A_ROW_MAX = 4
EARLY_S = 0.001  # alarms ring by rounded clocks; a key may come back so much too soon


class QueueShutDown(Exception):
    """Nothing more will come out of the queue."""


@dataclass(slots=True)
class _Timer:
    """A key that comes back later. Replaced ones stay in the heap until their time is up."""

    at_s: float
    urgent: bool
    live: bool = field(default=True)


class WorkQueue:
    """Keys to work on. All methods but `get` and `drain` are synchronous and never block."""

    def __init__(
        self,
        *,
        name: str,
        clock: Clock,
        random: Random,
        metrics: KubeMetrics | None = None,
        backoff: Backoff = RETRY,
    ) -> None:
        """`name` is the metrics' label. May be filled before the loop runs."""
        self.name = name
        self._clock = clock
        self._random = random
        self._backoff = backoff
        self._ready: tuple[OrderedDict[str, float], OrderedDict[str, float]] = (
            OrderedDict(),  # urgent
            OrderedDict(),  # not urgent
        )
        self._dirty: dict[str, bool] = {}  # must be worked on (again): is it urgent?
        self._processing: dict[str, tuple[float, bool]] = {}  # since when; is it urgent?
        self._failures: dict[str, int] = {}
        self._timers: dict[str, _Timer] = {}
        self._heap: list[tuple[float, int, str, _Timer]] = []
        self._tickets = 0
        self._urgent_in_a_row = 0
        self._getters: deque[asyncio.Future[None]] = deque()
        self._drained: list[asyncio.Future[None]] = []
        self._wake_up: asyncio.TimerHandle | None = None
        self._shut_down = False
        self._metrics = None if metrics is None else metrics.for_queue(name)
        if self._metrics is not None:
            self._metrics.read_from(
                depth={
                    URGENT: lambda: float(len(self._ready[0])),
                    NOT_URGENT: lambda: float(len(self._ready[1])),
                },
                unfinished_s=self.unfinished_s,
                longest_s=self.longest_s,
            )

    def __len__(self) -> int:
        """How many keys are ready and wait for a worker."""
        return len(self._ready[0]) + len(self._ready[1])

    # --- putting in -----------------------------------------------------------------------

    def add(self, key: str, *, urgent: bool = False) -> None:
        """Work on this key soon. Nothing new if it waits already (but it may become urgent)."""
        if self._shut_down:
            return
        known = self._dirty.get(key)
        if known is not None:
            if urgent and not known:
                self._dirty[key] = True
                self._promote(key)
            return
        self._dirty[key] = urgent
        if self._metrics is not None:
            self._metrics.adds.inc()
        if key not in self._processing:
            self._make_ready(key, urgent=urgent)

    def add_after(self, key: str, seconds: float, *, urgent: bool = False) -> None:
        """Add when so much time has passed. Of several wishes the earliest counts."""
        if self._shut_down:
            return
        if seconds <= 0:
            self.add(key, urgent=urgent)
            return
        at_s = self._clock.monotonic_s() + seconds
        known = self._timers.get(key)
        if known is not None:
            known.urgent = known.urgent or urgent
            if known.at_s <= at_s:
                return
            known.live = False
            urgent = known.urgent
        timer = _Timer(at_s, urgent)
        self._timers[key] = timer
        self._tickets += 1
        heapq.heappush(self._heap, (at_s, self._tickets, key, timer))
        if self._heap[0][3] is timer:
            self._set_alarm()

    def add_rate_limited(self, key: str) -> None:
        """Add after a wait that grows with each failure of this key since `forget`."""
        if self._shut_down:
            return
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self._metrics is not None:
            self._metrics.retries.inc()
        self.add_after(key, self._backoff.delay_s(failures, self._random))

    def forget(self, key: str) -> None:
        """The row of failures of this key is over."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """How many times in a row this key was added with backoff."""
        return self._failures.get(key, 0)

    # --- taking out -----------------------------------------------------------------------

    async def get(self) -> str:
        """The next key; the caller must say `done` for it.

        Raises:
            QueueShutDown: the queue was shut down and is empty.
        """
        while not len(self):
            if self._shut_down:
                raise QueueShutDown(self.name)
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_getter()  # the key we were woken for is somebody else's now
                raise
        key, since_s = self._pop()
        now_s = self._clock.monotonic_s()
        self._processing[key] = (now_s, self._dirty.pop(key))
        if self._metrics is not None:
            self._metrics.queue_s.observe(now_s - since_s)
        return key

    def done(self, key: str) -> None:
        """The pass on this key is over. If it was added meanwhile, it waits again now."""
        begin_s, _ = self._processing.pop(key)
        if self._metrics is not None:
            self._metrics.work_s.observe(self._clock.monotonic_s() - begin_s)
        urgent = self._dirty.get(key)
        if urgent is not None:
            self._make_ready(key, urgent=urgent)
        elif not self._processing and not len(self):
            self._tell_drained()

    def shut_down(self) -> None:
        """Take nothing more in; who waits for a key hears it once the queue is empty."""
        self._shut_down = True
        self._timers.clear()
        self._heap.clear()
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)
        self._getters.clear()
        if not self._processing and not len(self):
            self._tell_drained()

    async def drain(self) -> None:
        """Shut down, and return when everything that was ready has been worked on."""
        self.shut_down()
        if self._processing or len(self):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(waiter)
            await waiter

    def is_urgent(self, key: str) -> bool:
        """Whether the pass that runs on this key was an urgent one."""
        return self._processing.get(key, (0.0, False))[1]

    # --- what metrics ask -----------------------------------------------------------------

    def unfinished_s(self) -> float:
        """Seconds of work in progress."""
        now_s = self._clock.monotonic_s()
        return sum(now_s - begin_s for begin_s, _ in self._processing.values())

    def longest_s(self) -> float:
        """The age of the oldest pass that has not ended."""
        now_s = self._clock.monotonic_s()
        return max((now_s - begin_s for begin_s, _ in self._processing.values()), default=0.0)

    # --- inside ---------------------------------------------------------------------------

    def _make_ready(self, key: str, *, urgent: bool) -> None:
        self._ready[0 if urgent else 1][key] = self._clock.monotonic_s()
        self._wake_getter()

    def _promote(self, key: str) -> None:
        since_s = self._ready[1].pop(key, None)
        if since_s is not None:  # else a pass on it runs, and `done` will see that it is urgent
            self._ready[0][key] = since_s

    def _pop(self) -> tuple[str, float]:
        urgent, rest = self._ready
        if urgent and (not rest or self._urgent_in_a_row < URGENT_IN_A_ROW_MAX):
            self._urgent_in_a_row += 1
            return urgent.popitem(last=False)
        self._urgent_in_a_row = 0
        return rest.popitem(last=False)

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _tell_drained(self) -> None:
        if self._shut_down:
            for waiter in self._drained:
                if not waiter.done():
                    waiter.set_result(None)
            self._drained.clear()

    def _set_alarm(self) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
        wait_s = max(0.0, self._heap[0][0] - self._clock.monotonic_s())
        self._wake_up = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        self._wake_up = None
        now_s = self._clock.monotonic_s() + EARLY_S
        while self._heap and (self._heap[0][0] <= now_s or not self._heap[0][3].live):
            _, _, key, timer = heapq.heappop(self._heap)
            if timer.live:
                del self._timers[key]
                self.add(key, urgent=timer.urgent)
        if self._heap:
            self._set_alarm()
