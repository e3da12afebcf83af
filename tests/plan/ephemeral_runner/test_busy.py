"""Sixth stage: a runner with a job is left alone."""

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    AskRunner,
    How,
    Known,
    RemoveRunner,
    Said,
)
from runnerscale.controllers.ephemeral_runner.busy import look
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.pod_view import Exit
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, Removal
from tests.plan.ephemeral_runner.values import (
    BUSY,
    IDLE,
    MADE,
    NEW,
    NOW_S,
    PENDING,
    REF,
    RUNNING,
    WAITING,
    ending,
    no_answer,
    removed,
    seen,
    talking,
    told,
)

OVER = replace(BUSY, job_over=True)


@pytest.mark.parametrize(
    "hand",
    [
        Hand(),  # the controller restarted
        MADE,
        no_answer(),  # GitHub is away
        no_answer(reason=Reason.CREDENTIALS_REFUSED),
    ],
)
@pytest.mark.parametrize("after_s", [0.0, 599.0, 1800.0, 7 * 3600.0])
def test_a_busy_runner_survives_whatever_time_and_github_do(hand: Hand, after_s: float) -> None:
    kept = replace(seen(BUSY, RUNNING, hand), now_s=NOW_S + after_s)
    assert {type(action) for action in plan(kept).actions} <= {AskRunner}
    failing = replace(kept, pod=replace(RUNNING, ready=False, failed=Exit("dind", 137)))
    assert not any(isinstance(a, RemoveRunner) for a in plan(failing).actions)


def test_a_job_that_github_spoke_of_counts_before_it_is_stored() -> None:
    # "A job runs on it" can be heard before the listener's write has come (issue log 19).
    told_busy = seen(IDLE, RUNNING, removed(Removal.BUSY))
    assert plan(told_busy).actions == ()


def test_a_job_said_to_be_over_gives_the_container_two_minutes() -> None:
    now = seen(OVER, RUNNING, replace(MADE, over_s=NOW_S))
    assert (look(now).again_s, look(now).troubles) == (30, ())
    # The place that it keeps may be what a job waits for. Simulation, seed 993.
    waits = look(replace(now, now_s=NOW_S + 30))
    assert [each.reason for each in waits.troubles] == [Reason.STUCK_AFTER_JOB]
    assert (waits.again_s, waits.ending) == (90, None)
    decided = ending(look(replace(now, now_s=NOW_S + 120)))
    assert decided.how is How.FAILED
    assert decided.trouble is not None
    assert decided.trouble.reason is Reason.STUCK_AFTER_JOB


def test_only_githubs_own_word_ends_it_then() -> None:
    late = seen(OVER, RUNNING, replace(MADE, over_s=NOW_S), after_s=120)
    assert plan(late).actions == (RemoveRunner(REF, 7),)
    # The service was wrong (issue log 21): the job runs, and so does the runner.
    running = told(late, RemoveRunner(REF, 7), Said.JOB_RUNNING)
    step = plan(running)
    assert step.again_s == 30
    assert not any(getattr(a, "phase", None) for a in step.actions)
    over = told(late, RemoveRunner(REF, 7), Said.ABSENT)
    (write,) = plan(over).actions
    assert getattr(write, "phase", None) == "Failed"


def test_a_registration_that_is_gone_is_confirmed_before_the_runner_is_ended() -> None:
    hand = talking(asked_s=NOW_S, known=False, missing_s=NOW_S)
    now = seen(BUSY, RUNNING, hand)
    assert (look(now).again_s, look(now).troubles) == (30, ())
    waits = look(replace(now, now_s=NOW_S + 40))
    assert [each.reason for each in waits.troubles] == [Reason.STUCK_AFTER_JOB]
    assert (waits.again_s, waits.actions, waits.ending) == (80, (), None)
    later = replace(now, now_s=NOW_S + 120)
    assert look(later).actions == (AskRunner(REF, 7),)
    assert ending(look(told(later, AskRunner(REF, 7), Said.ABSENT))).how is How.FAILED
    assert look(told(later, AskRunner(REF, 7), Known(7, 3))).ending is None


def test_a_long_job_costs_a_question_an_hour() -> None:
    young = replace(seen(BUSY, RUNNING), watching_since_s=NOW_S - 1)
    assert look(young).again_s == 3600
    assert look(replace(young, now_s=NOW_S + 3600)).actions == (AskRunner(REF, 7),)


def test_other_stages_are_not_its_business() -> None:
    assert look(seen(PENDING, RUNNING)) == NOTHING
    assert look(seen(BUSY, WAITING)) == NOTHING
    assert look(seen(replace(NEW, has_job=True), RUNNING)) == NOTHING
    assert look(seen(BUSY)) == NOTHING
