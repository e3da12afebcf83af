"""Lines between two parts that are cut or slow."""

from tests.simulation.faults.fault import (
    LONGER_THAN_AN_ELEMENT_S,
    Fault,
    as_a_job_begins,
    running,
    victim,
)
from tests.simulation.loop import Component
from tests.simulation.parts import API_PORT, GITHUB_PORT
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World


def _line_cut(port: int) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> bool:
        def ends() -> list[Component]:
            found = [c.component for c in world.controllers]
            return found + [p.component for p in running(world, "listener")]

        end = await victim(world, ends, planned.draw)
        if end is None:
            return False

        def cut() -> None:
            world.network.cut(end, port)

        lasts_s = planned.seconds
        if port == API_PORT and any(end is p.component for p in running(world, "listener")):
            lasts_s = max(lasts_s, LONGER_THAN_AN_ELEMENT_S)
            await as_a_job_begins(world, cut)
        else:
            cut()
        await world.clock.sleep(lasts_s)
        world.network.mend(end, port)
        return True

    return fault


async def slow_network(world: World, fault: PlannedFault) -> bool:
    """New connections take up to three seconds."""
    world.network.delay_max_s = 3.0
    await world.clock.sleep(fault.seconds)
    world.network.delay_max_s = 0.0
    return True


FAULTS: dict[str, Fault] = {
    "line-to-api-cut": _line_cut(API_PORT),
    "line-to-github-cut": _line_cut(GITHUB_PORT),
    "slow-network": slow_network,
}
