"""GitHub's own troubles: the presets of the pretended GitHub."""

from dataclasses import replace

from runnerscale.fake_github.presets import PRESETS, Ask, preset
from runnerscale.fake_github.twists import BEFORE, Spoilt
from tests.simulation.faults.fault import Fault
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

PRESET_STRIKES = 2


def _github(name: str) -> Fault:
    known = preset(name)

    async def fault(world: World, planned: PlannedFault) -> None:
        hub = world.hub
        ask = Ask(
            now_s=hub.now_s(), seconds=planned.seconds, times=PRESET_STRIKES, value=known.value
        )
        for rule in known.rules(ask):
            lasting = rule.until_s is not None
            hub.faults.add(replace(rule, name=name, times=None if lasting else rule.times))
        if known.twist:
            spoilt = Spoilt(0, "", "", b"", known.value or str(planned.seconds), {})
            hub.run(BEFORE[known.twist], spoilt)

    return fault


# Kept out: what changes the rules of the game for good, or needs a scenario of its own.
NOT_DRAWN = {"runner-version-refused", "scale-set-deleted", "credentials-revoked"}

FAULTS: dict[str, Fault] = {
    f"github-{name}".replace("github-github", "github"): _github(name)
    for name in PRESETS
    if name not in NOT_DRAWN
}
