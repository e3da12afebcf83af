"""A condition that is written beside the reconciler of its object."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.conditions import READABLE
from runnerscale.controllers.condition_writer import TRIES_MAX, ConditionWriter, Verdict
from runnerscale.core.clock import LoopClock, ManualClock
from runnerscale.kube.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerFault,
    Unreachable,
)
from runnerscale.kube.objects import ObjectReference
from tests.plan.memory_api import MemoryApi

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]
ABOUT = ObjectReference("v1", "AutoscalingRunnerSet", "ns", "x", "uid-1")
BAD = Verdict(ABOUT, READABLE, good=False, reason="ObjectUnreadable", message="a word, no number")
GOOD = Verdict(ABOUT, READABLE, good=True, reason="Recovered")


def said(run_virtual: RunVirtual, api: MemoryApi, *verdicts: Verdict) -> list[Any]:
    """The conditions of `x` after all that was said."""

    async def scenario() -> None:
        writer = ConditionWriter(api, clock=LoopClock(0.0))  # type: ignore[arg-type]
        task = asyncio.create_task(writer.run())
        for verdict in verdicts:
            writer.say(AUTOSCALING_RUNNER_SETS, verdict)
            await asyncio.sleep(300)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(scenario())
    body = api.body(AUTOSCALING_RUNNER_SETS, "ns", "x") or {}
    found = body.get("status", {}).get("conditions", [])
    return [(c["type"], c["status"], c["reason"]) for c in found]


def world(status: Any = None, uid: str = "uid-1") -> MemoryApi:
    api = MemoryApi(ManualClock())
    body: dict[str, Any] = {"metadata": {"name": "x", "uid": uid}}
    if status is not None:
        body["status"] = status
    api.put(AUTOSCALING_RUNNER_SETS, "ns", body)
    return api


def test_an_object_that_cannot_be_read_is_marked_all_the_same(run_virtual: RunVirtual) -> None:
    # Its own type would refuse it: a number where text belongs.
    api = world({"phase": 7, "conditions": ["nonsense", {"type": "Ready", "status": "True"}]})
    found = said(run_virtual, api, BAD)
    assert found == [("Ready", "True", ""), (READABLE, "False", "ObjectUnreadable")]
    assert said(run_virtual, api, GOOD)[1] == (READABLE, "True", "Recovered")


def test_what_is_said_already_is_not_written_again(run_virtual: RunVirtual) -> None:
    api = world()
    said(run_virtual, api, BAD, BAD, BAD)
    assert len(api.writes) == 1


def test_good_news_is_only_written_over_bad(run_virtual: RunVirtual) -> None:
    api = world()
    assert said(run_virtual, api, GOOD) == []
    assert api.writes == []


def test_a_namesake_is_left_alone_and_so_is_what_is_gone(run_virtual: RunVirtual) -> None:
    api = world(uid="another")
    assert said(run_virtual, api, BAD) == []
    api.drop(AUTOSCALING_RUNNER_SETS, "ns", "x")
    assert said(run_virtual, api, BAD) == []


def test_a_conflict_is_read_and_written_again(run_virtual: RunVirtual) -> None:
    api, failures = world(), [Conflict(409, "Conflict", "modified")]
    api.fault = lambda verb, plural, name: failures.pop() if verb == "patch" and failures else None
    assert said(run_virtual, api, BAD) == [(READABLE, "False", "ObjectUnreadable")]


def test_a_server_that_never_takes_it_is_given_up(run_virtual: RunVirtual) -> None:
    api, tries = world(), []

    def refuse(verb: str, plural: str, name: str) -> Exception | None:
        if verb != "patch":
            return None
        tries.append(name)
        return ServerFault(500, "InternalError", "no")

    api.fault = refuse
    assert said(run_virtual, api, BAD) == []
    assert len(tries) == TRIES_MAX


class Hearing:
    """What whoever speaks for the object was told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def refused(self, about: ObjectReference, error: Any) -> None:
        self.heard.append((about.name, str(getattr(error, "message", error))))

    def accepted(self, about: ObjectReference) -> None:
        self.heard.append((about.name, "accepted"))


async def heard(
    api: MemoryApi, *, error: Exception | None, then: Callable[[ConditionWriter], None]
) -> list[tuple[str, str]]:
    """All that is told of `x`: the server refuses for ten seconds, and `then` comes after five."""
    failing = [error]
    api.fault = lambda verb, plural, name: failing[0] if verb == "patch" else None
    hearing, writer = Hearing(), ConditionWriter(api, clock=LoopClock(0.0))  # type: ignore[arg-type]
    writer.tell(AUTOSCALING_RUNNER_SETS, hearing)
    task = asyncio.create_task(writer.run())
    writer.say(AUTOSCALING_RUNNER_SETS, BAD)
    await asyncio.sleep(5)
    then(writer)
    await asyncio.sleep(5)
    failing[0] = None
    await asyncio.sleep(300)
    task.cancel()
    await asyncio.wait([task])
    return hearing.heard


@pytest.mark.parametrize("kind", [Forbidden, Invalid, BadRequest])
def test_who_speaks_for_an_object_hears_that_it_cannot_be_written_on(
    run_virtual: RunVirtual, kind: type[Forbidden]
) -> None:
    # Seed 5009: a webhook refused all writes to runners, and no object said why their jobs waited.
    refusal = kind(403, "Forbidden", "a webhook said no")
    told = run_virtual(heard(world(), error=refusal, then=lambda writer: None))
    assert told == [("x", "a webhook said no")] * 4 + [("x", "accepted")]  # at 0, 1, 3, 7; 15 s


@pytest.mark.parametrize("error", [ServerFault(500, "Error", "no"), Unreachable("no")])
def test_a_webhook_that_cannot_be_called_is_told_of_too_but_a_hiccup_is_not(
    run_virtual: RunVirtual, error: Exception
) -> None:
    # Seeds 5297 and 7346: whoever waits for a webhook that is away gets a 500, or no answer.
    told = run_virtual(heard(world(), error=error, then=lambda writer: None))
    assert told == [("x", "no"), ("x", "accepted")]  # with the try after 7 s; not at 0, 1 and 3 s


@pytest.mark.parametrize("verb", ["get", "patch"])
def test_a_server_that_cannot_even_be_read_from_says_nothing_about_one_object(
    run_virtual: RunVirtual, verb: str
) -> None:
    api, hearing = world(), Hearing()
    api.fault = lambda did, plural, name: Unreachable("no") if did == verb else None

    async def scenario() -> None:
        writer = ConditionWriter(api, clock=LoopClock(0.0))  # type: ignore[arg-type]
        writer.tell(AUTOSCALING_RUNNER_SETS, hearing)
        task = asyncio.create_task(writer.run())
        writer.say(AUTOSCALING_RUNNER_SETS, BAD)
        await asyncio.sleep(300)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(scenario())
    assert bool(hearing.heard) == (verb == "patch")


@pytest.mark.parametrize("error", [Conflict(409, "Conflict", ""), NotFound(404, "NotFound", "")])
def test_what_passes_by_itself_is_told_to_nobody(run_virtual: RunVirtual, error: Exception) -> None:
    told = run_virtual(heard(world(), error=error, then=lambda writer: None))
    assert told == [("x", "accepted")]


def test_what_is_withdrawn_is_not_written_any_more(run_virtual: RunVirtual) -> None:
    api, refusal = world(), Forbidden(403, "Forbidden", "a webhook said no")
    told = run_virtual(
        heard(
            api,
            error=refusal,
            then=lambda writer: writer.withdraw(AUTOSCALING_RUNNER_SETS, ABOUT, READABLE),
        )
    )
    assert told == [("x", "a webhook said no")] * 3 + [("x", "accepted")]
    assert api.writes == []


def test_a_refusal_that_comes_after_the_withdrawal_is_nobodys_business(
    run_virtual: RunVirtual,
) -> None:
    api, hearing = world(), Hearing()

    async def scenario() -> None:
        writer = ConditionWriter(api, clock=LoopClock(0.0))  # type: ignore[arg-type]

        def refuse(verb: str, plural: str, name: str) -> Exception | None:
            if verb != "patch":
                return None
            writer.withdraw(AUTOSCALING_RUNNER_SETS, ABOUT, READABLE)  # while it is on its way
            return Forbidden(403, "Forbidden", "a webhook said no")

        api.fault = refuse
        writer.tell(AUTOSCALING_RUNNER_SETS, hearing)
        task = asyncio.create_task(writer.run())
        writer.say(AUTOSCALING_RUNNER_SETS, BAD)
        await asyncio.sleep(300)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(scenario())
    assert hearing.heard == [("x", "accepted")]
