"""First stage: a registration, and its JIT config stored where the pod will find it."""

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    ConfirmView,
    CreateSecret,
    DeleteSecret,
    Done,
    FindRunner,
    GenerateJit,
    GitHubFailed,
    How,
    Known,
    NoAnswer,
    PatchStatus,
    Refused,
    Registered,
    RemoveRunner,
    Said,
)
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.registration import look
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, Snapshot
from tests.plan.ephemeral_runner.values import (
    BUSY,
    FAILED,
    JIT,
    NEW,
    NOW_S,
    PENDING,
    REF,
    RUNNING,
    WAITING,
    ending,
    no_answer,
    reasons,
    seen,
    talking,
    told,
)

ASK = GenerateJit(REF)
FIND = FindRunner(REF)


def talking_of_a_stray() -> Snapshot:
    """Somebody of ours has the name."""
    return seen(NEW, hand=talking(Hand(), stray_id=5))


def registered(after_s: float = 0.0) -> Snapshot:
    """Registered just now by this process; Secret and status still to be written."""
    return told(seen(NEW, hand=Hand(), after_s=after_s), ASK, Registered(JIT))


def test_a_new_runner_is_registered_and_nothing_else() -> None:
    assert plan(seen(NEW, hand=Hand())).actions == (ASK,)


@pytest.mark.parametrize(
    "behind",
    [
        replace(seen(NEW, hand=Hand()), watching_since_s=NOW_S),  # made before this process began
        seen(NEW, hand=Hand(), after_s=60.0),  # or long ago
        replace(talking_of_a_stray(), watching_since_s=NOW_S),
    ],
)
def test_what_a_cache_may_show_late_is_confirmed_before_it_is_registered(behind: Snapshot) -> None:
    # Seed 94: a new controller read the past, took the registration from a runner that was
    # online, and made another one of the same name.
    confirm = ConfirmView(REF, behind.runner.resource_version)
    assert plan(behind).actions == (confirm,)
    assert plan(told(behind, confirm, Said.CONFLICT)).stale
    assert plan(told(behind, confirm, Said.ABSENT)).actions == ()
    unanswered = plan(told(behind, confirm, NoAnswer("x")))
    assert unanswered.failed and not unanswered.actions
    confirmed = told(behind, confirm, Done())
    assert confirm not in plan(confirmed).actions
    assert plan(confirmed).actions[0] in (ASK, RemoveRunner(REF, 5))


def test_the_secret_and_the_pending_write_follow_together_and_the_pod_waits_for_both() -> None:
    first, second = plan(registered()).actions
    assert first == CreateSecret(REF, JIT)
    assert isinstance(second, PatchStatus)
    assert (second.phase, second.runner_id, second.runner_name) == ("Pending", 7, "runner-a")
    assert second.resource_version == "10"


def test_a_registered_runner_is_not_registered_again() -> None:
    assert look(seen(PENDING, WAITING)) == NOTHING
    assert look(seen(BUSY, RUNNING)) == NOTHING


@pytest.mark.behaviour("C1 T170")
def test_our_own_lost_registration_is_removed_and_a_new_one_asked_for() -> None:
    taken = told(seen(NEW, hand=Hand()), ASK, Said.NAME_TAKEN)
    assert plan(taken).actions == (FIND,)
    found = told(taken, FIND, Known(runner_id=5, scale_set_id=3))
    assert plan(found).actions == (RemoveRunner(REF, 5),)
    again = told(found, RemoveRunner(REF, 5), Said.FORGOTTEN)
    assert plan(again).actions == (ASK,)


def test_a_stray_registration_that_is_gone_already_is_as_good_as_removed() -> None:
    found = seen(NEW, hand=talking(Hand(), stray_id=5))
    assert plan(told(found, RemoveRunner(REF, 5), Said.ABSENT)).actions == (ASK,)


@pytest.mark.behaviour("C1 T170")
def test_a_name_in_another_scale_set_is_given_up_and_nobody_there_is_removed() -> None:
    taken = told(seen(NEW, hand=Hand()), ASK, Said.NAME_TAKEN)
    foreign = told(taken, FIND, Known(runner_id=5, scale_set_id=99))
    decided = ending(look(foreign))
    assert decided.how is How.DISTURBED
    assert decided.trouble is not None
    assert decided.trouble.reason is Reason.RUNNER_NAME_TAKEN
    (write,) = plan(foreign).actions
    assert isinstance(write, PatchStatus)
    assert write.reason == "RunnerNameTaken"


def test_a_name_whose_holder_has_a_job_is_given_up_too() -> None:
    # Its pod cannot be ours: we store the id before we make a pod, and none is stored.
    busy = seen(NEW, hand=talking(Hand(), stray_id=5))
    for _ in range(3):
        busy = told(busy, RemoveRunner(REF, 5), Said.JOB_RUNNING)
    assert ending(look(busy)).how is How.DISTURBED


def test_a_stray_registration_is_not_left_behind_for_one_word_about_a_job() -> None:
    # GitHub says it of idle runners too (simulation, seed 217): it is asked again half a minute
    # later, and only then made anew under the same name.
    found = seen(NEW, hand=talking(Hand(), stray_id=5))
    busy = told(found, RemoveRunner(REF, 5), Said.JOB_RUNNING)
    step = look(busy)
    assert step.actions == ()
    assert step.again_s == 30.0
    later = replace(busy, now_s=busy.now_s + 30.0)
    assert plan(later).actions == (RemoveRunner(REF, 5),)
    assert plan(told(later, RemoveRunner(REF, 5), Said.FORGOTTEN)).actions == (ASK,)


@pytest.mark.behaviour("C1 T170")
def test_a_lookup_that_finds_nobody_is_followed_by_a_try_at_once() -> None:
    taken = told(seen(NEW, hand=Hand()), ASK, Said.NAME_TAKEN)
    assert plan(told(taken, FIND, Said.ABSENT)).actions == (ASK,)


def test_a_lookup_that_lags_is_tried_more_slowly_and_not_for_ever() -> None:
    now, waits = seen(NEW, hand=Hand()), []
    for _ in range(50):
        step = plan(now)
        if not step.actions:
            assert step.again_s is not None
            waits.append(step.again_s)
            now = replace(now, now_s=now.now_s + step.again_s)
            continue
        (action,) = step.actions
        if isinstance(action, PatchStatus):
            break
        now = told(now, action, Said.NAME_TAKEN if action == ASK else Said.ABSENT)
    assert waits == [2, 4, 8, 16, 30]  # then another name is cheaper
    assert ending(look(now)).how is How.DISTURBED


@pytest.mark.behaviour("C1 T172")
def test_a_lost_answer_is_looked_up_before_anything_is_repeated() -> None:
    why = no_answer().talk.trouble
    assert why is not None
    lost = told(seen(NEW, hand=Hand()), ASK, GitHubFailed(why, maybe_done=True))
    waits = plan(lost)
    assert waits.actions == ()
    assert waits.again_s == pytest.approx(2, rel=0.3)  # jittered by the uid
    later = replace(lost, now_s=NOW_S + 5)
    assert plan(later).actions == (FIND,)


def test_a_call_that_was_never_sent_is_simply_repeated() -> None:
    why = no_answer().talk.trouble
    assert why is not None
    turned_away = told(seen(NEW, hand=Hand()), ASK, GitHubFailed(why, maybe_done=False))
    assert plan(replace(turned_away, now_s=NOW_S + 5)).actions == (ASK,)


def test_an_outage_of_an_hour_is_waited_out_at_a_call_a_minute_and_told_once() -> None:
    now, calls, writes = seen(NEW, hand=Hand()), 0, 0
    why = no_answer().talk.trouble
    assert why is not None
    while now.now_s < NOW_S + 3600:
        step = plan(now)
        for action in step.actions:
            if isinstance(action, PatchStatus):
                assert (action.phase, action.reason) == (None, "GitHubUnavailable")
                writes += 1
                now = told(now, action, Done("12"))
            else:
                calls += 1
                now = told(now, action, GitHubFailed(why, maybe_done=True))
        if not step.actions:
            now = replace(now, now_s=now.now_s + (step.again_s or 0))
    assert 50 < calls < 120
    assert writes == 1
    healed = told(replace(now, now_s=NOW_S + 3700), FIND, Said.ABSENT)
    assert ASK in plan(healed).actions


def test_retry_after_is_obeyed() -> None:
    why = no_answer().talk.trouble
    assert why is not None
    limited = told(seen(NEW, hand=Hand()), ASK, GitHubFailed(why, retry_after_s=500))
    assert plan(limited).again_s == 500


def test_missing_credentials_are_told_and_looked_for_within_a_minute() -> None:
    hand = no_answer(Hand(), reason=Reason.CREDENTIALS_MISSING)
    now = seen(NEW, hand=talking(hand, tries=9))
    step = plan(now)
    assert reasons(step.troubles) == ["CredentialsMissing"]
    assert step.again_s == 60


@pytest.mark.behaviour("C1 T171")
def test_a_secret_of_an_earlier_try_is_deleted_and_built_anew() -> None:
    # Whatever it says (a runnerId that is no number, too): its config is of a registration
    # that this process did not make, and that GitHub gave out only once.
    there = told(registered(), CreateSecret(REF, JIT), Said.EXISTS)
    assert DeleteSecret(REF) in plan(there).actions
    deleted = told(there, DeleteSecret(REF), Said.GONE)
    assert CreateSecret(REF, JIT) in plan(deleted).actions


def test_a_strangers_secret_of_that_name_is_not_deleted_but_waited_for() -> None:
    there = told(registered(), CreateSecret(REF, JIT), Said.EXISTS)
    strangers = told(there, DeleteSecret(REF), Said.EXISTS)
    step = look(strangers)
    assert (step.actions, step.again_s) == ((), 5)
    assert reasons(step.troubles) == ["RunnerNameTaken"]
    assert look(replace(strangers, now_s=NOW_S + 5)).actions == (DeleteSecret(REF),)
    assert ending(look(replace(strangers, now_s=NOW_S + 600))).how is How.DISTURBED


def test_a_name_that_github_will_not_explain_is_given_up_after_some_tries() -> None:
    # Two runners of one name, say: no answer will ever tell us what to do with it.
    hand = no_answer(Hand(), reason=Reason.GITHUB_REFUSED)
    some = seen(NEW, hand=talking(hand, suspect=True, tries=6, not_before_s=0.0))
    assert look(some).actions == (FIND,)
    many = seen(NEW, hand=talking(hand, suspect=True, tries=7, not_before_s=0.0))
    assert ending(look(many)).how is How.DISTURBED


def test_a_secret_that_cannot_be_stored_keeps_the_config_in_hand() -> None:
    before = registered()
    refused = told(before, CreateSecret(REF, JIT), Refused(403, "exceeded quota: secrets"))
    step = look(refused)
    assert step.again_s == 30
    assert reasons(step.troubles) == ["QuotaExceeded"]
    later = look(replace(refused, now_s=NOW_S + 30))
    assert later.actions == (CreateSecret(REF, JIT),)


def test_an_api_server_without_an_answer_fails_the_pass_and_is_not_asked_twice_in_it() -> None:
    create = CreateSecret(REF, JIT)
    step = plan(told(registered(), create, NoAnswer("reset")))
    assert create not in step.actions
    assert step.failed


def test_a_config_that_could_not_be_stored_in_ten_minutes_is_given_up_for_a_fresh_one() -> None:
    old = replace(registered(), now_s=NOW_S + 600)
    decided = ending(look(old))
    assert decided.how is How.DISTURBED
    assert decided.trouble is not None
    assert decided.trouble.reason is Reason.JIT_CONFIG_EXPIRED


def test_an_id_that_the_status_lost_is_found_again_by_name() -> None:
    lost = seen(replace(NEW, phase="Pending"), RUNNING, Hand())
    assert look(lost).actions == (FIND,)
    found = told(lost, FIND, Known(runner_id=7, scale_set_id=3))
    write = next(a for a in plan(found).actions if isinstance(a, PatchStatus))
    assert (write.runner_id, write.runner_name, write.phase) == (7, "runner-a", None)


def test_an_idle_pod_that_github_never_heard_of_is_replaced_after_some_look_ups() -> None:
    now = seen(replace(NEW, phase="Pending"), RUNNING, Hand())
    for _ in range(40):
        step = look(now)
        if step.ending is not None:
            break
        if step.actions:
            now = told(now, FIND, Said.ABSENT)
        else:
            now = replace(now, now_s=now.now_s + (step.again_s or 0))
    decided = ending(look(now))
    assert decided.trouble is not None
    assert decided.trouble.reason is Reason.REGISTRATION_LOST
    busy = replace(now, runner=replace(now.runner, has_job=True))
    assert look(busy).ending is None


def test_an_ended_runner_without_an_id_needs_none() -> None:
    gone = seen(replace(NEW, has_job=True), None)
    assert look(gone) == NOTHING
    assert look(seen(FAILED)) == NOTHING


def test_nothing_is_written_to_github_before_the_finalizers_are_there() -> None:
    from runnerscale.controllers.ephemeral_runner.actions import SetFinalizers

    bare = seen(replace(NEW, finalizers=("somebody/else",)), hand=Hand())
    (action,) = plan(bare).actions
    assert isinstance(action, SetFinalizers)
    assert action.finalizers == (
        "somebody/else",
        "ephemeralrunner.actions.github.com/finalizer",
        "ephemeralrunner.actions.github.com/runner-registration-finalizer",
    )
    assert action.resource_version == "10"
