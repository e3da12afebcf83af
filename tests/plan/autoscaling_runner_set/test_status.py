"""What the runner set says of itself."""

import pytest

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.controllers.autoscaling_runner_set.controller import Bound
from runnerscale.controllers.autoscaling_runner_set.snapshot import WriteStatus
from runnerscale.kube.errors import Conflict
from tests.plan.autoscaling_runner_set.world import AL_NAME, HOME, NAME, RUNNERS, World


async def settled() -> World:
    world = World()
    await world.settle()
    return world


def counts(world: World) -> list[int]:
    names = ("pending", "running", "failed", "finished", "deleting")
    each = [world.status[f"{name}EphemeralRunners"] for name in names]
    return [world.status["currentRunners"], *each]


@pytest.mark.behaviour("C1 T53")
async def test_the_counters_are_those_of_the_set() -> None:
    world = await settled()
    world.set_status(
        currentReplicas=6,
        pendingEphemeralRunners=3,
        runningEphemeralRunners=2,
        failedEphemeralRunners=1,
        finishedEphemeralRunners=4,
        deletingEphemeralRunners=5,
    )
    await world.later(1)
    assert counts(world) == [6, 3, 2, 1, 4, 5]
    assert world.status["phase"] == "Running"


@pytest.mark.behaviour("C1 T54")
async def test_they_follow_though_the_total_stays() -> None:
    world = await settled()
    world.set_status(currentReplicas=2, pendingEphemeralRunners=2)
    await world.later(1)
    world.set_status(pendingEphemeralRunners=1, runningEphemeralRunners=1)
    await world.later(1)
    assert counts(world)[:3] == [2, 1, 1]


async def test_they_are_written_at_most_once_a_second() -> None:
    world = await settled()
    world.clock.advance(1)
    world.set_status(currentReplicas=1, pendingEphemeralRunners=1)
    await world.one_pass()
    world.api.changes()
    world.set_status(currentReplicas=2, pendingEphemeralRunners=2)
    end = await world.one_pass()
    assert world.api.writes == []
    assert end.again_s == 1.0
    await world.later(1)
    assert counts(world)[0] == 2


async def test_zeros_are_written_too() -> None:
    world = await settled()
    assert counts(world) == [0, 0, 0, 0, 0, 0]


async def test_what_stops_the_listener_is_seen_on_the_runner_set() -> None:
    world = await settled()
    condition = {"type": "PodRunning", "status": "False", "reason": "ListenerCrashing"}
    crashing = {
        "reason": "ListenerCrashing",
        "message": "the listener ended 5 times in a row",
        "conditions": [condition | {"message": "so often"}],
    }
    world.api.change(AUTOSCALING_LISTENERS, HOME, AL_NAME, {"status": crashing})
    await world.settle()
    assert world.status["reason"] == "ListenerCrashing"
    assert world.condition("ListenerReady") == ("False", "ListenerCrashing")
    assert world.condition("Ready") == ("False", "InProgress")


async def test_what_stops_the_runners_is_seen_on_the_runner_set() -> None:
    world = await settled()
    refused = {"type": "TemplateAccepted", "status": "False", "reason": "TemplateRefused"}
    world.set_status(
        reason="TemplateRefused",
        message="denied by policy",
        conditions=[refused | {"message": "denied by policy"}],
    )
    await world.settle()
    assert world.status["reason"] == "TemplateRefused"
    assert world.condition("TemplateAccepted") == ("False", "TemplateRefused")
    assert world.condition("Ready")[0] == "False"
    world.set_status(reason="", message="", conditions=[refused | {"status": "True"}])
    await world.later(1)
    assert world.condition("TemplateAccepted")[0] == "True"
    assert world.condition("Ready")[0] == "True"


async def test_conditions_name_the_generation_they_are_about() -> None:
    world = await settled()
    world.edit(maxRunners=11)
    await world.settle()
    generations = {c["observedGeneration"] for c in world.status["conditions"]}
    assert generations == {world.ars["metadata"]["generation"]}


async def test_a_server_that_prunes_conditions_is_told_once_only() -> None:
    world = await settled()
    pruned = {"conditions": None, "reason": None, "message": None}
    world.api.change(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME, {"status": pruned})
    world.api.changes()
    world.clock.advance(30)
    await world.one_pass()
    assert world.api.writes == []


async def test_an_unregistered_set_is_pending_and_not_ready() -> None:
    world = World(runnerGroup="nobody")
    await world.settle()
    assert world.status["phase"] == "Pending"
    assert world.condition("Ready") == ("False", "RunnerGroupNotFound")
    assert world.condition("ListenerReady") == ("False", "NoListener")


async def test_runners_that_nobody_can_write_on_make_it_not_ready() -> None:
    world = await settled()
    mute = {"type": "RunnersWritable", "status": "False", "reason": "ApiServerRefused"}
    words = "could not write the status of the runner r: denied"
    world.set_status(
        reason="ApiServerRefused", message=words, conditions=[mute | {"message": words}]
    )
    await world.settle()
    assert world.condition("Ready") == ("False", "ApiServerRefused")
    assert world.status["reason"] == "ApiServerRefused"
    assert words in next(c["message"] for c in world.status["conditions"] if c["type"] == "Ready")
    world.set_status(reason="", message="", conditions=[mute | {"status": "True"}])
    await world.later(1)
    assert world.condition("Ready")[0] == "True"


@pytest.mark.parametrize("below", ["set", "listener"])
async def test_what_nothing_is_done_about_below_makes_it_not_ready(below: str) -> None:
    world = await settled()
    running = {"type": "PodRunning", "status": "True", "reason": "Running"}
    stuck = {
        "type": "Reconciled",
        "status": "False",
        "reason": "ReconcileFailed",
        "message": "an unexpected KeyError in plan",
    }
    conditions = [running, *([stuck] if below == "listener" else [])]
    change = {"status": {"conditions": conditions}}
    world.api.change(AUTOSCALING_LISTENERS, HOME, AL_NAME, change)
    if below == "set":
        world.set_status(conditions=[stuck])
    await world.settle()
    assert world.condition("Ready")[:2] == ("False", "ReconcileFailed")
    message = next(c for c in world.status["conditions"] if c["type"] == "Ready")["message"]
    assert "an unexpected KeyError in plan" in message
    world.set_status(conditions=[])
    change = {"status": {"conditions": [running]}}
    world.api.change(AUTOSCALING_LISTENERS, HOME, AL_NAME, change)
    await world.settle()
    assert world.condition("Ready")[0] == "True"


async def test_last_words_do_not_go_to_a_namesake_that_was_made_meanwhile() -> None:
    # They said for good that its deletion is blocked (stale sweep, set-made-again).
    world = await settled()
    seen = world.reconciler.observe(f"{RUNNERS}/{NAME}")
    assert seen is not None
    body = world.api.body(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME)
    assert body is not None
    world.api.drop(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME)
    world.api.put(
        AUTOSCALING_RUNNER_SETS, RUNNERS, {"metadata": {"name": NAME}, "spec": body["spec"]}
    )
    with pytest.raises(Conflict):
        await world.reconciler.apply(Bound(seen, WriteStatus({"message": "its end"}, told="")))
    assert "status" not in (world.api.body(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME) or {})
