"""Whether another controller works on the same runner set: two undo each other's work.

It happens when two installations watch the same namespace, or one has several replicas and no
leader election, and from each of their logs it looks like a server that forgets. So whoever
works on a runner set leaves its name there, once. A name that is found replaced may be the end
of a predecessor in a rolling update; one that is replaced again after it was put back is a
controller that works at the same time. A leader's standbys do not work, and write nothing.

Pure.
"""

from dataclasses import replace

from runnerscale.api import labels as keys
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Action,
    PatchSelf,
    Snapshot,
    Stamp,
)
from runnerscale.controllers.stages import Stage

AGAIN_S = 20.0  # a predecessor in a rolling update is gone by then, or told to go
SELDOM_S = 60.0  # once it is known: two writes a minute, as long as it lasts
LOSSES_MIN = 2
LOSSES_MAX = 8  # that are remembered
OVER_AFTER_S = 150.0  # without another loss


def noticed(stamp: Stamp, name_there: str, *, identity: str, now_s: float) -> Stamp:
    """What is remembered after a look at the annotation."""
    if name_there == identity:
        return stamp if stamp.there else replace(stamp, there=True, put_s=now_s)
    if not stamp.there:
        return stamp
    losses = (*stamp.losses, now_s)[-LOSSES_MAX:] if name_there else stamp.losses
    return replace(stamp, there=False, losses=losses, other=name_there or stamp.other)


def competes(stamp: Stamp, *, now_s: float) -> bool:
    """Whether another controller is at work, as far as is known."""
    losses = stamp.losses
    if len(losses) < LOSSES_MIN or now_s - losses[-1] > OVER_AFTER_S:
        return False
    return losses[-1] - losses[-2] <= OVER_AFTER_S


def stage(seen: Snapshot) -> Stage[Action]:
    """Leave our name, and say who else does."""
    identity, stamp = seen.settings.identity, seen.known.stamp
    if not identity:
        return Stage()
    fought_over = competes(stamp, now_s=seen.now_s)
    troubles: tuple[Trouble, ...] = ()
    if fought_over:
        # The same words from both, so that they do not also fight over the status.
        both = " and ".join(sorted((identity, stamp.other)))
        happened = f"the controllers {both} work on it at the same time"
        about = seen.about
        troubles = (trouble(Reason.CONTROLLERS_COMPETE, about=about, happened=happened),)
    if seen.annotation(keys.CONTROLLER) == identity:
        again_s = stamp.losses[-1] + OVER_AFTER_S + 1.0 - seen.now_s if fought_over else None
        return Stage(troubles=troubles, again_s=again_s)
    left_s = stamp.put_s + (SELDOM_S if fought_over else AGAIN_S) - seen.now_s
    if stamp.put_s and left_s > 0:
        return Stage(troubles=troubles, again_s=left_s)
    patch = PatchSelf({"metadata": {"annotations": {keys.CONTROLLER: identity}}})
    return Stage((patch,), troubles)
