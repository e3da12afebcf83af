"""What a reconciler is: observe, plan, apply, and again until the plan is empty.

The rules of a reconciler are its `plan`, a pure function. This file is only the shape that
all four share and the one loop that drives it; where a key comes from and when it is tried
again is `controller.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

A = TypeVar("A")  # action
R = TypeVar("R")  # answer
S = TypeVar("S")  # snapshot
W = TypeVar("W")  # trouble: why something is stuck, in the words of the layer above


@dataclass(frozen=True, slots=True)
class Plan(Generic[A, W]):
    """What to do now, when to look again though nothing happens, and what is wrong.

    `again_s`: seconds until the same snapshot would be worth another look; None: only when
    something changes (the periodic level pass comes anyway).
    `failed`: this pass could not do all it should (an answer was missing); the key comes
    back with backoff even though nothing was raised.
    """

    actions: tuple[A, ...] = ()
    again_s: float | None = None
    failed: bool = False
    troubles: tuple[W, ...] = ()


class Reconciler(Protocol[S, A, R, W]):
    """Five methods. Expected failures are answers (values), never exceptions."""

    def observe(self, key: str) -> S | None:
        """The snapshot of a key, from caches only, time included; None: nothing to do."""
        ...

    def plan(self, seen: S) -> Plan[A, W]:
        """Pure: what to do about this snapshot."""
        ...

    async def apply(self, action: A) -> R:
        """Carry out one action; the answer goes back into the snapshot through `learn`."""
        ...

    def learn(self, seen: S, answers: Sequence[tuple[A, R]]) -> S:
        """Pure: the snapshot with this pass's answers in it."""
        ...

    def report(self, key: str, seen: S | None, troubles: Sequence[W]) -> None:
        """Once at the end of a pass: say, count and log what is wrong (nothing, if nothing is)."""
        ...


ROUNDS_MAX = 8
BATCH_MAX = 32


@dataclass(frozen=True, slots=True)
class PassEnd:
    """How a pass ended: look again after `again_s` (None: on events), or `failed`: with backoff."""

    again_s: float | None = None
    failed: bool = False
