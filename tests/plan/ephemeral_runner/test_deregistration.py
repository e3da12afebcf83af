"""Having GitHub forget a runner that is to go."""

import dataclasses

from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner.actions import FindRunner, RemoveRunner
from runnerscale.controllers.ephemeral_runner.deregistration import (
    deregistration,
    is_needed,
    patience_s,
    remove,
)
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, Removal
from tests.plan.ephemeral_runner.values import (
    BUSY,
    FAILED,
    IDLE,
    JIT,
    MADE,
    NEW,
    NOW_S,
    PENDING,
    REF,
    RUNNING,
    after_restart,
    exited,
    no_answer,
    reasons,
    removed,
    seen,
    talking,
)


def test_it_is_asked_by_id_and_only_without_one_by_name() -> None:
    assert remove(seen(PENDING)).actions == (RemoveRunner(REF, 7),)
    assert remove(seen(NEW, hand=Hand(jit=JIT))).actions == (RemoveRunner(REF, 7),)
    assert remove(seen(NEW, hand=talking(stray_id=5))).actions == (RemoveRunner(REF, 5),)
    assert remove(seen(NEW)).actions == (FindRunner(REF),)


def test_it_is_not_needed_where_nothing_can_be_left() -> None:
    assert not is_needed(seen(replace(PENDING, finalizers=())))  # dealt with before
    assert not is_needed(seen(BUSY, exited(0)))  # GitHub forgets it by itself
    assert not is_needed(seen(replace(FAILED, phase="Succeeded")))
    assert not is_needed(seen(NEW, hand=Hand()))
    assert not is_needed(seen(NEW, hand=talking(Hand(), foreign=True)))


def test_it_is_needed_where_something_may_be_left() -> None:
    assert is_needed(seen(PENDING))
    assert is_needed(seen(IDLE, exited(0)))  # without a job, GitHub forgets nothing
    assert is_needed(seen(NEW, hand=talking(Hand(), suspect=True)))
    assert is_needed(after_restart(seen(NEW, hand=Hand())))
    assert is_needed(seen(NEW, RUNNING, Hand()))  # a pod proves a registration


def test_a_runner_with_a_job_is_never_given_up_while_it_lives() -> None:
    busy = seen(BUSY, RUNNING, no_answer(), after_s=9 * 3600)
    assert not deregistration(busy, since_s=NOW_S).settled
    still = seen(BUSY, RUNNING, removed(Removal.BUSY, at_s=NOW_S + 9 * 3600), after_s=9 * 3600)
    assert not deregistration(still, since_s=NOW_S).settled
    # Not even when its name belongs to somebody else and there is no id to ask about.
    nobodys = seen(replace(NEW, has_job=True), RUNNING, talking(Hand(), foreign=True))
    assert not deregistration(nobodys, since_s=NOW_S - 1e6).settled
    ended = replace(nobodys, pod=exited(1))
    assert deregistration(ended, since_s=NOW_S).settled


def test_the_bound_of_a_refusal_counts_from_the_end_of_the_container() -> None:
    late = replace(exited(1), exit=dataclasses.replace(exited(1).exit, at_s=NOW_S + 1000))  # type: ignore[type-var]
    hand = removed(Removal.BUSY, at_s=NOW_S + 2000)
    assert not deregistration(seen(IDLE, late, hand, after_s=2000), since_s=NOW_S).settled
    assert deregistration(seen(IDLE, late, hand, after_s=2200), since_s=NOW_S).settled


def test_what_is_given_up_names_the_id_or_says_that_there_may_be_none() -> None:
    known = deregistration(seen(PENDING, None, no_answer(), after_s=7200), since_s=NOW_S)
    assert reasons(known.step.troubles) == ["RegistrationLeaked"]
    assert "id 7" in known.step.troubles[0].happened
    unknown = after_restart(seen(NEW, None, no_answer(Hand()), after_s=7200))
    assert (
        "of this name, if any" in deregistration(unknown, since_s=NOW_S).step.troubles[0].happened
    )


def test_how_long_to_try_depends_on_whose_fault_it_is() -> None:
    assert patience_s(seen(PENDING), Reason.GITHUB_UNAVAILABLE) == 7200
    assert patience_s(seen(PENDING), Reason.CREDENTIALS_MISSING) == 240
    # "No for good", such as a 404 that is not in GitHub's own words.
    assert patience_s(seen(PENDING), Reason.GITHUB_REFUSED) == 240
    assert patience_s(seen(NEW, hand=Hand()), Reason.CREDENTIALS_MISSING) == 60
    lost = seen(NEW, hand=talking(MADE, suspect=True))
    assert patience_s(lost, Reason.VAULT_FAILED) == 240
