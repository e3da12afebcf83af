"""How many runners are made now.

As many as are missing, a batch at a time: between two batches the wish is read again, and a
pass that lags behind its own creations is never started (that is the runtime's promise). What
others made before this process began, a cache may not show yet (a standby's watch that lags, an
API server that is behind): a creation carries no version, so before the first one the set is
read from the API server itself, once; its version changes with every runner. What may be made
at all is the failure policy's and the template check's word.

Pure. Contract: resources-and-controllers 4.3.1; fixes W14, W15 and W30.
"""

from runnerscale.api.reasons import Trouble
from runnerscale.controllers.ephemeral_runner_set.failure_policy import Verdict
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Action,
    ConfirmView,
    CreateRunner,
    Snapshot,
)
from runnerscale.controllers.ephemeral_runner_set.template_check import may_use
from runnerscale.controllers.ephemeral_runner_set.wanted import missing
from runnerscale.controllers.stages import Stage

BATCH_MAX = 64  # created side by side; then the wish is read again
AT_ONCE_S = 0.0


def stage(seen: Snapshot, verdict: Verdict) -> Stage[Action]:
    """Create what is missing and may be made, one batch in a pass."""
    troubles: tuple[Trouble, ...] = (verdict.trouble,) if verdict.trouble else ()
    short = missing(seen, cap=verdict.cap)
    if not short:
        # Held places come free by themselves at last; nothing may happen before.
        return Stage(troubles=troubles, again_s=seen.held_again_s if seen.held else None)
    again = [t for t in (verdict.again_s, seen.held_again_s) if t is not None]
    later: Stage[Action] = Stage(troubles=troubles, again_s=min(again, default=None))
    number = min(room(verdict, short), BATCH_MAX)
    if number <= 0:
        return later
    if seen.made:
        return Stage(troubles=troubles, again_s=AT_ONCE_S)
    if seen.failed or not may_use(seen):
        return later
    if not seen.confirmed:
        return Stage((ConfirmView(),), troubles, again_s=later.again_s)
    return Stage(creations(seen, number), troubles, again_s=later.again_s)


def room(verdict: Verdict, short: int) -> int:
    """How many of the missing may be made now."""
    number = short - verdict.reserve
    return number if verdict.at_once is None else min(number, verdict.at_once)


def creations(seen: Snapshot, number: int) -> tuple[CreateRunner, ...]:
    """First the ones that may exist already: their creation had no answer."""
    names = [*seen.undecided[:number], *[""] * (number - len(seen.undecided[:number]))]
    return tuple(CreateRunner(name, number=n) for n, name in enumerate(names))
