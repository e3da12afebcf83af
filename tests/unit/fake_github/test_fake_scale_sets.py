"""Scale sets and groups at GitHub: found, made, changed, deleted."""

from typing import Any

import pytest

from runnerscale.fake_github import scale_sets
from runnerscale.fake_github.model import JobState
from runnerscale.fake_github.refusals import Refused
from tests.unit.fake_github.world import World

ZERO = "0001-01-01T00:00:00Z"


def exception(refused: pytest.ExceptionInfo[Refused]) -> tuple[int, str]:
    return refused.value.status, refused.value.type_name.split(",")[0].rpartition(".")[2]


def create(world: World, body: dict[str, Any]) -> scale_sets.ScaleSet:
    wanted = scale_sets.wanted_from_body(body)
    return world.do(scale_sets.create, world.state.tenant("my-org"), wanted)


def test_what_clients_send_is_understood_quirks_included() -> None:
    world = World()
    made = create(
        world,
        {
            "name": "my-set",
            "runnerGroupId": 1,
            "labels": [{"type": "System", "name": "my-set"}, {"name": "gpu"}],
            "RunnerSetting": {"disableUpdate": True},
            "createdOn": ZERO,
        },
    )
    assert made.labels == [("System", "my-set"), ("System", "gpu")]
    assert made.disable_update is True
    shown = scale_sets.to_json(world.state, made, jit_url="http://github.example/jit")
    assert shown["runnerSetting"] == {"disableUpdate": True}
    assert shown["runnerGroupName"] == "Default"
    assert shown["createdOn"] == "2027-01-15T08:00:00.0000000Z"  # not the zero that was sent


def test_without_labels_the_name_is_the_label() -> None:
    assert create(World(), {"name": "my-set"}).labels == [("System", "my-set")]


def test_a_name_is_unique_in_its_group_only() -> None:
    world = World(runner_groups=("gpu",))
    create(world, {"name": "a"})
    with pytest.raises(Refused) as refused:
        create(world, {"name": "A"})
    assert exception(refused) == (409, "RunnerScaleSetExistsException")
    create(world, {"name": "a", "runnerGroupId": 2})


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        create(World(), {"name": "a", "runnerGroupId": 9})
    assert exception(refused) == (404, "RunnerGroupNotFoundException")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": 7},
        {"name": "a", "labels": "gpu"},
        {"name": "a", "labels": [{"type": "System"}]},
        {"name": "a", "runnerGroupId": "1"},
    ],
)
def test_a_body_that_makes_no_sense_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        create(World(), body)
    assert refused.value.status == 400


def test_an_update_changes_what_it_mentions_and_nothing_else() -> None:
    world = World(runner_groups=("gpu",))
    made = create(world, {"name": "a", "RunnerSetting": {"disableUpdate": True}})
    wanted = scale_sets.wanted_from_body(
        {"runnerGroupId": 2, "RunnerSetting": {}, "createdOn": ZERO}
    )
    changed = world.do(scale_sets.update, world.state.tenant("my-org"), made, wanted)
    assert (changed.name, changed.group_id, changed.disable_update) == ("a", 2, True)
    assert changed.labels == [("System", "a")]


def test_an_update_may_not_take_another_ones_name() -> None:
    world = World()
    create(world, {"name": "a"})
    other = create(world, {"name": "b"})
    with pytest.raises(Refused) as refused:
        world.do(
            scale_sets.update,
            world.state.tenant("my-org"),
            other,
            scale_sets.wanted_from_body({"name": "a"}),
        )
    assert refused.value.status == 409


def test_groups_are_found_by_name_in_any_case_with_their_size() -> None:
    world = World(runner_groups=("GPU",))
    tenant = world.state.tenant("my-org")
    world.runner(world.scale_set(), "r-1")
    found = scale_sets.find_groups(tenant, "default")
    assert [(g.id, g.name, g.is_default) for g in found] == [(1, "Default", True)]
    assert scale_sets.group_size(world.state, tenant, found[0]) == 1
    assert [g.id for g in scale_sets.find_groups(tenant, "gpu")] == [2]
    assert scale_sets.find_groups(tenant, "none") == []


def test_a_tenant_does_not_see_anothers_scale_sets() -> None:
    world = World()
    theirs = world.scale_set(tenant="other-org")
    ours = world.state.tenant("my-org")
    assert scale_sets.find(world.state, ours, group_id=None, name="") == []
    with pytest.raises(Refused) as refused:
        scale_sets.get(world.state, ours.id, theirs.id)
    assert exception(refused) == (404, "RunnerScaleSetNotFoundException")


def test_deleting_a_scale_set_returns_its_jobs_lets_idle_runners_go_and_busy_ones_finish() -> None:
    world = World()
    scale_set = world.scale_set()
    world.listen(scale_set)
    busy = world.connected(scale_set, "busy")
    running = world.job()
    world.confirm(busy)
    waiting = world.job()
    idle = world.runner(scale_set, "idle")
    world.do(scale_sets.delete, scale_set)
    assert waiting.state is JobState.QUEUED
    assert idle.id not in world.state.runners
    assert running.state is JobState.RUNNING
    successor = world.scale_set()
    world.listen(successor)
    assert waiting.scale_set_id == successor.id != scale_set.id
    world.finish(busy)
    assert running.state is JobState.COMPLETED
    assert world.kinds(successor) == ["JobAssigned"]
