"""What a stage of a plan returns, and how the stages of one plan come together.

Trouble in one stage does not stop the later ones; only `stop` does, for a stage after which
nothing else makes sense in this pass (the object is going). Pure.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from runnerscale.api.catalogue import Severity
from runnerscale.api.reasons import Trouble
from runnerscale.kube.reconcile import Plan

A = TypeVar("A")
S = TypeVar("S")


class Stage(msgspec.Struct, Generic[A], frozen=True):
    """What one stage wants; all empty: it is settled."""

    actions: tuple[A, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    again_s: float | None = None
    failed: bool = False
    stop: bool = False


def run_stages(seen: S, stages: Iterable[Callable[[S], Stage[A]]]) -> Stage[A]:
    """All stages over the same snapshot, in order, as one."""
    return joined(_until_stop(stage(seen) for stage in stages))


def joined(parts: Iterable[Stage[A]]) -> Stage[A]:
    """Several stages as one; the soonest time to look again wins."""
    found = list(parts)
    times = [part.again_s for part in found if part.again_s is not None]
    return Stage(
        actions=tuple(action for part in found for action in part.actions),
        troubles=tuple(trouble for part in found for trouble in part.troubles),
        again_s=min(times, default=None),
        failed=any(part.failed for part in found),
        stop=any(part.stop for part in found),
    )


def as_plan(stage: Stage[A]) -> Plan[A, Trouble]:
    """What the runtime is handed."""
    return Plan(stage.actions, stage.again_s, stage.failed, stage.troubles)


def worst(troubles: Iterable[Trouble]) -> Trouble | None:
    """What a person should read first: errors before warnings before what passes by itself."""
    order = [Severity.ERROR, Severity.WARNING, Severity.INFO]
    return min(troubles, key=lambda trouble: order.index(trouble.reason.severity), default=None)


def _until_stop(parts: Iterable[Stage[A]]) -> Iterable[Stage[A]]:
    for part in parts:
        yield part
        if part.stop:
            return
