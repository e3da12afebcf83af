"""The config URL changes: leaving one place at GitHub for another."""

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.scaleset.errors import CredentialsRefused, Unavailable
from tests.plan.autoscaling_runner_set.world import AL_NAME, HOME, RUNNERS, URL, World

NEW = "https://github.com/other-org"


async def settled() -> World:
    world = World()
    await world.settle()
    return world


def spec_url(world: World) -> str:
    return str(world.ers["spec"]["ephemeralRunnerSpec"]["githubConfigUrl"])


@pytest.mark.behaviour("C1 T61")
async def test_with_nothing_to_wait_for_it_moves_and_leaves_nothing_behind() -> None:
    world = await settled()
    uid = world.ers["metadata"]["uid"]
    world.edit(githubConfigUrl=NEW)
    await world.settle()
    assert world.annotations[keys.SCALE_SET_ID] == "8"
    assert world.annotations[keys.ISSUED_FOR] == NEW
    assert keys.MOVING_SINCE not in world.annotations
    assert keys.LEFT_BEHIND not in world.annotations
    assert spec_url(world) == NEW
    assert world.ers["metadata"]["uid"] == uid
    assert keys.HOLD not in world.ers["metadata"]["annotations"]
    (listener,) = world.listeners
    assert listener != AL_NAME
    assert world.al["spec"]["githubConfigUrl"] == NEW
    assert world.al["spec"]["runnerScaleSetId"] == 8
    assert world.github.at[URL] == {}
    assert list(world.github.at[NEW]) == [8]
    assert world.ars["metadata"]["labels"][keys.ORGANIZATION] == "other-org"
    assert keys.REPOSITORY not in world.ars["metadata"]["labels"]
    assert world.status["phase"] == "Running"


async def test_a_new_place_that_does_not_answer_well_leaves_the_old_one_at_work() -> None:
    world = await settled()

    def fault(call: str, place: object) -> Exception | None:
        new = getattr(place, "config_url", "") == NEW
        return CredentialsRefused("404 or no rights") if new else None

    world.github.fault = fault
    world.edit(githubConfigUrl=NEW, maxRunners=11)
    await world.settle()
    assert world.listeners == [AL_NAME]
    assert spec_url(world) == URL
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert keys.HOLD not in world.ers["metadata"]["annotations"]
    assert world.status["reason"] == "CredentialsRefused"
    world.github.fault = lambda call, place: None
    await world.later(60)
    assert spec_url(world) == NEW


async def test_an_unreadable_url_leaves_the_old_place_at_work() -> None:
    world = await settled()
    world.edit(githubConfigUrl="https://github.com/a/b/c")
    await world.settle()
    assert world.listeners == [AL_NAME]
    assert spec_url(world) == URL
    assert world.status["reason"] == "ConfigUrlInvalid"


async def test_the_old_listener_goes_first_and_the_set_is_held_meanwhile() -> None:
    world = await settled()
    world.hold_by_finalizer(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    world.edit(githubConfigUrl=NEW)
    await world.settle()
    assert world.al["metadata"]["deletionTimestamp"]
    assert world.ers["metadata"]["annotations"][keys.HOLD] == "0"
    assert spec_url(world) == URL
    assert world.github.writes() == [("create", "linux", 1, ("linux",), True)]
    assert world.status["reason"] == "PlaceChanging"
    assert "its listener there ends" in world.status["message"]
    world.let_go(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    await world.settle()
    assert spec_url(world) == NEW


async def test_idle_runners_are_let_go_there_before_it_moves() -> None:
    world = await settled()
    world.runner("linux-runner-idle", status={"phase": "Pending", "runnerId": 3})
    world.edit(githubConfigUrl=NEW)
    end = await world.settle()
    assert spec_url(world) == URL
    assert world.listeners == []
    assert end.again_s is not None and end.again_s <= 300
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-idle")
    await world.settle()
    assert spec_url(world) == NEW


async def test_idle_runners_that_cannot_be_let_go_hold_it_only_for_so_long() -> None:
    world = await settled()
    world.runner("linux-runner-idle", status={"phase": "Pending", "runnerId": 3})
    world.edit(githubConfigUrl=NEW)
    await world.settle()
    await world.later(300)
    assert spec_url(world) == NEW


async def test_a_runner_with_a_job_that_only_github_knows_of_is_not_waited_for() -> None:
    # Seed 369 of the simulation: the listener died as it heard of the job, and the move ended the
    # next one before it had a session. GitHub refused to forget the runner, and for five minutes
    # the set had neither listener nor new runners.
    world = await settled()
    world.runner("linux-runner-told", status={"phase": "Pending", "runnerId": 3})
    world.edit(githubConfigUrl=NEW)
    end = await world.settle()
    assert spec_url(world) == URL
    assert end.again_s is not None and end.again_s <= 5  # the answer wakes nobody here
    world.said_busy.add("linux-runner-told")
    await world.later(end.again_s)
    assert spec_url(world) == NEW
    assert 7 in world.github.at[URL]  # it is in use as long as the job takes
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-told")
    await world.settle()
    assert world.github.at[URL] == {}


async def test_one_idle_runner_is_waited_for_whatever_github_says_of_others() -> None:
    world = await settled()
    world.runner("linux-runner-told", status={"phase": "Pending", "runnerId": 3})
    world.runner("linux-runner-idle", status={"phase": "Pending", "runnerId": 4})
    world.said_busy.add("linux-runner-told")
    world.edit(githubConfigUrl=NEW)
    await world.settle()
    assert spec_url(world) == URL
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-idle")
    await world.settle()
    assert spec_url(world) == NEW


async def test_busy_runners_hold_nothing_but_the_deletion_of_their_scale_set() -> None:
    world = await settled()
    world.runner("linux-runner-busy", status={"phase": "Running", "jobId": "j"})
    world.edit(githubConfigUrl=NEW)
    await world.settle()
    assert spec_url(world) == NEW
    assert world.al["spec"]["githubConfigUrl"] == NEW
    busy = world.api.body(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-busy")
    assert busy is not None
    assert busy["spec"]["githubConfigUrl"] == URL  # untouched
    assert 7 in world.github.at[URL]
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-busy")
    await world.settle()
    assert world.github.at[URL] == {}


async def test_the_hold_ends_only_together_with_the_old_runner_spec() -> None:
    # Seen in the demo: the hold was lifted one write too early, and the set made a runner for the
    # place that had just been left.
    world = await settled()

    def fault(call: str, place: object) -> Exception | None:
        new = getattr(place, "config_url", "") == NEW
        return Unavailable("500") if new and call == "create" else None

    world.github.fault = fault
    world.edit(githubConfigUrl=NEW)
    await world.settle()
    assert keys.SCALE_SET_ID not in world.annotations
    assert spec_url(world) == URL
    assert world.ers["metadata"]["annotations"][keys.HOLD] == "0"
    world.github.fault = lambda call, place: None
    world.api.bodies.clear()
    await world.later(60)
    lifting = [
        body
        for body in world.api.bodies
        if body and keys.HOLD in body.get("metadata", {}).get("annotations", {})
    ]
    (patch,) = lifting
    assert patch["metadata"]["annotations"][keys.HOLD] is None
    assert patch["spec"]["ephemeralRunnerSpec"]["githubConfigUrl"] == NEW


async def test_called_back_before_it_has_left_it_stays_where_it_was() -> None:
    world = await settled()
    world.hold_by_finalizer(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    world.edit(githubConfigUrl=NEW)
    await world.settle()
    world.edit(githubConfigUrl=URL)
    world.let_go(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    await world.settle()
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert keys.MOVING_SINCE not in world.annotations
    assert keys.HOLD not in world.ers["metadata"]["annotations"]
    assert world.listeners == [AL_NAME]


async def test_the_same_scale_set_under_another_address_is_not_left() -> None:
    # A renamed organization: GitHub answers at both addresses with the one set.
    world = await settled()
    world.github.at[NEW] = world.github.at[URL]
    world.edit(githubConfigUrl=NEW)
    await world.settle()
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert world.annotations[keys.ISSUED_FOR] == NEW
    assert [call[0] for call in world.github.writes()] == ["create"]
    assert 7 in world.github.at[NEW]
    assert spec_url(world) == NEW


async def test_a_place_whose_scale_set_another_object_serves_is_not_entered() -> None:
    world = await settled()
    world.create("first", githubConfigUrl=NEW, runnerScaleSetName="linux")
    await world.settle("arc-runners/first")
    world.edit(githubConfigUrl=NEW)
    await world.settle()
    assert world.status["reason"] == "ScaleSetAmbiguous"
    assert spec_url(world) == URL
    assert world.annotations[keys.SCALE_SET_ID] == "7"


async def test_a_restart_in_the_middle_goes_on_where_it_was() -> None:
    world = await settled()
    world.runner("linux-runner-idle", status={"phase": "Pending", "runnerId": 3})
    world.edit(githubConfigUrl=NEW)
    await world.settle()
    world.start()
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-idle")
    await world.settle()
    assert spec_url(world) == NEW
    assert world.github.at[URL] == {}


async def test_since_when_it_moves_is_written_anew_where_a_hand_has_spoilt_it() -> None:
    world = await settled()
    world.runner("linux-runner-idle", status={"phase": "Pending", "runnerId": 3})
    world.edit(githubConfigUrl="https://github.com/other-org")
    world.edit_meta(annotations={keys.MOVING_SINCE: "yesterday"})
    await world.settle()
    assert world.annotations[keys.MOVING_SINCE] == "2027-01-15T08:00:00Z"
