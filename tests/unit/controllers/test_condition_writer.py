"""A condition that is written beside the reconciler of its object."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.api.conditions import READABLE
from runnerscale.controllers.condition_writer import TRIES_MAX, ConditionWriter, Verdict
from runnerscale.core.clock import LoopClock, ManualClock
from runnerscale.kube.errors import Conflict, ServerFault
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
