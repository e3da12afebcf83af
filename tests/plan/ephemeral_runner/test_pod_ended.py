"""Last stage of a life: the container ended, or its pod is going, gone or lost."""

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    AskRunner,
    CheckPod,
    DeleteRunner,
    Found,
    GitHubFailed,
    How,
    Known,
    RemoveRunner,
    Said,
)
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.pod_ended import look
from runnerscale.controllers.ephemeral_runner.pod_view import Exit, PodView
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, Omen, Removal, Snapshot
from tests.plan.ephemeral_runner.values import (
    BUSY,
    IDLE,
    MADE,
    MISSED,
    NEW,
    NOW_S,
    PENDING,
    PLACED,
    REF,
    RUNNING,
    WAITING,
    ending,
    exited,
    no_answer,
    patch,
    removed,
    seen,
    talking,
    told,
)

ASK = AskRunner(REF, 7)
ENDED = replace(MADE, end_s=NOW_S)
GONE = replace(MISSED, end_s=NOW_S)


def verdict(now: Snapshot) -> tuple[How, str]:
    """How it ends, and why."""
    decided = ending(look(now))
    return decided.how, str(decided.trouble.reason) if decided.trouble else ""


# --- exit codes -----------------------------------------------------------------------------


@pytest.mark.behaviour("C1 T152")
def test_exit_0_after_a_job_is_the_end_and_asks_nobody() -> None:
    done = seen(BUSY, exited(0), ENDED)
    assert verdict(done) == (How.FINISHED, "")
    assert plan(done).actions == (DeleteRunner(REF),)  # no status, no call to GitHub


def test_exit_0_without_a_stored_job_is_judged_by_github_once() -> None:
    done = seen(IDLE, exited(0), ENDED)
    assert look(done).actions == (ASK,)
    # GitHub forgets a runner whose job is done: the job was so short that nobody stored it.
    assert verdict(told(done, ASK, Said.ABSENT)) == (How.FINISHED, "")
    still = told(done, ASK, Known(7, 3))
    assert verdict(still) == (How.FAILED, "ExitedWithoutJob")


def test_what_github_said_before_the_end_does_not_count() -> None:
    asked_before = talking(ENDED, asked_s=NOW_S - 60, known=True)
    assert look(seen(IDLE, exited(0), asked_before)).actions == (ASK,)


def test_a_github_that_is_away_holds_a_well_ended_runner_five_minutes_at_most() -> None:
    hand = no_answer(ENDED)
    assert look(seen(IDLE, exited(0), hand)).again_s == 60
    assert verdict(seen(IDLE, exited(0), hand, after_s=300)) == (How.FINISHED, "")
    assert look(seen(IDLE, exited(0), hand, after_s=61)).actions == (ASK,)


def test_a_job_that_github_spoke_of_is_a_job() -> None:
    assert verdict(seen(IDLE, exited(0), removed(Removal.BUSY))) == (How.FINISHED, "")


def test_what_removal_said_is_not_asked_again() -> None:
    absent = removed(Removal.ABSENT, ENDED)
    assert verdict(seen(IDLE, exited(0), absent)) == (How.FINISHED, "")
    forgotten = removed(Removal.FORGOTTEN, ENDED)
    assert verdict(seen(IDLE, exited(0), forgotten)) == (How.FAILED, "ExitedWithoutJob")


@pytest.mark.behaviour("C1 T151")
def test_exit_0_counts_though_a_sidecar_made_the_pod_fail() -> None:
    pod = replace(exited(0), phase="Failed", failed=Exit("dind", 1))
    assert verdict(seen(BUSY, pod, ENDED)) == (How.FINISHED, "")
    without_job = told(seen(IDLE, pod, ENDED), ASK, Said.ABSENT)
    assert verdict(without_job) == (How.FINISHED, "")


@pytest.mark.behaviour("C1 T153")
@pytest.mark.parametrize("phase", ["Running", "Failed", "Succeeded"])
def test_exit_7_is_outdated_whatever_the_pods_phase(phase: str) -> None:
    pod = replace(exited(7), phase=phase)
    write = patch(plan(seen(IDLE, pod, ENDED)).actions)
    assert (write.phase, write.reason, write.message) == (
        "Outdated",
        "Outdated",
        "Runner is deprecated",
    )


@pytest.mark.parametrize("code", [0, 1])
def test_a_version_refused_only_in_the_last_words_is_outdated_too(code: int) -> None:
    words = "Runner version v2.290.0 is deprecated and cannot receive messages."
    assert verdict(seen(IDLE, exited(code, message=words), ENDED)) == (How.OUTDATED, "Outdated")
    # Of a runner that had a job, the same words come from the job's own log.
    assert verdict(seen(BUSY, exited(code, message=words), ENDED))[0] is not How.OUTDATED


KNOWN = talking(ENDED, asked_s=NOW_S, known=True)


@pytest.mark.parametrize(("runner", "hand"), [(IDLE, KNOWN), (BUSY, ENDED)])
def test_any_other_exit_ends_the_runner_for_good_and_is_kept(runner: object, hand: object) -> None:
    now = seen(runner, exited(1, reason="Error"), hand)  # type: ignore[arg-type]
    assert verdict(now) == (How.FAILED, "RunnerFailed")
    assert "exit code 1" in str(ending(look(now)).trouble)


def test_the_last_words_are_kept_because_pod_and_log_go_at_once() -> None:
    # There only if the template says `FallbackToLogsOnError`, or the container wrote them itself.
    words = "start\n" * 700 + "\x1b[31mHttp response code: Unauthorized\x1b[0m\n"
    for runner, hand in ((IDLE, KNOWN), (BUSY, ENDED)):
        ended = ending(look(seen(runner, exited(1, message=words), hand)))
        assert ended.trouble is not None
        happened = ended.trouble.happened
        # 300 characters of the end, in one line that no terminal obeys.
        assert happened.startswith("container runner ended with exit code 1, its last words: ...")
        assert happened.endswith("start \\x1b[31mHttp response code: Unauthorized\\x1b[0m")
        assert len(happened) < 400


def test_what_a_runner_wrote_before_it_ended_without_a_job_is_kept_too() -> None:
    ended = ending(look(seen(IDLE, exited(0, message="updated itself"), KNOWN)))
    assert ended.trouble is not None
    assert ended.trouble.reason is Reason.EXITED_WITHOUT_JOB
    assert ended.trouble.happened.endswith("its first job, its last words: updated itself")


def test_an_idle_runner_that_github_has_forgotten_did_not_fail() -> None:
    # The set had taken its registration away and was killed: the breaker is not to hear of it
    # (crash sweep, scale-down).
    now = seen(IDLE, exited(1), ENDED)
    assert look(now).actions == (ASK,)
    gone = talking(ENDED, asked_s=NOW_S, known=False)
    assert verdict(seen(IDLE, exited(1), gone)) == (How.DISTURBED, "RegistrationLost")
    # GitHub says 204 to whoever removes a runner that it does not know.
    removed_too = talking(gone, removal=Removal.FORGOTTEN)
    assert verdict(seen(IDLE, exited(1), removed_too)) == (How.DISTURBED, "RegistrationLost")


def test_a_failure_is_not_held_back_by_a_github_that_is_away() -> None:
    away = no_answer(ENDED)
    assert verdict(seen(IDLE, exited(1), away)) == (How.FAILED, "RunnerFailed")


def test_out_of_memory_is_said_in_so_many_words() -> None:
    for runner in (IDLE, BUSY):
        now = seen(runner, exited(137, reason="OOMKilled"), ENDED)
        assert verdict(now) == (How.FAILED, "OOMKilled")


# --- taken away from outside ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"reason": "Evicted"}, "Evicted"),
        ({"reason": "NodeShutdown"}, "Evicted"),
        ({"reason": "NodeLost"}, "NodeLost"),
        ({"disruption": "PreemptionByScheduler"}, "Evicted"),
        ({"disruption": "DeletionByTaintManager"}, "NodeLost"),
        ({"going_s": NOW_S}, "PodLost"),
    ],
)
@pytest.mark.parametrize("pod", [exited(143), replace(RUNNING, phase="Failed")])
def test_the_power_that_took_it_is_the_reason_and_costs_an_idle_runner_nothing(
    pod: PodView, change: dict[str, object], reason: str
) -> None:
    taken = replace(pod, **change)  # type: ignore[arg-type]
    assert verdict(seen(IDLE, taken, ENDED)) == (How.DISTURBED, reason)
    assert verdict(seen(BUSY, taken, ENDED)) == (How.FAILED, reason)


def test_a_runner_that_was_told_to_stop_and_exited_well_is_disturbed_not_failed() -> None:
    drained = replace(exited(0), disruption="EvictionByEvictionAPI")
    assert verdict(told(seen(IDLE, drained, ENDED), ASK, Known(7, 3))) == (
        How.DISTURBED,
        "Evicted",
    )


def test_an_idle_runner_whose_pod_is_going_is_taken_off_the_market_first() -> None:
    # A runner that is being reclaimed must not get a job any more (issue log 130).
    going = seen(IDLE, replace(RUNNING, going_s=NOW_S + 30))
    assert plan(going).actions == (RemoveRunner(REF, 7),)
    forgotten = told(going, RemoveRunner(REF, 7), Said.FORGOTTEN)
    assert patch(plan(forgotten).actions).reason == "PodLost"


def test_a_busy_runner_whose_pod_is_going_may_finish_its_job() -> None:
    going = seen(BUSY, replace(RUNNING, going_s=NOW_S + 30, disruption="EvictionByEvictionAPI"))
    step = plan(going)
    assert not any(isinstance(a, RemoveRunner | DeleteRunner) for a in step.actions)
    assert step.again_s == 90
    assert verdict(replace(going, pod=exited(0))) == (How.FINISHED, "")


def test_a_pod_stuck_in_its_end_with_a_job_is_a_lost_node_once_github_let_go() -> None:
    stuck = seen(BUSY, replace(RUNNING, going_s=NOW_S), after_s=60)
    assert verdict(stuck) == (How.FAILED, "NodeLost")
    assert plan(stuck).actions == (RemoveRunner(REF, 7),)
    refused = told(stuck, RemoveRunner(REF, 7), Said.JOB_RUNNING)
    assert not any(getattr(a, "phase", None) for a in plan(refused).actions)
    long_after = replace(refused, now_s=NOW_S + 1200)
    assert patch(plan(long_after).actions).phase == "Failed"


@pytest.mark.behaviour("C1 T166")
def test_a_succeeded_pod_whose_container_has_not_ended_changes_no_phase() -> None:
    odd = seen(replace(NEW, runner_id=7, ready=True), replace(RUNNING, phase="Succeeded"))
    step = plan(odd)
    assert all(getattr(action, "phase", None) in (None, "Pending") for action in step.actions)
    assert look(odd).again_s == 60
    assert verdict(replace(odd, now_s=NOW_S + 60)) == (How.FAILED, "RunnerFailed")


def test_a_failed_pod_without_a_known_cause_fails_with_the_clusters_words() -> None:
    odd = replace(RUNNING, phase="Failed", reason="DeadlineExceeded", message="too long")
    assert verdict(seen(IDLE, odd)) == (How.FAILED, "RunnerFailed")
    assert "DeadlineExceeded: too long" in str(ending(look(seen(IDLE, odd))).trouble)
    bare = ending(look(seen(IDLE, replace(RUNNING, phase="Failed"))))
    assert "its pod is Failed." in str(bare.trouble)


def test_an_init_container_that_made_the_pod_fail_is_named() -> None:
    pod = replace(PLACED, phase="Failed", failed=Exit("init", 3))
    assert verdict(seen(PENDING, pod)) == (How.FAILED, "InitContainerFailed")


# --- lost ------------------------------------------------------------------------------------


def test_a_pod_that_only_the_cache_misses_is_not_lost() -> None:
    # Somebody took its labels off: it runs on, and so may its job.
    for runner in (IDLE, BUSY):
        missing = seen(runner, None)
        assert plan(missing).actions == (CheckPod(REF),)
        there = told(missing, CheckPod(REF), Found(RUNNING))
        assert look(there) == NOTHING
        assert there.hand.end_s is None
        gone = told(missing, CheckPod(REF), Said.ABSENT)
        assert gone.hand.missed
        assert CheckPod(REF) not in plan(gone).actions


def test_an_idle_runner_without_its_pod_is_replaced() -> None:
    lost = seen(IDLE, None, MISSED)
    assert verdict(lost) == (How.DISTURBED, "PodLost")
    assert plan(lost).actions == (RemoveRunner(REF, 7),)


def test_a_job_that_nobody_stored_makes_a_lost_runner_evidence() -> None:
    lost = told(seen(IDLE, None, MISSED), RemoveRunner(REF, 7), Said.JOB_RUNNING)
    asked = told(lost, ASK, Known(7, 3))
    write = patch(plan(asked).actions)
    assert (write.phase, write.reason) == ("Failed", "PodLost")


def test_without_githubs_word_a_lost_idle_runner_does_not_wait() -> None:
    write = patch(plan(seen(IDLE, None, no_answer(MISSED))).actions)
    assert (write.phase, write.reason) == (None, "PodLost")


def test_the_last_sight_of_a_pod_says_why_it_is_gone() -> None:
    omen = Omen(Reason.NODE_LOST, "the node of its pod is gone")
    assert verdict(seen(IDLE, None, replace(MISSED, omen=omen))) == (How.DISTURBED, "NodeLost")


def test_a_lost_runner_with_a_job_is_kept_as_evidence_if_github_still_knows_it() -> None:
    lost = seen(BUSY, None, GONE)
    assert look(lost).actions == (ASK,)
    assert verdict(told(lost, ASK, Known(7, 3))) == (How.FAILED, "PodLost")


def test_a_job_that_ended_while_nobody_looked_is_finished() -> None:
    lost = seen(BUSY, None, GONE)
    assert verdict(told(lost, ASK, Said.ABSENT)) == (How.FINISHED, "")


def test_a_lost_runner_with_a_job_does_not_wait_for_a_github_that_is_away() -> None:
    lost = seen(BUSY, None, GONE)
    why = no_answer().talk.trouble
    assert why is not None
    assert verdict(told(lost, ASK, GitHubFailed(why))) == (How.FAILED, "PodLost")


def test_a_lost_runner_with_a_job_but_without_an_id_is_evidence() -> None:
    assert verdict(seen(replace(NEW, has_job=True), None, MISSED)) == (How.FAILED, "PodLost")


def test_a_pod_that_lives_is_not_its_business() -> None:
    for pod in (WAITING, PLACED, RUNNING):
        assert look(seen(IDLE, pod)) == NOTHING
    assert look(seen(NEW, None, Hand())) == NOTHING
