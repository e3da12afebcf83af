"""Runners that die, cannot start, or are taken away with what belongs to them."""

from runnerscale.apiserver.faults import FaultRule
from runnerscale.node.processes import ProcessSpec, StartFailed
from tests.simulation.faults.fault import RUNNERS, Fault, jobs_come, running, victim
from tests.simulation.scenario import PlannedFault
from tests.simulation.users import cancel_lasting
from tests.simulation.world import World, account

HOLD = "example.com/hold"
LISTENERS = "autoscalinglisteners.actions.github.com"
ASLEEP_S = 6.0
AT_WORK_SHARE = 0.4  # of the strikes in which runners crash: with their job just begun
ALL_SHARE = 0.3  # all of them, before they have a job
ALL_CRASH_S = 40.0
JOBS = 3


def _runner_killed(reason: str) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> bool:
        process = await victim(
            world, lambda: running(world, "runner"), planned.draw, with_work=True
        )
        if process is not None:
            process.kill(reason=reason)
        return process is not None

    return fault


def _deleted_by_somebody(resource: str, mark: str, *, grace_s: int | None = None) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> bool:
        found = await victim(
            world,
            lambda: world.living(resource, mark),
            planned.draw,
            with_work="-listener" not in mark and resource != LISTENERS,
        )
        if found is not None:
            meta = found["metadata"]
            world.delete(resource, meta["namespace"], meta["name"], grace_s=grace_s)
            if resource == RUNNERS:
                await world.clock.sleep(planned.seconds)
                cancel_lasting(world, runner=meta["name"])
        return found is not None

    return fault


def _held_by_a_finalizer(resource: str, mark: str) -> Fault:
    async def fault(world: World, planned: PlannedFault) -> bool:
        found = await victim(
            world, lambda: world.living(resource, mark), planned.draw, with_work=True
        )
        if found is None:
            return False
        meta = found["metadata"]
        where = (resource, meta["namespace"], meta["name"])
        world.hold(*where, HOLD)
        world.delete(*where)
        await world.clock.sleep(planned.seconds)
        await world.api_up()
        world.let_go(*where, HOLD)
        if resource == RUNNERS:
            cancel_lasting(world, runner=meta["name"])
        return True

    return fault


async def runners_crash(world: World, fault: PlannedFault) -> bool:
    """Runners end with code 1: half of them or all before they have a job, or just after."""
    program = world.runner_program
    if fault.draw < AT_WORK_SHARE:
        return await _crash_at_work(world, fault)
    if fault.draw < AT_WORK_SHARE + ALL_SHARE:
        program.crash_rate = 1.0
        await jobs_come(world, JOBS)
        await world.clock.sleep(ALL_CRASH_S)
    program.crash_rate = 0.5
    await world.clock.sleep(fault.seconds)
    program.crash_rate = 0.0
    return True


async def _crash_at_work(world: World, fault: PlannedFault) -> bool:
    """With its job just begun, while listeners are asleep or slow: they hear of it too late."""
    assert world.api is not None
    program, server = world.runner_program, world.api
    program.crash_at_work = True
    await jobs_come(world, 1)
    listeners = running(world, "listener")
    slow = [
        FaultRule(
            verbs=frozenset({"patch"}),
            resource="ephemeralrunners/status",
            user=account(listener.spec.pod.name),
            delay_s=1.0,
        )
        for listener in listeners
    ]
    if fault.draw < AT_WORK_SHARE / 2:
        for listener in listeners:
            listener.component.pause()
        await world.clock.sleep(ASLEEP_S)
        for listener in listeners:
            world.go_on(listener.component)
    else:
        for rule in slow:
            server.faults.add(rule)
    await world.clock.sleep(fault.seconds)
    for rule in slow:
        server.faults.remove(rule)
    program.crash_at_work = False
    return True


async def image_missing(world: World, fault: PlannedFault) -> bool:
    """No container of a runner can be started."""

    def refuse(spec: ProcessSpec) -> StartFailed | None:
        if spec.argv[0] != "runner":
            return None
        return StartFailed("ErrImagePull", "the registry does not answer")

    world.machine.refuse = refuse
    await world.clock.sleep(fault.seconds)
    world.machine.refuse = lambda _spec: None
    return True


FAULTS: dict[str, Fault] = {
    "runner-killed": _runner_killed(""),
    "runner-out-of-memory": _runner_killed("OOMKilled"),
    "runner-pod-deleted": _deleted_by_somebody("pods", "-runner-"),
    "runner-pod-deleted-at-once": _deleted_by_somebody("pods", "-runner-", grace_s=0),
    "runner-pod-held": _held_by_a_finalizer("pods", "-runner-"),
    "listener-pod-deleted": _deleted_by_somebody("pods", "-listener"),
    "listener-pod-deleted-at-once": _deleted_by_somebody("pods", "-listener", grace_s=0),
    "runner-deleted": _deleted_by_somebody(RUNNERS, ""),
    "runner-held": _held_by_a_finalizer(RUNNERS, ""),
    "jit-secret-deleted": _deleted_by_somebody("secrets", "-runner-"),
    "listener-deleted": _deleted_by_somebody(LISTENERS, ""),
    "runners-crash": runners_crash,
    "image-missing": image_missing,
}
