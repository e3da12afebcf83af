"""A listener that is being deleted."""

import pytest

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.core.clock import format_time
from runnerscale.kube.builtin import PODS
from runnerscale.kube.errors import Forbidden, KubeError
from tests.plan.autoscaling_listener.world import HOME, NAME, World


def delete(world: World) -> None:
    stamp = {"metadata": {"deletionTimestamp": format_time(world.clock.now_s())}}
    world.api.change(AUTOSCALING_LISTENERS, HOME, NAME, stamp)


@pytest.mark.behaviour("C1 T83")
async def test_everything_goes_and_is_looked_at_again_every_second() -> None:
    world = World(proxy={"http": {"url": "http://proxy:8080"}})
    await world.settle()
    world.run_pod()
    delete(world)
    end = await world.settle()
    assert end.again_s == 1.0  # the pod has its grace period
    world.clock.advance(16)
    assert (await world.settle()).again_s == 10.0  # its node is away: its cache tells of its end
    assert world.listener is not None
    parts = (world.role_binding, world.role, world.config, world.proxy, world.service_account)
    assert parts == (None, None, None, None, None)
    world.pod_gone()
    await world.settle()
    assert world.listener is None


async def test_a_pod_that_has_ended_needs_no_grace_period() -> None:
    world = World()
    await world.settle()
    world.end_pod(1)
    delete(world)
    await world.settle()
    assert world.pod is None
    assert world.listener is None


async def test_what_is_already_gone_is_no_error() -> None:
    world = World()
    await world.settle()
    world.api.drop(PODS, HOME, NAME)
    # The cache still shows the Role that somebody else has deleted.
    world.caches.roles.paused = True  # type: ignore[attr-defined]
    from runnerscale.kube.builtin import ROLES
    from tests.plan.autoscaling_listener.world import RUNNERS

    world.api.drop(ROLES, RUNNERS, NAME)
    delete(world)
    end = await world.settle()
    assert end.errors == ()
    assert world.listener is None


async def test_without_our_finalizer_nothing_is_done() -> None:
    world = World()
    await world.settle()
    held = {"metadata": {"finalizers": ["somebody/else"]}}
    world.api.change(AUTOSCALING_LISTENERS, HOME, NAME, held)
    delete(world)
    end = await world.one_pass()
    assert end.again_s is None
    assert world.pod is not None


async def test_a_stuck_pod_does_not_hold_the_listener_for_ever() -> None:
    world = World()
    await world.settle()
    world.run_pod()
    delete(world)
    await world.settle()
    world.clock.advance(121)  # 60 s of grace, and a minute more
    await world.settle()
    assert world.listener is None


async def test_a_refusal_is_told_and_the_finalizer_stays() -> None:
    world = World()
    await world.settle()

    def fault(verb: str, plural: str, name: str) -> KubeError | None:
        forbidden = (verb, plural) == ("delete", "roles")
        return Forbidden(403, "Forbidden", 'cannot delete resource "roles"') if forbidden else None

    world.api.fault = fault
    delete(world)
    end = await world.one_pass()
    assert end.failed
    assert world.listener is not None
    assert ("Warning", "RightsMissing") in [(t, r) for t, r, _ in world.events.said]


async def test_a_secret_of_that_name_that_is_not_ours_is_left() -> None:
    from runnerscale.kube.builtin import SECRETS

    world = World()
    await world.settle()
    world.api.put(SECRETS, HOME, {"metadata": {"name": f"{NAME}-proxy"}, "data": {}})
    world.api.drop(PODS, HOME, NAME)
    delete(world)
    await world.settle()
    assert world.listener is None
    assert world.proxy is not None


async def test_a_role_that_lost_its_labels_is_found_and_deleted_all_the_same() -> None:
    from tests.plan.autoscaling_listener.world import RUNNERS

    world = World()
    await world.settle()
    world.api.drop(PODS, HOME, NAME)
    world.caches.roles.store.remove(f"{RUNNERS}/{NAME}")  # its cache is limited by label
    delete(world)
    await world.settle()
    assert world.role is None
    assert world.listener is None


async def test_a_pod_that_is_held_though_it_was_removed_by_force_is_told() -> None:
    world = World()
    await world.settle()
    world.api.change(PODS, HOME, NAME, {"metadata": {"finalizers": ["some/body"]}})
    delete(world)
    await world.settle()
    world.clock.advance(121)
    await world.settle()
    assert ("Warning", "CleanupBlocked") in [(t, r) for t, r, _ in world.events.said]
    world.api.changes()
    await world.one_pass()
    assert world.api.writes == []
