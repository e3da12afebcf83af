"""What a reconciler is: observe, plan, apply, and again until the plan is empty.

The rules of a reconciler are its `plan`, a pure function. This file is only the shape that
all four share and the one loop that drives a pass; where a key comes from, when it is tried
again and what is counted is `controller.py`.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

A = TypeVar("A")  # action
R = TypeVar("R")  # answer
S = TypeVar("S")  # snapshot
W = TypeVar("W")  # trouble: why something is stuck, in the words of the layer above


class Plan(msgspec.Struct, Generic[A, W], frozen=True):
    """What to do now, when to look again though nothing happens, and what is wrong.

    `again_s`: seconds until the same snapshot would be worth another look; None: only when
    something changes (the periodic level pass comes anyway).
    `failed`: this pass could not do all it should (an answer was missing); the key comes
    back with backoff even though nothing was raised.
    `stale`: a guarded write met a conflict: somebody wrote in between. The cache hears of it in
    milliseconds and calls for a pass by itself; until then the key comes back with backoff, since
    a watch that lags behind would otherwise be asked twenty times a second.
    `unanswered`: of a plan that failed, the words that came instead of an answer.
    """

    actions: tuple[A, ...] = ()
    again_s: float | None = None
    failed: bool = False
    troubles: tuple[W, ...] = ()
    stale: bool = False
    unanswered: str = ""


class Reconciler(Protocol[S, A, R, W]):
    """Five methods. Expected failures are answers (values), never exceptions.

    The runtime's promises: one pass per key at a time; no pass on a key before the caches
    show that key's own last writes (as far as they were noted in `OwnWrites`); `observe` once
    at the beginning of a pass; the actions of a round at the same time, at most BATCH_MAX,
    and one that raises never stops its siblings; `report` once at the end of each pass whose
    `plan` could be asked.

    What ends a pass, strongest first: an action or a rule raised (again with backoff; a
    `Conflict` is expected and makes no noise); the plan still had actions after ROUNDS_MAX
    rounds (again at once); `failed` (again with backoff); `stale` (as a `Conflict`); `again_s`;
    nothing (on events).
    """

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


class PassEnd(msgspec.Struct, frozen=True):
    """How a pass ended: look again after `again_s` (None: on events), or `failed`: with backoff.

    `unfinished`: the plan still had actions. `errors`: what actions raised. `troubles` and
    `unanswered`: of the last plan.
    """

    again_s: float | None = None
    failed: bool = False
    unfinished: bool = False
    errors: tuple[Exception, ...] = ()
    troubles: tuple[Any, ...] = ()
    stale: bool = False
    unanswered: str = ""


class Pass(Generic[S, A, R, W]):
    """One pass on one key. An object, so that it can report however far it came."""

    def __init__(
        self,
        reconciler: Reconciler[S, A, R, W],
        key: str,
        *,
        rounds_max: int = ROUNDS_MAX,
        batch_max: int = BATCH_MAX,
    ) -> None:
        """Nothing happens before `run`."""
        self._reconciler = reconciler
        self._key = key
        self._rounds_max = rounds_max
        self._batch_max = batch_max
        self._seen: S | None = None
        self._plan: Plan[A, W] | None = None

    async def run(self) -> PassEnd:
        """Observe, then plan and apply until nothing is left. The caller sets the deadline."""
        reconciler = self._reconciler
        seen = reconciler.observe(self._key)
        if seen is None:
            self._plan = Plan()
            return PassEnd()
        self._seen = seen
        plan = self._plan = reconciler.plan(seen)
        errors: list[Exception] = []
        for _ in range(self._rounds_max):
            if not plan.actions or errors:
                break
            answers = await self._apply_all(plan.actions[: self._batch_max], errors)
            seen = self._seen = reconciler.learn(seen, answers)
            plan = self._plan = reconciler.plan(seen)
        unfinished = bool(plan.actions) and not errors
        return PassEnd(
            again_s=plan.again_s,
            failed=plan.failed,
            unfinished=unfinished,
            errors=tuple(errors),
            troubles=plan.troubles,
            stale=plan.stale,
            unanswered=plan.unanswered,
        )

    def report(self) -> None:
        """Hand the last plan's troubles on; nothing if no plan could be made."""
        if self._plan is not None:
            self._reconciler.report(self._key, self._seen, self._plan.troubles)

    async def _apply_all(self, batch: Sequence[A], errors: list[Exception]) -> list[tuple[A, R]]:
        if len(batch) == 1:  # the usual case needs no tasks
            outcomes = [await self._apply(batch[0], errors)]
        else:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._apply(action, errors)) for action in batch]
            outcomes = [task.result() for task in tasks]
        return [outcome for outcome in outcomes if outcome is not None]

    async def _apply(self, action: A, errors: list[Exception]) -> tuple[A, R] | None:
        try:
            return action, await self._reconciler.apply(action)
        except Exception as error:  # noqa: BLE001 - kept for the end; must not stop its siblings
            errors.append(error)
            return None
