"""Events are best effort: never in the way, never too many, never a secret reason to fail."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.errors import Unreachable
from runnerscale.kube.events import MESSAGE_BYTES_MAX, EventRecorder, cut
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.objects import ObjectReference
from tests.unit.kube.scripted import Reply, Scripted, Sent, answer, client_on, status

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]
ABOUT = ObjectReference("example.com/v1", "Widget", "ns", "a", "u1")


class Stage:
    """A recorder with its writer, over a transport that a test scripts."""

    def __init__(self, reply: Callable[[Sent], Reply] = lambda _: answer(201, {})) -> None:
        self.transport = Scripted(reply)
        self.registry = CollectorRegistry()
        self.recorder = EventRecorder(
            client_on(self.transport),
            component="runnerscale-controller",
            instance="pod-1",
            clock=LoopClock(1_800_000_000.0),
            random=seeded(1),
            metrics=KubeMetrics(self.registry),
        )

    def say(self, message: str = "it is", about: ObjectReference = ABOUT) -> None:
        self.recorder.record(about, type="Warning", reason="Because", message=message)

    def count(self, outcome: str) -> float:
        labels = {"outcome": outcome}
        return self.registry.get_sample_value("event_recorder_events_total", labels) or 0.0

    async def write_for(self, seconds: float) -> None:
        task = asyncio.create_task(self.recorder.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.wait([task])


def test_an_event_is_written_as_kubectl_shows_it(run_virtual: RunVirtual) -> None:
    async def scenario() -> Stage:
        stage = Stage()
        stage.say()
        await stage.write_for(1)
        return stage

    (sent,) = run_virtual(scenario()).transport.sent
    assert (sent.method, sent.path) == ("POST", "/api/v1/namespaces/ns/events")
    body = sent.json
    assert body["metadata"]["name"].startswith("a.")
    assert body["involvedObject"] == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "namespace": "ns",
        "name": "a",
        "uid": "u1",
    }
    assert (body["type"], body["reason"], body["message"]) == ("Warning", "Because", "it is")
    assert body["count"] == 1
    assert body["firstTimestamp"] == body["lastTimestamp"] == "2027-01-15T08:00:00Z"
    assert body["source"] == {"component": "runnerscale-controller"}
    assert body["reportingComponent"] == "runnerscale-controller"
    assert body["reportingInstance"] == "pod-1"


def test_the_same_again_raises_the_count(run_virtual: RunVirtual) -> None:
    async def scenario() -> list[Sent]:
        stage = Stage()
        for _ in range(3):
            stage.say()  # while the first still waits
        await stage.write_for(1)
        stage.say()
        stage.say("something else")
        await stage.write_for(1)
        return stage.transport.sent

    first, second, third = run_virtual(scenario())
    assert first.json["count"] == 3
    assert second.method == "PATCH"
    assert second.path.endswith("/events/" + first.json["metadata"]["name"])
    assert second.json == {"count": 4, "lastTimestamp": "2027-01-15T08:00:01Z"}
    assert (third.method, third.json["count"]) == ("POST", 1)


def test_an_event_that_the_server_has_forgotten_is_written_anew(run_virtual: RunVirtual) -> None:
    def reply(sent: Sent) -> Reply:
        return status(404, "NotFound") if sent.method == "PATCH" else answer(201, {})

    async def scenario() -> list[str]:
        stage = Stage(reply)
        stage.say()
        await stage.write_for(1)
        stage.say()
        await stage.write_for(1)
        stage.say()  # after the hour the recorder knows without asking
        await stage.write_for(1)
        await asyncio.sleep(3600)
        stage.say()
        await stage.write_for(1)
        return [sent.method for sent in stage.transport.sent]

    assert run_virtual(scenario()) == ["POST", "PATCH", "POST", "PATCH", "POST", "POST"]


def test_a_storm_is_bounded_in_memory_and_in_rate(run_virtual: RunVirtual) -> None:
    async def scenario() -> tuple[Stage, int]:
        stage = Stage()
        for number in range(3000):
            stage.say(f"message {number}")
        await stage.write_for(1.0)
        soon = len(stage.transport.sent)
        await stage.write_for(10.0)
        return stage, soon

    stage, soon = run_virtual(scenario())
    assert stage.count("dropped") == 2000
    assert 25 <= soon <= 36  # a burst of 25, then 10 a second
    assert len(stage.transport.sent) <= soon + 25 + 101


def test_forbidden_is_said_once_and_then_quiet_for_a_while(run_virtual: RunVirtual) -> None:
    def reply(sent: Sent) -> Reply:
        forbidden = status(403, "Forbidden", "events is forbidden")
        return forbidden if "/ns/" in sent.path else answer(201, {})

    async def scenario() -> Stage:
        stage = Stage(reply)
        elsewhere = ObjectReference("v1", "Pod", "other", "p", "u2")
        for number in range(10):
            stage.say(f"message {number}")
        await stage.write_for(5)
        assert len(stage.transport.sent) == 1
        stage.say("more")
        stage.say("and elsewhere", about=elsewhere)  # rights are given per namespace
        await stage.write_for(5)
        assert len(stage.transport.sent) == 2
        await asyncio.sleep(600)  # somebody may have granted it meanwhile
        stage.say("later")
        await stage.write_for(5)
        assert len(stage.transport.sent) == 3
        return stage

    with capture_logs() as logs:
        stage = run_virtual(scenario())
    assert [entry["event"] for entry in logs] == ["events may not be written, going on without"]
    assert stage.count("written") == 1
    assert stage.count("forbidden") == 12


def test_an_event_that_cannot_be_written_is_lost_and_nothing_else(run_virtual: RunVirtual) -> None:
    replies: list[Reply] = [Unreachable("down"), status(500, "InternalError"), answer(201, {})]

    async def scenario() -> Stage:
        stage = Stage(lambda _: replies.pop(0))
        for number in range(3):
            stage.say(f"message {number}")
        await stage.write_for(60)
        return stage

    stage = run_virtual(scenario())
    assert (stage.count("failed"), stage.count("written")) == (2, 1)


def test_an_event_about_a_cluster_wide_object_goes_to_default(run_virtual: RunVirtual) -> None:
    async def scenario() -> Sent:
        stage = Stage()
        stage.say(about=ObjectReference("v1", "Node", "", "n1", "u3"))
        await stage.recorder.flush()
        return stage.transport.sent[0]

    sent = run_virtual(scenario())
    assert sent.path == "/api/v1/namespaces/default/events"
    assert "namespace" not in sent.json["involvedObject"]


def test_a_very_long_object_name_still_makes_an_event(run_virtual: RunVirtual) -> None:
    async def scenario() -> str:
        stage = Stage()
        stage.say(about=ObjectReference("v1", "Pod", "ns", "x" * 253, "u3"))
        await stage.recorder.flush()
        name = stage.transport.sent[0].json["metadata"]["name"]
        assert isinstance(name, str)
        return name

    assert len(run_virtual(scenario())) <= 253


@given(st.text())
def test_a_message_is_cut_to_what_the_server_takes(message: str) -> None:
    assert len(cut(message * 50).encode("utf-8", errors="replace")) <= MESSAGE_BYTES_MAX


@pytest.mark.parametrize("message", ["", "short", "x" * 1024, "ä" * 512])
def test_a_message_that_fits_is_left_alone(message: str) -> None:
    assert cut(message) == message
