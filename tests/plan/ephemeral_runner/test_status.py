"""What the status of a living runner says, in as few writes as possible."""

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner.actions import NOTHING, Done, PatchStatus
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, PodPast, Runner
from runnerscale.controllers.ephemeral_runner.status import look
from runnerscale.controllers.ephemeral_runner.status import told as told_by_status
from runnerscale.kube.objects import Condition
from tests.plan.ephemeral_runner.values import (
    BUSY,
    IDLE,
    JIT,
    MADE,
    NEW,
    PENDING,
    PLACED,
    RUNNING,
    WAITING,
    exited,
    patch,
    seen,
    told,
)

IN_HAND = Hand(jit=JIT, pod=PodPast.NEVER)


def writes(runner: Runner, pod: object = None, hand: Hand = MADE) -> PatchStatus | None:
    step = look(seen(runner, pod, hand), ())  # type: ignore[arg-type]
    return patch(step.actions) if step.actions else None


@pytest.mark.behaviour("C1 T140")
def test_one_write_stores_id_name_and_pending_with_its_version() -> None:
    write = writes(NEW, None, IN_HAND)
    assert write is not None
    assert (write.phase, write.runner_id, write.runner_name) == ("Pending", 7, "runner-a")
    assert write.resource_version == "10"
    assert (write.ready, write.reason, write.message) == (None, None, None)


@pytest.mark.behaviour("C1 T160", "C2 T163")
def test_an_empty_phase_becomes_pending_and_nothing_else_from_the_pod() -> None:
    unset = replace(PENDING, phase="")
    write = writes(unset, RUNNING)
    assert write is not None
    assert write.phase == "Pending"
    assert write.ready is True  # readiness follows the pod
    stored = told(seen(unset, RUNNING), write, Done("12"))
    assert look(stored, ()) == NOTHING  # and stays Pending


@pytest.mark.behaviour("C1 T164")
def test_the_legacy_unknown_becomes_pending() -> None:
    write = writes(replace(PENDING, phase="Unknown"), RUNNING)
    assert write is not None
    assert (write.phase, write.resource_version) == ("Pending", "11")


@pytest.mark.behaviour("C1 T162")
@pytest.mark.parametrize("pod", [WAITING, PLACED, RUNNING, replace(RUNNING, ready=False)])
def test_running_is_the_listeners_and_is_never_written_over(pod: object) -> None:
    write = writes(replace(BUSY, ready=True), pod)
    assert write is None or write.phase is None


@pytest.mark.behaviour("C1 T163")
def test_a_pending_over_a_running_that_came_in_between_is_a_conflict() -> None:
    # We read "", the listener wrote Running: our write carries the version that we read.
    write = writes(NEW, None, IN_HAND)
    assert write is not None
    assert write.resource_version == NEW.resource_version
    # What is decided next, on the new version, leaves Running alone but still stores the id.
    after = replace(NEW, resource_version="12", phase="Running", has_job=True)
    again = patch(look(seen(after, RUNNING, replace(IN_HAND, jit=JIT)), ()).actions)
    assert (again.phase, again.runner_id, again.resource_version) == (None, 7, "12")


def test_a_legacy_running_without_a_job_keeps_its_phase() -> None:
    assert writes(replace(IDLE, phase="Running"), RUNNING) is None


@pytest.mark.behaviour("C1 T165", "C2 T163")
def test_readiness_follows_the_pod_and_carries_no_phase() -> None:
    ready = writes(PENDING, RUNNING)
    assert ready is not None
    assert (ready.ready, ready.phase) == (True, None)
    unready = writes(IDLE, replace(RUNNING, ready=False))
    assert unready is not None
    assert (unready.ready, unready.phase) == (False, None)
    assert writes(IDLE, RUNNING) is None


def test_a_pod_that_turns_ready_under_a_job_is_not_worth_a_write() -> None:
    assert writes(BUSY, RUNNING) is None
    unready = writes(replace(BUSY, ready=True), replace(RUNNING, ready=False))
    assert unready is not None
    assert unready.ready is False


def test_a_pod_that_ended_says_nothing_about_readiness() -> None:
    assert writes(IDLE, exited(0)) is None
    assert writes(IDLE, None) is None


def test_a_trouble_is_written_once_and_taken_back_when_it_is_over() -> None:
    why = trouble(Reason.QUOTA_EXCEEDED, about="x", happened="no room")
    step = look(seen(PENDING), (why,))
    write = patch(step.actions)
    assert (write.reason, write.message, write.phase) == ("QuotaExceeded", "no room", None)
    stored = told(seen(PENDING), write, Done("12"))
    assert look(stored, (why,)) == NOTHING
    other_words = trouble(Reason.QUOTA_EXCEEDED, about="x", happened="no room, used: 6")
    assert look(stored, (other_words,)) == NOTHING  # words that change are no write each
    back = patch(look(stored, ()).actions)
    assert (back.reason, back.message) == ("", "")


def test_the_first_trouble_is_the_one_that_is_stored() -> None:
    first = trouble(Reason.QUOTA_EXCEEDED, about="x", happened="a")
    second = trouble(Reason.POD_NOT_PLACED, about="x", happened="b")
    assert patch(look(seen(PENDING), (first, second)).actions).reason == "QuotaExceeded"


def test_conditions_ride_along_and_never_cause_a_write() -> None:
    write = writes(PENDING, RUNNING)
    assert write is not None
    assert write.conditions is not None
    assert {c.type: c.status for c in write.conditions} == {
        "Registered": "True",
        "PodPlaced": "True",
        "Started": "True",
    }
    # CRDs of older releases drop them: the runner without any is not written to again.
    assert writes(IDLE, RUNNING) is None
    foreign = replace(PENDING, conditions=(Condition("Theirs", "True"),))
    kept = writes(foreign, RUNNING)
    assert kept is not None
    assert kept.conditions is not None
    assert kept.conditions[0].type == "Theirs"


def test_a_runner_seen_online_says_so_with_the_next_write() -> None:
    hand = replace(MADE, talk=replace(MADE.talk, online=True))
    write = patch(look(seen(PENDING, RUNNING, hand), ()).actions)
    assert write.conditions is not None
    assert "Online" in [c.type for c in write.conditions]


def test_what_the_status_says_is_told_in_the_same_words_after_a_restart() -> None:
    stored = replace(PENDING, reason="PodLost", message="its pod is gone")
    (again,) = told_by_status(seen(stored))
    assert again == trouble(
        Reason.POD_LOST, about="EphemeralRunner ns/runner-a", happened="its pod is gone"
    )
    assert told_by_status(seen(replace(PENDING, reason="WordOfTomorrow"))) == ()
    assert told_by_status(seen(PENDING)) == ()


def test_terminal_phases_are_never_left() -> None:
    for phase in ("Succeeded", "Failed", "Outdated"):
        over = seen(replace(PENDING, phase=phase), RUNNING)
        assert not any(isinstance(action, PatchStatus) for action in plan(over).actions)
