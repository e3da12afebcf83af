"""The event loop of a simulation: virtual time, seeded order, components that can be killed.

Time is async-solipsism's. Two things are ours. *Order*: of all tasks that are ready, the seed
draws which one goes on, as a busy machine would; callbacks of the loop itself (sockets, timers)
keep their order, because asyncio relies on it. *Death*: everything that a component started
carries its name in the context; once the component is dead, none of it ever runs again, not
even its `finally` blocks. That is what kill -9 is.

One turn of the loop is asyncio's own, written down again: half of a history's time went into
its general cases (sockets asked one by one, every ready task looked at for every draw).
"""

import asyncio
import heapq
import traceback
from bisect import insort
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextvars import Context, copy_context
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import async_solipsism

from runnerscale.core.randomness import Random
from tests.simulation.component import COMPONENT, Component
from tests.simulation.sockets import QuickSelector

__all__ = ["COMPONENT", "Component", "SimulationLoop", "Stuck"]

T = TypeVar("T")

KEPT_MAX = 2048  # then those that are done are let go
TURNS_AT_ONE_TIME_MAX = 20_000  # a busy second has a few hundred
CANCELLED_MAX = 200  # so many cancelled timers may lie about


class Stuck(KeyboardInterrupt):  # asyncio and the components pass on no other
    """A history that does not go on: time stands still, or one step takes for ever."""


class _Nothing:
    """Stands for a handle that is not to run now; the loop drops it."""

    _cancelled = True


NOTHING = _Nothing()


class _Handle(asyncio.Handle):
    """As asyncio's, which asks for each one whether the loop is in debug mode."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: Any, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._cancelled = False
        self._callback = callback
        self._args = args
        self._repr = None
        self._source_traceback = None

    def cancel(self) -> None:
        """It will not run."""
        self._cancelled = True
        self._callback = self._args = None


class _Timer(asyncio.TimerHandle):
    """As asyncio's, for the same reason."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Any, args: Any, loop: Any, context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._cancelled = False
        self._callback = callback
        self._args = args
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        """It will not run."""
        if not self._cancelled:
            if self._scheduled:
                self._loop._timer_cancelled_count += 1
            self._cancelled = True
            self._callback = self._args = None


# Worlds that ended, with all that was still waiting in them. Nothing in here is ever finalised: a
# coroutine that is collected runs its `finally` blocks, and the dead do not do such things.
GRAVEYARD: list[object] = []


class SimulationLoop(async_solipsism.EventLoop):  # type: ignore[misc]
    """One loop, one seed, one history."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._selector = QuickSelector(self._selector.clock)
        self._virtual = self._selector.clock
        self._now_s = 0.0
        self.get_debug = bool  # False: asked for every future, so without a step of Python
        # A timer is due when its time has come, not a tick before: who waits for the rest of a
        # wait, smaller than a tick, would be woken again and again while time stands still.
        self._clock_resolution = 1e-9
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = 0
        self.born: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self.tasks_made = 0
        self._turns = 0  # since time moved last
        self._turned_at_s = -1.0
        self.outcome: Any = None  # of the history, as far as it came
        self.complaints: list[dict[str, Any]] = []  # exceptions that nobody took
        self._ready = _Ready(random)
        self.set_task_factory(self._task)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; whatever else still runs then stops where it is, for ever."""
        GRAVEYARD.append(self)
        self.set_exception_handler(self._noted)
        task = self.create_task(work)
        GRAVEYARD.append(task)
        try:
            return self.run_until_complete(task)
        finally:
            unfinished = [each for each in [*self.born] if not each.done()]
            GRAVEYARD.append((unfinished, list(self._ready)))

    def unexpected(self) -> list[str]:
        """What components raised and nobody took: a sentence and a traceback each.

        Who would have taken it may have been killed in that very moment, so the dead do not count.
        """
        for task in [*self.born]:
            component = task.component  # type: ignore[attr-defined]
            if component is not None and component.dead:
                continue
            failed = task.done() and not task.cancelled() and task._log_traceback  # type: ignore[attr-defined]
            if failed:
                told = {"message": "nobody took this", "task": task, "exception": task.exception()}
                self.complaints.append(told)
        return [_told(complaint) for complaint in self.complaints]

    def _noted(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.complaints.append(context)

    def _task(self, loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> Any:
        task: Any = asyncio.Task(work, loop=loop, **more)
        self.tasks_made += 1
        self.born[task] = task.age = self.tasks_made
        context = more.get("context")
        component = COMPONENT.get() if context is None else context.get(COMPONENT)
        task.component = component
        if component is not None:
            component.kept.append(task)
            if len(component.kept) > KEPT_MAX:
                component.kept = [each for each in component.kept if not each.done()]
        return task

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        """Of the component that asks."""
        component = COMPONENT.get()
        if component is not None:
            component.signals[sig] = (callback, args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Of the component that asks."""
        component = COMPONENT.get()
        return component is not None and component.signals.pop(sig, None) is not None

    # -- one turn, as in asyncio ---------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds since the beginning."""
        return self._now_s

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """In one of the next turns."""
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """When so much time has passed."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """When the time has come; of the same time, in the order of asking."""
        timer = _Timer(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def _run_once(self) -> None:
        timers, ready = self._timers, self._ready
        if self._timer_cancelled_count > max(CANCELLED_MAX, len(timers) // 2):
            timers[:] = [each for each in timers if not each[2]._cancelled]  # type: ignore[attr-defined]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0][2]._cancelled:  # type: ignore[attr-defined]
            heapq.heappop(timers)
            self._timer_cancelled_count -= 1
        timeout: float | None = None
        if ready._tasks or ready._others or self._stopping:
            timeout = 0.0
        elif timers:
            timeout = max(0.0, timers[0][0] - self._now_s)
        events = self._selector.select(timeout)
        now_s = self._now_s = self._virtual._ticks * self._virtual._resolution
        if events:
            self._process_events(events)
        self._turns = self._turns + 1 if now_s == self._turned_at_s else 0
        self._turned_at_s = now_s
        if self._turns > TURNS_AT_ONE_TIME_MAX:
            raise Stuck(f"time stands still at {now_s} s; ready: {[*ready][:5]}")
        due_s = now_s + self._clock_resolution
        while timers and timers[0][0] < due_s:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - as asyncio's handles do
                    self.call_exception_handler(
                        {
                            "message": f"Exception in callback {handle!r}",
                            "exception": error,
                            "handle": handle,
                        }
                    )


def _told(complaint: dict[str, Any]) -> str:
    error = complaint.get("exception")
    lines = traceback.format_exception(error) if error is not None else []
    who = complaint.get("task") or complaint.get("future") or complaint.get("handle")
    return f"{complaint.get('message')} ({who!r})\n{''.join(lines)}"


class _Ready:
    """The handles that are ready. `popleft` is a draw among those whose order is free.

    Candidates: the first handle that is no task, and all tasks in the order of their age, so that
    the draw does not depend on the order in which a set was walked.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._tasks: list[tuple[int, int, Any]] = []  # age, place in line, handle
        self._others: deque[Any] = deque()
        self._places = 0

    def append(self, handle: Any) -> None:
        """One more."""
        owner = getattr(handle._callback, "__self__", None)
        if isinstance(owner, asyncio.Task):
            self._places += 1
            insort(self._tasks, (getattr(owner, "age", 0), self._places, handle))
        else:
            self._others.append(handle)

    def extend(self, handles: Iterable[Any]) -> None:
        """Some more."""
        for handle in handles:
            self.append(handle)

    def clear(self) -> None:
        """None any more."""
        self._tasks.clear()
        self._others.clear()

    def __len__(self) -> int:
        return len(self._tasks) + len(self._others)

    def __iter__(self) -> Iterator[Any]:
        return iter([*self._others, *(task[2] for task in self._tasks)])

    def popleft(self) -> Any:
        """The next handle; cancelled if it belongs to the dead, so that the loop drops it."""
        tasks, others = self._tasks, self._others
        first = 1 if others else 0
        count = len(tasks) + first
        place = int(self._random.random() * count) if count > 1 else 0
        handle = others.popleft() if place < first else tasks.pop(place - first)[2]
        component = handle._context.get(COMPONENT)
        if component is None:
            return handle
        if component.paused and not component.dead:
            component.held.append(handle)
            return NOTHING
        self._count_step(handle, component)
        return handle

    def _count_step(self, handle: Any, component: Component) -> None:
        if not component.dead:
            component.steps += 1
            if component.kill_at_step is not None and component.steps >= component.kill_at_step:
                component.kill()
        if component.dead:
            handle.cancel()
