"""An agent that starts with an old view of its pods: it asks before it starts or ends anything.

A cache may lag behind (a list served from an earlier revision). What ran once must not run
again, and what runs must not be ended because the list does not show its pod yet.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from tests.unit.node.world import World

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


def test_what_runs_is_not_ended_because_the_list_does_not_show_its_pod_yet(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        world = World()
        async with world.node():
            world.api.add_pod("one")
            process = await world.running("one")
        world.api.listed_pods = []
        async with world.node():
            await world.clock.sleep(120)
            assert process.exit is None
            pod = world.api.pod("one")
            assert pod is not None
            world.api.put("pods", "jobs", "one", pod)  # now the watch shows it
            await world.clock.sleep(1)
            process.end(0)
            await world.until(lambda: world.api.status("one")["phase"] == "Succeeded")
            assert len(world.machine.of("one")) == 1

    run_virtual(story())


def test_what_runs_of_a_pod_that_is_gone_is_ended_also_when_the_answer_comes_late(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        world = World()
        async with world.node():
            world.api.add_pod("one")
            process = await world.running("one")
        world.api.listed_pods = []
        async with world.node():
            await world.clock.sleep(10)
            world.api.drop("pods", "jobs", "one")
            await world.until(lambda: process.exit is not None)
            await world.until(lambda: not world.machine.pods)

    run_virtual(story())


def test_a_pod_that_ran_and_is_gone_is_not_started_again_because_the_list_still_shows_it(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        world = World()
        past = world.api.add_pod("one")
        async with world.node():
            process = await world.running("one")
            process.end(0)
            await world.until(lambda: world.api.status("one")["phase"] == "Succeeded")
            world.api.drop("pods", "jobs", "one")
            await world.until(lambda: not world.machine.pods)
        await world.clock.sleep(2)
        world.api.listed_pods = [past]
        async with world.node():
            await world.clock.sleep(30)
            assert not world.machine.pods
            assert not world.machine.of("one")

    run_virtual(story())
