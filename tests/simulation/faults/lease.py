"""What strikes the controller that holds the lease: only where two compete for it."""

from runnerscale.apiserver.failures import internal
from runnerscale.apiserver.faults import FaultRule
from tests.simulation.controllers import ControllerProcess
from tests.simulation.faults.deaths import dies, stopped
from tests.simulation.faults.fault import Fault, victim
from tests.simulation.leadership import LEASE, LEASES
from tests.simulation.parts import API_PORT
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

LONGER_THAN_THE_LEASE_S = 16.0
RENEWAL_TAKES_S = 6.0  # more than a third of the renew deadline: each try is given up


def _outlasting(fault: PlannedFault) -> float:
    """Long enough for somebody else to take the lease, and a little more."""
    return LONGER_THAN_THE_LEASE_S + min(fault.seconds, 20.0)


async def _leader(world: World) -> ControllerProcess | None:
    def leading() -> list[ControllerProcess]:
        return [world.leader] if world.leader is not None else []

    return await victim(world, leading, 0.0)


async def leader_killed(world: World, fault: PlannedFault) -> bool:
    """kill -9 of the leader; the other one waits until the lease has run out."""
    leader = await _leader(world)
    if leader is None:
        return False
    await dies(world, leader.component, fault.draw)
    world.kill_controller(leader)
    await world.clock.sleep(_outlasting(fault))
    world.fill_controllers()
    return True


async def leader_stopped(world: World, fault: PlannedFault) -> bool:
    """SIGSTOP of the leader for longer than the lease: it wakes up and is none any more."""
    leader = await _leader(world)
    return leader is not None and await stopped(world, leader.component, _outlasting(fault))


async def leader_cut_off(world: World, fault: PlannedFault) -> bool:
    """The leader's line to the API server is cut for longer than the lease."""
    leader = await _leader(world)
    if leader is None:
        return False
    world.network.cut(leader.component, API_PORT)
    await world.clock.sleep(_outlasting(fault))
    world.network.mend(leader.component, API_PORT)
    return True


async def leader_terminated(world: World, fault: PlannedFault) -> bool:
    """SIGTERM of the leader: it gives the lease back, another process takes its place."""
    leader = await _leader(world)
    if leader is None:
        return False
    leader.terminate()
    await world.clock.sleep(min(fault.seconds, 10.0))
    world.kill_controller(leader)
    world.fill_controllers()
    return True


def _renewals(rule: FaultRule) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> bool:
        if world.api is None or await _leader(world) is None:
            return False
        server = world.api
        added = server.faults.add(rule)
        await world.clock.sleep(_outlasting(planned))
        server.faults.remove(added)
        return True

    return fault


def _renewal_rule(**what: object) -> Fault:
    verbs = frozenset({"update"})
    return _renewals(FaultRule(verbs=verbs, resource="leases", name=LEASE, **what))  # type: ignore[arg-type]


async def lease_deleted(world: World, fault: PlannedFault) -> bool:
    """Somebody deletes the lease."""
    lease = await victim(world, lambda: world.living(LEASES, LEASE), fault.draw)
    if lease is None:
        return False
    world.delete(LEASES, lease["metadata"]["namespace"], lease["metadata"]["name"])
    return True


async def both_controllers_killed(world: World, fault: PlannedFault) -> bool:
    """kill -9 of all of them; new ones find a lease that nobody renews."""
    victims = list(world.controllers)
    for process in victims:
        world.kill_controller(process)
    await world.clock.sleep(min(fault.seconds, 10.0))
    world.fill_controllers()
    return bool(victims)


FAULTS: dict[str, Fault] = {
    "leader-killed": leader_killed,
    "leader-stopped": leader_stopped,
    "leader-cut-off": leader_cut_off,
    "leader-terminated": leader_terminated,
    "lease-renewals-slow": _renewal_rule(delay_s=RENEWAL_TAKES_S),
    "lease-renewals-refused": _renewal_rule(failure=internal("a fault of the simulation")),
    "lease-deleted": lease_deleted,
    "both-controllers-killed": both_controllers_killed,
}
