"""Second stage: the pod is made, or it is decided that it cannot be."""

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    CreatePod,
    Done,
    How,
    NoAnswer,
    Refused,
    Said,
)
from runnerscale.controllers.ephemeral_runner.jit_secret import template_hash
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.pod import look, verdict_on
from runnerscale.controllers.ephemeral_runner.snapshot import PodPast, Snapshot
from tests.plan.ephemeral_runner.values import (
    FAILED,
    JIT,
    NEW,
    NOW_S,
    PENDING,
    REF,
    WAITING,
    ending,
    patch,
    reasons,
    removed,
    seen,
    told,
)
from tests.plan.ephemeral_runner.values import MADE as HAND

READY = replace(HAND, pod=PodPast.NEVER, jit=JIT, template_hash=template_hash(JIT))
CREATE = CreatePod(REF, template_hash(JIT))
QUOTA = Refused(
    403,
    'pods "runner-a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: 5',
)
PRIORITY = Refused(
    403, 'pods "runner-a" is forbidden: no PriorityClass with name notexist was found'
)
WEBHOOK = Refused(403, 'admission webhook "policy.example" denied the request: no')
NO_ACCOUNT = Refused(403, "error looking up service account ns/x: serviceaccount not found")
RBAC = Refused(403, 'pods is forbidden: User "c" cannot create resource "pods" in API group ""')


def refused(answer: Refused, *, after_s: float = 0.0) -> Snapshot:
    return told(seen(hand=READY, after_s=after_s), CREATE, answer)


def test_the_pod_is_made_once_id_and_secret_are_stored() -> None:
    assert look(seen(hand=READY)).actions == (CREATE,)


def test_the_pod_waits_for_the_stored_id_and_for_the_secret() -> None:
    # So a runner without an id never had a pod, whatever a later process remembers.
    assert look(seen(NEW, hand=READY)) == NOTHING
    assert look(seen(hand=replace(READY, secret=False))) == NOTHING
    other = replace(PENDING, runner_id=6)  # of a registration before this one
    assert plan(seen(other, hand=READY)).actions != (CREATE,)


def test_a_pod_that_was_made_is_not_made_again() -> None:
    made = told(seen(hand=READY), CREATE, Done("12", uid="pod-1"))
    assert CREATE not in plan(made).actions
    assert made.pod is not None
    assert made.hand.jit is None  # no longer needed in memory: the Secret has it
    assert look(seen(pod=WAITING, hand=READY)) == NOTHING


def test_a_registered_runner_without_memory_never_gets_a_pod() -> None:
    # After a restart: there may have been a pod, and its container may have started.
    from runnerscale.controllers.ephemeral_runner.snapshot import Hand

    assert look(seen(hand=Hand())) == NOTHING
    assert CREATE not in plan(seen(hand=Hand())).actions


@pytest.mark.behaviour("C1 T156")
def test_an_unknown_priority_class_ends_the_runner_in_the_servers_words() -> None:
    answered = refused(PRIORITY)
    write = patch(plan(answered).actions)
    assert (write.phase, write.reason) == ("Failed", "InvalidPod")
    assert write.message == (
        'Failed to create the pod: pods "runner-a" is forbidden: '
        "no PriorityClass with name notexist was found"
    )


@pytest.mark.behaviour("C1 T156", "C1 T157")
def test_after_a_final_no_the_registration_goes_and_the_object_stays() -> None:
    from runnerscale.controllers.ephemeral_runner.actions import RemoveRunner

    answered = refused(Refused(422, 'Pod "runner-a" is invalid: spec.containers: Required value'))
    write = patch(plan(answered).actions)
    assert write.reason == "InvalidPod"
    stored = told(answered, write, Done("12"))
    actions = plan(stored).actions
    assert RemoveRunner(REF, 7) in actions
    assert not any(type(action).__name__ == "DeleteRunner" for action in actions)


@pytest.mark.behaviour("C1 T158")
def test_a_full_quota_is_waited_for_half_a_minute_at_a_time() -> None:
    answered = refused(QUOTA)
    step = plan(answered)
    assert step.again_s == 30
    assert patch(step.actions).phase is None
    assert reasons(step.troubles) == ["QuotaExceeded"]
    assert look(replace(answered, now_s=NOW_S + 30)).actions == (CREATE,)


@pytest.mark.behaviour("C1 T158")
def test_a_quota_that_stays_full_for_ten_minutes_deletes_the_runner() -> None:
    old = refused(QUOTA, after_s=600)
    decided = ending(look(old))
    assert decided.how is How.DISTURBED  # so the set makes another


def test_a_refusal_is_no_longer_told_once_the_pod_is_there() -> None:
    waiting = replace(refused(QUOTA), now_s=NOW_S + 30)
    waiting = told(waiting, patch(plan(waiting).actions), Done("12"))
    assert waiting.runner.reason == "QuotaExceeded"
    made = told(waiting, CREATE, Done("13", uid="pod-1"))
    write = patch(plan(made).actions)
    assert (write.reason, write.message, write.phase) == ("", "", None)
    assert write.conditions is not None
    assert [c.status for c in write.conditions if c.type == "Healthy"] == ["True"]


@pytest.mark.parametrize("answer", [WEBHOOK, NO_ACCOUNT])
def test_a_webhook_or_a_missing_account_is_waited_for_and_then_fails(answer: Refused) -> None:
    assert look(refused(answer)).again_s == 30
    decided = ending(look(refused(answer, after_s=600)))
    assert decided.how is How.FAILED
    assert decided.trouble is not None
    assert decided.trouble.reason is Reason.INVALID_POD


def test_missing_rights_are_ours_and_no_fault_of_the_pod() -> None:
    step = look(refused(RBAC))
    assert reasons(step.troubles) == ["RightsMissing"]
    assert ending(look(refused(RBAC, after_s=600))).how is How.DISTURBED


def test_pod_security_is_final_and_a_terminating_namespace_is_not() -> None:
    assert not verdict_on('pods "x" is forbidden: violates PodSecurity "restricted"').passing
    assert verdict_on("because it is being terminated").reason is Reason.DELETION_WAITS


@pytest.mark.behaviour("C1 T159")
def test_a_strangers_pod_of_that_name_is_waited_for_five_seconds_at_a_time() -> None:
    taken = told(seen(hand=READY), CREATE, Said.EXISTS)
    step = plan(taken)
    assert step.again_s == 5
    assert patch(step.actions).failed_pod is None  # no failure is recorded
    assert look(replace(taken, now_s=NOW_S + 5)).actions == (CREATE,)


def test_a_config_that_grew_old_unused_is_not_used_any_more() -> None:
    decided = ending(look(seen(hand=READY, after_s=600)))
    assert decided.how is How.DISTURBED
    assert decided.trouble is not None
    assert decided.trouble.reason is Reason.JIT_CONFIG_EXPIRED


def test_a_lost_answer_of_the_api_server_is_tried_again_with_backoff() -> None:
    step = plan(told(seen(hand=READY), CREATE, NoAnswer("reset by peer")))
    assert step.failed
    assert CREATE not in step.actions


def test_a_pod_returned_by_a_node_waits_its_backoff() -> None:
    hand = replace(READY, jit=None, pod=PodPast.RETURNED, pod_not_before_s=NOW_S + 5)
    assert look(seen(hand=hand)).again_s == 5
    assert look(seen(hand=hand, after_s=5)).actions == (CREATE,)  # the hash is remembered
    late = ending(look(seen(hand=hand, after_s=600)))
    assert late.trouble is not None
    assert "no node" in late.trouble.happened


def test_a_runner_that_is_over_gets_no_pod() -> None:
    assert CREATE not in plan(seen(FAILED, hand=READY)).actions
    gone = replace(PENDING, deleted_s=NOW_S)
    from runnerscale.controllers.ephemeral_runner.snapshot import Removal

    actions = plan(seen(gone, hand=removed(Removal.ABSENT, READY))).actions
    assert CREATE not in actions
