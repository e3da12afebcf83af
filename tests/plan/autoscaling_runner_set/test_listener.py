"""The one AutoscalingListener: made, changed in place, and no second one."""

from dataclasses import replace
from typing import Any

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.names import listener_name
from runnerscale.controllers.autoscaling_runner_set import listener
from tests.plan.autoscaling_runner_set.world import AL_NAME, HOME, IMAGE, NAME, RUNNERS, World


async def settled(**spec: Any) -> World:
    world = World(**spec)
    await world.settle()
    return world


async def test_it_says_all_that_a_listener_needs() -> None:
    world = await settled()
    assert world.al["metadata"]["name"] == AL_NAME
    assert "ownerReferences" not in world.al["metadata"]
    assert world.al["spec"] == {
        "githubConfigUrl": "https://github.com/octo-org/octo-repo",
        "githubConfigSecret": "github",
        "runnerScaleSetId": 7,
        "autoscalingRunnerSetNamespace": RUNNERS,
        "autoscalingRunnerSetName": NAME,
        "ephemeralRunnerSetName": NAME,
        "maxRunners": 10,
        "minRunners": 1,
        "image": IMAGE,
    }
    labels = world.al["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "runner-scale-set-listener"
    assert labels["team"] == "a"


@pytest.mark.behaviour("C1 T19", "C1 T20")
async def test_its_name_is_made_of_namespace_group_and_url() -> None:
    # Golden vectors of contract 2.7, through the whole controller for the empty group.
    assert (await settled()).listeners == ["linux-5b5868b7-listener"]
    name = listener_name(
        namespace="test-ns",
        runner_set="x",
        runner_group="testgroup",
        config_url="https://github.com/owner/repo",
    )
    assert name == "x-c7fb7467-listener"


@pytest.mark.behaviour("C1 T36")
async def test_a_settled_listener_stays_as_it_is() -> None:
    world = await settled()
    before = (world.al["metadata"]["uid"], world.al["metadata"]["resourceVersion"])
    for _ in range(5):
        await world.later(1)
    assert (world.al["metadata"]["uid"], world.al["metadata"]["resourceVersion"]) == before
    assert world.al["spec"]["ephemeralRunnerSetName"] == world.ers["metadata"]["name"]


@pytest.mark.behaviour("C1 T47")
async def test_a_new_maximum_is_patched_in_and_the_set_is_not_touched() -> None:
    world = await settled()
    uid = world.al["metadata"]["uid"]
    ers = world.ers["metadata"]["resourceVersion"]
    world.edit(maxRunners=50)
    await world.settle()
    assert world.al["spec"]["maxRunners"] == 50
    assert world.al["metadata"]["uid"] == uid
    assert world.ers["metadata"]["resourceVersion"] == ers


async def test_limits_that_make_no_sense_leave_the_last_good_ones_in_force() -> None:
    # Overrules T99 where a good state exists: issue 3 section 5.
    world = await settled()
    world.edit(minRunners=20)
    await world.settle()
    assert (world.al["spec"]["minRunners"], world.al["spec"]["maxRunners"]) == (1, 10)
    assert world.status["reason"] == "MinAboveMax"
    words = 'MinRunners "20" cannot be greater than MaxRunners "10"'
    assert words in world.status["message"]
    assert world.condition("SpecAccepted") == ("False", "MinAboveMax")
    world.edit(maxRunners=30)
    await world.settle()
    assert (world.al["spec"]["minRunners"], world.al["spec"]["maxRunners"]) == (20, 30)
    assert world.condition("SpecAccepted") == ("True", "Accepted")


async def test_without_any_good_limits_there_is_no_listener() -> None:
    world = await settled(minRunners=5, maxRunners=2)
    assert world.listeners == []
    assert world.status["reason"] == "MinAboveMax"


@pytest.mark.behaviour("C1 T59")
async def test_foreign_labels_are_left_alone_and_nothing_is_recreated() -> None:
    world = await settled()
    uid = world.al["metadata"]["uid"]
    foreign = {"metadata": {"labels": {"policy": "x"}, "annotations": {"note": "y"}}}
    world.api.change(AUTOSCALING_LISTENERS, HOME, AL_NAME, foreign)
    version = world.al["metadata"]["resourceVersion"]
    await world.settle()
    assert world.al["metadata"]["uid"] == uid
    assert world.al["metadata"]["resourceVersion"] == version
    assert world.status["phase"] == "Running"


@pytest.mark.behaviour("C1 T60")
async def test_pull_secrets_of_the_controller_are_part_of_it_and_it_is_stable() -> None:
    world = World()
    world.start(image_pull_secrets=("p",))
    await world.settle()
    assert world.al["spec"]["imagePullSecrets"] == [{"name": "p"}]
    uid = world.al["metadata"]["uid"]
    for _ in range(3):
        await world.later(60)
    assert world.al["metadata"]["uid"] == uid


@pytest.mark.behaviour("C1 T61")
async def test_after_a_new_group_there_is_exactly_the_one_listener_with_its_session() -> None:
    world = await settled()
    uid = world.al["metadata"]["uid"]
    world.edit(runnerGroup="testgroup")
    await world.settle()
    assert world.listeners == [AL_NAME]
    assert world.al["metadata"]["uid"] == uid


@pytest.mark.behaviour("C1 T61")
async def test_a_second_listener_for_the_same_set_is_deleted_and_the_named_one_stays() -> None:
    world = await settled()
    twin = {"metadata": {"name": "aaa"}, "spec": world.al["spec"]}
    world.api.put(AUTOSCALING_LISTENERS, HOME, twin)
    await world.settle()
    assert world.listeners == [AL_NAME]


@pytest.mark.behaviour("C1 T76")
async def test_one_deleted_by_hand_comes_back() -> None:
    world = await settled()
    world.api.drop(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    await world.settle()
    assert world.listeners == [AL_NAME]


async def test_one_that_is_going_still_holds_the_session_so_a_new_one_waits() -> None:
    world = await settled()
    world.hold_by_finalizer(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    uid = world.al["metadata"]["uid"]
    await world.api.delete(AUTOSCALING_LISTENERS, HOME, AL_NAME, uid=uid)
    await world.settle()
    assert world.al["metadata"]["uid"] == uid
    world.let_go(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    await world.settle()
    assert world.al["metadata"]["uid"] != uid


@pytest.mark.behaviour("C1 T107")
async def test_a_new_controller_image_reaches_every_listener_in_place() -> None:
    world = await settled()
    uid = world.al["metadata"]["uid"]
    world.start(image="ghcr.io/runnerscale/runnerscale:0.14.3")
    await world.settle()
    assert world.al["spec"]["image"] == "ghcr.io/runnerscale/runnerscale:0.14.3"
    assert world.al["metadata"]["uid"] == uid


async def test_metrics_and_template_follow_and_go_again() -> None:
    world = await settled()
    metrics = {"counters": {"a": {"labels": []}}}
    template = {"spec": {"containers": [{"name": "listener"}], "nodeSelector": {}}}
    world.edit(listenerMetrics=metrics, listenerTemplate=template)
    await world.settle()
    assert world.al["spec"]["metrics"] == metrics
    assert world.al["spec"]["template"] == template
    world.edit(listenerMetrics=None, listenerTemplate=None)
    await world.settle()
    assert "metrics" not in world.al["spec"]
    assert "template" not in world.al["spec"]


async def test_its_block_of_metadata_is_for_itself() -> None:
    block = {"labels": {"x": "1", keys.COMPONENT: "mine"}, "annotations": {"y": "2"}}
    world = await settled(autoscalingListener=block)
    assert world.al["metadata"]["labels"]["x"] == "1"
    assert world.al["metadata"]["labels"][keys.COMPONENT] == "runner-scale-set-listener"
    assert world.al["metadata"]["annotations"]["y"] == "2"


@pytest.mark.behaviour("C1 T31")
async def test_a_listener_made_by_arc_is_taken_over_with_nothing_but_the_image_changed() -> None:
    world = await settled()
    spec = {**world.al["spec"], "image": "ghcr.io/actions/gha-runner-scale-set-controller:0.14.2"}
    foreign = {keys.INTEGRITY_HASH: "6f8d4c9b75", keys.OWNED_KEYS: None}
    change = {"metadata": {"annotations": foreign}, "spec": spec}
    world.api.change(AUTOSCALING_LISTENERS, HOME, AL_NAME, change)
    uid = world.al["metadata"]["uid"]
    world.start()
    await world.settle()
    assert world.al["metadata"]["uid"] == uid
    assert world.al["spec"] == {**spec, "image": IMAGE}


async def test_which_of_two_of_the_same_second_stays_does_not_depend_on_their_order() -> None:
    # A restart lists them in another order: then the other one would go, and the session with it.
    world = await settled()
    spec = {**world.al["spec"]}
    world.api.drop(AUTOSCALING_LISTENERS, HOME, AL_NAME)
    for name in ("linux-b-listener", "linux-a-listener"):
        world.api.put(AUTOSCALING_LISTENERS, HOME, {"metadata": {"name": name}, "spec": spec})
    seen = world.reconciler.observe(f"{RUNNERS}/{NAME}")
    assert seen is not None
    for listeners in (seen.listeners, seen.listeners[::-1]):
        kept = listener.current(replace(seen, listeners=listeners))
        assert kept is not None and kept.metadata.name == "linux-a-listener"
