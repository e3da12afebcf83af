"""Our controller with a listener that is ARC's: its patches, its ids, and what it never says.

ARC's listener sends `replicas` and `patchID` and nothing else, null for zero, an exact number only
at the minimum, and job fields without a phase where it is older (C1 4.3.1, 4.5; C2 5.4, 5.5).
"""

from typing import Any

import pytest

from runnerscale.api import labels as keys
from runnerscale.kube.builtin import PODS
from tests.plan.autoscaling_listener.world import HOME, NAME
from tests.plan.autoscaling_listener.world import World as ListenerWorld
from tests.plan.ephemeral_runner_set.world import World

ARCS_IMAGE = "ghcr.io/actions/gha-runner-scale-set-controller:0.14.2"
SEQUENCE_MAX = 2147483647


async def serving(replicas: int) -> World:
    """So many registered runners, asked for by the first patch of a listener of ARC's."""
    world = World()
    world.make()
    await world.settle()
    world.says(replicas, 0)
    await world.settle()
    world.register()
    await world.later(3)
    assert len(world.names) == replicas
    return world


def patched(world: World, **spec: Any) -> None:
    """Its merge patch, as it is on the wire."""
    world.change_set({"spec": spec})


@pytest.mark.behaviour("C1 T118")
async def test_null_is_its_zero() -> None:
    world = await serving(2)
    patched(world, replicas=None, patchID=0)
    assert "replicas" not in world.set["spec"]
    await world.settle()
    world.sweep()
    await world.settle()
    assert world.names == []
    assert len(world.github.asked) == 2


@pytest.mark.behaviour("C1 T120")
async def test_its_numbered_patches_never_shrink_the_set() -> None:
    world = await serving(3)
    patched(world, replicas=1, patchID=1)
    await world.later(60)
    assert len(world.names) == 3
    assert world.github.asked == []


async def test_ids_that_begin_again_after_its_restart_are_news_all_the_same() -> None:
    # ARC's set takes a known id for old news (W14): what was asked for then never came.
    world = await serving(1)
    patched(world, replicas=2, patchID=1)
    await world.settle()
    patched(world, replicas=2, patchID=0)  # the first patch of its successor
    await world.settle()
    patched(world, replicas=4, patchID=1)
    await world.settle()
    assert len(world.names) == 4
    patched(world, replicas=5, patchID=SEQUENCE_MAX)
    await world.settle()
    patched(world, replicas=6, patchID=1)
    await world.settle()
    assert len(world.names) == 6


async def test_a_finished_runner_is_not_replaced_before_it_has_spoken_or_a_moment_passed() -> None:
    world = await serving(2)
    first, second = world.names
    world.take_job(first)
    await world.settle()
    world.finish(first)
    await world.settle()
    assert world.names == [second]  # its job may still be in the number
    patched(world, replicas=1, patchID=1)
    await world.later(60)
    assert world.names == [second]
    assert world.github.asked == []


async def test_a_place_is_filled_when_the_job_was_out_of_the_number_already() -> None:
    world = await serving(2)
    first, _ = world.names
    world.take_job(first)
    await world.settle()
    world.finish(first)
    await world.later(6)
    assert len(world.names) == 2


async def test_job_fields_without_a_phase_make_a_runner_busy() -> None:
    world = await serving(2)
    first, second = world.names
    world.change(first, jobId="j", jobDisplayName="build", workflowRunId=4)
    await world.later(3)
    assert world.counters == (2, 1, 1, 0)
    patched(world, replicas=None, patchID=0)
    await world.settle()
    world.sweep()
    await world.settle()
    assert world.names == [first]
    assert second not in world.names


async def test_its_pod_is_not_told_what_only_ours_understands() -> None:
    template = {"spec": {"containers": [{"name": "listener", "image": ARCS_IMAGE}]}}
    world = ListenerWorld(template=template)
    await world.settle()
    variables = [item["name"] for item in world.pod["spec"]["containers"][0]["env"]]
    assert variables == ["LISTENER_CONFIG_PATH"]


async def test_it_reads_its_file_once_so_a_changed_limit_replaces_its_pod() -> None:
    template = {"spec": {"containers": [{"name": "listener", "image": ARCS_IMAGE}]}}
    world = ListenerWorld(template=template)
    await world.settle()
    world.run_pod()
    uid = world.pod["metadata"]["uid"]
    world.clock.advance(700)
    await world.settle()
    assert world.pod["metadata"]["uid"] == uid
    world.edit(maxRunners=11)
    await world.settle()
    assert world.pod["metadata"]["deletionTimestamp"]
    world.pod_gone()
    await world.settle()
    assert world.api.body(PODS, HOME, NAME) is not None
    stamp = world.pod["metadata"]["annotations"][keys.INTEGRITY_HASH]
    assert stamp.startswith("r")
