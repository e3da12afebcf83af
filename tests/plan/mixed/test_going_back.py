"""From our controller back to ARC's: what we leave must not make ARC drain, stall or hang.

ARC's own comparisons are played here in a few lines each, from the contract's tables (C1 4.1-4.4):
what it compares exactly must be exactly what it would write.
"""

from typing import Any

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from tests.arc.objects import Arc
from tests.plan.autoscaling_runner_set.world import NAME
from tests.plan.autoscaling_runner_set.world import World as RunnerSetWorld
from tests.plan.ephemeral_runner_set.world import World as SetWorld
from tests.plan.mixed.test_taking_over import LINUX, taken_over

# C1 2.3: the finalizers that ARC's controllers take away again.
FINALIZERS = {
    "autoscalingrunnerset.actions.github.com/finalizer",
    "autoscalinglistener.actions.github.com/finalizer",
    "ephemeralrunnerset.actions.github.com/finalizer",
    "ephemeralrunner.actions.github.com/finalizer",
    "ephemeralrunner.actions.github.com/runner-registration-finalizer",
    "actions.github.com/cleanup-protection",
}


def arc_gets_past(world: RunnerSetWorld, arc: Arc) -> bool:
    """C1 4.1 A13: labels and annotations of the set are compared exactly, or it goes no further."""
    wished = arc.ephemeral_runner_set("uid")["metadata"]
    # The hash is compared in A12, the rest here.
    stamp = keys.INTEGRITY_HASH
    now = {k: v for k, v in world.ers["metadata"]["annotations"].items() if k != stamp}
    then = {k: v for k, v in wished["annotations"].items() if k != stamp}
    return bool(world.ers["metadata"]["labels"] == wished["labels"] and now == then)


def arc_drains(world: RunnerSetWorld, arc: Arc) -> bool:
    """C1 4.1 A12, 4.3 S3: a hash that is not ARC's own makes it replace every idle runner."""
    return bool(world.ers["metadata"]["annotations"][keys.INTEGRITY_HASH] != arc.set_hash)


async def test_a_set_that_arc_made_is_found_by_arc_as_it_was() -> None:
    world = taken_over()
    await world.settle()
    await world.later(3600)
    assert arc_gets_past(world, LINUX)
    assert not arc_drains(world, LINUX)


async def test_a_set_that_we_made_lets_arc_past_and_costs_its_idle_runners_once() -> None:
    arc = Arc(name=NAME, secret="github", minimum=1, maximum=10)
    world = RunnerSetWorld(create=False)
    made = arc.runner_set()
    for key in ("runner-scale-set-id", "actions.github.com/runner-scale-set-name"):
        del made["metadata"]["annotations"][key]
    world.api.put(AUTOSCALING_RUNNER_SETS, arc.namespace, made)
    await world.settle()
    assert arc_gets_past(world, arc)
    assert arc_drains(world, arc)  # its hash cannot be made by anybody else (C1 2.8)


async def test_labels_and_annotations_of_the_user_do_not_make_it_hang_either() -> None:
    world = taken_over()
    world.edit_meta(labels={"team": "b"})
    await world.settle()
    world.edit_meta(labels={"team": None})
    block = {"annotations": {"note": "x"}, "labels": {"l": "1"}}
    world.edit(ephemeralRunnerSetMetadata=block)
    await world.settle()
    world.edit(ephemeralRunnerSetMetadata=None)
    await world.settle()
    assert arc_gets_past(world, LINUX)


@pytest.mark.parametrize("told", [keys.HOLD, keys.OWNED_KEYS])
async def test_a_key_of_an_earlier_version_of_ours_does_not_stay_on_the_set(told: str) -> None:
    world = taken_over()
    value = {keys.HOLD: "0", keys.OWNED_KEYS: "team;note"}[told]
    patch = {"metadata": {"annotations": {told: value}, "labels": {"team": "a"}}}
    world.api.change(EPHEMERAL_RUNNER_SETS, LINUX.namespace, NAME, patch)
    await world.settle()
    assert told not in world.ers["metadata"]["annotations"]
    assert ("team" in world.ers["metadata"]["labels"]) == (told == keys.HOLD)


async def test_no_finalizer_of_ours_is_one_that_arc_would_leave() -> None:
    world = taken_over()
    await world.settle()
    for resource in (AUTOSCALING_RUNNER_SETS, EPHEMERAL_RUNNER_SETS, AUTOSCALING_LISTENERS):
        for name in world.api.names(resource):
            namespace = LINUX.home if resource is AUTOSCALING_LISTENERS else LINUX.namespace
            body = world.api.body(resource, namespace, name)
            assert body is not None
            assert set(body["metadata"].get("finalizers", ())) <= FINALIZERS
    assert set(keys.EPHEMERAL_RUNNER_FINALIZERS) <= FINALIZERS


async def test_a_runner_that_we_made_has_what_arc_looks_for() -> None:
    world = SetWorld()
    world.make(replicas=1, patch_id=4)
    await world.settle()
    (name,) = world.names
    body: dict[str, Any] = world.api.body(EPHEMERAL_RUNNERS, "runners", name) or {}
    # 4.3 S7: the newest patch id is read off the runners; 4.4 R1-R6: finalizers and owner.
    assert body["metadata"]["annotations"][keys.PATCH_ID] == "4"
    assert body["metadata"]["finalizers"] == [
        "ephemeralrunner.actions.github.com/finalizer",
        "ephemeralrunner.actions.github.com/runner-registration-finalizer",
    ]
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == (
        "EphemeralRunnerSet",
        "set",
        True,
    )
    assert body["metadata"]["labels"][keys.COMPONENT] == "runner"
    required = {"githubConfigUrl", "githubConfigSecret", "runnerScaleSetId"}
    assert required <= set(body["spec"])


async def test_the_runner_sets_own_annotations_are_none_that_arc_compares() -> None:
    # C1 2.8: of the runner set ARC hashes spec and labels only.
    world = taken_over()
    labels, spec = dict(world.ars["metadata"]["labels"]), dict(world.ars["spec"])
    await world.settle()
    assert world.ars["metadata"]["labels"] == labels
    assert world.ars["spec"] == spec
    own = {key for key in world.annotations if key.startswith(keys.OWN_PREFIX)}
    assert own == {keys.ISSUED_FOR, keys.SET_KEYS, keys.SETTINGS_HASH}
