"""Death and standstill: what a component of the simulated world can suffer."""

import asyncio

from runnerscale.core.randomness import seeded
from tests.simulation.loop import Component, SimulationLoop
from tests.simulation.parts import start


async def _tick(ticks: list[float]) -> None:
    while True:
        ticks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)


def test_a_stopped_component_does_nothing_and_goes_on_where_it_was() -> None:
    ticks: list[float] = []

    async def world() -> None:
        component = Component("a")
        start(component, _tick(ticks))
        await asyncio.sleep(2.5)
        component.pause()
        await asyncio.sleep(60)
        component.go_on()
        await asyncio.sleep(2)

    SimulationLoop(seeded(1)).run(world())
    assert ticks == [0.0, 1.0, 2.0, 62.5, 63.5, 64.5]


def test_what_is_killed_while_it_stands_never_goes_on() -> None:
    ticks: list[float] = []

    async def world() -> None:
        component = Component("a")
        start(component, _tick(ticks))
        await asyncio.sleep(0.5)
        component.pause()
        await asyncio.sleep(5)
        component.kill()
        component.go_on()
        await asyncio.sleep(5)

    SimulationLoop(seeded(1)).run(world())
    assert ticks == [0.0]


def test_what_nobody_took_is_told_but_not_of_the_dead() -> None:
    # Seed 2298: whoever would have taken it was killed in that very moment.
    async def fails() -> None:
        raise ZeroDivisionError

    async def spawns() -> None:
        asyncio.get_running_loop().create_task(fails())
        await asyncio.sleep(60)

    async def world() -> None:
        for name in ("alive", "dead"):
            component = Component(name)
            start(component, spawns())
            await asyncio.sleep(1)
            if name == "dead":
                component.kill()

    loop = SimulationLoop(seeded(1))
    loop.run(world())
    [told] = loop.unexpected()
    assert "ZeroDivisionError" in told
