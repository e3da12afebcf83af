"""Rules that stand at the pretended GitHub until they were felt, and what makes us feel them.

A rule that nobody meets is no fault: where our side has no reason to make the call that it is
about, a user gives it one (a job, a move to another group), or a token or session ends.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from runnerscale.fake_github.faults import Action, Drop, Match, Rule
from runnerscale.fake_github.twists import BEFORE, Spoilt
from tests.simulation.faults.fault import (
    RUNNERS,
    VICTIM_WAIT_S,
    WORK_AFTER_S,
    WORK_S,
    set_names,
    victim,
)
from tests.simulation.faults.people import group_changed
from tests.simulation.scenario import PlannedFault
from tests.simulation.users import cancel_lasting, queue_job
from tests.simulation.world import World

TICK_S = 0.001  # less than this is no wait

Provoke = Callable[[World, PlannedFault], Awaitable[object]]


async def stand(
    world: World, rules: Sequence[Rule], planned: PlannedFault, *, lasting: bool
) -> bool:
    """Let the rules stand: for so long, or until they have struck; in any case until one was felt.

    Whether any was. Waits for that, but not for long.
    """
    now_s = world.clock.monotonic_s()
    latest_s = now_s + planned.seconds + VICTIM_WAIT_S
    until_s = world.hub.now_s() + planned.seconds + VICTIM_WAIT_S
    added = [world.hub.faults.add(replace(rule, until_s=until_s)) for rule in rules]
    enough_s = now_s + planned.seconds
    provoked = worked = False
    deleted = ""
    while (left_s := latest_s - world.clock.monotonic_s()) > TICK_S:
        passed_s = world.clock.monotonic_s() - now_s
        if _felt(added):
            stands = any(rule.id in world.hub.faults.rules for rule in added)
            if not stands or (lasting and enough_s - world.clock.monotonic_s() <= TICK_S):
                break
        elif not provoked and passed_s >= 1.0:
            provoked = True
            deleted = await _provoke(world, added, planned)
        elif not worked and passed_s >= WORK_AFTER_S:
            worked = True
            for name in set_names(world)[:1]:
                queue_job(world, name, WORK_S)
        await world.clock.sleep(min(left_s, 1.0))
    for rule in added:
        world.hub.faults.remove(rule.id)
    if deleted:
        cancel_lasting(world, runner=deleted)
    return _felt(added)


def _felt(rules: Sequence[Rule]) -> bool:
    return any(rule.fired > 0 for rule in rules)


async def _provoke(world: World, rules: Sequence[Rule], planned: PlannedFault) -> str:
    """Give our side a reason for the calls that the rules are about.

    The runner that a person deleted for it, if one did: with a job it stays until that ends (C1
    4.4 R1), so that the person has to end a job without an end.
    """
    operations = [name for rule in rules for name in rule.match.operations]
    for name in operations:
        if name in PROVOKED_BY:
            done = await PROVOKED_BY[name](world, planned)
            return done if isinstance(done, str) else ""
    return ""


def twisted(name: str) -> Provoke:
    """By something that happens at GitHub."""

    async def provoke(world: World, _planned: PlannedFault) -> None:
        world.hub.run(BEFORE[name], Spoilt(0, "", "", b"", "", {}))

    return provoke


async def runner_gone(world: World, planned: PlannedFault) -> str:
    """A person deletes a runner, so that it has to be forgotten at GitHub; its name."""
    runner = await victim(world, lambda: world.living(RUNNERS, ""), planned.draw, with_work=True)
    if runner is None:
        return ""
    meta = runner["metadata"]
    world.delete(RUNNERS, meta["namespace"], meta["name"])
    return str(meta["name"])


async def jit_answer_lost(world: World, _planned: PlannedFault) -> None:
    """A registration of unknown end: it has to be looked for by its name."""
    lost = Rule(Match(operations=("jit-config",)), Action(drop=Drop.AFTER), times=2)
    world.hub.faults.add(replace(lost, until_s=world.hub.now_s() + VICTIM_WAIT_S))


PROVOKED_BY: dict[str, Provoke] = {
    "installation-token": twisted("expire-tokens"),
    "registration-token": twisted("expire-tokens"),
    "open-session": twisted("lose-session"),
    "refresh-session": twisted("expire-tokens"),
    "update-scale-set": group_changed,
    "create-scale-set": group_changed,
    "remove-runner": runner_gone,
    "find-runner": jit_answer_lost,
}
