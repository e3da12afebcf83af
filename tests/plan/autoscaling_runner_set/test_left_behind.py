"""Scale sets at places that the runner set has moved away from."""

import json
from dataclasses import replace

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.controllers.autoscaling_runner_set.left_behind import COUNT_EVERY_S
from runnerscale.scaleset.errors import CredentialsRefused
from runnerscale.scaleset.model import Statistics
from tests.plan.autoscaling_runner_set.world import RUNNERS, URL, World

NEW = "https://github.com/other-org"


async def moved_with_a_busy_runner() -> World:
    world = World()
    await world.settle()
    world.runner("linux-runner-busy", status={"phase": "Running", "jobId": "j"})
    world.edit(githubConfigUrl=NEW, githubConfigSecret="new")
    await world.settle()
    return world


def finish(world: World) -> None:
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-busy")


async def test_the_old_place_is_remembered_with_its_own_credentials() -> None:
    world = await moved_with_a_busy_runner()
    (entry,) = json.loads(world.annotations[keys.LEFT_BEHIND])
    assert entry == {
        "scaleSetId": 7,
        "githubConfigUrl": URL,
        "githubConfigSecret": "github",
    }
    finish(world)
    await world.settle()
    assert world.github.places[-1].secret_name == "github"
    assert world.github.at[URL] == {}
    assert keys.LEFT_BEHIND not in world.annotations


async def test_jobs_that_wait_at_the_old_place_are_told_until_it_is_deleted() -> None:
    # Seed 265: GitHub had given a job to the old scale set before the move. The only thing that
    # could end its waiting was the end of another job there, and nothing said so.
    world = await moved_with_a_busy_runner()
    assert world.status["reason"] == ""
    at_old = world.github.at[URL]
    at_old[7] = replace(at_old[7], statistics=Statistics(assigned_jobs=3, running_jobs=1))
    await world.later(COUNT_EVERY_S + 1)
    assert world.condition("Ready") == ("False", "JobsLeftBehind")
    assert "JobsLeftBehind" in world.events.reasons()
    assert f"2 jobs wait at scale set 7 of {URL}" in world.status["message"]
    at_old[7] = replace(at_old[7], statistics=Statistics(assigned_jobs=1, running_jobs=1))
    await world.later(COUNT_EVERY_S + 1)
    assert world.status["reason"] == ""
    finish(world)
    await world.settle()
    assert world.github.at[URL] == {}


async def test_jobs_at_the_old_place_are_counted_every_45_seconds_and_no_oftener() -> None:
    world = await moved_with_a_busy_runner()
    asked = len(world.github.calls)
    for _ in range(10):
        await world.later(1)
    assert [c for c in world.github.calls[asked:] if c == ("get", 7)] == []
    world.github.fault = lambda call, place: CredentialsRefused("401") if call == "get" else None
    asked = len(world.github.calls)
    for _ in range(90):
        await world.later(1)
    assert len([c for c in world.github.calls[asked:] if c == ("get", 7)]) == 2


async def test_credentials_that_no_longer_work_are_tried_for_an_hour_and_the_id_is_told() -> None:
    world = await moved_with_a_busy_runner()

    def fault(call: str, place: object) -> Exception | None:
        old = getattr(place, "config_url", "") == URL
        return CredentialsRefused("401 Bad credentials") if old else None

    world.github.fault = fault
    finish(world)
    await world.settle()
    assert world.status["reason"] == "CredentialsRefused"
    assert world.status["phase"] == "Running"  # the new place is served
    for _ in range(59):
        await world.later(60)
    assert keys.LEFT_BEHIND in world.annotations
    await world.later(60)
    await world.later(60)
    assert keys.LEFT_BEHIND not in world.annotations
    assert "ScaleSetLeaked" in world.events.reasons()
    (message,) = {m for _, reason, m in world.events.said if reason == "ScaleSetLeaked"}
    assert f"scale set 7 at {URL}" in message


async def test_a_scale_set_that_is_gone_already_is_forgotten() -> None:
    world = await moved_with_a_busy_runner()
    del world.github.at[URL][7]
    finish(world)
    await world.settle()
    assert keys.LEFT_BEHIND not in world.annotations


async def test_a_scale_set_that_another_object_has_is_not_deleted() -> None:
    world = await moved_with_a_busy_runner()
    world.create(
        "heir",
        meta={"annotations": {keys.SCALE_SET_ID: "7", keys.ISSUED_FOR: URL}},
        runnerScaleSetName="linux",
    )
    finish(world)
    await world.settle()
    assert 7 in world.github.at[URL]
    assert keys.LEFT_BEHIND not in world.annotations


async def test_coming_back_adopts_the_set_that_was_left_and_forgets_that_it_was() -> None:
    world = await moved_with_a_busy_runner()
    world.edit(githubConfigUrl=URL, githubConfigSecret="github")
    await world.settle()
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert 7 in world.github.at[URL]
    assert URL not in world.annotations.get(keys.LEFT_BEHIND, "")
    assert world.github.at[NEW] == {}


async def test_a_failed_runner_kept_as_evidence_holds_nothing() -> None:
    world = await moved_with_a_busy_runner()
    failed = {"status": {"phase": "Failed", "reason": "RunnerFailed"}}
    world.api.change(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-busy", failed)
    await world.settle()
    assert world.github.at[URL] == {}
    assert keys.LEFT_BEHIND not in world.annotations


async def test_an_unreadable_memory_is_no_memory_and_stops_nothing() -> None:
    world = World()
    await world.settle()
    world.edit_meta(annotations={keys.LEFT_BEHIND: "{not json"})
    await world.settle()
    assert world.status["phase"] == "Running"


async def test_since_when_it_fails_is_written_anew_where_a_hand_has_spoilt_it() -> None:
    world = await moved_with_a_busy_runner()
    world.github.fault = lambda call, place: (
        CredentialsRefused("401") if place.config_url == URL else None
    )
    (entry,) = json.loads(world.annotations[keys.LEFT_BEHIND])
    spoilt = json.dumps([{**entry, "failingSince": "yesterday"}])
    world.edit_meta(annotations={keys.LEFT_BEHIND: spoilt})
    finish(world)
    await world.settle()
    (entry,) = json.loads(world.annotations[keys.LEFT_BEHIND])
    assert entry["failingSince"] == "2027-01-15T08:00:00Z"
