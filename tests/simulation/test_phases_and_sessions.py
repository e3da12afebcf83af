"""Invariants that planted defects asked for, shown to fail."""

import json
from types import SimpleNamespace

from runnerscale.fake_github import sessions
from runnerscale.fake_github.twists import Spoilt, malformed_body
from tests.simulation.fabricated import CONTROLLER, LISTENER, Case, runner_object
from tests.simulation.invariants import RUNNERS
from tests.simulation.invariants.pace import BOUNDS
from tests.simulation.invariants.running import unsaid


def test_running_that_is_taken_back_is_a_breach_and_an_end_is_none() -> None:
    case = Case()
    case.busy()
    running, failed = (runner_object("r1", phase=phase) for phase in ("Running", "Failed"))
    case.write(LISTENER, RUNNERS, "r1", runner_object("r1", phase="Pending"), running)
    case.write(CONTROLLER, RUNNERS, "r1", running, failed)
    assert case.breaches() == []
    case.write(CONTROLLER, RUNNERS, "r1", running, runner_object("r1", phase="Pending"))
    assert case.breaches() == ["running is not taken back"]


def test_of_a_job_that_was_said_in_a_message_that_nobody_can_read_nothing_is_said() -> None:
    case = Case()
    for name in ("r1", "r2"):
        case.runner(name, phase="Pending")
        case.busy(name)
    elements = [{"messageType": "JobStarted", "runnerName": "r1"}, {"messageType": "JobCompleted"}]
    envelope = {"messageId": 7, "messageType": "x", "body": json.dumps(elements)}
    call = Spoilt(0, "", "", b"", "", {})
    assert malformed_body(case.github, case.at_s, call, json.dumps(envelope).encode())
    case.breaches()
    assert [name for name, _ in unsaid(case.judge.seen)] == ["r2"]


def ended(case: Case, code: int) -> None:
    """A listener with a session ends."""
    listener = case.container("a-listener", program="listener")
    sessions.open_session(case.github, case.at_s, case.scale_set, "a-listener")
    case.tick()
    listener.exit = SimpleNamespace(code=code)


def test_a_session_that_is_left_open_by_a_listener_that_ends_in_order_is_a_breach() -> None:
    case = Case()
    ended(case, 0)
    assert "a session is given back" in case.tick()


def test_one_that_was_given_back_or_whose_listener_was_killed_is_none() -> None:
    case = Case()
    ended(case, 137)
    assert "a session is given back" not in case.tick()
    again = Case()
    ended(again, 0)
    assert again.scale_set.session is not None
    sessions.close_session(again.github, again.at_s, again.scale_set, again.scale_set.session.id)
    assert "a session is given back" not in again.tick()


def test_a_successor_of_its_name_cannot_give_back_what_a_killed_one_had() -> None:
    # Seed 1343: the one that was killed still had the session, its successor waited for it.
    case = Case()
    ended(case, 137)
    case.tick()
    successor = case.container("a-listener", program="listener")
    successor.spec.pod.uid = "another"
    successor.exit = SimpleNamespace(code=0)
    assert "a session is given back" not in case.tick()


def test_who_was_kept_from_github_is_excused() -> None:
    case = Case()
    ended(case, 0)
    case.world.striking.append("line-to-github-cut")
    assert "a session is given back" not in case.tick()


def test_runners_that_are_made_without_a_pause_are_a_breach() -> None:
    case = Case()
    for number in range(BOUNDS["runners made for a set"] + 1):
        case.runner(f"r{number}")
    assert "no hot loop" in case.breaches()
