"""Views of the cluster that are late or old, and clocks that are wrong."""

from tests.simulation.faults.fault import Fault, jobs_come, victim
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

LATE_MAX_S = 10.0
BACK_MAX = 400  # so many changes ago at most
OLD_MAX_S = 40.0
SKEWS_S = (1.0, 30.0, 300.0, 4_000.0)
DRIFT_MAX = 0.05
JOBS = 3


async def watch_events_late(world: World, fault: PlannedFault) -> bool:
    """A client hears of everything some seconds later, and there is more and more to hear of."""
    agents = [c.component.name for c in world.controllers] + [c.name for c in world.nodes]
    if not agents:
        return False
    agent = agents[int(fault.draw * len(agents))]
    world.stale.late_s[agent] = 0.5 + (fault.draw * 7) % 1 * LATE_MAX_S
    await jobs_come(world, JOBS)
    await world.clock.sleep(fault.seconds)
    world.stale.late_s.pop(agent, None)
    return True


async def watches_silent(world: World, fault: PlannedFault) -> bool:
    """A client hears of nothing for a while, then of all of it; its lists are as old."""
    process = await victim(world, lambda: world.controllers, fault.draw)
    if process is None or world.api is None:
        return False
    agent = process.component.name
    world.stale.freeze(agent, world.api.store.version)
    await world.clock.sleep(min(fault.seconds, OLD_MAX_S))
    world.stale.release(agent)
    return True


def _revision(world: World, draw: float) -> int:
    assert world.stale.history is not None and world.api is not None
    known = world.stale.history.revisions()[-BACK_MAX:]
    return known[int(draw * len(known))] if known else world.api.store.version


async def controller_reads_the_past(world: World, fault: PlannedFault) -> bool:
    """A controller that starts is served lists and watches of an earlier revision, for a while."""
    process = await victim(world, lambda: world.controllers, fault.draw)
    if process is None:
        return False
    world.kill_controller(process)
    if len(world.controllers) >= world.replicas:
        return False
    started = world.start_controller()
    agent = started.component.name
    world.stale.freeze(agent, _revision(world, (fault.draw * 7) % 1))
    await world.clock.sleep(min(fault.seconds, OLD_MAX_S))
    world.stale.release(agent)
    return True


async def node_reads_the_past(world: World, fault: PlannedFault) -> bool:
    """The same of a node agent that starts."""
    node = await victim(world, lambda: world.nodes, fault.draw)
    if node is None:
        return False
    world.kill_node(node)
    started = world.start_node()
    world.stale.freeze(started.name, _revision(world, (fault.draw * 7) % 1))
    await world.clock.sleep(min(fault.seconds, OLD_MAX_S))
    world.stale.release(started.name)
    return True


async def clock_wrong(world: World, fault: PlannedFault) -> bool:
    """The wall clock of one machine is off and runs too fast or too slow; then it is set right."""
    names = sorted(world.clocks)
    place = fault.draw * len(names)
    size = (place % 1) * 2 * len(SKEWS_S)
    sign = -1.0 if size >= len(SKEWS_S) else 1.0
    clock = world.clocks[names[int(place)]]
    drift = (size % 1 - 0.5) * 2 * DRIFT_MAX
    clock.skew(offset_s=sign * SKEWS_S[int(size) % len(SKEWS_S)], drift=drift)
    await world.clock.sleep(fault.seconds)
    clock.set_right()
    return True


FAULTS: dict[str, Fault] = {
    "watch-events-late": watch_events_late,
    "watches-silent": watches_silent,
    "controller-reads-the-past": controller_reads_the_past,
    "node-reads-the-past": node_reads_the_past,
    "clock-wrong": clock_wrong,
}
