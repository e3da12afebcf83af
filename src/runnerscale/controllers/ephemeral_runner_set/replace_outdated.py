"""Idle runners that outlived a change of the template, exchanged a few at a time.

The set keeps serving meanwhile, and the listener's session is not touched: an old runner goes
only when GitHub has forgotten it, and the next goes only when the new ones come up. Busy ones
finish their job and are not replaced by this. Nothing is exchanged for a template that the API
server refuses or that has just failed: the old runners work.

Pure. Contract: resources-and-controllers W1, W33, W52; issue log 44.
"""

from runnerscale.controllers.ephemeral_runner_set.failure_policy import Verdict
from runnerscale.controllers.ephemeral_runner_set.observe import PROVEN_AFTER_S
from runnerscale.controllers.ephemeral_runner_set.scale_down import (
    in_order,
    next_look_s,
    questions,
)
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Action,
    DeleteRunner,
    Removal,
    Runner,
    Snapshot,
)
from runnerscale.controllers.ephemeral_runner_set.template_check import may_use
from runnerscale.controllers.ephemeral_runner_set.wanted import missing, wanted
from runnerscale.controllers.stages import Stage

SHARE = 10  # one in ten at a time
# A new runner that has not come up in this time does not hold up the exchange: it may wait for
# a node that the old ones occupy.
COMES_UP_WITHIN_S = 120.0
# Of an old spec and not registered by then: it will hardly ever be, least of all with a scale
# set that GitHub has forgotten. A registration takes well under a second.
REGISTERS_WITHIN_S = 10.0


def stage(seen: Snapshot, verdict: Verdict) -> Stage[Action]:
    """Ask GitHub to forget the next old idle runner, if the new ones are coming up."""
    old = [r for r in seen.runners if not r.current and not r.has_job]
    if not old or seen.deleting or not may_use(seen) or verdict.blocks or verdict.reserve:
        return Stage()
    # Those that hang without a registration serve nobody: no need to be gentle.
    stuck: list[Action] = [
        DeleteRunner(r.name, r.uid, r.resource_version, why="old template, never registered")
        for r in in_order(old)
        if r.runner_id == 0 and _unregistered_left_s(r, seen.now_s) <= 0
    ]
    coming = [
        r
        for r in seen.runners
        if r.current and not r.proven and seen.now_s - r.created_s < COMES_UP_WITHIN_S
    ]
    going = sum(1 for r in old if r.removal in (Removal.ASKED, Removal.FORGOTTEN))
    at_once = max(1, wanted(seen) // SHARE)
    room = at_once - len(coming) - seen.made - going - missing(seen)
    asks = questions(seen, in_order(old), at_most=max(0, room))
    waits = [_settles_in_s(r, seen.now_s) for r in coming]
    waits += [t for r in old if r.runner_id == 0 and (t := _unregistered_left_s(r, seen.now_s)) > 0]
    again = [t for t in (*waits, next_look_s(seen)) if t is not None]
    return Stage((*stuck, *asks), again_s=min(again, default=None))


def _settles_in_s(runner: Runner, now_s: float) -> float:
    """When a new one stops holding up the exchange: one that is ready by then has worked enough."""
    age_s = now_s - runner.created_s
    return (PROVEN_AFTER_S if age_s < PROVEN_AFTER_S else COMES_UP_WITHIN_S) - age_s


def _unregistered_left_s(runner: Runner, now_s: float) -> float:
    """How long one without a registration may still come by it; it says so where it cannot."""
    return 0.0 if runner.troubled else runner.created_s + REGISTERS_WITHIN_S - now_s
