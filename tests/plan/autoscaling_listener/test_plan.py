"""The whole of a listener: order, rest, and what concerns nobody's stage alone."""

import pytest

from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.controllers.autoscaling_listener.controller import connect
from runnerscale.kube.builtin import PODS, ROLES
from runnerscale.kube.errors import NotFound
from tests.plan.autoscaling_listener.world import HOME, NAME, RUNNERS, World


async def test_once_made_nothing_more_is_written() -> None:
    world = World(proxy={"http": {"url": "http://proxy:8080"}})
    await world.settle()
    world.run_pod()
    await world.settle()
    for _ in range(5):
        world.clock.advance(60)
        world.api.changes()
        end = await world.one_pass()
        assert world.api.writes == []
        assert end.errors == ()


async def test_a_new_controller_process_writes_nothing_either() -> None:
    world = World()
    await world.settle()
    world.run_pod()
    await world.settle()
    world.start()
    world.api.changes()
    await world.one_pass()
    assert world.api.writes == []


@pytest.mark.behaviour("C1 T84")
async def test_without_its_runner_set_a_listener_deletes_itself() -> None:
    world = World()
    await world.settle()
    world.api.drop(AUTOSCALING_RUNNER_SETS, RUNNERS, "linux")
    await world.settle()
    world.api.drop(PODS, HOME, NAME)
    await world.settle()
    assert world.listener is None


async def test_a_runner_set_that_only_the_cache_does_not_know_is_no_reason_to_go() -> None:
    world = World()
    world.caches.runner_sets.store.remove(f"{RUNNERS}/linux")
    await world.settle()
    assert world.listener is not None
    assert world.pod is not None


async def test_the_finalizer_comes_before_anything_that_it_protects() -> None:
    world = World()
    await world.one_pass()
    assert world.api.writes[0] == ("patch", "autoscalinglisteners", NAME)


async def test_a_crash_between_any_two_writes_ends_in_the_same_place() -> None:
    from runnerscale.kube.errors import Unreachable

    calm = World(proxy={"http": {"url": "http://proxy:8080"}})
    await calm.settle()
    wanted = {key: body.get("spec") for key, body in calm.api.objects.items()}
    for crash_at in range(len(wanted) + 2):
        world = World(proxy={"http": {"url": "http://proxy:8080"}})
        left = [crash_at]

        def fault(verb: str, plural: str, name: str, left: list[int] = left) -> Exception | None:
            left[0] -= verb != "get"
            return Unreachable("the process died") if left[0] == -1 else None

        world.api.fault = fault
        await world.one_pass()
        world.api.fault = lambda verb, plural, name: None
        world.start()
        await world.settle()
        assert {k: body.get("spec") for k, body in world.api.objects.items()} == wanted


async def test_a_role_that_the_server_itself_does_not_know_yet_is_waited_for() -> None:
    # A real API server looks the Role of a new binding up in a cache, and answers 404 until it
    # is there (seen on 1.36). That is not worth an Event, nor another pass.
    world = World()
    misses = [NotFound(404, "NotFound", f'rolebindings "{NAME}" not found') for _ in range(3)]

    def lag(verb: str, plural: str, name: str) -> NotFound | None:
        asked = (verb, plural) == ("create", "rolebindings")
        return misses.pop() if asked and misses else None

    world.api.fault = lag
    await world.one_pass()
    assert not misses
    assert world.role_binding is not None
    assert world.events.said == []


async def test_a_binding_that_is_refused_for_good_is_told() -> None:
    world = World()
    gone = NotFound(404, "NotFound", f'namespaces "{RUNNERS}" not found')
    world.api.fault = lambda verb, plural, _: (
        gone if (verb, plural) == ("create", "rolebindings") else None
    )
    await world.one_pass()
    assert [reason for _, reason, _ in world.events.said] == ["ApiServerRefused"]
    assert sum(world.clock.slept_s) < 1


def test_events_wake_the_listener_they_concern() -> None:
    world = World()
    woken: list[str] = []
    connect(world.caches, woken.append)
    key = f"{HOME}/{NAME}"
    owner = {
        "kind": "AutoscalingListener",
        "name": NAME,
        "uid": "x",
        "controller": True,
        "apiVersion": "actions.github.com/v1alpha1",
    }
    labels = {"auto-scaling-listener-namespace": HOME, "auto-scaling-listener-name": NAME}
    pod = {"metadata": {"name": NAME, "ownerReferences": [owner]}, "spec": {"containers": []}}
    for change in (
        lambda: world.edit(maxRunners=3),
        lambda: world.api.put(PODS, HOME, pod),
        lambda: world.api.drop(PODS, HOME, NAME),
        lambda: world.api.put(ROLES, RUNNERS, {"metadata": {"name": NAME, "labels": labels}}),
        lambda: world.api.drop(AUTOSCALING_RUNNER_SETS, RUNNERS, "linux"),
    ):
        woken.clear()
        change()
        assert woken == [key]
    woken.clear()
    world.api.change(AUTOSCALING_LISTENERS, HOME, NAME, {"status": {"restarts": 1}})
    assert woken == []  # our own status says nothing new
    world.api.put(PODS, HOME, {"metadata": {"name": "stranger"}, "spec": {"containers": []}})
    world.api.put(ROLES, RUNNERS, {"metadata": {"name": "stranger"}})
    assert woken == []


async def test_a_listener_that_is_gone_leaves_no_trouble_behind() -> None:
    from runnerscale.api.reasons import Reason
    from tests.plan.autoscaling_listener.test_means import MISSING

    world = World()
    world.clients.means = MISSING
    await world.settle()
    labels = {
        "kind": "AutoscalingListener",
        "namespace": HOME,
        "name": NAME,
        "reason": Reason.CREDENTIALS_MISSING.value,
    }
    assert world.registry.get_sample_value("runnerscale_trouble", labels) == 1
    world.api.drop(AUTOSCALING_LISTENERS, HOME, NAME)
    await world.one_pass()
    assert world.registry.get_sample_value("runnerscale_trouble", labels) is None
