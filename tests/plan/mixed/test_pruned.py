"""Under ARC's schemas the API server drops what is ours: it is written once, and work goes on."""

from collections.abc import Mapping
from typing import Any

import pytest

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.kube.resource import Resource
from tests.arc.crds import KINDS
from tests.plan.autoscaling_listener.world import World as ListenerWorld
from tests.plan.autoscaling_runner_set.world import World as RunnerSetWorld
from tests.plan.ephemeral_runner_set.world import World as SetWorld
from tests.plan.memory_api import MemoryApi


def prune(api: MemoryApi) -> None:
    """Statuses keep only what ARC's schema has."""
    patch = api.patch

    async def pruned(
        resource: Resource[Any], namespace: str, name: str, body: Any, **more: Any
    ) -> Any:
        if more.get("subresource") == "status" and resource.plural in KINDS:
            known = KINDS[resource.plural][2].get("properties", {})
            status = body.get("status") or {}
            body = {**body, "status": {key: status[key] for key in status if key in known}}
        return await patch(resource, namespace, name, body, **more)

    api.patch = pruned  # type: ignore[method-assign]


def statuses(api: MemoryApi) -> list[tuple[str, str, str]]:
    return [write for write in api.writes if write[0] == "patch/status"]


def has(body: Mapping[str, Any] | None, *keys: str) -> bool:
    assert body is not None
    return bool(set(keys) & set(body.get("status", {})))


async def test_a_set_says_its_state_once_and_then_only_what_changes() -> None:
    world = SetWorld()
    prune(world.api)
    world.make(replicas=2, patch_id=0)
    await world.settle()
    world.register()
    await world.later(3)
    world.api.changes()
    for _ in range(10):
        await world.later(60)
    assert statuses(world.api) == []
    assert not has(world.set, "conditions", "finishedEphemeralRunners")
    assert world.counters == (2, 2, 0, 0)
    world.take_job(world.names[0])
    await world.later(3)
    assert world.counters == (2, 1, 1, 0)
    assert len(statuses(world.api)) == 1


async def test_a_set_in_trouble_says_so_once_though_it_cannot_be_stored() -> None:
    world = SetWorld()
    prune(world.api)
    world.make(replicas=1, patch_id=0)
    await world.settle()
    (name,) = world.names
    world.register()
    world.fail(name, reason="InvalidPod")
    await world.later(3)
    world.api.changes()
    await world.later(20)
    await world.later(20)
    assert len(statuses(world.api)) <= 1
    assert [reason for _, reason, _ in world.events.told] == ["InvalidPod"]


async def test_after_a_restart_it_is_said_once_more() -> None:
    world = SetWorld()
    prune(world.api)
    world.make(replicas=1, patch_id=0)
    await world.settle()
    await world.later(3)
    world.api.changes()
    world.restart()
    await world.settle()
    await world.later(60)
    assert len(statuses(world.api)) == 1


@pytest.mark.parametrize("rest_s", [60.0, 600.0])
async def test_a_runner_set_and_its_listener_come_to_rest(rest_s: float) -> None:
    world = RunnerSetWorld(create=False)
    prune(world.api)
    world.create()
    await world.settle()
    await world.later(3)
    world.api.changes()
    await world.later(rest_s)
    assert statuses(world.api) == []
    for resource, namespace, name in (
        (AUTOSCALING_RUNNER_SETS, "arc-runners", "linux"),
        (EPHEMERAL_RUNNER_SETS, "arc-runners", "linux"),
        (AUTOSCALING_LISTENERS, "arc-systems", world.al["metadata"]["name"]),
    ):
        assert not has(world.api.body(resource, namespace, name), "conditions")
    assert world.status["phase"] == "Running"


async def test_a_listener_comes_to_rest_and_remembers_its_restarts_on_the_pod() -> None:
    world = ListenerWorld()
    prune(world.api)
    await world.settle()
    world.run_pod()
    await world.settle()
    assert world.listener.get("status", {}) == {}
    world.end_pod(1, ran_s=1.0)
    await world.settle()
    world.clock.advance(10)
    await world.settle()
    annotations = world.pod["metadata"]["annotations"]
    assert annotations["runnerscale.dev/restarts"] == "1"
