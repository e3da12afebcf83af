"""An EphemeralRunner that is being deleted."""

import pytest
from msgspec.structs import replace

from runnerscale.api.labels import EPHEMERAL_RUNNER_FINALIZERS
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    DeleteLeftovers,
    DeletePod,
    Done,
    FindRunner,
    Known,
    Refused,
    RemoveRunner,
    Said,
    SetFinalizers,
)
from runnerscale.controllers.ephemeral_runner.cleanup import look, soonest
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, Removal
from tests.plan.ephemeral_runner.values import (
    BUSY,
    IDLE,
    MADE,
    NEW,
    NOW_S,
    PLACED,
    REF,
    RUNNING,
    after_restart,
    exited,
    no_answer,
    reasons,
    removed,
    seen,
    talking,
    told,
)

GOING = replace(IDLE, deleted_s=NOW_S, resource_version="20")
GOING_BUSY = replace(BUSY, deleted_s=NOW_S, resource_version="20")
GOING_NEW = replace(NEW, deleted_s=NOW_S, resource_version="20")
REMOVE = RemoveRunner(REF, 7)
LET_GO = SetFinalizers(REF, "20", ())


def test_after_a_job_the_pod_goes_without_grace_and_then_both_finalizers_in_one_patch() -> None:
    now = seen(GOING_BUSY, exited(0))
    delete = DeletePod(REF, "pod-1", grace_s=0)
    assert look(now).actions == (delete,)  # GitHub forgets the runner by itself: no call
    now = told(now, delete, Said.GONE)
    assert look(now).actions == (LET_GO,)
    now = told(now, LET_GO, Done("21"))
    assert now.gone
    assert plan(now).actions == ()


def test_an_idle_runner_is_forgotten_before_its_pod_is_ended() -> None:
    now = seen(GOING, RUNNING)
    assert look(now).actions == (REMOVE,)
    now = told(now, REMOVE, Said.FORGOTTEN)
    delete = DeletePod(REF, "pod-1", grace_s=None)
    assert look(now).actions == (delete,)
    now = told(now, delete, Done("5"))
    assert look(now).actions == ()  # until the pod is really gone
    assert look(replace(now, pod=None)).actions == (LET_GO,)


@pytest.mark.behaviour("C1 T173")
def test_a_runner_that_github_does_not_know_is_as_good_as_removed() -> None:
    now = told(seen(GOING, None), REMOVE, Said.ABSENT)
    assert look(now).actions == (LET_GO,)


def test_one_word_that_github_does_not_know_it_does_not_end_a_container_with_a_job() -> None:
    # Simulation, seed 103: the word was wrong, and the job was killed. A runner whose job is over
    # ends by itself within two minutes; then GitHub is asked once more.
    now = told(seen(GOING_BUSY, RUNNING), REMOVE, Said.ABSENT)
    assert look(now).actions == ()
    assert look(now).again_s == 120.0
    assert reasons(look(now).troubles) == ["DeletionWaits"]
    assert look(replace(now, pod=exited(1))).actions == (DeletePod(REF, "pod-1", grace_s=0),)
    later = replace(now, now_s=NOW_S + 120)
    assert look(later).actions == (REMOVE,)
    assert look(told(later, REMOVE, Said.JOB_RUNNING)).actions == ()
    absent = look(told(later, REMOVE, Said.ABSENT))
    assert absent.actions == (DeletePod(REF, "pod-1", grace_s=None),)


@pytest.mark.behaviour("C1 T168")
def test_a_busy_runner_that_a_person_deletes_keeps_its_pod_until_the_job_is_over() -> None:
    now = told(seen(GOING_BUSY, RUNNING), REMOVE, Said.JOB_RUNNING)
    for hours in range(10):
        step = look(replace(now, now_s=now.now_s + hours * 3600))
        assert all(isinstance(action, RemoveRunner) for action in step.actions)
    step = look(now)
    assert (step.actions, step.again_s) == ((), 30)
    assert reasons(step.troubles) == ["DeletionWaits"]
    due = replace(now, now_s=NOW_S + 30)
    assert look(due).actions == (REMOVE,)
    accepted = told(due, REMOVE, Said.FORGOTTEN)
    assert look(accepted).actions == (DeletePod(REF, "pod-1", grace_s=None),)


def test_a_busy_runner_is_safe_from_deletion_while_github_cannot_be_asked() -> None:
    away = no_answer()
    for after_s in (0.0, 600.0, 5 * 3600.0):
        now = seen(GOING_BUSY, RUNNING, away, after_s=after_s)
        assert not any(isinstance(action, DeletePod) for action in look(now).actions)


def test_a_pod_that_ended_does_not_wait_for_github() -> None:
    for hand in (no_answer(), removed(Removal.BUSY)):
        step = look(seen(GOING, exited(1), hand))
        assert step.actions == (DeletePod(REF, "pod-1", grace_s=0),)


def test_a_pod_that_never_started_does_not_wait_for_a_github_that_is_away() -> None:
    step = look(seen(GOING, PLACED, no_answer()))
    assert step.actions == (DeletePod(REF, "pod-1", grace_s=None),)


def test_a_pod_that_may_start_yet_goes_only_after_github_was_asked() -> None:
    # Seed 645: its node heard of the deletion late and started it; GitHub, which had been asked in
    # the same breath and had said that it is busy, gave it a job.
    now = seen(GOING, PLACED)
    assert look(now).actions == (REMOVE,)
    assert look(told(now, REMOVE, Said.JOB_RUNNING)).actions == ()
    accepted = told(now, REMOVE, Said.FORGOTTEN)
    assert look(accepted).actions == (DeletePod(REF, "pod-1", grace_s=None),)


def test_that_it_never_started_is_only_what_we_have_heard_so_far() -> None:
    # The cache of pods lagged behind that of runners: the pod had started, and its job died
    # (stale sweep, runner-deleted).
    placed = replace(PLACED, resource_version="41")
    (action,) = look(seen(GOING, placed, no_answer())).actions
    assert action == DeletePod(REF, "pod-1", grace_s=None, resource_version="41")
    now = told(seen(GOING, placed, no_answer()), action, Said.CONFLICT)
    assert plan(now).actions == ()
    # Whoever has a job has started, whatever the cache shows.
    for hand in (removed(Removal.BUSY), no_answer(removed(Removal.BUSY))):
        assert not any(isinstance(a, DeletePod) for a in look(seen(GOING, placed, hand)).actions)


def test_a_sidecar_that_runs_on_keeps_the_pods_own_grace() -> None:
    pod = replace(exited(0), phase="Running", all_ended=False)
    assert look(seen(GOING_BUSY, pod)).actions == (DeletePod(REF, "pod-1", grace_s=None),)


def test_a_refusal_that_lasts_after_the_pod_is_gone_is_given_up_with_the_id() -> None:
    # GitHub lets go of a job without a runner after 10 to 15 minutes (W25).
    at_s = NOW_S + 1195
    step = look(seen(GOING_BUSY, None, removed(Removal.BUSY, at_s=at_s), after_s=1199))
    assert step.actions == ()
    step = look(seen(GOING_BUSY, None, removed(Removal.BUSY, at_s=at_s), after_s=1200))
    (action,) = step.actions
    assert isinstance(action, SetFinalizers)
    assert reasons(action.last_words) == ["RegistrationLeaked"]
    gone = told(seen(GOING_BUSY, None), action, Done("21"))
    assert reasons(plan(gone).troubles) == ["RegistrationLeaked"]  # told though nobody is left


def test_the_pod_of_a_silent_node_is_forced_and_then_let_go() -> None:
    going = replace(RUNNING, going_s=NOW_S + 30)
    hand = removed(Removal.FORGOTTEN)
    waits = look(seen(GOING, going, hand))
    assert (waits.actions, waits.again_s) == ((), 90)
    forced = look(seen(GOING, going, hand, after_s=90))
    assert forced.actions == (DeletePod(REF, "pod-1", grace_s=0),)
    stuck = told(seen(GOING, going, hand, after_s=90), forced.actions[0], Done("6"))
    step = look(stuck)
    assert [type(action) for action in step.actions] == [SetFinalizers]
    assert reasons(step.troubles) == ["CleanupBlocked"]
    # Not as long as GitHub has not let go: the container may be alive behind a network split.
    asked = look(seen(GOING, going, removed(Removal.BUSY, at_s=NOW_S + 80), after_s=90))
    assert asked.actions == ()


@pytest.mark.behaviour("C1 T169")
def test_what_the_hooks_left_goes_before_the_object_does() -> None:
    hooked = replace(GOING_BUSY, uses_hooks=True)
    now = seen(hooked, exited(0))
    sweep = DeleteLeftovers(REF)
    assert look(now).actions == (DeletePod(REF, "pod-1", grace_s=0), sweep)
    now = told(now, DeletePod(REF, "pod-1", grace_s=0), Said.GONE)
    assert look(now).actions == (sweep,)
    swept = told(now, sweep, Done())
    assert [type(action) for action in look(swept).actions] == [SetFinalizers]


def test_leftovers_of_a_job_that_runs_are_not_touched() -> None:
    hooked = replace(GOING_BUSY, uses_hooks=True)
    step = look(seen(hooked, RUNNING, removed(Removal.BUSY)))
    assert step.actions == ()


def test_leftovers_that_cannot_be_deleted_hold_the_object_and_say_so() -> None:
    hooked = seen(replace(GOING_BUSY, uses_hooks=True))
    hooked = replace(hooked, hand=removed(Removal.ABSENT))
    step = plan(told(hooked, DeleteLeftovers(REF), Refused(403, "pods: finalizer x")))
    assert step.failed
    assert step.actions == ()
    assert "CleanupBlocked" in reasons(step.troubles)


def test_finalizers_of_others_stay() -> None:
    ours = (*EPHEMERAL_RUNNER_FINALIZERS, "somebody/else")
    now = seen(replace(GOING, finalizers=ours), None, removed(Removal.ABSENT))
    assert look(now).actions == (SetFinalizers(REF, "20", ("somebody/else",)),)
    left = told(now, look(now).actions[0], Done("21"))
    assert not left.gone
    assert look(left) == NOTHING


def test_without_a_finalizer_of_ours_it_is_none_of_our_business() -> None:
    assert look(seen(replace(GOING, finalizers=("somebody/else",)))) == NOTHING
    assert look(seen(IDLE)) == NOTHING


def test_a_conflict_is_another_pass_and_never_a_resend() -> None:
    now = seen(GOING, None, removed(Removal.ABSENT))
    stale = told(now, LET_GO, Said.CONFLICT)
    assert plan(stale).actions == ()


# --- never registered, or nobody knows -------------------------------------------------------


def test_a_runner_that_this_process_never_registered_is_let_go_without_a_call() -> None:
    now = replace(seen(GOING_NEW, None, Hand()), watching_since_s=NOW_S - 6)
    assert look(now).actions == (LET_GO,)


def test_a_registration_of_an_earlier_process_is_looked_up_by_name_never_by_id_0() -> None:
    now = after_restart(seen(GOING_NEW, None, Hand()))
    assert look(now).actions == (FindRunner(REF),)
    assert look(told(now, FindRunner(REF), Said.ABSENT)).actions == (LET_GO,)
    found = told(now, FindRunner(REF), Known(5, 3))
    assert look(found).actions == (RemoveRunner(REF, 5),)
    assert look(told(found, RemoveRunner(REF, 5), Said.FORGOTTEN)).actions == (LET_GO,)


def test_a_strangers_registration_of_the_same_name_is_left_alone() -> None:
    now = told(after_restart(seen(GOING_NEW, None, Hand())), FindRunner(REF), Known(5, 99))
    assert look(now).actions == (LET_GO,)
    busy = seen(GOING_NEW, None, talking(Hand(), stray_id=5))
    for _ in range(3):  # GitHub says so of idle runners too: it is asked three times
        assert look(busy).actions == (RemoveRunner(REF, 5),)
        busy = told(busy, RemoveRunner(REF, 5), Said.JOB_RUNNING)
        busy = replace(busy, now_s=busy.now_s + 30.0)
    assert look(busy).actions == (LET_GO,)


def test_after_a_lost_call_the_look_up_is_repeated_for_half_a_minute() -> None:
    now = seen(GOING_NEW, None, talking(Hand(), suspect=True, lost_call_s=NOW_S))
    lookups = 0
    for _ in range(60):
        step = look(now)
        if step.actions == (LET_GO,):
            break
        if step.actions:
            lookups += 1
            now = told(now, FindRunner(REF), Said.ABSENT)
        else:
            now = replace(now, now_s=now.now_s + (step.again_s or 0))
    assert look(now).actions == (LET_GO,)
    assert lookups == 7  # every five seconds
    assert now.now_s == NOW_S + 30


def test_means_that_are_missing_hold_a_deletion_minutes_at_most() -> None:
    from runnerscale.api.reasons import Reason

    without = no_answer(Hand(), reason=Reason.CREDENTIALS_MISSING)
    assert look(after_restart(seen(GOING_NEW, None, without, after_s=59))).again_s == 1
    (action,) = look(after_restart(seen(GOING_NEW, None, without, after_s=60))).actions
    assert isinstance(action, SetFinalizers)  # no registration is known of: a minute
    known = no_answer(reason=Reason.CREDENTIALS_REFUSED)
    assert look(seen(GOING, None, known, after_s=239)).actions == (REMOVE,)
    (action,) = look(seen(GOING, None, known, after_s=240)).actions
    assert isinstance(action, SetFinalizers)
    assert reasons(action.last_words) == ["RegistrationLeaked"]


def test_a_github_that_is_away_for_an_hour_leaks_nothing_and_for_ever_holds_nothing() -> None:
    assert look(seen(GOING, None, no_answer(), after_s=3700)).actions == (REMOVE,)
    (action,) = look(seen(GOING, None, no_answer(), after_s=7200)).actions
    assert isinstance(action, SetFinalizers)


def test_an_idle_pod_whose_registration_was_given_up_is_ended_too() -> None:
    step = look(seen(GOING, RUNNING, no_answer(MADE), after_s=7200))
    assert step.actions == (DeletePod(REF, "pod-1", grace_s=None),)


def test_the_earlier_time_wins() -> None:
    assert (soonest(None, 2), soonest(1, None), soonest(3, 2), soonest(None, None)) == (
        2,
        1,
        2,
        None,
    )
