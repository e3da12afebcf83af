"""Fifth stage: online at GitHub, and idle."""

import dataclasses

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    AskRunner,
    How,
    Known,
    PatchStatus,
    RemoveRunner,
    Said,
)
from runnerscale.controllers.ephemeral_runner.online import look, next_question_s
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.pod_view import Exit
from runnerscale.controllers.ephemeral_runner.snapshot import Removal
from tests.plan.ephemeral_runner.values import (
    BUSY,
    IDLE,
    MADE,
    NEW,
    NOW_S,
    PLACED,
    REF,
    RUNNING,
    ending,
    no_answer,
    removed,
    seen,
    talking,
    told,
)

ASK = AskRunner(REF, 7)
FRESH = replace(seen(pod=RUNNING), watching_since_s=NOW_S - 10)


def test_nobody_is_asked_before_the_deadline() -> None:
    step = look(FRESH)
    assert (step.actions, step.again_s) == ((), 180)


def test_github_is_asked_once_at_the_deadline_and_then_hardly_ever() -> None:
    due = replace(FRESH, now_s=NOW_S + 180)
    assert look(due).actions == (ASK,)
    online = told(due, ASK, Known(7, 3, status="online"))
    step = look(online)
    assert step.actions == ()
    assert step.again_s is not None
    assert 0 < step.again_s <= 900


def test_a_service_that_does_not_say_online_is_believed_when_it_knows_the_runner() -> None:
    known = told(replace(FRESH, now_s=NOW_S + 180), ASK, Known(7, 3))
    assert look(known).ending is None


def test_a_runner_that_never_comes_online_is_replaced_and_counts() -> None:
    due = replace(FRESH, now_s=NOW_S + 180)
    offline = told(due, ASK, Known(7, 3, status="offline"))
    assert look(offline).again_s == 60
    again = told(replace(offline, now_s=NOW_S + 240), ASK, Known(7, 3, status="offline"))
    decided = ending(look(again))
    assert decided.how is How.FAILED
    assert decided.trouble is not None
    assert decided.trouble.reason is Reason.NEVER_ONLINE


def test_a_runner_that_was_online_may_be_offline_for_a_while() -> None:
    online = told(replace(FRESH, now_s=NOW_S + 180), ASK, Known(7, 3, status="online"))
    offline = told(online, ASK, Known(7, 3, status="offline"))
    assert look(replace(offline, now_s=offline.now_s + 60)).ending is None
    back = told(offline, ASK, Known(7, 3, status="online"))
    assert back.hand.talk.offline_s is None


def test_a_registration_that_is_gone_under_a_running_container_is_confirmed_first() -> None:
    due = replace(FRESH, now_s=NOW_S + 180)
    missing = told(due, ASK, Said.ABSENT)
    assert (look(missing).ending, look(missing).again_s) == (None, 60)
    confirm = replace(missing, now_s=NOW_S + 240)
    assert look(confirm).actions == (ASK,)
    gone = told(confirm, ASK, Said.ABSENT)
    decided = ending(look(gone))
    assert decided.how is How.DISTURBED
    assert decided.trouble is not None
    assert decided.trouble.reason is Reason.REGISTRATION_LOST
    found = told(confirm, ASK, Known(7, 3))
    assert look(found).ending is None


def test_before_such_a_runner_is_ended_github_must_have_forgotten_it() -> None:
    hand = talking(missing_s=NOW_S, asked_s=NOW_S + 60)
    gone = seen(IDLE, RUNNING, hand, after_s=60)
    assert plan(gone).actions == (RemoveRunner(REF, 7),)
    busy = told(gone, RemoveRunner(REF, 7), Said.JOB_RUNNING)
    assert look(busy) == NOTHING  # its job is on the way to us: `busy.py` has it
    assert plan(busy).actions == ()


def test_once_it_has_forgotten_it_the_ending_goes_on_at_once() -> None:
    # GitHub says yes to the removal of one that it does not know, too. Simulation, seed 52.
    hand = talking(missing_s=NOW_S, asked_s=NOW_S + 60)
    gone = told(seen(IDLE, RUNNING, hand, after_s=60), RemoveRunner(REF, 7), Said.FORGOTTEN)
    (stored,) = plan(gone).actions
    assert isinstance(stored, PatchStatus)
    assert stored.reason == Reason.REGISTRATION_LOST


def test_a_github_without_an_answer_decides_nothing() -> None:
    due = seen(pod=RUNNING, hand=no_answer(), after_s=0)
    due = replace(due, watching_since_s=NOW_S - 200, pod=replace(RUNNING, started_s=NOW_S - 180))
    step = look(due)
    assert (step.actions, step.ending, step.again_s) == ((), None, 60)


def test_a_container_beside_it_that_fails_ends_an_idle_runner() -> None:
    pod = replace(RUNNING, failed=Exit("dind", 1))
    assert ending(look(seen(pod=pod))).how is How.FAILED
    assert look(seen(BUSY, pod)) == NOTHING


def test_all_runners_together_cost_one_call_in_ten_seconds_at_most() -> None:
    def asks(alive: int) -> int:
        count = 0
        for n in range(alive):
            runner = replace(BUSY, has_job=False, ref=dataclasses.replace(REF, uid=f"uid-{n}"))
            now = replace(seen(runner, RUNNING), alive=alive, watching_since_s=NOW_S - 10)
            # An hour, a long time after everybody was asked for the first time.
            begin_s = NOW_S + 40_000
            hand = talking(MADE, asked_s=begin_s, known=True, online=True)
            due_s = next_question_s(
                replace(now, hand=hand), first_s=NOW_S + 180, every_s=max(900, alive * 10)
            )
            count += begin_s < due_s <= begin_s + 3600
        return count

    assert asks(10) == 10  # each asked, and again after a quarter of an hour
    assert asks(1000) <= 3600 / 10 * 1.2
    assert asks(4000) <= 3600 / 10 * 1.2


def test_a_restart_does_not_ask_about_all_runners_at_once() -> None:
    # They started long ago: their first question is presumed asked by the process before.
    soon = 0
    for n in range(500):
        runner = replace(BUSY, has_job=False, ref=dataclasses.replace(REF, uid=f"uid-{n}"))
        old = replace(RUNNING, started_s=NOW_S - 100_000)
        now = replace(seen(runner, old), watching_since_s=NOW_S, alive=500)
        step = look(now)
        assert step.actions == ()
        assert step.again_s is not None
        soon += step.again_s < 60
    assert soon < 15


@pytest.mark.parametrize("after_s", [1.0, 5_000.0, 123_456.0])
def test_the_next_question_is_always_ahead(after_s: float) -> None:
    asked = talking(MADE, asked_s=NOW_S + after_s, known=True)
    now = seen(pod=RUNNING, hand=asked, after_s=after_s)
    due_s = next_question_s(now, first_s=NOW_S + 180, every_s=900)
    assert now.now_s < due_s <= now.now_s + 1800


def test_what_is_not_running_idle_and_registered_is_not_its_business() -> None:
    assert look(seen(pod=PLACED)) == NOTHING
    assert look(seen(BUSY, RUNNING)) == NOTHING
    assert look(seen(NEW, RUNNING)) == NOTHING
    assert look(seen(pod=RUNNING, hand=removed(Removal.BUSY))) == NOTHING
    assert look(seen()) == NOTHING
