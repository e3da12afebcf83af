"""Lines between two parts that are cut or slow."""

from tests.simulation.faults.fault import Fault, a_job_comes_that_lasts, running, victim
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
        if port == API_PORT:
            await a_job_comes_that_lasts(world)
        world.network.cut(end, port)
        await world.clock.sleep(planned.seconds)
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
