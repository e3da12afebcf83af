"""A scale set that GitHub denies, rightly or not, just after its group or name was edited."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from runnerscale.api import labels as keys
from runnerscale.scaleset.errors import Refused, ScaleSetNotFound, Unavailable
from runnerscale.scaleset.model import RunnerScaleSet
from tests.plan.autoscaling_runner_set.world import NAME, World


def deny_once(world: World, but: Callable[[str], Exception | None] = lambda call: None) -> None:
    """GitHub does not know what it has, the next time that it is asked for an id.

    `but`: what goes wrong beside.
    """
    denials = iter([ScaleSetNotFound("scale set 7 not found")])

    def fault(call: str, _place: object) -> Exception | None:
        return but(call) or (next(denials, None) if call == "get" else None)

    world.github.fault = fault


def groups(world: World) -> dict[int, str]:
    """In which group every scale set is."""
    return {item.id: item.runner_group_name for item in world.github.sets.values()}


def started_anew(world: World) -> None:
    """Another process takes over, which remembers nothing."""
    world.start()


def the_same(world: World) -> None:
    """The process goes on."""


PROCESSES = pytest.mark.parametrize("who", [the_same, started_anew])
Who = Callable[[World], None]


@PROCESSES
@pytest.mark.parametrize(("first", "then"), [("", "testgroup"), ("testgroup", "testgroup2")])
async def test_a_scale_set_that_github_denies_once_as_its_group_changes_is_not_left_behind(
    who: Who, first: str, then: str
) -> None:
    world = World(runnerGroup=first)
    await world.settle()
    who(world)
    deny_once(world)
    world.edit(runnerGroup=then)
    await world.settle()
    assert [call[0] for call in world.github.writes()] == ["create", "update"]
    assert groups(world) == {7: then}


@PROCESSES
@pytest.mark.parametrize("group", ["", "testgroup"])
async def test_nor_is_one_that_is_denied_as_its_name_changes(who: Who, group: str) -> None:
    world = World(runnerGroup=group)
    await world.settle()
    who(world)
    deny_once(world)
    world.edit(runnerScaleSetName="other")
    await world.settle()
    assert {s.id: s.name for s in world.github.sets.values()} == {7: "other"}


@PROCESSES
async def test_nor_for_another_of_its_name_in_the_new_group(who: Who) -> None:
    world = World()
    await world.settle()
    world.github.sets[99] = RunnerScaleSet(99, NAME, 2, "testgroup", (NAME,), True)
    who(world)
    deny_once(world, lambda call: Refused("it exists there") if call == "update" else None)
    world.edit(runnerGroup="testgroup")
    await world.settle()
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert world.condition("Registered")[0] == "False"


@PROCESSES
async def test_another_of_its_name_in_the_group_of_before_is_not_taken_for_it(who: Who) -> None:
    world = World()
    await world.settle()
    world.github.sets[99] = replace(world.github.sets.pop(7), id=99)
    who(world)
    world.edit(runnerGroup="testgroup")
    await world.settle()
    assert groups(world) == {8: "testgroup", 99: "Default"}


@PROCESSES
async def test_one_that_is_gone_is_made_anew_though_its_group_is_gone_too(who: Who) -> None:
    world = World(runnerGroup="testgroup")
    await world.settle()
    world.github.sets.clear()
    del world.github.groups["testgroup"]
    who(world)
    world.edit(runnerGroup="testgroup2")
    await world.settle()
    assert groups(world) == {8: "testgroup2"}


async def test_none_is_made_before_it_is_known_that_it_is_not_where_it_was() -> None:
    world = World(runnerGroup="testgroup")
    await world.settle()
    world.start()
    asked: list[str] = []

    def away(call: str) -> Exception | None:
        asked.append(call)
        of_before = asked.count("group") == 2
        return Unavailable("no answer in 30 s") if call == "group" and of_before else None

    deny_once(world, away)
    world.edit(runnerGroup="testgroup2")
    await world.one_pass()
    assert [call[0] for call in world.github.writes()] == ["create"]
    assert world.status["reason"] == "GitHubUnavailable"
    await world.later(60)
    assert groups(world) == {7: "testgroup2"}


@PROCESSES
async def test_where_nothing_was_edited_one_that_is_gone_is_looked_for_once(who: Who) -> None:
    world = World()
    await world.settle()
    del world.github.sets[7]
    who(world)
    world.github.calls.clear()
    await world.later(100)
    assert [call[0] for call in world.github.calls] == ["get", "find", "create"]
