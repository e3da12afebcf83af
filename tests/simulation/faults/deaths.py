"""Processes that are killed at any of their steps, or stopped for a while, and go on.

With two controllers either may be the one; what strikes the leader as leader is `lease.py`.
"""

from tests.simulation.faults.fault import (
    OUTAGE_MAX_S,
    Fault,
    a_job_comes_that_lasts,
    running,
    victim,
)
from tests.simulation.loop import Component
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

STEPS_MAX = 150  # a component dies within so many of its steps
STEPS_OF_A_MESSAGE = 60
ANY_STEP_SHARE = 0.5
DIES_WITHIN_S = 10.0  # or then
STOPPED_MAX_S = 60.0


async def dies(world: World, component: Component, draw: float) -> None:
    """Wait for its death at one of its next steps, which the draw chooses."""
    component.kill_at_step = component.steps + 1 + int(draw * STEPS_MAX)
    await dead(world, component)


async def dead(world: World, component: Component) -> None:
    """Wait for its death, but not for long."""
    until_s = world.clock.monotonic_s() + DIES_WITHIN_S
    while not component.dead and world.clock.monotonic_s() < until_s:
        await world.clock.sleep(0.1)


async def controller_killed(world: World, fault: PlannedFault) -> bool:
    """kill -9 of a controller at any of its steps; another one comes up."""
    process = await victim(world, lambda: world.controllers, fault.draw)
    if process is None:
        return False
    await dies(world, process.component, (fault.draw * 7) % 1)
    world.kill_controller(process)
    await world.clock.sleep(min(fault.seconds, OUTAGE_MAX_S))
    world.fill_controllers()
    return True


async def listener_killed(world: World, fault: PlannedFault) -> bool:
    """kill -9 of a listener at any of its steps, or as it hears of a job that begins; code 137."""
    process = await victim(world, lambda: running(world, "listener"), fault.draw)
    if process is None:
        return False
    component, draw = process.component, (fault.draw * 7) % 1

    def as_it_hears() -> None:
        component.kill_at_step = component.steps + 1 + int(draw * STEPS_OF_A_MESSAGE)

    at_work = world.runner_program.at_work
    at_work.append(as_it_hears)
    await a_job_comes_that_lasts(world)
    if (fault.draw * 49) % 1 < ANY_STEP_SHARE:
        component.kill_at_step = component.steps + 1 + int(draw * STEPS_MAX)
    await dead(world, component)
    if as_it_hears in at_work:
        at_work.remove(as_it_hears)
    process.kill()
    return True


async def node_agent_killed(world: World, fault: PlannedFault) -> bool:
    """kill -9 of the node agent; containers go on, another agent takes them over."""
    node = await victim(world, lambda: world.nodes, fault.draw)
    if node is None:
        return False
    world.kill_node(node)
    await world.clock.sleep(min(fault.seconds, OUTAGE_MAX_S))
    world.fill_nodes()
    return True


async def api_server_killed(world: World, fault: PlannedFault) -> bool:
    """kill -9 of the API server; another one opens the same disk."""
    if world.api_component is None or world.api_component.dead:
        return False
    await world.restart_api(after_s=min(fault.seconds, OUTAGE_MAX_S) * 0.3)
    return True


async def stopped(world: World, component: Component, seconds: float) -> bool:
    """SIGSTOP, and after a while SIGCONT."""
    if component.paused or component.dead:
        return False
    component.pause()
    await world.clock.sleep(min(seconds, STOPPED_MAX_S))
    world.go_on(component)
    return True


async def controller_stopped(world: World, fault: PlannedFault) -> bool:
    """SIGSTOP of a controller for up to a minute."""
    process = await victim(world, lambda: world.controllers, fault.draw)
    return process is not None and await stopped(world, process.component, fault.seconds)


async def listener_stopped(world: World, fault: PlannedFault) -> bool:
    """SIGSTOP of a listener: its session ends meanwhile, or does not."""
    process = await victim(world, lambda: running(world, "listener"), fault.draw)
    return process is not None and await stopped(world, process.component, fault.seconds)


async def node_agent_stopped(world: World, fault: PlannedFault) -> bool:
    """SIGSTOP of the node agent."""
    node = await victim(world, lambda: world.nodes, fault.draw)
    return node is not None and await stopped(world, node, fault.seconds)


async def api_server_stopped(world: World, fault: PlannedFault) -> bool:
    """SIGSTOP of the API server: connections stay, nobody answers."""
    component = world.api_component
    return component is not None and await stopped(world, component, min(fault.seconds, 30.0))


FAULTS: dict[str, Fault] = {
    "controller-killed": controller_killed,
    "listener-killed": listener_killed,
    "node-agent-killed": node_agent_killed,
    "api-server-killed": api_server_killed,
    "controller-stopped": controller_stopped,
    "listener-stopped": listener_stopped,
    "node-agent-stopped": node_agent_stopped,
    "api-server-stopped": api_server_stopped,
}
