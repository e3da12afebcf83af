"""How answers get into the snapshot, and what this process remembers of them.

Bookkeeping, no rules: what an answer means for the runner is decided by the stages, which see
it as a fact of the snapshot. `noticed` does the same for what the caches show. Pure: answers
bring the time at which they came.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from runnerscale.api.labels import EPHEMERAL_RUNNER_FINALIZERS
from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner.actions import (
    Action,
    Answer,
    Answered,
    AskRunner,
    CheckPod,
    CheckSecret,
    ConfirmView,
    CreatePod,
    CreateSecret,
    DeleteLeftovers,
    DeletePod,
    DeleteRunner,
    DeleteSecret,
    Done,
    FindRunner,
    Found,
    GenerateJit,
    GitHubFailed,
    Known,
    NoAnswer,
    PatchStatus,
    Refused,
    Registered,
    RemoveRunner,
    Said,
    SetFinalizers,
)
from runnerscale.controllers.ephemeral_runner.deadlines import (
    GITHUB_AGAIN,
    JOB_STILL_RUNNING_AGAIN_S,
    NAME_LOOKUP,
    NAME_TAKEN_AGAIN_S,
    POD_RETURNED_AGAIN,
    REFUSED_AGAIN,
    STRAY_BUSY_MAX,
    spread,
)
from runnerscale.controllers.ephemeral_runner.identity import Jit
from runnerscale.controllers.ephemeral_runner.jit_secret import template_hash
from runnerscale.controllers.ephemeral_runner.pod import refusal
from runnerscale.controllers.ephemeral_runner.pod_ended import omen_of
from runnerscale.controllers.ephemeral_runner.pod_view import PodView
from runnerscale.controllers.ephemeral_runner.snapshot import (
    Hand,
    PodPast,
    Refusal,
    Removal,
    Snapshot,
    Talk,
    Where,
    where,
)
from runnerscale.controllers.troubles import RBAC_WORDS

REMOVALS = {
    Said.FORGOTTEN: Removal.FORGOTTEN,
    Said.ABSENT: Removal.ABSENT,
    Said.JOB_RUNNING: Removal.BUSY,
}


def learn(seen: Snapshot, answers: Sequence[tuple[Action, Answered]]) -> Snapshot:
    """The snapshot with the answers of one batch in it."""
    for action, answered in answers:
        seen = _learn(seen, action, answered.answer, at_s=answered.at_s)
    seen = replace(seen, now_s=max([seen.now_s, *(answered.at_s for _, answered in answers)]))
    hand = noticed(seen)
    return seen if hand is seen.hand else replace(seen, hand=hand)


def noticed(seen: Snapshot) -> Hand:
    """What this process remembers, with what the snapshot shows in it."""
    hand, runner, pod = seen.hand, seen.runner, seen.pod
    now: dict[str, Any] = {}
    if pod is not None and not pod.gone:
        if not (hand.pod is PodPast.RETURNED and pod.refused_by_node):
            now["pod"] = PodPast.MADE
        now["omen"] = omen_of(pod) or hand.omen
        now["missed"] = False
        if hand.secret:
            now["jit"] = None  # the Secret has it, and the pod knows the Secret
    lost = pod is None and hand.missed and where(seen) is Where.LOST
    if hand.end_s is None and (lost or (pod is not None and pod.ended)):
        now["end_s"] = seen.now_s
    if hand.over_s is None and runner.job_over:
        now["over_s"] = seen.now_s
    if hand.retired_s is None and seen.retired:
        now["retired_s"] = seen.now_s
    news = {name: value for name, value in now.items() if getattr(hand, name) != value}
    return replace(hand, **news) if news else hand


def registered(jit: Jit, *, at_s: float) -> Hand:
    """What is remembered after a registration: everything begins anew."""
    return Hand(jit=jit, issued_s=at_s, template_hash=template_hash(jit), pod=PodPast.NEVER)


def _learn(seen: Snapshot, action: Action, answer: Answer, *, at_s: float) -> Snapshot:
    match action:
        case GenerateJit() | FindRunner() | AskRunner() | RemoveRunner():
            if not seen.hand.confirmed:
                seen = replace(seen, hand=replace(seen.hand, confirmed=True))
            if isinstance(answer, GitHubFailed):
                return _github_failed(seen, action, answer, at_s=at_s)
            talk = seen.hand.talk
            if talk.tries or talk.not_before_s or talk.trouble:
                talk = replace(talk, tries=0, not_before_s=0.0, trouble=None)
                seen = replace(seen, hand=replace(seen.hand, talk=talk))
            return _github_answered(seen, action, answer, at_s=at_s)
        case PatchStatus() | SetFinalizers() | DeleteRunner():
            return _runner_written(seen, action, answer, at_s=at_s)
        case ConfirmView():
            return _confirmed(seen, action, answer)
        case _:
            return _child_written(seen, action, answer, at_s=at_s)


# --- GitHub -----------------------------------------------------------------------------------


def _github_failed(
    seen: Snapshot, action: Action, answer: GitHubFailed, *, at_s: float
) -> Snapshot:
    talk = seen.hand.talk
    passing = answer.trouble.reason in (Reason.GITHUB_UNAVAILABLE, Reason.GITHUB_RATE_LIMITED)
    backoff = GITHUB_AGAIN if passing else REFUSED_AGAIN
    delay_s = backoff.delay_s(talk.tries) * (0.75 + 0.5 * spread(seen.runner.ref.uid))
    lost = isinstance(action, GenerateJit) and answer.maybe_done
    talk = replace(
        talk,
        tries=talk.tries + 1,
        not_before_s=at_s + max(delay_s, answer.retry_after_s or 0.0),
        trouble=answer.trouble,
        suspect=talk.suspect or lost,
        lost_call_s=at_s if lost else talk.lost_call_s,
    )
    return replace(seen, hand=replace(seen.hand, talk=talk))


def _github_answered(seen: Snapshot, action: Action, answer: Answer, *, at_s: float) -> Snapshot:
    hand, talk = seen.hand, seen.hand.talk
    match action, answer:
        case GenerateJit(), Registered(jit=jit):
            return replace(seen, hand=registered(jit, at_s=at_s))
        case GenerateJit(), _:
            talk = replace(talk, suspect=True, name_tries=talk.name_tries + 1)
        case FindRunner(), Known():
            return replace(seen, hand=_found(seen, answer))
        case FindRunner(), _:
            tries = talk.name_tries + 1 if seen.pod is not None else talk.name_tries
            # The first try after it is at once; the look-up may only have lagged.
            delay_s = NAME_LOOKUP.delay_s(tries - 2) if tries > 1 else 0.0
            talk = replace(
                talk,
                suspect=False,
                looked_up_s=at_s,
                name_tries=tries,
                not_before_s=at_s + max(delay_s, 5.0 if seen.deleting else 0.0),
            )
        case AskRunner(), Known(status=word):
            offline_s = talk.offline_s if talk.offline_s is not None else at_s
            talk = replace(
                talk,
                asked_s=at_s,
                known=True,
                missing_s=None,
                online=talk.online or word == "online",
                offline_s=offline_s if word == "offline" else None,
            )
        case AskRunner(), _:
            missing_s = talk.missing_s if talk.missing_s is not None else at_s
            talk = replace(talk, asked_s=at_s, known=False, missing_s=missing_s)
        case RemoveRunner(), Said():
            talk = _removed(seen, action, answer, at_s=at_s)
    return replace(seen, hand=replace(hand, talk=talk))


def _found(seen: Snapshot, found: Known) -> Hand:
    hand, talk = seen.hand, seen.hand.talk
    if found.scale_set_id != seen.runner.scale_set_id:
        return replace(hand, talk=replace(talk, foreign=True, suspect=False))
    if seen.pod is not None:
        return replace(hand, adopted_id=found.runner_id, talk=replace(talk, suspect=False))
    return replace(hand, talk=replace(talk, stray_id=found.runner_id, suspect=False))


def _removed(seen: Snapshot, action: RemoveRunner, said: Said, *, at_s: float) -> Talk:
    talk = seen.hand.talk
    if action.runner_id != talk.stray_id:
        missing_s = talk.missing_s  # an ending that began with it goes on once it is forgotten
        if said is Said.ABSENT:
            missing_s = missing_s if missing_s is not None else at_s
        elif said is Said.JOB_RUNNING:
            missing_s = None
        return replace(talk, removal=REMOVALS[said], removal_s=at_s, missing_s=missing_s)
    if said is Said.JOB_RUNNING:
        # No pod of ours can have begun that job: the id is stored before a pod is made.
        busy = talk.stray_busy + 1
        if busy >= STRAY_BUSY_MAX:
            return replace(talk, foreign=True, stray_id=0)
        return replace(talk, stray_busy=busy, not_before_s=at_s + JOB_STILL_RUNNING_AGAIN_S)
    return replace(talk, stray_id=0, looked_up_s=at_s)


# --- Kubernetes -------------------------------------------------------------------------------


def _confirmed(seen: Snapshot, action: ConfirmView, answer: Answer) -> Snapshot:
    match answer:
        case Done():
            return replace(seen, hand=replace(seen.hand, confirmed=True))
        case Said.CONFLICT:
            return replace(seen, stale=True)
        case Said.ABSENT:
            return replace(seen, gone=True)
    return _unanswered(seen, action, answer)


def _runner_written(
    seen: Snapshot,
    action: PatchStatus | SetFinalizers | DeleteRunner,
    answer: Answer,
    *,
    at_s: float,
) -> Snapshot:
    if answer in (Said.ABSENT, Said.GONE):
        words = action.last_words if isinstance(action, SetFinalizers) else ()
        return replace(seen, gone=True, last_words=words)
    if answer is Said.CONFLICT:
        return replace(seen, stale=True)
    if not isinstance(answer, Done):
        return _unanswered(seen, action, answer)
    version = answer.resource_version
    match action:
        case PatchStatus():
            kept: dict[str, Any] = {
                name: value
                for name in (
                    "phase",
                    "runner_id",
                    "runner_name",
                    "ready",
                    "reason",
                    "message",
                    "conditions",
                )
                if (value := getattr(action, name)) is not None
            }
            runner = replace(seen.runner, resource_version=version, **kept)
            if action.failed_pod and action.failed_pod not in runner.failures:
                runner = replace(runner, failures=(*runner.failures, action.failed_pod))
            return replace(seen, runner=runner)
        case SetFinalizers(finalizers=finalizers, last_words=words):
            ours = set(finalizers) & set(EPHEMERAL_RUNNER_FINALIZERS)
            gone = seen.deleting and not ours and not finalizers
            runner = replace(seen.runner, resource_version=version, finalizers=finalizers)
            return replace(seen, runner=runner, gone=gone, last_words=words)
        case DeleteRunner():
            runner = replace(seen.runner, resource_version=version, deleted_s=at_s)
            return replace(seen, runner=runner)


def _child_written(seen: Snapshot, action: Action, answer: Answer, *, at_s: float) -> Snapshot:
    hand = seen.hand
    match action, answer:
        case CreateSecret(), Done():
            hand = replace(hand, secret=True, secret_gone=False, refusal=None)
        case CreateSecret(), Said.EXISTS:
            hand = replace(hand, stale_secret=True)
        case DeleteSecret(), Said.GONE | Said.ABSENT:
            hand = replace(hand, stale_secret=False, secret=False, secret_gone=True)
        case DeleteSecret(), Said.EXISTS:  # not ours: nothing of ours is there
            happened = "a Secret of its name is there that is not ours"
            why = trouble(Reason.RUNNER_NAME_TAKEN, about=seen.about, happened=happened)
            waits = Refusal(why, at_s + NAME_TAKEN_AGAIN_S)
            hand = replace(hand, refusal=waits, secret_gone=True)
        case CheckSecret(), Done():
            hand = replace(hand, secret_seen_s=at_s)
        case CheckSecret(), Said.ABSENT:
            hand = replace(hand, secret_lost=True)
        case CreatePod(), Done(resource_version=version, uid=uid):
            pod = PodView(uid=uid, created_s=at_s, changed_s=at_s, resource_version=version)
            kept = hand if hand.refusal is None else replace(hand, refusal=None)
            return replace(seen, pod=pod, hand=kept)
        case CheckPod(), Found(pod=pod):
            return replace(seen, pod=pod)
        case CheckPod(), Said.ABSENT:
            hand = replace(hand, missed=True)
        case CreatePod(), Said.EXISTS:
            happened = "a pod of its name is there that is not ours"
            why = trouble(Reason.RUNNER_NAME_TAKEN, about=seen.about, happened=happened)
            hand = replace(hand, refusal=Refusal(why, at_s + NAME_TAKEN_AGAIN_S))
        case ((CreatePod() | CreateSecret()), Refused()):
            hand = replace(hand, refusal=refusal(answer, about=seen.about, at_s=at_s))
        case DeletePod(), Said.CONFLICT:  # it is not as we saw it: look again
            return replace(seen, stale=True)
        case DeletePod(), Done() | Said():
            return _pod_deleted(seen, action, answer, at_s=at_s)
        case DeleteLeftovers(), Done():
            hand = replace(hand, leftovers_gone=True)
        case _:
            return _unanswered(seen, action, answer)
    return replace(seen, hand=hand)


def _pod_deleted(seen: Snapshot, action: DeletePod, answer: Answer, *, at_s: float) -> Snapshot:
    pod, hand = seen.pod, seen.hand
    if pod is None or pod.uid != action.uid:
        return seen
    if action.grace_s == 0:
        hand = replace(hand, forced=True)
    if isinstance(answer, Done):  # it is on its way
        going_s = pod.going_s if pod.going_s is not None else at_s
        return replace(seen, hand=hand, pod=replace(pod, going_s=going_s))
    if pod.refused_by_node and not seen.deleting and not seen.retired:
        nth = max(0, len(seen.runner.failures) - 1)
        hand = replace(
            hand,
            pod=PodPast.RETURNED,
            pod_not_before_s=at_s + POD_RETURNED_AGAIN.delay_s(nth),
            omen=None,
            forced=False,
            end_s=None,
        )
        return replace(seen, hand=hand, pod=None)
    return replace(seen, hand=hand, pod=replace(pod, gone=True))


def _unanswered(seen: Snapshot, action: Action, answer: Answer) -> Snapshot:
    """Not done, or not known to be: not again in this pass, and the pass has failed."""
    told = seen.kube_troubles
    if isinstance(answer, Refused):
        reason = Reason.API_SERVER_REFUSED
        if isinstance(action, DeletePod | DeleteSecret | DeleteLeftovers):
            reason = Reason.CLEANUP_BLOCKED
        if RBAC_WORDS.search(answer.words):
            reason = Reason.RIGHTS_MISSING
        told = (*told, trouble(reason, about=seen.about, happened=answer.words))
    words = answer.words if isinstance(answer, NoAnswer) else seen.unanswered
    return replace(seen, failed=(*seen.failed, action), kube_troubles=told, unanswered=words)
