"""A runner in a terminal phase: evidence, and nothing else of it is left."""

import pytest
from msgspec.structs import replace

from runnerscale.api.labels import EPHEMERAL_RUNNER_FINALIZER
from runnerscale.controllers.ephemeral_runner.actions import (
    DeleteLeftovers,
    DeletePod,
    DeleteRunner,
    DeleteSecret,
    Done,
    FindRunner,
    RemoveRunner,
    Said,
    SetFinalizers,
)
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.retired import look
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, Removal
from tests.plan.ephemeral_runner.values import (
    FAILED,
    MADE,
    NOW_S,
    REF,
    RUNNING,
    exited,
    no_answer,
    reasons,
    removed,
    seen,
    told,
)

DONE = replace(FAILED, finalizers=(EPHEMERAL_RUNNER_FINALIZER,))
SWEPT = replace(MADE, secret_gone=True, retired_s=NOW_S)


@pytest.mark.behaviour("C1 T167", "C1 T153")
def test_pod_and_secret_go_at_once_and_the_object_stays() -> None:
    actions = look(seen(FAILED, exited(1))).actions
    assert DeletePod(REF, "pod-1", grace_s=0) in actions
    assert DeleteSecret(REF) in actions
    assert not any(isinstance(action, DeleteRunner) for action in actions)


@pytest.mark.behaviour("C1 T167")
def test_once_github_is_dealt_with_no_call_is_made_any_more_not_even_after_a_restart() -> None:
    for hand in (SWEPT, Hand()):
        actions = look(seen(DONE, None, hand)).actions
        assert not any(isinstance(action, RemoveRunner | FindRunner) for action in actions)
    assert look(seen(DONE, None, SWEPT)).actions == ()


def test_the_registration_goes_and_the_finalizer_remembers_that_it_did() -> None:
    now = seen(FAILED, None, SWEPT)
    assert look(now).actions == (RemoveRunner(REF, 7),)
    now = told(now, RemoveRunner(REF, 7), Said.FORGOTTEN)
    (write,) = look(now).actions
    assert isinstance(write, SetFinalizers)
    assert write.finalizers == (EPHEMERAL_RUNNER_FINALIZER,)
    assert write.resource_version == FAILED.resource_version
    now = told(now, write, Done("13"))
    assert look(now).actions == ()
    assert not now.gone


def test_a_pod_that_runs_gets_its_own_grace() -> None:
    assert DeletePod(REF, "pod-1", grace_s=None) in look(seen(FAILED, RUNNING)).actions


def test_a_pod_on_its_way_is_not_deleted_again_until_it_is_stuck() -> None:
    going = replace(RUNNING, going_s=NOW_S + 30)
    step = look(seen(FAILED, going, removed(Removal.ABSENT, SWEPT)))
    assert not any(isinstance(action, DeletePod) for action in step.actions)
    assert step.again_s == 90
    stuck = look(seen(FAILED, going, SWEPT, after_s=90))
    assert DeletePod(REF, "pod-1", grace_s=0) in stuck.actions
    forced = look(seen(FAILED, going, replace(SWEPT, forced=True), after_s=90))
    assert not any(isinstance(action, DeletePod) for action in forced.actions)


def test_local_things_do_not_wait_for_a_github_that_is_away() -> None:
    step = look(seen(FAILED, exited(1), no_answer()))
    assert DeletePod(REF, "pod-1", grace_s=0) in step.actions
    assert DeleteSecret(REF) in step.actions
    assert step.again_s == 60
    assert reasons(step.troubles) == ["RunnerFailed", "GitHubUnavailable"]


def test_a_refusal_that_lasts_is_given_up_with_the_id() -> None:
    hand = removed(Removal.BUSY, SWEPT, at_s=NOW_S)
    waits = look(seen(FAILED, None, hand))
    assert waits.again_s == 30
    assert reasons(waits.troubles) == ["RunnerFailed", "JobStillRunning"]
    late = look(seen(FAILED, None, removed(Removal.BUSY, SWEPT, at_s=NOW_S + 1190), after_s=1200))
    (write,) = late.actions
    assert isinstance(write, SetFinalizers)
    assert reasons(write.last_words) == ["RegistrationLeaked"]
    assert "id 7" in write.last_words[0].happened


def test_what_the_hooks_left_goes_too() -> None:
    hooked = replace(DONE, uses_hooks=True)
    assert look(seen(hooked, None, SWEPT)).actions == (DeleteLeftovers(REF),)
    swept = told(seen(hooked, None, SWEPT), DeleteLeftovers(REF), Done())
    assert look(swept).actions == ()


def test_a_strangers_secret_is_left_alone_and_not_asked_about_again() -> None:
    now = told(seen(DONE, None, MADE), DeleteSecret(REF), Said.EXISTS)
    assert look(now).actions == ()


def test_a_legacy_succeeded_runner_costs_github_nothing() -> None:
    actions = look(seen(replace(FAILED, phase="Succeeded"), None, SWEPT)).actions
    assert not any(isinstance(action, RemoveRunner) for action in actions)


def test_the_verdict_stays_told_as_long_as_the_evidence_stays() -> None:
    assert reasons(plan(seen(DONE, None, SWEPT)).troubles) == ["RunnerFailed"]
