"""Lines between two parts that are cut or slow."""

from tests.simulation.faults.fault import Fault
from tests.simulation.parts import API_PORT, GITHUB_PORT
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World


def _line_cut(port: int) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> None:
        ends = [c.component for c in world.controllers]
        ends += [p.component for p in world.machine.running("listener")]
        if not ends:
            return
        end = ends[int(planned.draw * len(ends))]
        world.network.cut(end, port)
        await world.clock.sleep(planned.seconds)
        world.network.mend(end, port)

    return fault


async def slow_network(world: World, fault: PlannedFault) -> None:
    """New connections take up to three seconds."""
    world.network.delay_max_s = 3.0
    await world.clock.sleep(fault.seconds)
    world.network.delay_max_s = 0.0


FAULTS: dict[str, Fault] = {
    "line-to-api-cut": _line_cut(API_PORT),
    "line-to-github-cut": _line_cut(GITHUB_PORT),
    "slow-network": slow_network,
}
