"""What a fault is: a coroutine that begins it and ends it again; whether it struck anything.

It undoes what it began by itself, and only that; what may be left is undone by `World.heal`. What
cannot heal by itself (a quota, credentials, a lost machine) is put right by the person in it. A
fault that finds nothing to strike waits a little for a victim.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tests.simulation.machine import ContainerProcess
from tests.simulation.scenario import LASTING_S, PlannedFault
from tests.simulation.users import queue_job
from tests.simulation.world import World

Fault = Callable[[World, PlannedFault], Awaitable[bool]]
T = TypeVar("T")

OUTAGE_MAX_S = 20.0  # of a component: longer ones have scenarios of their own
VICTIM_WAIT_S = 40.0
LOOK_S = 1.0
WORK_AFTER_S = 3.0  # with nothing to strike for so long, a user gives it something
WORK_S = 15.0
BEGINS_WITHIN_S = 5.0
LONGER_THAN_AN_ELEMENT_S = 40.0  # what one message says is stored within 30, or given to repair
ROOM_MIN = 3  # of a set: one of its runners may be busy until the end
SETS = "autoscalingrunnersets.actions.github.com"
RUNNERS = "ephemeralrunners.actions.github.com"


async def victim(
    world: World, find: Callable[[], Sequence[T]], draw: float, *, with_work: bool = False
) -> T | None:
    """One of those that are there; waits for the first, but not for long.

    `with_work`: it only exists while there is work, so a user queues a job where none is.
    """
    began_s = world.clock.monotonic_s()
    worked = not with_work
    while True:
        found = find()
        if found:
            return found[int(draw * len(found))]
        waited_s = world.clock.monotonic_s() - began_s
        if waited_s >= VICTIM_WAIT_S:
            return None
        if not worked and waited_s >= WORK_AFTER_S:
            worked = True
            for name in set_names(world)[:1]:
                queue_job(world, name, WORK_S)
        await world.clock.sleep(LOOK_S)


async def jobs_come(world: World, count: int) -> None:
    """Users queue some jobs, one after the other."""
    for name in set_names(world)[:1]:
        for _ in range(count):
            queue_job(world, name, WORK_S)
            await world.clock.sleep(LOOK_S)


async def a_job_comes_that_lasts(world: World) -> None:
    """So that at rest it is seen whether anybody knows of it; where it leaves room for others."""
    for runner_set in world.objects(SETS):
        if runner_set["spec"].get("maxRunners", 0) >= ROOM_MIN:
            queue_job(world, runner_set["metadata"]["name"], LASTING_S)
            await world.clock.sleep(LOOK_S)
            return


async def as_a_job_begins(world: World, begin: Callable[[], None]) -> None:
    """Have it begin at the moment at which a job that lasts begins; or a little later anyhow."""
    at_work = world.runner_program.at_work
    at_work.append(begin)
    await a_job_comes_that_lasts(world)
    until_s = world.clock.monotonic_s() + BEGINS_WITHIN_S
    while begin in at_work and world.clock.monotonic_s() < until_s:
        await world.clock.sleep(0.1)
    if begin in at_work:
        at_work.remove(begin)
        begin()


def set_names(world: World) -> list[str]:
    """Of the runner sets that are there and not on their way out."""
    return [
        o["metadata"]["name"]
        for o in world.objects(SETS)
        if not o["metadata"].get("deletionTimestamp")
    ]


def running(world: World, program: str) -> list[ContainerProcess]:
    """The containers of a program that run."""
    return world.machine.running(program)
