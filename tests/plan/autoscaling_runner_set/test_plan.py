"""The whole of a runner set: order, rest, and neighbours."""

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.controllers.autoscaling_runner_set.controller import connect
from runnerscale.kube.errors import Forbidden, Unreachable
from runnerscale.scaleset.errors import Unavailable
from tests.plan.autoscaling_runner_set.world import AL_NAME, HOME, KEY, NAME, RUNNERS, World


async def test_once_settled_nothing_more_is_written_and_github_is_asked_every_90_s() -> None:
    world = World()
    await world.settle()
    for _ in range(3):
        world.clock.advance(90)
        world.api.changes()
        world.github.calls.clear()
        end = await world.one_pass()
        assert world.api.writes == []
        assert world.github.calls == [("get", 7)]
        assert end.again_s == 90.0
    world.clock.advance(30)
    world.github.calls.clear()
    await world.one_pass()
    assert world.github.calls == []


async def test_the_finalizer_comes_before_anything_that_it_protects() -> None:
    world = World()
    world.github.fault = lambda call, place: Unavailable("away")
    await world.one_pass()
    assert world.api.writes[0] == ("patch", "autoscalingrunnersets", NAME)
    assert world.ars["metadata"]["finalizers"] == [keys.RUNNER_SET_FINALIZER]


async def test_all_changes_to_the_object_itself_are_one_write() -> None:
    world = World()
    await world.one_pass()
    own = [verb for verb, plural, _ in world.api.writes if plural == "autoscalingrunnersets"]
    assert own == ["patch", "patch", "patch/status"]  # finalizer, registration, status


async def test_a_crash_between_any_two_steps_ends_in_the_same_place() -> None:
    calm = World()
    await calm.settle()
    wanted = {key: body["spec"] for key, body in calm.api.objects.items()}
    for crash_at in range(8):
        world = World()
        left = [crash_at]

        def fault(verb: str, plural: str, name: str, left: list[int] = left) -> Exception | None:
            left[0] -= 1
            return Unreachable("the process died") if left[0] == -1 else None

        world.api.fault = fault
        await world.one_pass()
        world.api.fault = lambda verb, plural, name: None
        world.start()
        await world.settle()
        assert {key: body["spec"] for key, body in world.api.objects.items()} == wanted
        assert len(world.github.sets) == 1


async def test_a_registration_whose_record_was_lost_is_found_again_by_name() -> None:
    world = World()
    lost = [False, True]  # the finalizer is written, the record is not

    def fault(verb: str, plural: str, name: str) -> Exception | None:
        if (verb, plural) == ("patch", "autoscalingrunnersets") and lost and lost.pop(0):
            return Unreachable("connection reset")
        return None

    world.api.fault = fault
    await world.one_pass()
    assert keys.SCALE_SET_ID not in world.annotations
    await world.settle()
    assert [call[0] for call in world.github.writes()] == ["create"]
    assert world.annotations[keys.SCALE_SET_ID] == "7"


@pytest.mark.behaviour("C1 T79")
async def test_one_unreachable_host_does_not_concern_the_other_49() -> None:
    # Passes of different keys run side by side (kube/controller.py); here: no pass of another
    # key needs anything of the broken one.
    world = World(create=False)
    names = [f"set-{number}" for number in range(50)]
    for name in names:
        host = "unreachable.example" if name == "set-17" else "github.com"
        world.create(name, githubConfigUrl=f"https://{host}/{name}")

    def fault(call: str, place: object) -> Exception | None:
        broken = "unreachable" in getattr(place, "config_url", "")
        return Unavailable("no answer in 30 s") if broken else None

    world.github.fault = fault
    for name in names:
        await world.settle(f"{RUNNERS}/{name}")
    settled = [
        name
        for name in names
        if (world.api.body(AUTOSCALING_RUNNER_SETS, RUNNERS, name) or {})["status"]["phase"]
        == "Running"
    ]
    assert len(settled) == 49


async def test_a_refused_child_is_told_in_the_servers_words_and_tried_again() -> None:
    world = World()
    words = 'ephemeralrunnersets is forbidden: User "x" cannot create resource "..."'

    def fault(verb: str, plural: str, name: str) -> Exception | None:
        refused = (verb, plural) == ("create", "ephemeralrunnersets")
        return Forbidden(403, "Forbidden", words) if refused else None

    world.api.fault = fault
    end = await world.settle()
    assert end.failed
    assert world.status["reason"] == "RightsMissing"
    assert words in world.status["message"]
    world.api.fault = lambda verb, plural, name: None
    await world.settle()
    assert world.status["reason"] == ""


async def test_a_set_that_the_cache_does_not_show_yet_is_found_and_kept() -> None:
    world = World()
    await world.settle()
    uid = world.ers["metadata"]["uid"]
    world.caches.runner_sets_owned.store.remove(KEY)
    end = await world.one_pass()
    assert end.errors == ()
    assert world.ers["metadata"]["uid"] == uid


async def test_an_object_deleted_under_our_hands_is_no_error() -> None:
    world = World()
    await world.settle()
    world.delete()
    world.caches.runner_sets.paused = True  # type: ignore[attr-defined]
    world.api.drop(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME)
    end = await world.one_pass()
    assert end.errors == ()


def test_events_wake_the_runner_set_they_concern() -> None:
    world = World()
    woken: list[str] = []
    connect(world.caches, woken.append)
    owner = {
        "apiVersion": "actions.github.com/v1alpha1",
        "kind": "AutoscalingRunnerSet",
        "name": NAME,
        "uid": world.ars["metadata"]["uid"],
        "controller": True,
    }
    ers = {"metadata": {"name": NAME, "ownerReferences": [owner]}, "spec": {"patchID": 0}}
    spec = {"autoscalingRunnerSetNamespace": RUNNERS, "autoscalingRunnerSetName": NAME}
    for change in (
        lambda: world.edit(maxRunners=3),
        lambda: world.api.put(EPHEMERAL_RUNNER_SETS, RUNNERS, ers),
        lambda: world.set_status(currentReplicas=1),
        lambda: world.api.put(
            AUTOSCALING_LISTENERS, HOME, {"metadata": {"name": AL_NAME}, "spec": spec}
        ),
        lambda: world.api.drop(AUTOSCALING_LISTENERS, HOME, AL_NAME),
    ):
        woken.clear()
        change()
        assert woken == [KEY]
    woken.clear()
    status = {"status": {"phase": "Running"}}
    world.api.change(AUTOSCALING_RUNNER_SETS, RUNNERS, NAME, status)
    assert woken == []  # our own status says nothing new
    world.ers["spec"]["ephemeralRunnerSpec"] = {"runnerScaleSetId": 7}
    world.runner("quiet", status={"phase": "Pending"})
    assert woken == []  # thousands of these; the set's status says what matters
    world.runner("refused", status={"phase": "Outdated"})
    assert woken == [KEY]


def test_what_only_moves_the_counters_wakes_it_a_second_later() -> None:
    world = World()
    now: list[str] = []
    later: list[tuple[str, float]] = []
    connect(world.caches, now.append, lambda key, seconds: later.append((key, seconds)))
    owner = {
        "apiVersion": "actions.github.com/v1alpha1",
        "kind": "AutoscalingRunnerSet",
        "name": NAME,
        "uid": "u",
        "controller": True,
    }
    ers = {"metadata": {"name": NAME, "ownerReferences": [owner]}, "spec": {"patchID": 0}}
    world.api.put(EPHEMERAL_RUNNER_SETS, RUNNERS, ers)
    now.clear()
    world.set_status(currentReplicas=3, pendingEphemeralRunners=3)
    decided = {"spec": {"replicas": 3, "patchID": 1}}
    world.api.change(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME, decided)
    assert now == []
    assert later == [(KEY, 1.0), (KEY, 1.0)]
    world.set_status(reason="QuotaExceeded")
    assert now == [KEY]
