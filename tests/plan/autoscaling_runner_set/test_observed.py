"""What is looked at, and what counts as what."""

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.controllers.autoscaling_runner_set.snapshot import Snapshot
from tests.plan.autoscaling_runner_set.world import KEY, NAME, RUNNERS, URL, World


def seen(world: World, key: str = KEY) -> Snapshot:
    found = world.reconciler.observe(key)
    assert found is not None
    return found


async def settled() -> World:
    world = World()
    await world.settle()
    return world


async def moving() -> World:
    """Only then all runners are looked at."""
    world = await settled()
    world.edit(githubConfigUrl="https://github.com/other")
    return world


async def test_a_runner_set_that_is_gone_is_nothing_to_look_at() -> None:
    assert World().reconciler.observe("arc-runners/none") is None


async def test_idle_are_those_without_a_job_that_live_and_stay() -> None:
    world = await moving()
    for name, status in {
        "idle": {"phase": "Pending"},
        "new": {},
        "legacy": {"phase": "Running"},  # without a job: an older controller's leftover
    }.items():
        world.runner(name, status=status)
        assert seen(world).runners.idle_places == {(URL, 7)}
        world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, name)
    for name, status in {
        "busy": {"phase": "Running", "jobId": "j"},
        "lagging": {"phase": "Pending", "workflowRunId": 3},
        "failed": {"phase": "Failed"},
    }.items():
        world.runner(name, status=status)
    world.runner("going", status={"phase": "Pending"})
    going = {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z", "finalizers": ["x"]}}
    world.api.change(EPHEMERAL_RUNNERS, RUNNERS, "going", going)
    assert seen(world).runners.idle_places == frozenset()
    assert seen(world).runners.places == {(URL, 7)}


async def test_who_has_a_job_by_githubs_word_alone_has_one() -> None:
    world = await moving()
    world.runner("told", status={"phase": "Pending"})
    world.said_busy.add("told")
    runners = seen(world).runners
    assert (runners.idle_places, runners.busy_places) == (frozenset(), {(URL, 7)})
    assert runners.places == {(URL, 7)}


async def test_a_set_that_stays_where_it_is_does_not_look_at_each_runner() -> None:
    world = await settled()
    world.runner("idle", status={"phase": "Pending"})
    assert seen(world).runners.places == frozenset()


async def test_runners_that_concern_the_whole_set_are_kept_apart_as_they_change() -> None:
    world = await settled()
    world.runner("x", status={"phase": "Pending"})
    assert seen(world).runners.outdated == frozenset()
    world.api.change(EPHEMERAL_RUNNERS, RUNNERS, "x", {"status": {"phase": "Outdated"}})
    assert len(seen(world).runners.outdated) == 1
    gone = {"status": {"phase": "Pending", "reason": "ScaleSetGone"}}
    world.api.change(EPHEMERAL_RUNNERS, RUNNERS, "x", gone)
    assert seen(world).runners.outdated == frozenset()
    assert seen(world).runners.doubted == {7}
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "x")
    assert seen(world).runners.doubted == frozenset()


async def test_a_runner_whose_set_was_deleted_by_force_still_counts_for_its_place() -> None:
    # Seed 100: its scale set was deleted under its job.
    world = await moving()
    world.runner("orphan", status={"phase": "Running", "jobId": "j"})
    stranger = [{"kind": "EphemeralRunnerSet", "name": NAME, "uid": "another", "controller": True}]
    change = {"metadata": {"ownerReferences": stranger}}
    world.api.change(EPHEMERAL_RUNNERS, RUNNERS, "orphan", change)
    assert seen(world).runners.places == {(URL, 7)}


async def test_a_verdict_on_a_namesakes_runner_is_none_on_ours() -> None:
    world = await settled()
    world.runner("old", status={"phase": "Outdated"})
    stranger = [{"kind": "EphemeralRunnerSet", "name": NAME, "uid": "another", "controller": True}]
    change = {"metadata": {"ownerReferences": stranger}}
    world.api.change(EPHEMERAL_RUNNERS, RUNNERS, "old", change)
    assert seen(world).runners.outdated == frozenset()


async def test_sets_of_a_namesake_that_is_gone_are_not_ours() -> None:
    world = await settled()
    other = [{"kind": "AutoscalingRunnerSet", "name": NAME, "uid": "another", "controller": True}]
    change = {"metadata": {"ownerReferences": other}}
    world.api.change(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME, change)
    assert seen(world).sets == ()


async def test_who_is_registered_goes_before_who_is_only_older() -> None:
    world = World(create=False)
    world.create("older", runnerScaleSetName="shared")
    world.clock.advance(10)
    world.create("younger", runnerScaleSetName="shared")
    assert seen(world, "arc-runners/older").rivals == ()
    assert seen(world, "arc-runners/younger").rivals == ("arc-runners/older",)
    registered = {"metadata": {"annotations": {keys.SCALE_SET_ID: "9"}}}
    world.api.change(AUTOSCALING_RUNNER_SETS, RUNNERS, "younger", registered)
    assert seen(world, "arc-runners/older").rivals == ("arc-runners/younger",)
    assert seen(world, "arc-runners/younger").rivals == ()


async def test_a_rival_that_is_going_is_none() -> None:
    world = World(create=False)
    world.create("older", runnerScaleSetName="shared")
    world.create("younger", runnerScaleSetName="shared")
    going = {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z", "finalizers": ["x"]}}
    world.api.change(AUTOSCALING_RUNNER_SETS, RUNNERS, "older", going)
    assert seen(world, "arc-runners/younger").rivals == ()


async def test_memory_belongs_to_an_object_and_not_to_its_name() -> None:
    world = await settled()
    assert seen(world).known.scale_set is not None
    world.api.drop(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME)
    world.create()
    assert seen(world).known.scale_set is None


async def test_what_a_neighbour_has_written_on_itself_stops_nobody() -> None:
    # A tenant's annotation of 5,000 digits held up every set that moved or was deleted.
    world = await moving()
    world.create("hostile", meta={"annotations": {keys.SCALE_SET_ID: "9" * 5000}})
    world.create("neighbour", meta={"annotations": {keys.SCALE_SET_ID: "8"}})
    assert seen(world).neighbours == frozenset({(URL, 8)})
