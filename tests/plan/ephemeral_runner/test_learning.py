"""How answers get into the snapshot, and what is remembered."""

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner.actions import (
    Answered,
    AskRunner,
    CreatePod,
    DeletePod,
    DeleteRunner,
    Done,
    GitHubFailed,
    Known,
    PatchStatus,
    RemoveRunner,
    Said,
    SetFinalizers,
)
from runnerscale.controllers.ephemeral_runner.learning import learn, noticed, registered
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, PodPast, Removal
from tests.plan.ephemeral_runner.values import (
    BUSY,
    FAILED,
    IDLE,
    JIT,
    MADE,
    MISSED,
    NOW_S,
    PENDING,
    REF,
    RUNNING,
    WAITING,
    exited,
    no_answer,
    removed,
    seen,
    talking,
    told,
)


def test_time_goes_on_with_the_answers_and_never_back() -> None:
    now = learn(
        seen(IDLE, RUNNING),
        [
            (AskRunner(REF, 7), Answered(NOW_S + 9, Known(7, 3))),
            (RemoveRunner(REF, 7), Answered(NOW_S + 4, Said.ABSENT)),
        ],
    )
    assert now.now_s == NOW_S + 9
    assert now.hand.talk.asked_s == NOW_S + 9
    assert now.hand.talk.removal_s == NOW_S + 4


def test_a_stored_patch_is_the_new_truth_with_its_new_version() -> None:
    write = PatchStatus(REF, "11", phase="Failed", reason="RunnerFailed", ready=False)
    now = told(seen(IDLE, RUNNING), write, Done("15"))
    assert (now.runner.phase, now.runner.reason, now.runner.ready) == (
        "Failed",
        "RunnerFailed",
        False,
    )
    assert now.runner.resource_version == "15"
    assert now.runner.runner_id == 7  # what it did not say stays


def test_an_object_that_is_gone_is_gone() -> None:
    for action in (
        PatchStatus(REF, "11"),
        SetFinalizers(REF, "11", ()),
        DeleteRunner(REF),
    ):
        assert told(seen(IDLE), action, Said.ABSENT).gone
    assert told(seen(IDLE), DeleteRunner(REF), Said.GONE).gone


def test_a_deleted_object_is_deleting_from_now_on() -> None:
    now = told(seen(IDLE), DeleteRunner(REF), Done("16"))
    assert (now.runner.deleted_s, now.runner.resource_version) == (NOW_S, "16")


def test_an_answer_from_github_ends_the_row_of_failures() -> None:
    now = told(seen(hand=no_answer()), AskRunner(REF, 7), Known(7, 3))
    assert (now.hand.talk.tries, now.hand.talk.trouble, now.hand.talk.not_before_s) == (0, None, 0)


def test_each_failure_in_a_row_waits_longer_up_to_a_minute() -> None:
    why = no_answer().talk.trouble
    assert why is not None
    now, waits = seen(), []
    for _ in range(8):
        now = told(now, AskRunner(REF, 7), GitHubFailed(why))
        waits.append(now.hand.talk.not_before_s - now.now_s)
    assert waits == sorted(waits)
    assert 1.5 <= waits[0] <= 2.5
    assert 45 <= waits[-1] <= 75  # jittered by the uid, so that nobody returns in step


def test_a_registration_makes_all_that_was_known_before_void() -> None:
    hand = registered(JIT, at_s=NOW_S)
    assert (hand.jit, hand.issued_s, hand.pod) == (JIT, NOW_S, PodPast.NEVER)
    assert hand.talk.removal is Removal.NOT_ASKED
    assert "very-secret" not in repr(hand)


def test_a_deleted_pod_that_a_node_had_refused_may_be_made_again_unless_all_is_over() -> None:
    pod = replace(WAITING, placed_s=NOW_S, phase="Failed", reason="OutOfcpu")
    delete = DeletePod(REF, "pod-1", grace_s=0)
    assert told(seen(PENDING, pod), delete, Said.GONE).hand.pod is PodPast.RETURNED
    assert told(seen(FAILED, pod), delete, Said.GONE).hand.pod is PodPast.MADE
    gone = told(seen(replace(PENDING, deleted_s=NOW_S), pod), delete, Said.GONE)
    assert gone.hand.pod is PodPast.MADE


def test_an_answer_about_another_pod_changes_nothing() -> None:
    now = seen(IDLE, RUNNING)
    assert told(now, DeletePod(REF, "pod-0", grace_s=0), Said.GONE).pod == RUNNING
    assert told(replace(now, pod=None), DeletePod(REF, "pod-0", grace_s=0), Said.GONE).pod is None


def test_a_forced_pod_that_a_finalizer_holds_is_going_but_not_gone() -> None:
    now = told(seen(FAILED, RUNNING), DeletePod(REF, "pod-1", grace_s=0), Done("9"))
    assert now.pod is not None
    assert (now.pod.gone, now.pod.going_s, now.hand.forced) == (False, NOW_S, True)


def test_a_pod_seen_is_remembered_and_the_config_is_let_out_of_hand() -> None:
    hand = Hand(jit=JIT, secret=True, pod=PodPast.NEVER)
    after = noticed(seen(IDLE, RUNNING, hand))
    assert (after.pod, after.jit) == (PodPast.MADE, None)
    unsaved = noticed(seen(IDLE, RUNNING, replace(hand, secret=False)))
    assert unsaved.jit == JIT


def test_when_it_was_first_noticed_is_remembered() -> None:
    ended = noticed(seen(IDLE, exited(0)))
    assert ended.end_s == NOW_S
    later = noticed(seen(IDLE, exited(0), ended, after_s=60))
    assert later.end_s == NOW_S
    assert noticed(seen(IDLE, None)).end_s is None  # perhaps only the cache misses it
    assert noticed(seen(IDLE, None, MISSED)).end_s == NOW_S
    assert noticed(seen(IDLE, RUNNING)).end_s is None
    assert noticed(seen(replace(BUSY, job_over=True), RUNNING)).over_s == NOW_S
    assert noticed(seen(FAILED)).retired_s == NOW_S


def test_why_a_pod_went_is_remembered_after_it_is_gone() -> None:
    drained = replace(RUNNING, going_s=NOW_S, disruption="EvictionByEvictionAPI", message="drain")
    omen = noticed(seen(IDLE, drained)).omen
    assert omen is not None
    assert (omen.reason, omen.words) == (
        Reason.EVICTED,
        "its pod was evicted (EvictionByEvictionAPI: drain)",
    )


def test_a_pod_that_was_made_is_there_before_any_cache_shows_it() -> None:
    now = told(seen(hand=replace(MADE, pod=PodPast.NEVER)), CreatePod(REF, "h"), Done("4", "p"))
    assert now.pod is not None
    assert (now.pod.uid, now.hand.pod) == ("p", PodPast.MADE)
    # Else a deletion before the cache shows it would be for whatever it has become since.
    assert now.pod.resource_version == "4"


@pytest.mark.parametrize("said", [Said.FORGOTTEN, Said.ABSENT, Said.JOB_RUNNING])
def test_the_last_word_about_removal_counts(said: Said) -> None:
    now = told(seen(hand=removed(Removal.BUSY)), RemoveRunner(REF, 7), said, after_s=30)
    assert (
        now.hand.talk.removal
        is {
            Said.FORGOTTEN: Removal.FORGOTTEN,
            Said.ABSENT: Removal.ABSENT,
            Said.JOB_RUNNING: Removal.BUSY,
        }[said]
    )
    assert now.hand.talk.removal_s == NOW_S + 30


def test_a_runner_known_again_is_not_missing_any_more() -> None:
    now = told(seen(hand=talking(missing_s=NOW_S)), AskRunner(REF, 7), Known(7, 3, "offline"))
    assert (now.hand.talk.missing_s, now.hand.talk.offline_s) == (None, NOW_S)
