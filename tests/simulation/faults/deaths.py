"""Processes that are killed at any of their steps, and start again."""

from tests.simulation.faults.fault import OUTAGE_MAX_S, Fault
from tests.simulation.loop import Component
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

STEPS_MAX = 150  # a component dies within so many of its steps


def _dies_within_steps(component: Component, draw: float) -> None:
    component.kill_at_step = component.steps + 1 + int(draw * STEPS_MAX)


async def controller_killed(world: World, fault: PlannedFault) -> None:
    """kill -9 of the controller at any of its steps; another one comes up."""
    if not world.controllers:
        return
    process = world.controllers[0]
    _dies_within_steps(process.component, fault.draw)
    for _ in range(100):
        if process.component.dead:
            break
        await world.clock.sleep(0.1)
    world.kill_controller(process)
    await world.clock.sleep(min(fault.seconds, OUTAGE_MAX_S))
    world.start_controller()


async def listener_killed(world: World, fault: PlannedFault) -> None:
    """kill -9 of a listener at any of its steps; its pod ends with 137."""
    running = world.machine.running("listener")
    if not running:
        return
    process = running[int(fault.draw * len(running))]
    _dies_within_steps(process.component, fault.draw)
    for _ in range(100):
        if process.component.dead:
            break
        await world.clock.sleep(0.1)
    process.kill()


async def node_agent_killed(world: World, fault: PlannedFault) -> None:
    """kill -9 of the node agent; containers go on, another agent takes them over."""
    if not world.nodes:
        return
    world.kill_node(world.nodes[0])
    await world.clock.sleep(min(fault.seconds, OUTAGE_MAX_S))
    world.start_node()


async def api_server_killed(world: World, fault: PlannedFault) -> None:
    """kill -9 of the API server; another one opens the same disk."""
    await world.restart_api(after_s=min(fault.seconds, OUTAGE_MAX_S) * 0.3)


FAULTS: dict[str, Fault] = {
    "controller-killed": controller_killed,
    "listener-killed": listener_killed,
    "node-agent-killed": node_agent_killed,
    "api-server-killed": api_server_killed,
}
