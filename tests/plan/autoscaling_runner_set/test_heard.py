"""What a listener says of its troubles, and what is made of it."""

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.listener_word import ListenerWord, encoded
from runnerscale.api.reasons import Reason
from runnerscale.controllers.autoscaling_runner_set import heard
from runnerscale.scaleset.errors import Unavailable
from tests.plan.autoscaling_runner_set.world import AL_NAME, HOME, KEY, NAME, RUNNERS, World


async def settled() -> World:
    world = World()
    await world.settle()
    pod(world, "True", "Running")
    await world.settle()
    return world


def pod(world: World, status: str, reason: str, message: str = "") -> None:
    """The AutoscalingListener controller says how the pod is."""
    condition = {
        "type": "PodRunning",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }
    change = {"status": {"conditions": [condition]}}
    world.api.change(AUTOSCALING_LISTENERS, HOME, AL_NAME, change)


def says(world: World, reason: Reason | None, message: str = "", scale_set_id: int = 7) -> None:
    """The listener writes its annotation, or takes it away."""
    word = ListenerWord(reason, message, world.clock.now_s(), scale_set_id) if reason else None
    writes(world, encoded(word) if word else None)


def writes(world: World, text: str | None) -> None:
    change = {"metadata": {"annotations": {keys.LISTENER_TROUBLE: text}}}
    world.api.change(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME, change)


def condition(world: World, kind: str) -> tuple[str, str, str]:
    """Status, reason and message."""
    found = next(c for c in world.status["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


async def test_what_it_says_stands_on_condition_event_metric_and_status() -> None:
    world = await settled()
    says(world, Reason.CREDENTIALS_REFUSED, "GitHub answered 401")
    await world.settle()
    status, reason, message = condition(world, "ListenerReady")
    assert (status, reason) == ("False", "CredentialsRefused")
    assert message.startswith("the listener says: GitHub answered 401. ")
    assert world.condition("Ready")[:2] == ("False", "CredentialsRefused")
    assert world.condition("Registered")[0] == "True"  # that is not the listener's to say
    assert world.status["reason"] == "CredentialsRefused"
    assert world.events.reasons() == ["CredentialsRefused"]
    labels = {"kind": "AutoscalingRunnerSet", "namespace": RUNNERS, "name": NAME}
    metric = {**labels, "reason": "CredentialsRefused"}
    assert world.registry.get_sample_value("runnerscale_trouble", metric) == 1

    says(world, None)
    await world.settle()
    assert world.condition("ListenerReady")[:2] == ("True", "Running")
    assert world.condition("Ready")[0] == "True"
    assert world.status["reason"] == ""
    assert world.events.reasons() == ["CredentialsRefused"]


@pytest.mark.parametrize(
    "reason",
    [Reason.SESSION_LOST, Reason.MESSAGE_QUARANTINED, Reason.JOB_STARTED_NOT_STORED],
)
async def test_what_has_passed_is_told_though_jobs_are_served(reason: Reason) -> None:
    world = await settled()
    says(world, reason)
    await world.settle()
    status, told, message = condition(world, "ListenerReady")
    assert (status, told) == ("True", reason.value)
    assert reason.meaning.rstrip(".") in message  # without a message of its own
    assert world.condition("Ready")[0] == "True"
    assert world.status["reason"] == reason.value
    assert world.events.reasons() == [reason.value]


async def test_trouble_of_its_pod_goes_before_what_it_says() -> None:
    world = await settled()
    says(world, Reason.GITHUB_UNAVAILABLE, "503")
    pod(world, "False", "ListenerCrashing", "the listener ended 3 times in a row")
    await world.settle()
    assert world.condition("ListenerReady")[:2] == ("False", "ListenerCrashing")
    assert "GitHubUnavailable" not in world.events.reasons()


async def test_where_nothing_is_known_of_the_pod_it_is_believed() -> None:
    # An older CRD has no conditions on the AutoscalingListener.
    world = World()
    await world.settle()
    assert world.condition("ListenerReady")[:2] == ("True", "Exists")
    says(world, Reason.GITHUB_UNAVAILABLE, "503")
    await world.settle()
    assert world.condition("ListenerReady")[:2] == ("False", "GitHubUnavailable")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        '{"reason":"NewerThanWe","message":"","since":"2027-01-15T08:00:00Z"}',
        # What was said of a scale set that is gone is no news about the one that is there.
        encoded(ListenerWord(Reason.SCALE_SET_GONE, "", 1_800_000_000.0, scale_set_id=6)),
    ],
)
async def test_what_cannot_be_read_or_is_about_another_is_passed_over(text: str) -> None:
    world = await settled()
    writes(world, text)
    await world.settle()
    assert world.condition("ListenerReady")[:2] == ("True", "Running")
    assert world.events.reasons() == []


async def test_without_a_listener_nobody_speaks() -> None:
    world = await settled()
    says(world, Reason.SESSION_LOST)
    seen = world.reconciler.observe(KEY)
    assert seen is not None and heard.word(seen) is not None
    world.api.change(AUTOSCALING_LISTENERS, HOME, AL_NAME, {"metadata": {"deletionTimestamp": "x"}})
    seen = world.reconciler.observe(KEY)
    assert seen is not None and heard.word(seen) is None


async def test_the_word_is_left_alone_and_compared_with_nothing() -> None:
    world = await settled()
    says(world, Reason.SESSION_HELD_ELSEWHERE, "409")
    await world.settle()
    assert keys.LISTENER_TROUBLE in world.ers["metadata"]["annotations"]
    world.api.changes()
    world.edit(maxRunners=9)
    world.edit_meta(labels={"team": "b"})
    await world.settle()
    assert keys.LISTENER_TROUBLE in world.ers["metadata"]["annotations"]
    assert keys.LISTENER_TROUBLE not in world.annotations[keys.SET_KEYS]


# --- the scale set is gone -----------------------------------------------------------------------


async def test_a_scale_set_that_it_misses_is_asked_about_and_registered_at_once() -> None:
    world = await settled()
    world.clock.advance(20)
    world.github.sets.clear()
    says(world, Reason.SCALE_SET_GONE, "GitHub answered 404")
    await world.settle()
    assert list(world.github.sets) == [8]
    assert world.annotations[keys.SCALE_SET_ID] == "8"
    assert world.ers["spec"]["ephemeralRunnerSpec"]["runnerScaleSetId"] == 8
    # It is healed, and still told for a while that it was so.
    status, reason, message = condition(world, "Registered")
    assert (status, reason) == ("True", "ScaleSetGone")
    assert message.startswith("GitHub no longer knew the scale set 7; it is registered anew as 8. ")
    assert world.events.reasons() == ["ScaleSetGone"]
    assert world.condition("ListenerReady")[:2] == ("True", "Running")  # its word was about 7
    await world.later(61)
    assert world.condition("Registered")[:2] == ("True", "Registered")
    assert world.status["reason"] == ""


async def test_its_word_alone_registers_nothing() -> None:
    world = await settled()
    world.clock.advance(20)
    says(world, Reason.SCALE_SET_GONE)
    before = len(world.github.calls)
    await world.settle()
    assert world.github.calls[before:] == [("get", 7)]  # once, and GitHub knows it
    assert world.condition("ListenerReady")[:2] == ("False", "ScaleSetGone")
    # Once more, because its time is in whole seconds; then its word is older than the answer.
    end = await world.later(1)
    assert len(world.github.calls) == before + 2
    assert end.again_s == heard.DOUBT_AGAIN_S
    await world.later(20)
    assert len(world.github.calls) == before + 2
    await world.later(10)
    assert len(world.github.calls) == before + 3


async def test_other_words_ask_nobody() -> None:
    world = await settled()
    world.clock.advance(20)
    before = len(world.github.calls)
    says(world, Reason.GITHUB_UNAVAILABLE)
    await world.settle()
    assert len(world.github.calls) == before


async def test_a_scale_set_that_cannot_be_registered_anew_is_not_called_registered() -> None:
    world = await settled()
    world.clock.advance(20)
    world.github.sets.clear()
    down = Unavailable("503")
    world.github.fault = lambda call, place: down if call == "create" else None
    says(world, Reason.SCALE_SET_GONE)
    await world.settle()
    assert world.condition("Registered")[0] == "False"
    assert "ScaleSetGone" in world.events.reasons()
