"""Taking the chart's `cleanup-protection` from its objects."""

import pytest

from runnerscale.api import labels as keys
from runnerscale.controllers.autoscaling_runner_set.protection import BATCHES
from runnerscale.core.clock import format_time
from runnerscale.kube.builtin import ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS
from runnerscale.kube.errors import Forbidden, KubeError
from tests.plan.autoscaling_runner_set.world import RUNNERS, World

ORDER = [pair for batch in BATCHES for pair in batch]
NAMES = {key: f"obj-{number}" for number, (key, _) in enumerate(ORDER)}


async def protected() -> World:
    """A settled runner set with all seven chart objects, all being deleted by Helm."""
    world = World()
    world.edit_meta(annotations=NAMES)
    await world.settle()
    for key, resource in ORDER:
        body = {
            "metadata": {
                "name": NAMES[key],
                "finalizers": ["other/keep", keys.CLEANUP_PROTECTION_FINALIZER],
                "deletionTimestamp": format_time(world.clock.now_s()),
            }
        }
        world.api.put(resource, RUNNERS, body)
    return world


@pytest.mark.behaviour("C1 T67", "C1 T68")
async def test_all_seven_are_released_in_the_contracts_order_and_other_finalizers_stay() -> None:
    world = await protected()
    world.delete()
    world.api.writes.clear()
    await world.one_pass()
    assert world.ars is None  # one pass is enough
    released = [name for verb, _, name in world.api.writes if verb == "patch" and "obj-" in name]
    assert released == [NAMES[key] for key, _ in ORDER]
    assert [resource.kind for _, resource in ORDER] == [
        "RoleBinding",
        "Role",
        "ServiceAccount",
        "ServiceAccount",
        "Secret",
        "RoleBinding",
        "Role",
    ]
    for key, resource in ORDER:
        body = world.api.body(resource, RUNNERS, NAMES[key])
        assert body is not None
        assert body["metadata"]["finalizers"] == ["other/keep"]


@pytest.mark.behaviour("C1 T67", "C1 T68")
async def test_without_other_finalizers_they_are_gone() -> None:
    world = await protected()
    for key, resource in ORDER:
        only = {"metadata": {"finalizers": [keys.CLEANUP_PROTECTION_FINALIZER]}}
        world.api.change(resource, RUNNERS, NAMES[key], only)
    world.delete()
    await world.settle()
    for resource in (ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SECRETS):
        assert world.api.names(resource) == []


async def test_what_the_values_of_before_made_is_released_too() -> None:
    # helm upgrade from kubernetes mode to none: Helm deletes the three, and they wait for us.
    world = World()
    manager = "my_set-gha-rs-manager"
    world.edit_meta(
        annotations={
            keys.CLEANUP_MANAGER_ROLE: manager,
            keys.CLEANUP_MANAGER_ROLE_BINDING: manager,
        }
    )
    await world.settle()
    earlier = (
        (ROLE_BINDINGS, "my_set-gha-rs-kube-mode"),
        (ROLES, "my_set-gha-rs-kube-mode"),
        (SERVICE_ACCOUNTS, "my-set-gha-rs-kube-mode"),
        (SERVICE_ACCOUNTS, "my-set-gha-rs-no-permission"),
        (SECRETS, "my-set-gha-rs-github-secret"),
    )
    now = format_time(world.clock.now_s())
    for resource, name in earlier:
        held = {"name": name, "finalizers": [keys.CLEANUP_PROTECTION_FINALIZER]}
        world.api.put(resource, RUNNERS, {"metadata": {**held, "deletionTimestamp": now}})
    not_ours = {"metadata": {"name": "my-set-gha-rs-other", "finalizers": ["other/keep"]}}
    world.api.put(SECRETS, RUNNERS, not_ours)
    world.delete()
    await world.settle()
    assert world.ars is None
    left = [world.api.names(r) for r in (ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SECRETS)]
    assert left == [[], [], [], ["my-set-gha-rs-other"]]


async def test_where_no_chart_made_the_objects_none_are_guessed() -> None:
    world = World()
    await world.settle()
    held = {"name": "-gha-rs-kube-mode", "finalizers": [keys.CLEANUP_PROTECTION_FINALIZER]}
    world.api.put(ROLES, RUNNERS, {"metadata": held})
    world.delete()
    await world.settle()
    assert world.ars is None
    assert world.api.names(ROLES) == ["-gha-rs-kube-mode"]


@pytest.mark.behaviour("C1 T69")
async def test_an_object_that_does_not_exist_is_done() -> None:
    world = World()
    world.edit_meta(annotations=NAMES)
    await world.settle()
    world.delete()
    await world.settle()
    assert world.ars is None


@pytest.mark.behaviour("C1 T69")
async def test_no_right_to_the_secret_counts_as_done() -> None:
    world = await protected()

    def fault(verb: str, plural: str, name: str) -> KubeError | None:
        return Forbidden(403, "Forbidden", "no") if plural == "secrets" else None

    world.api.fault = fault
    world.delete()
    await world.settle()
    assert world.ars is None


def with_the_charts_rights(world: World) -> None:
    """The manager Role gives rights as long as its binding stands; then only the ClusterRole."""
    binding = NAMES[keys.CLEANUP_MANAGER_ROLE_BINDING]

    def fault(verb: str, plural: str, name: str) -> KubeError | None:
        if not name.startswith("obj-") or binding in world.api.names(ROLE_BINDINGS):
            return None
        allowed = (verb, plural) == ("patch", "roles")  # contract: charts-and-operations 1.6
        return (
            None if allowed else Forbidden(403, "Forbidden", f'cannot {verb} resource "{plural}"')
        )

    world.api.fault = fault


async def test_the_last_role_is_released_with_the_rights_that_are_left_then() -> None:
    world = await protected()
    for key, resource in ORDER:
        only = {"metadata": {"finalizers": [keys.CLEANUP_PROTECTION_FINALIZER]}}
        world.api.change(resource, RUNNERS, NAMES[key], only)
    with_the_charts_rights(world)
    world.delete()
    await world.settle()
    assert world.ars is None
    assert world.api.names(ROLES) == []
    assert world.events.said == []


async def test_a_crash_between_binding_and_role_is_made_good() -> None:
    world = await protected()
    for key, resource in ORDER[:-1]:  # released by the controller that died
        world.api.drop(resource, RUNNERS, NAMES[key])
    with_the_charts_rights(world)
    world.delete()
    await world.settle()
    assert world.ars is None
    body = world.api.body(ROLES, RUNNERS, NAMES[keys.CLEANUP_MANAGER_ROLE])
    assert body is not None
    assert body["metadata"]["finalizers"] == ["other/keep"]


async def test_a_lost_right_stops_the_chain_but_not_for_ever() -> None:
    world = await protected()

    def fault(verb: str, plural: str, name: str) -> KubeError | None:
        forbidden = (verb, plural) == ("patch", "roles")
        return Forbidden(403, "Forbidden", 'cannot patch resource "roles"') if forbidden else None

    world.api.fault = fault
    world.delete()
    await world.settle()
    assert world.ars is not None
    assert world.condition("DeletionBlocked") == ("True", "RightsMissing")
    since_s = world.clock.now_s()
    while world.ars is not None:
        await world.later(30)
        assert world.clock.now_s() - since_s < 700
    assert world.clock.now_s() - since_s >= 600
