"""GitHub refused the version of the runner."""

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from tests.plan.autoscaling_runner_set.world import AL_NAME, NAME, RUNNERS, World

REFUSED = {"phase": "Outdated", "reason": "Outdated", "message": "Runner is deprecated"}


async def refused() -> World:
    world = World()
    await world.settle()
    world.runner("linux-runner-old", status=REFUSED)
    world.set_status(phase="Outdated")
    await world.settle()
    return world


@pytest.mark.behaviour("C1 T73")
async def test_the_set_is_held_and_nothing_is_torn_down() -> None:
    # Overrules T70 and T72: the session is closed only when the place changes.
    world = await refused()
    uid = world.ers["metadata"]["uid"]
    for _ in range(5):
        await world.later(60)
    assert world.ers["metadata"]["annotations"][keys.HOLD] == "0"
    assert world.ers["metadata"]["uid"] == uid
    assert world.listeners == [AL_NAME]
    assert world.github.writes() == [("create", "linux", 1, ("linux",), True)]
    assert world.status["phase"] == "Outdated"
    assert world.status["reason"] == "Outdated"
    assert world.condition("RunnerVersionAccepted") == ("False", "Outdated")
    assert world.events.reasons() == ["Outdated"]


async def test_the_verdict_outlives_its_evidence_and_the_controller() -> None:
    world = await refused()
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-old")
    world.start()
    await world.settle()
    assert world.ers["metadata"]["annotations"][keys.HOLD] == "0"
    assert world.status["phase"] == "Outdated"


async def test_a_new_image_lifts_it_and_a_late_runner_of_the_old_one_does_not_bring_it_back() -> (
    None
):
    world = await refused()
    old = dict(world.ers["spec"]["ephemeralRunnerSpec"])
    world.edit(template=world.image("runner:2"))
    await world.settle()
    assert keys.HOLD not in world.ers["metadata"]["annotations"]
    assert keys.OUTDATED_FOR not in world.annotations
    assert world.status["phase"] == "Running"
    world.runner("linux-runner-late", status=REFUSED, **old)
    await world.settle()
    assert world.status["phase"] == "Running"
    assert keys.HOLD not in world.ers["metadata"]["annotations"]


async def test_other_changes_do_not_lift_it() -> None:
    world = await refused()
    world.edit(maxRunners=3, githubConfigSecret="other")
    await world.settle()
    assert world.status["phase"] == "Outdated"
    assert world.ers["metadata"]["annotations"][keys.HOLD] == "0"
    assert world.al["spec"]["maxRunners"] == 3


@pytest.mark.behaviour("C1 T71")
async def test_without_a_set_none_is_made_until_the_template_changes() -> None:
    world = await refused()
    world.api.drop(EPHEMERAL_RUNNERS, RUNNERS, "linux-runner-old")
    world.api.drop(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME)
    await world.settle()
    assert world.ers is None
    world.edit(template=world.image("runner:2"))
    await world.settle()
    assert world.ers is not None


async def test_a_phase_outdated_left_by_arc_without_evidence_is_no_verdict() -> None:
    # "Nothing exists and nothing will be made" must not be a fixed point (issue log 46).
    world = World()
    world.edit_meta()
    from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS

    world.api.change(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME, {"status": {"phase": "Outdated"}})
    await world.settle()
    assert world.status["phase"] == "Running"
    assert world.listeners == [AL_NAME]
