"""The state with a clock, and the people who wait for news about it.

The one place where the pure rules meet time: every command goes through `Hub.run`, which
settles the state, wakes whoever waits for what changed, and lets the timer task know when to
look again. No sockets here, so a simulation may use a hub directly.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import structlog

from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.fake_github.faults import FaultBook
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.rate_limit import RateLimit
from runnerscale.fake_github.settlement import advance, run_command, settle
from runnerscale.fake_github.state import State

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger(__name__)

IDLE_S = 3_600.0  # how long the timer task sleeps when nothing is due
# Seconds since the epoch have steps of a quarter of a microsecond: what is left of a wait after
# a subtraction may be less than any clock can pass, and waiting for it again and again is a spin.
TICK_S = 0.001


class Hub:
    """What all handlers share."""

    def __init__(self, options: Options, *, clock: Clock, random: Random) -> None:
        """`clock` and `random`: everything that happens follows from them and the requests."""
        self.options = options
        self.clock = clock
        self.random = random
        self.state = State(options, random)
        self.faults = FaultBook()
        self.rate_limit = RateLimit(options)
        self.calls: Counter[tuple[str, str, str]] = Counter()  # (client, operation, ending)
        self.base_url = ""  # of the address we listen on, once we do
        self._wall_at_start_s = clock.now_s()
        self._started_s = clock.monotonic_s()
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._timer_changed = asyncio.Event()

    def now_s(self) -> float:
        """Seconds since the epoch that never jump: wall time at start plus what has passed."""
        return self._wall_at_start_s + self.clock.monotonic_s() - self._started_s

    def shown_s(self) -> float:
        """The time that GitHub's answers show: ours, with the skew the options ask for."""
        return self.now_s() + self.options.clock_skew_s

    def run(
        self,
        command: Callable[Concatenate[State, float, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`command(state, now_s, ...)`, settled, and everybody concerned woken.

        Raises:
            Refused: what the command refused.
        """
        before_s = self.state.timers.next_s()
        try:
            return run_command(self.state, self.now_s(), command, *args, **kwargs)
        finally:
            self._wake()
            if self.state.timers.next_s() != before_s:
                self._timer_changed.set()

    async def wait(self, topic: str, timeout_s: float) -> None:
        """Until there is news for `topic`, or the time is up; look for yourself afterwards."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(topic, set())
        waiting.add(future)
        try:
            async with asyncio.timeout(max(TICK_S, timeout_s)):
                await future
        except TimeoutError:
            pass
        finally:
            waiting.discard(future)
            if not waiting:
                self._waiting.pop(topic, None)

    async def run_timers(self) -> None:
        """Let time alone make things happen; until cancelled."""
        while True:
            advance(self.state, self.now_s())
            settle(self.state, self.now_s())
            self._wake()
            self._timer_changed.clear()
            due_s = self.state.timers.next_s()
            left_s = IDLE_S if due_s is None else max(TICK_S, due_s - self.now_s())
            try:
                async with asyncio.timeout(min(left_s, IDLE_S)):
                    await self._timer_changed.wait()
            except TimeoutError:
                pass

    def _wake(self) -> None:
        touched, self.state.touched = self.state.touched, set()
        for topic in sorted(touched):
            for future in list(self._waiting.get(topic, ())):
                if not future.done():
                    future.set_result(None)
