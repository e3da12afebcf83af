"""The event loop of a simulation: virtual time, seeded order, components that can be killed.

Time is async-solipsism's. Two things are ours. *Order*: of all tasks that are ready, the seed
draws which one goes on, as a busy machine would; callbacks of the loop itself (sockets, timers)
keep their order, because asyncio relies on it. *Death*: everything that a component started
carries its name in the context; once the component is dead, none of it ever runs again, not
even its `finally` blocks. That is what kill -9 is.
"""

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import async_solipsism
import async_solipsism.selector

from runnerscale.core.randomness import Random

T = TypeVar("T")

KEPT_MAX = 2048  # then those that are done are let go
CHOICE_MAX = 48  # so many ready handles are looked at; more are only in line behind them


class Component:
    """A process of the simulated world: what it started shares its fate."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        self.held: list[Any] = []  # what it would have done while it was paused
        self.steps = 0
        self.kill_at_step: int | None = None
        self.on_kill: list[Callable[[], None]] = []  # cut its network, first of all
        self.signals: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self.kept: list[asyncio.Task[Any]] = []  # so that nothing finalises those of the dead

    def kill(self) -> None:
        """From now on nothing of it runs. What it had sent is sent; it hears nothing any more."""
        if self.dead:
            return
        self.dead = True
        for call in self.on_kill:
            call()

    def pause(self) -> None:
        """SIGSTOP: it does nothing and hears nothing, but its connections stay."""
        self.paused = True

    def go_on(self) -> None:
        """SIGCONT: what it would have done meanwhile happens now."""
        self.paused = False
        held, self.held = self.held, []
        loop: Any = asyncio.get_running_loop()
        loop._ready.extend(held)

    def __repr__(self) -> str:
        return f"<{self.name}{' (dead)' if self.dead else ''}>"


class _Nothing:
    """Stands for a handle that is not to run now; the loop drops it."""

    _cancelled = True


NOTHING = _Nothing()


# Worlds that ended, with all that was still waiting in them. Nothing in here is ever finalised: a
# coroutine that is collected runs its `finally` blocks, and the dead do not do such things.
GRAVEYARD: list[object] = []

COMPONENT: ContextVar[Component | None] = ContextVar("component", default=None)


class QuickSelector(async_solipsism.selector.Selector):  # type: ignore[misc]
    """The same answers, without the mapping views that took a sixth of all time."""

    def select(self, timeout: float | None = None) -> list[Any]:
        """The keys that are ready; else time moves on."""
        ready = []
        for key in list(self._fd_to_key.values()):
            socket, wanted, events = key.fd.socket, key.events, 0
            if wanted & selectors.EVENT_READ and socket.read_ready():
                events |= selectors.EVENT_READ
            if wanted & selectors.EVENT_WRITE and socket.write_ready():
                events |= selectors.EVENT_WRITE
            owner = _owner(key.data) if events else None
            if owner is not None and owner.dead:
                self.unregister(key.fd)  # a connection that was being made when its owner died
                socket.close()
            elif events and not (owner is not None and owner.paused):
                ready.append((key, events))
        if not ready:
            if timeout is None or timeout >= asyncio.base_events.MAXIMUM_SELECT_TIMEOUT:
                raise async_solipsism.SleepForeverError("nothing will ever happen any more")
            if timeout > 0:  # at least a tick: time that rounds to nothing would stand still
                self.clock.advance(max(timeout, self.clock.resolution))
        return ready


def _owner(handles: tuple[Any, Any]) -> Component | None:
    """Whose socket it is, as far as it belongs to a component."""
    for handle in handles:
        if handle is not None:
            component = handle._context.get(COMPONENT)
            if component is not None:
                return component
    return None


class SimulationLoop(async_solipsism.EventLoop):  # type: ignore[misc]
    """One loop, one seed, one history."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._selector.__class__ = QuickSelector
        # A timer is due when its time has come, not a tick before: who waits for the rest of a
        # wait, smaller than a tick, would be woken again and again while time stands still.
        self._clock_resolution = 1e-9
        self.born: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self.tasks_made = 0
        self.complaints: list[dict[str, Any]] = []  # exceptions that nobody took
        self._ready = _Ready(random, self.born)
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
            GRAVEYARD.append((list(asyncio.all_tasks(self)), list(self._ready)))

    def _noted(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.complaints.append(context)

    def _task(self, loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> Any:
        task = asyncio.Task(work, loop=loop, **more)
        self.tasks_made += 1
        self.born[task] = self.tasks_made
        component = COMPONENT.get()
        if component is not None and more.get("context") is None:
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


class _Ready(deque[Any]):
    """The handles that are ready. `popleft` is a draw among those whose order is free."""

    def __init__(self, random: Random, born: WeakKeyDictionary[asyncio.Task[Any], int]) -> None:
        super().__init__()
        self._random = random
        self._born = born

    def popleft(self) -> Any:
        """The next handle; cancelled if it belongs to the dead, so that the loop drops it."""
        place = self._drawn() if len(self) > 1 else 0
        handle = self[place]
        del self[place]
        component = handle._context.get(COMPONENT)
        if component is None:
            return handle
        if component.paused and not component.dead:
            component.held.append(handle)
            return NOTHING
        self._count_step(handle, component)
        return handle

    def _drawn(self) -> int:
        """The place of the handle that goes next.

        Candidates: the first handle that is no task, and all tasks. Sorted by the age of the
        task, so that the draw does not depend on the order in which a set was walked.
        """
        first_other: int | None = None
        candidates: list[tuple[int, int]] = []
        for place in range(min(len(self), CHOICE_MAX)):
            owner = getattr(self[place]._callback, "__self__", None)
            if isinstance(owner, asyncio.Task):
                candidates.append((self._born.get(owner, 0), place))
            elif first_other is None:
                first_other = place
        if first_other is not None:
            candidates.append((0, first_other))
        if len(candidates) == 1:
            return candidates[0][1]
        candidates.sort()
        return candidates[int(self._random.random() * len(candidates))][1]

    def _count_step(self, handle: Any, component: Component) -> None:
        if not component.dead:
            component.steps += 1
            if component.kill_at_step is not None and component.steps >= component.kill_at_step:
                component.kill()
        if component.dead:
            handle.cancel()
