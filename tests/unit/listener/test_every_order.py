"""The race of the mission: the controller's `Pending` against the listener's `Running`.

Both sides' real rules and bodies, on an API with real versions, in every order in which their
requests can reach it, however often somebody has to begin anew. Nothing sleeps: an order is a
list of turns, and all of them are tried. The same is then done with a guard taken out, and at
least one order must lose something: so the guards are what holds, not the luck of the tests.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.controllers.ephemeral_runner import status
from runnerscale.controllers.ephemeral_runner.actions import PatchStatus
from runnerscale.controllers.ephemeral_runner.apply import status_body
from runnerscale.controllers.ephemeral_runner.identity import Jit
from runnerscale.controllers.ephemeral_runner.observe import observed
from runnerscale.controllers.ephemeral_runner.snapshot import Hand
from runnerscale.core.secret import SecretText
from runnerscale.listener.job_started import (
    Answer,
    Outcome,
    Read,
    Write,
    after_read,
    after_write,
    first_step,
    seen_of,
)
from runnerscale.scaleset.model import JobEvent, JobEventKind
from tests.unit.listener.fakes import merged

NOW = 1_800_000_000.0
JIT = Jit(17, "runner-1", 3, SecretText("config"))
EVENT = JobEvent(
    kind=JobEventKind.STARTED,
    index=0,
    job_id="job-1",
    owner_name="o",
    repository_name="r",
    runner_name="runner-1",
)


class Server:
    """One runner, with the two rules that matter: versions, and merge patches of the status."""

    def __init__(self, phase: str) -> None:
        self.version = 1
        self.item: dict[str, Any] = {
            "metadata": {"name": "runner-1", "namespace": "ns", "uid": "u"},
            "status": {"phase": phase} if phase else {},
        }

    def read(self) -> EphemeralRunner:
        body = copy.deepcopy(self.item)
        body["metadata"]["resourceVersion"] = str(self.version)
        return msgspec.convert(body, EphemeralRunner)

    def patch(self, body: dict[str, Any]) -> bool:
        asked = body.get("metadata", {}).get("resourceVersion")
        if asked is not None and asked != str(self.version):
            return False
        new = merged(self.item, {"status": body["status"]})
        if new != self.item:
            self.item, self.version = new, self.version + 1
        return True


Body = dict[str, Any]
Guard = Callable[[Body], Body]
Actor = Iterator[None]  # one request at a time; the end is the end


def kept(body: Body) -> Body:
    return body


def without_version(body: Body) -> Body:
    return {key: part for key, part in body.items() if key != "metadata"}


def controller(server: Server, guard: Guard = kept) -> Actor:
    """Its first write: the registration exists."""
    while True:
        item = server.read()  # a cache is a read of some time ago
        yield
        step = status.look(observed(item, None, None, hand=Hand(jit=JIT), now_s=NOW), ())
        if not step.actions:
            return
        (action,) = step.actions
        assert isinstance(action, PatchStatus)
        server.patch(guard(status_body(action, now_s=NOW)))
        yield


def verdict_controller(server: Server, phase: str) -> Actor:
    """It retires the runner."""
    while True:
        version = str(server.version)
        yield
        done = server.patch({"metadata": {"resourceVersion": version}, "status": {"phase": phase}})
        yield
        if done:
            return


def listener(server: Server, guard: Guard = kept) -> Actor:
    """A job started."""
    step = first_step(EVENT)
    while not isinstance(step, Outcome):
        match step:
            case Read():
                step = after_read(EVENT, Answer.DONE, seen_of(server.read()))
            case Write(body, promotes):
                answer = Answer.DONE if server.patch(guard(body)) else Answer.CONFLICT
                step = after_write(answer, promoted=promotes)
        yield


Make = Callable[[Server], tuple[Actor, ...]]


def every_order(phase: str, make: Make) -> list[dict[str, Any]]:
    """The status in the end, for every order of the actors' turns."""
    ends: list[dict[str, Any]] = []
    orders: list[tuple[int, ...]] = [()]
    while orders:
        order = orders.pop()
        server = Server(phase)
        actors = list(make(server))
        open_ = set(range(len(actors)))
        for turn in order:
            try:
                next(actors[turn])
            except StopIteration:
                open_.discard(turn)
        if not open_:
            ends.append(server.item["status"])
        assert len(order) < 40, "somebody begins anew for ever"
        orders += [(*order, turn) for turn in open_]
    return ends


def both(server: Server) -> tuple[Actor, ...]:
    return controller(server), listener(server)


@pytest.mark.behaviour("C1 T163")
@pytest.mark.parametrize("phase", ["", "Pending", "Unknown"])
def test_running_survives_the_first_pending_in_every_order_and_nothing_is_lost(phase: str) -> None:
    ends = every_order(phase, both)
    assert len(ends) > 10
    for end in ends:
        assert (end["phase"], end["jobId"], end["runnerId"]) == ("Running", "job-1", 17)


def test_without_the_controllers_guard_some_order_loses_running() -> None:
    ends = every_order("", lambda server: (controller(server, without_version), listener(server)))
    assert {end["phase"] for end in ends} == {"Running", "Pending"}


@pytest.mark.parametrize("phase", ["Failed", "Outdated", "Succeeded"])
def test_a_verdict_survives_a_job_that_starts_in_every_order(phase: str) -> None:
    ends = every_order(
        "Pending", lambda server: (verdict_controller(server, phase), listener(server))
    )
    assert {(end["phase"], end["jobId"]) for end in ends} == {(phase, "job-1")}


def test_without_the_listeners_guard_some_order_loses_the_verdict() -> None:
    ends = every_order(
        "Pending",
        lambda server: (verdict_controller(server, "Failed"), listener(server, without_version)),
    )
    assert {end["phase"] for end in ends} == {"Running", "Failed"}


def test_the_same_message_from_two_listeners_at_once_changes_nothing_twice() -> None:
    # A successor reads it again while its predecessor's last request is still on its way.
    ends = every_order("", lambda server: (listener(server), listener(server)))
    assert len({str(sorted(end.items())) for end in ends}) == 1
