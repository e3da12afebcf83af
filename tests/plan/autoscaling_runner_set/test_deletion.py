"""A runner set that is being deleted."""

import json

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.credentials.place import GitHubPlace
from runnerscale.scaleset.errors import CredentialsRefused, Unavailable
from tests.plan.autoscaling_runner_set.world import (
    AL_NAME,
    HOME,
    NAME,
    RUNNERS,
    URL,
    World,
    no_secret,
)


async def settled() -> World:
    world = World()
    await world.settle()
    return world


@pytest.mark.behaviour("C1 T62")
async def test_listener_then_set_then_scale_set_then_the_object() -> None:
    world = await settled()
    seen_at_delete: list[object] = []

    def watch(call: str, place: object) -> None:
        if call == "delete":
            seen_at_delete.append((world.listeners, world.ers, world.ars is None))

    world.github.fault = watch
    world.delete()
    world.api.changes()
    await world.settle()
    deletes = [plural for verb, plural, _ in world.api.writes if verb == "delete"]
    assert world.ars is None
    assert seen_at_delete == [([], None, False)]
    assert world.github.sets == {}
    assert deletes == []  # the last pass writes nothing any more


@pytest.mark.behaviour("C1 T63")
async def test_a_listener_that_still_ends_keeps_the_set_and_is_looked_at_again() -> None:
    world = await settled()
    world.hold_by_finalizer(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    world.delete()
    end = await world.settle()
    assert end.again_s == 5.0
    assert "deletionTimestamp" not in world.ers["metadata"]
    assert 7 in world.github.sets
    assert world.condition("DeletionBlocked") == ("True", "DeletionWaits")
    world.let_go(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    await world.settle()
    assert world.ars is None


async def test_a_set_that_still_drains_keeps_the_scale_set() -> None:
    world = await settled()
    world.hold_by_finalizer(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME)
    world.delete()
    end = await world.settle()
    assert end.again_s == 5.0
    assert world.ers["metadata"]["deletionTimestamp"]
    assert 7 in world.github.sets
    assert "its runners to finish" in world.status["message"]
    said = {c["type"]: c["message"] for c in world.status["conditions"]}
    assert said["ListenerReady"] == "there is no listener any more: it is being deleted"
    world.let_go(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME)
    await world.settle()
    assert world.ars is None


@pytest.mark.behaviour("C1 T64")
async def test_without_an_id_it_goes_without_a_call() -> None:
    world = World()
    world.github.fault = lambda call, place: no_secret(place)
    await world.settle()
    world.delete()
    world.github.calls.clear()
    await world.settle()
    assert world.ars is None
    assert world.github.calls == []


@pytest.mark.behaviour("C1 T65")
async def test_with_an_id_that_is_no_number_it_goes_without_a_call() -> None:
    world = World()
    world.edit_meta(annotations={keys.SCALE_SET_ID: "abc"}, finalizers=[keys.RUNNER_SET_FINALIZER])
    world.delete()
    await world.settle()
    assert world.ars is None
    assert world.github.calls == []


@pytest.mark.behaviour("C1 T66")
async def test_a_refusal_keeps_finalizer_and_id_and_is_tried_again() -> None:
    world = await settled()
    world.github.fault = lambda call, place: (
        Unavailable("500 Internal Server Error") if call == "delete" else None
    )
    world.delete()
    end = await world.settle()
    assert world.ars["metadata"]["finalizers"] == [keys.RUNNER_SET_FINALIZER]
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert end.again_s is not None
    assert world.condition("DeletionBlocked") == ("True", "GitHubUnavailable")
    world.github.fault = lambda call, place: None
    await world.later(60)
    assert world.ars is None
    assert world.github.sets == {}


async def test_a_scale_set_that_is_gone_already_is_done() -> None:
    world = await settled()
    world.github.sets.clear()
    world.delete()
    await world.settle()
    assert world.ars is None


@pytest.mark.parametrize(
    ("error", "bound_s"),
    [(None, 120), (CredentialsRefused("401"), 120), (Unavailable("no answer"), 600)],
)
async def test_means_that_are_gone_for_good_end_the_wait_and_the_id_is_told(
    error: Exception | None, bound_s: int
) -> None:
    # W37: a Secret deleted together with the set, a revoked token, a network that is gone.
    world = await settled()
    world.github.fault = lambda call, place: error or no_secret(place)
    world.delete()
    await world.settle()
    since_s = world.clock.now_s()
    while world.ars is not None:
        await world.later(10)
        assert world.clock.now_s() - since_s <= bound_s + 60
    assert world.clock.now_s() - since_s >= bound_s - 10
    (message,) = {m for _, reason, m in world.events.said if reason == "ScaleSetLeaked"}
    assert f"scale set 7 at {URL}" in message


async def test_a_restart_does_not_begin_the_wait_anew() -> None:
    world = await settled()
    world.github.fault = lambda call, place: no_secret(place)
    world.delete()
    await world.settle()
    for _ in range(13):
        world.start()
        world.clock.advance(10)
        if world.ars is not None:
            await world.settle()
    assert world.ars is None


async def test_busy_runners_of_an_old_place_go_with_their_set_and_so_does_their_scale_set() -> None:
    world = await settled()
    world.runner("linux-runner-busy", status={"phase": "Running", "jobId": "j"})
    world.edit(githubConfigUrl="https://github.com/other-org")
    await world.settle()
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-busy")
    world.delete()
    await world.settle()
    assert world.ars is None
    assert world.github.at == {URL: {}, "https://github.com/other-org": {}}


async def test_an_old_place_that_refuses_is_told_with_its_id_too() -> None:
    world = await settled()
    world.runner("linux-runner-busy", status={"phase": "Running", "jobId": "j"})
    world.edit(githubConfigUrl="https://github.com/other-org")
    await world.settle()

    def fault(call: str, place: object) -> Exception | None:
        return Unavailable("gone") if getattr(place, "config_url", "") == URL else None

    world.github.fault = fault
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-busy")
    world.delete()
    for _ in range(14):
        if world.ars is not None:
            await world.later(60)
    assert world.ars is None
    leaks = [m for _, reason, m in world.events.said if reason == "ScaleSetLeaked"]
    assert any(f"scale set 7 at {URL}" in message for message in leaks)
    assert world.github.at["https://github.com/other-org"] == {}


async def test_without_our_finalizer_nothing_is_done() -> None:
    world = await settled()
    world.edit_meta(finalizers=["somebody/else"])
    world.delete()
    world.api.changes()
    await world.one_pass()
    assert world.api.writes == []
    assert world.listeners == [AL_NAME]


async def test_deleted_while_it_moves_the_old_scale_set_goes() -> None:
    world = await settled()
    world.hold_by_finalizer(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    world.edit(githubConfigUrl="https://github.com/other-org")
    await world.settle()
    world.delete()
    world.let_go(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    await world.settle()
    assert world.ars is None
    assert world.github.at[URL] == {}


async def test_a_scale_set_with_a_job_is_not_deleted_though_the_set_was_removed_by_force() -> None:
    world = await settled()
    world.runner("orphan", status={"phase": "Running", "jobId": "j"})
    world.api.drop(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME)
    world.delete()
    end = await world.settle()
    assert end.again_s == 5.0
    assert 7 in world.github.sets
    assert "have a job" in world.status["message"]
    world.clock.advance(3600)  # a job takes as long as it takes
    await world.settle()
    assert 7 in world.github.sets
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "orphan")
    await world.settle()
    assert world.ars is None
    assert world.github.sets == {}


async def test_a_scale_set_that_another_object_serves_is_left_to_it() -> None:
    world = await settled()
    world.create(
        "twin",
        meta={"annotations": {keys.SCALE_SET_ID: "7", keys.ISSUED_FOR: URL}},
        runnerScaleSetName="linux",
    )
    world.delete()
    await world.settle()
    assert world.ars is None
    assert 7 in world.github.sets


async def test_jobs_at_an_old_place_are_waited_for_too() -> None:
    world = await settled()
    world.runner("busy", status={"phase": "Running", "jobId": "j"})
    world.edit(githubConfigUrl="https://github.com/other-org")
    await world.settle()
    world.api.drop(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME)
    world.delete()
    await world.settle()
    assert 7 in world.github.at[URL]
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "busy")
    await world.settle()
    assert world.ars is None
    assert world.github.at[URL] == {}


async def test_of_two_places_with_the_same_id_each_is_deleted_by_itself() -> None:
    # Every place counts from 1. The old one's went, the own one's did not, and was struck out.
    world = await settled()
    old = "https://github.com/other-org"
    world.github.at[old] = {7: world.github.sets[7]}
    left = {"scaleSetId": 7, "githubConfigUrl": old, "githubConfigSecret": "github"}
    world.edit_meta(annotations={keys.LEFT_BEHIND: json.dumps([left])})

    def fault(call: str, place: GitHubPlace) -> Exception | None:
        return Unavailable("500") if (call, place.config_url) == ("delete", URL) else None

    world.github.fault = fault
    world.delete()
    await world.settle()
    assert world.github.at[old] == {}
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    world.github.fault = lambda call, place: None
    await world.later(60)
    assert world.github.sets == {} and world.ars is None


async def test_since_when_it_fails_is_written_anew_where_a_hand_has_spoilt_it() -> None:
    world = await settled()
    world.edit_meta(annotations={keys.DELETION_FAILING_SINCE: "yesterday"})
    world.github.fault = lambda call, place: Unavailable("500")
    world.delete()
    await world.settle()
    assert world.annotations[keys.DELETION_FAILING_SINCE] == "2027-01-15T08:00:00Z"
    for _ in range(3):
        await world.later(300)
    assert world.ars is None
