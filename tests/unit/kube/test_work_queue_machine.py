"""The queue by machine, judged by a model of client-go's semantics and of our own fairness.

The model says which key must come out, and when: at most one pass a key, what changed meanwhile
comes again, the earliest of several wishes counts, urgent ones first but not for ever, a growing
wait after failures, nobody who waits is forgotten, and an orderly end.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import async_solipsism
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.work_queue import URGENT_IN_A_ROW_MAX, QueueShutDown, WorkQueue
from tests.properties import examples

ALL = "abcdefgh"
KEYS = st.sampled_from(ALL)
SLACK_S = 0.002  # alarms ring by rounded clocks
BACKOFF = Backoff(first_s=1.0, cap_s=30.0)  # long enough to be seen


class QueueMachine(RuleBasedStateMachine):
    """`urgent`, `rest`: ready keys in order; `marked`: changed during their pass."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = async_solipsism.EventLoop()
        self.queue = self.now(self.make())
        self.urgent: list[str] = []
        self.rest: list[str] = []
        self.running: dict[str, bool] = {}  # was its pass an urgent one?
        self.marked: dict[str, bool] = {}
        self.row = 0  # urgent ones in a row
        self.timers: dict[str, tuple[float, float, bool]] = {}  # not before, not after, urgent
        self.failures: dict[str, int] = {}
        self.waiting: list[asyncio.Task[str]] = []
        self.closed = False
        self.drained: asyncio.Task[None] | None = None

    async def make(self) -> WorkQueue:
        return WorkQueue(name="t", clock=SystemClock(), random=seeded(1), backoff=BACKOFF)

    def now(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        """Everybody who can go on without time passing, does."""

        async def turns() -> None:
            for _ in range(3):
                await asyncio.sleep(0)

        self.now(turns())

    # --- the model ----------------------------------------------------------------------------

    def ready(self, key: str, *, urgent: bool) -> None:
        if key in self.running:
            self.marked[key] = self.marked.get(key, False) or urgent
        elif key in self.rest and urgent:
            self.rest.remove(key)
            self.urgent.append(key)
        elif key not in self.rest and key not in self.urgent:
            (self.urgent if urgent else self.rest).append(key)

    def expected(self) -> str:
        if self.urgent and (not self.rest or self.row < URGENT_IN_A_ROW_MAX):
            self.row += 1
            return self.urgent.pop(0)
        self.row = 0
        return self.rest.pop(0)

    def take(self, key: str) -> None:
        was_urgent = key in self.urgent
        assert key == self.expected(), "another key was next"
        assert key not in self.running, "two passes on one key"
        assert self.queue.is_urgent(key) == was_urgent
        self.running[key] = was_urgent

    def serve(self) -> None:
        """Who waited got the first keys that came."""
        self.settle()
        done = [task for task in self.waiting if task.done()]
        for task in done:
            self.waiting.remove(task)
            if not task.cancelled() and task.exception() is None:
                self.take(task.result())
            elif not task.cancelled():
                assert self.closed and isinstance(task.exception(), QueueShutDown)
        assert not (self.waiting and (self.urgent or self.rest)), "somebody waits beside a key"

    # --- what happens ---------------------------------------------------------------------------

    @rule(key=KEYS, urgent=st.booleans())
    def add(self, key: str, urgent: bool) -> None:
        self.queue.add(key, urgent=urgent)
        if not self.closed:
            self.ready(key, urgent=urgent)
        self.serve()

    @rule(key=KEYS, seconds=st.integers(0, 20), urgent=st.booleans())
    def add_after(self, key: str, seconds: int, urgent: bool) -> None:
        async def later() -> None:
            self.queue.add_after(key, seconds, urgent=urgent)

        self.now(later())
        if self.closed:
            return
        if seconds == 0:
            self.ready(key, urgent=urgent)
        else:
            at_s = self.loop.time() + seconds
            self.wish(key, at_s, at_s, urgent=urgent)
        self.serve()

    @rule(key=KEYS)
    def fail(self, key: str) -> None:
        async def later() -> None:
            self.queue.add_rate_limited(key)

        self.now(later())
        if self.closed:
            return
        nth = self.failures.get(key, 0)
        self.failures[key] = nth + 1
        full_s = min(2.0**nth, 30.0)
        now_s = self.loop.time()
        self.wish(key, now_s + full_s / 2, now_s + full_s, urgent=False)

    def wish(self, key: str, low_s: float, high_s: float, *, urgent: bool) -> None:
        known = self.timers.get(key)
        if known is not None:
            low_s, high_s = min(low_s, known[0]), min(high_s, known[1])
            urgent = urgent or known[2]
        self.timers[key] = (low_s, high_s, urgent)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=st.integers(1, 35))
    def wait(self, seconds: int) -> None:
        """A second at a time, so that the order of what becomes ready is known."""
        for _ in range(seconds * 10):
            self.now(asyncio.sleep(0.1))
            self.heard()
        self.serve()

    def heard(self) -> None:
        """Which timers rang is seen at the queue; each within its time."""
        now_s = self.loop.time()
        # Of several that rang since the last look, those that somebody has taken rang first, and
        # were taken before the others were there.
        for task in [*self.waiting]:
            if task.done() and not task.cancelled() and task.exception() is None:
                self.rang(task.result(), now_s)
                self.waiting.remove(task)
                self.take(task.result())
        known = {*self.urgent, *self.rest, *self.marked}
        fresh = [key for key in self.queue._dirty if key not in known]
        for key in [*fresh, *(key for key in self.timers if key not in self.queue._timers)]:
            self.rang(key, now_s)
        assert all(high_s + 0.1 + SLACK_S >= now_s for _, high_s, _ in self.timers.values())

    def rang(self, key: str, now_s: float) -> None:
        if key in self.timers and key not in self.queue._timers:
            low_s, high_s, urgent = self.timers.pop(key)
            assert low_s - SLACK_S <= now_s, "too soon"
            assert now_s <= high_s + 0.1 + SLACK_S, "too late"
            self.ready(key, urgent=urgent)

    @rule()
    def get(self) -> None:
        if self.urgent or self.rest or self.closed:
            try:
                self.take(self.now(self.queue.get()))
            except QueueShutDown:
                assert self.closed and not self.urgent and not self.rest
        elif len(self.waiting) < 3:
            self.waiting.append(self.loop.create_task(self.queue.get()))
            self.settle()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up_waiting(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(self.waiting))
        task.cancel()
        self.serve()
        assert task.cancelled()

    @precondition(lambda self: self.waiting)
    @rule(key=KEYS)
    def give_up_in_the_same_instant(self, key: str) -> None:
        """Woken, and cancelled before it ran: the key is another's, or waits."""
        self.queue.add(key)
        task = self.waiting[0]
        task.cancel()
        if not self.closed:
            self.ready(key, urgent=False)
        self.serve()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        self.finish(data.draw(st.sampled_from(sorted(self.running))))

    def finish(self, key: str) -> None:
        self.queue.done(key)
        del self.running[key]
        if key in self.marked:
            self.ready(key, urgent=self.marked.pop(key))
        self.serve()

    @rule(keys=st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=14), again=KEYS)
    def a_worker_works(self, keys: list[tuple[str, bool]], again: str) -> None:
        """Much comes at once, is worked on in order, and some of it changes meanwhile."""
        for key, urgent in keys:
            self.add(key, urgent)
        for _ in range(len(keys)):
            if not (self.urgent or self.rest):
                break
            key = self.now(self.queue.get())
            self.take(key)
            self.add(again, False)
            self.finish(key)

    # Once: after the end nothing comes any more, and the machine would see little else.
    @precondition(lambda self: not self.closed and self.loop.time() > 20.0)
    @rule(how=st.sampled_from(["shut_down", "drain"]))
    def close(self, how: str) -> None:
        if how == "drain":
            self.drained = self.drained or self.loop.create_task(self.queue.drain())
        else:

            async def end() -> None:
                self.queue.shut_down()

            self.now(end())
        self.closed = True
        self.timers.clear()
        self.serve()

    # --- what always holds ------------------------------------------------------------------------

    @invariant()
    def what_is_ready_is_ready(self) -> None:
        assert len(self.queue) == len(self.urgent) + len(self.rest)

    @invariant()
    def failures_are_counted(self) -> None:
        assert all(self.queue.failures(key) == self.failures.get(key, 0) for key in ALL)

    @invariant()
    def draining_ends_with_the_last_pass(self) -> None:
        if self.drained is not None:
            self.settle()
            left = self.running or self.urgent or self.rest
            assert self.drained.done() == (not left)

    def teardown(self) -> None:
        async def end() -> None:
            self.queue.shut_down()
            for task in (*self.waiting, *([self.drained] if self.drained else ())):
                task.cancel()
            await asyncio.sleep(0)
            for task in self.waiting:
                if not task.cancelled():
                    task.exception()

        self.now(end())
        self.loop.close()


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = examples(40, steps=40)
