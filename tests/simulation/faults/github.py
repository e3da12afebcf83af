"""GitHub's own troubles: the presets of the pretended GitHub, and an hour without it.

Answers that no preset gives are `github_answers.py`; what happens at GitHub itself (a scale set
deleted, a runner forgotten) is `github_acts.py`.
"""

from dataclasses import replace

from runnerscale.fake_github.presets import PRESETS, Ask, preset
from runnerscale.fake_github.twists import BEFORE, Spoilt
from tests.simulation.faults.fault import Fault, victim
from tests.simulation.faults.standing import stand
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

PRESET_STRIKES = 2
HOUR_S = 3_600.0
# Rules about the runner's own protocol, which has no network here, and acts that need a person.
BY_ACT = {
    "runner-version-refused",
    "scale-set-deleted",
    "credentials-revoked",
    "runner-ghost",
    "job-completed-early",
}


def _served(world: World) -> bool:
    """Whether there is anything at GitHub that a twist could strike."""
    return any(s.session is not None for s in world.github.state.scale_sets.values())


def _github(name: str) -> Fault:
    known = preset(name)

    async def fault(world: World, planned: PlannedFault) -> bool:
        hub = world.hub
        ask = Ask(
            now_s=hub.now_s(), seconds=planned.seconds, times=PRESET_STRIKES, value=known.value
        )
        if known.twist:
            if await victim(world, lambda: [1] if _served(world) else [], 0.0) is None:
                return False
            spoilt = Spoilt(0, "", "", b"", known.value or str(planned.seconds), {})
            hub.run(BEFORE[known.twist], spoilt)
        found = known.rules(ask)
        lasting = any(rule.until_s is not None for rule in found)
        rules = [replace(r, name=name, times=None if lasting else r.times) for r in found]
        return not rules or await stand(world, rules, planned, lasting=lasting)

    return fault


async def hour_outage(world: World, fault: PlannedFault) -> bool:
    """GitHub is away for an hour: a scenario of its own, with few jobs."""
    kinds = ("github-down", "github-unreachable", "black-hole", "rate-limited-403")
    name = kinds[int(fault.draw * len(kinds))]
    ask = Ask(now_s=world.hub.now_s(), seconds=HOUR_S, times=None, value="")
    rules = [replace(rule, times=None) for rule in preset(name).rules(ask)]
    return await stand(world, rules, replace(fault, seconds=HOUR_S), lasting=True)


FAULTS: dict[str, Fault] = {
    f"github-{name}".replace("github-github", "github"): _github(name)
    for name in PRESETS
    if name not in BY_ACT
}
APART: dict[str, Fault] = {"github-hour-outage": hour_outage}
