"""A process of the simulated world: what it started shares its fate.

Everything that a component started carries it in its context; `loop.py` runs nothing of one that
is dead or stopped.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any


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


COMPONENT: ContextVar[Component | None] = ContextVar("component", default=None)
