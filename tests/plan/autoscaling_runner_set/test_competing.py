"""Two controllers that work on one runner set notice each other, and say so."""

from dataclasses import replace

from runnerscale.api import labels as keys
from runnerscale.controllers.autoscaling_runner_set.competing import (
    LOSSES_MAX,
    OVER_AFTER_S,
    SELDOM_S,
    competes,
    noticed,
)
from runnerscale.controllers.autoscaling_runner_set.snapshot import Stamp
from tests.plan.autoscaling_runner_set.world import NAME, World


def other_writes(world: World, name: str) -> None:
    world.edit_meta(annotations={keys.CONTROLLER: name})


def own_patches(world: World) -> int:
    writes = [w for w in world.api.changes() if w == ("patch", "autoscalingrunnersets", NAME)]
    return len(writes)


async def named() -> World:
    world = World()
    world.start(identity="this")
    await world.settle()
    assert world.annotations[keys.CONTROLLER] == "this"
    world.api.changes()
    return world


async def test_the_name_is_left_once_and_then_costs_nothing() -> None:
    world = await named()
    for _ in range(5):
        await world.later(60)
    assert own_patches(world) == 0
    world.start(identity="next")  # a process that follows: one write, and no word
    await world.one_pass()
    assert own_patches(world) == 1
    assert "ControllersCompete" not in world.events.reasons()


async def test_without_a_name_nothing_is_left() -> None:
    world = World()
    await world.settle()
    assert keys.CONTROLLER not in world.annotations


async def test_a_predecessor_of_a_rolling_update_is_no_rival() -> None:
    world = await named()
    other_writes(world, "before")
    for _ in range(20):
        await world.later(10)
    assert world.events.reasons() == []
    assert world.annotations[keys.CONTROLLER] == "this"


async def test_a_name_that_is_replaced_again_and_again_is_another_at_work() -> None:
    world = await named()
    for _ in range(12):  # two minutes, in which the other puts its name back each time
        if world.annotations[keys.CONTROLLER] == "this":
            other_writes(world, "that")
        await world.later(10)
    assert world.events.reasons() == ["ControllersCompete"]
    assert world.condition("Ready")[:2] == ("False", "ControllersCompete")
    assert "the controllers that and this work on it" in world.status["message"]
    labels = {"kind": "AutoscalingRunnerSet", "namespace": "arc-runners", "name": NAME}
    metric = {**labels, "reason": "ControllersCompete"}
    assert world.registry.get_sample_value("runnerscale_trouble", metric) == 1

    world.api.changes()
    for _ in range(60):  # ten minutes: it does not become a fight of its own
        if world.annotations[keys.CONTROLLER] == "this":
            other_writes(world, "that")
        await world.later(10)
    assert own_patches(world) <= 600 / SELDOM_S + 1

    for _ in range(30):  # the other is gone
        await world.later(10)
    assert world.annotations[keys.CONTROLLER] == "this"
    assert world.status["reason"] == ""
    assert world.condition("Ready")[0] != "False" or world.condition("Ready")[1] == "InProgress"


def test_losses_are_remembered_for_a_while_and_only_so_many() -> None:
    stamp = Stamp(there=True, put_s=1.0)
    for number in range(50):
        stamp = noticed(replace(stamp, there=True), "that", identity="this", now_s=10.0 * number)
    assert len(stamp.losses) == LOSSES_MAX
    assert competes(stamp, now_s=490.0)
    assert not competes(stamp, now_s=490.0 + OVER_AFTER_S + 1)


def test_a_name_that_somebody_takes_away_is_not_a_rival() -> None:
    stamp = noticed(Stamp(there=True), "", identity="this", now_s=5.0)
    assert (stamp.there, stamp.losses) == (False, ())


def test_two_losses_far_apart_are_two_rolling_updates() -> None:
    stamp = noticed(Stamp(there=True), "a", identity="this", now_s=0.0)
    stamp = noticed(replace(stamp, there=True), "b", identity="this", now_s=4000.0)
    assert not competes(stamp, now_s=4001.0)


async def test_two_that_really_work_at_the_same_time_both_say_so_and_stop_saying_it() -> None:
    world = World()
    world.start(identity="one")
    one = world.reconciler
    world.start(identity="two")
    two = world.reconciler

    async def both(seconds: float) -> None:
        for _ in range(int(seconds // 5)):
            world.clock.advance(5)
            for reconciler in (one, two):
                world.reconciler = reconciler
                await world.one_pass()

    await both(120)
    assert world.events.reasons().count("ControllersCompete") >= 1
    said = {m for _, r, m in world.events.said if r == "ControllersCompete"}
    assert len(said) == 1  # the same words from both
    assert said.pop().startswith("the controllers one and two work on it")
    assert world.condition("Ready")[:2] == ("False", "ControllersCompete")
    world.reconciler = two  # the other is ended
    for _ in range(60):
        world.clock.advance(5)
        await world.one_pass()
    assert world.annotations[keys.CONTROLLER] == "two"
    assert world.status["reason"] == ""
