"""The machine and its agent: lost, back again, started anew, short of room; pods sent away.

What the control plane of a real cluster does about a lost node (its pods are told not ready,
deleted, in the end removed by force) is done here, by the hand of the cluster.
"""

import contextvars

from runnerscale.apiserver.subresources import evict_pod
from runnerscale.node.faults import Evict, FaultRefused, NodeLost, NoRoom
from runnerscale.node.faults import Fault as NodeFault
from tests.simulation.faults.fault import Fault, victim
from tests.simulation.kubectl import PERSON
from tests.simulation.loop import COMPONENT, Component
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World

NOTICED_AFTER_S = 5.0  # 40 s and more in a real cluster
LOST_MAX_S = 60.0
BOOT_S = 4.0


def _inject(world: World, node: Component, fault: NodeFault) -> bool:
    context = contextvars.copy_context()
    context.run(COMPONENT.set, node)
    try:
        context.run(world.agents[node].faults.inject, fault)
    except FaultRefused:
        return False
    return True


def _power_off(world: World) -> list[str]:
    """The machine is gone with all that ran on it; the uids of pods that were there."""
    for node in list(world.nodes):
        world.kill_node(node)
    there = list(world.machine.pods)
    for process in world.machine.started:
        process.kill()
    return there


async def node_lost(world: World, fault: PlannedFault) -> bool:
    """The machine dies with its agent and all containers; its pods stay, until they are deleted.

    Half of the time the cluster deletes them while it is away, half of those by force.
    """
    if not world.nodes:
        return False
    there = _power_off(world)
    seconds = min(fault.seconds, LOST_MAX_S)
    await world.clock.sleep(min(NOTICED_AFTER_S, seconds))
    await world.api_up()
    if fault.draw < 0.5:
        grace_s = 0 if fault.draw < 0.25 else None
        for pod in world.objects("pods"):
            meta = pod["metadata"]
            if meta["uid"] in there and world.has("pods", meta["namespace"], meta["name"]):
                world.disrupt(meta["namespace"], meta["name"], "DeletionByTaintManager")
                world.delete("pods", meta["namespace"], meta["name"], grace_s=grace_s)
    await world.clock.sleep(max(0.0, seconds - NOTICED_AFTER_S))
    world.fill_nodes()
    return True


async def machine_rebooted(world: World, fault: PlannedFault) -> bool:
    """The machine starts anew: the agent comes back and finds its containers dead."""
    if not world.nodes:
        return False
    _power_off(world)
    await world.clock.sleep(BOOT_S)
    world.fill_nodes()
    return True


async def node_unreachable(world: World, fault: PlannedFault) -> bool:
    """Nobody hears of the node while its containers go on; its pods may be deleted meanwhile."""
    node = await victim(world, lambda: world.nodes, fault.draw)
    if node is None:
        return False
    lost = NodeLost(
        seconds=min(fault.seconds, LOST_MAX_S),
        unknown_after_s=NOTICED_AFTER_S,
        delete_pods=fault.draw < 0.5,
    )
    if not _inject(world, node, lost):
        return False
    await world.clock.sleep(lost.seconds)
    return True


async def never_scheduled(world: World, fault: PlannedFault) -> bool:
    """No pod is placed for a while: Pending, Unschedulable."""
    node = await victim(world, lambda: world.nodes, fault.draw)
    if node is None or not _inject(world, node, NoRoom(seconds=fault.seconds)):
        return False
    await world.clock.sleep(fault.seconds)
    return True


def _evicted(mark: str) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> bool:
        pod = await victim(
            world, lambda: world.living("pods", mark), planned.draw, with_work=mark == "-runner-"
        )
        if pod is None or not world.nodes:
            return False
        meta = pod["metadata"]
        grace_s = int(planned.draw * 2) * 5
        evict = Evict(namespace=meta["namespace"], pod=meta["name"], grace_s=grace_s)
        return _inject(world, world.nodes[0], evict)

    return fault


async def node_drained(world: World, fault: PlannedFault) -> bool:
    """`kubectl drain`: the pods are asked to go, within their own grace."""
    pod = await victim(world, lambda: world.living("pods", "-runner-"), fault.draw, with_work=True)
    if pod is None:
        return False
    assert world.api is not None
    kind = world.api.registry.of_resource("pods")
    assert kind is not None
    for each in world.living("pods", ""):
        meta = each["metadata"]
        record = world.api.operations.get(kind, meta["namespace"], meta["name"])
        evict_pod(world.api.operations, world.api.deletion, kind, record, {}, PERSON)
    return True


FAULTS: dict[str, Fault] = {
    "node-lost": node_lost,
    "machine-rebooted": machine_rebooted,
    "node-unreachable": node_unreachable,
    "never-scheduled": never_scheduled,
    "runner-evicted": _evicted("-runner-"),
    "listener-evicted": _evicted("-listener"),
    "node-drained": node_drained,
}
