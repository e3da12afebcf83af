"""Runners that die, cannot start, or are taken away with what belongs to them."""

from runnerscale.node.processes import ProcessSpec, StartFailed
from tests.simulation.faults.fault import Fault
from tests.simulation.scenario import PlannedFault
from tests.simulation.world import World


def _runner_killed(reason: str) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> None:
        running = world.machine.running("runner")
        if running:
            running[int(planned.draw * len(running))].kill(reason=reason)

    return fault


def _deleted_by_somebody(resource: str, mark: str) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> None:
        found = [o for o in world.objects(resource) if mark in o["metadata"]["name"]]
        if found:
            victim = found[int(planned.draw * len(found))]["metadata"]
            world.delete(resource, victim["namespace"], victim["name"])

    return fault


async def runners_crash(world: World, fault: PlannedFault) -> None:
    """Half of the runners end with code 1 before they have a job."""
    world.runner_program.crash_rate = 0.5
    await world.clock.sleep(fault.seconds)
    world.runner_program.crash_rate = 0.0


async def image_missing(world: World, fault: PlannedFault) -> None:
    """No container of a runner can be started."""

    def refuse(spec: ProcessSpec) -> StartFailed | None:
        if spec.argv[0] != "runner":
            return None
        return StartFailed("ErrImagePull", "the registry does not answer")

    world.machine.refuse = refuse
    await world.clock.sleep(fault.seconds)
    world.machine.refuse = lambda _spec: None


FAULTS: dict[str, Fault] = {
    "runner-killed": _runner_killed(""),
    "runner-out-of-memory": _runner_killed("OOMKilled"),
    "runner-pod-deleted": _deleted_by_somebody("pods", "-runner-"),
    "listener-pod-deleted": _deleted_by_somebody("pods", "-listener"),
    "runner-deleted": _deleted_by_somebody("ephemeralrunners.actions.github.com", ""),
    "jit-secret-deleted": _deleted_by_somebody("secrets", "-runner-"),
    "listener-deleted": _deleted_by_somebody("autoscalinglisteners.actions.github.com", ""),
    "runners-crash": runners_crash,
    "image-missing": image_missing,
}
