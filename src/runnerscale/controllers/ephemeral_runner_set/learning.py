"""How answers get into the snapshot of a pass. Pure.

What they mean for the next step is the stages' business; here they only become facts.
"""

from collections.abc import Sequence
from dataclasses import replace

from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.controllers.ephemeral_runner_set import proxy_secret, template_check
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Action,
    Answer,
    AskGitHub,
    CheckTemplate,
    ConfirmView,
    CreateRunner,
    Data,
    DeleteProxySecret,
    DeleteRunner,
    Look,
    PatchSet,
    ReadProxySecret,
    Refused,
    Removal,
    ResolveProxy,
    Said,
    Snapshot,
    Undecided,
    WriteProxySecret,
    WriteStatus,
    Written,
)
from runnerscale.controllers.ephemeral_runner_set.status import STATUS_EVERY_S, view
from runnerscale.kube.builtin import Secret

PROXY_AGAIN_S = 30.0  # means that are missing are looked for again after this


def learn(seen: Snapshot, answers: Sequence[tuple[Action, Answer]]) -> Snapshot:
    """The snapshot with these answers in it."""
    for action, answer in answers:
        seen = _one(seen, action, answer)
    return seen


def _one(seen: Snapshot, action: Action, answer: Answer) -> Snapshot:
    match action:
        case PatchSet():
            return _set_patched(seen, action, answer)
        case ConfirmView():
            if isinstance(answer, Refused):
                return _failed(seen, action, answer)
            gone, is_old = answer is Said.GONE, answer is Said.CONFLICT
            return replace(seen, gone=gone, stale=is_old, confirmed=answer is Said.DONE)
        case CreateRunner():
            return _created(seen, action, answer)
        case AskGitHub(uid=uid):
            runners = tuple(
                replace(r, removal=Removal.ASKED, removal_s=seen.now_s) if r.uid == uid else r
                for r in seen.runners
            )
            return replace(seen, runners=runners)
        case DeleteRunner():
            return _deleted(seen, action, answer)
        case CheckTemplate():
            if isinstance(answer, Undecided):
                return _failed(seen, action, Refused(answer.trouble))
            now = template_check.learned(seen.template, answer, now_s=seen.now_s)
            return replace(seen, template=now)
        case ResolveProxy() | ReadProxySecret() | WriteProxySecret() | DeleteProxySecret():
            return _proxy(seen, action, answer)
        case WriteStatus():
            return _status_written(seen, action, answer)


def _set_patched(seen: Snapshot, action: Action, answer: Answer) -> Snapshot:
    if isinstance(answer, Refused):
        return _failed(seen, action, answer)
    # Whatever was written is not in this snapshot: decide again on what is true then.
    return replace(seen, stale=True, gone=answer is Said.GONE)


def _created(seen: Snapshot, action: Action, answer: Answer) -> Snapshot:
    if isinstance(answer, Refused):
        return _failed(seen, action, answer)
    seen = replace(seen, made=seen.made + 1)
    if isinstance(answer, Undecided):
        seen = replace(_failed(seen, action, Refused(answer.trouble)), made=seen.made)
    return seen


def _deleted(seen: Snapshot, action: DeleteRunner, answer: Answer) -> Snapshot:
    if isinstance(answer, Refused):
        return _failed(seen, action, answer)
    if answer is Said.CONFLICT:
        return replace(seen, stale=True)
    if action.told is not None:
        seen = replace(seen, last_words=(*seen.last_words, action.told))
    counts = seen.counts
    if answer is not Said.GONE:
        counts = replace(counts, deleting=counts.deleting + 1)
    if any(r.uid == action.uid for r in seen.retired):
        kept = tuple(r for r in seen.retired if r.uid != action.uid)
        gone = next(r for r in seen.retired if r.uid == action.uid)
        counts = replace(
            counts,
            failed=counts.failed - (gone.phase == "Failed"),
            finished=counts.finished - (gone.phase == "Succeeded"),
        )
        return replace(seen, retired=kept, counts=counts)
    left = tuple(r for r in seen.runners if r.uid != action.uid)
    for runner in seen.runners:
        if runner.uid == action.uid:
            is_running = runner.has_job or runner.phase == "Running"
            counts = replace(
                counts,
                running=counts.running - is_running,
                pending=counts.pending - (not is_running),
            )
    return replace(seen, runners=left, counts=counts)


def _proxy(seen: Snapshot, action: Action, answer: Answer) -> Snapshot:
    proxy = seen.proxy
    again_s = seen.now_s + proxy_secret.LOOK_EVERY_S
    match answer:
        case Refused(trouble):
            again_s = seen.now_s + PROXY_AGAIN_S
            return replace(seen, proxy=replace(proxy, trouble=trouble, again_s=again_s))
        case Data(values):
            return replace(seen, proxy=replace(proxy, data=values, trouble=None, again_s=again_s))
        case Secret():
            return replace(seen, proxy=replace(proxy, secret=answer, trouble=None))
        case Look.ABSENT:
            return replace(seen, proxy=replace(proxy, secret=Look.ABSENT, trouble=None))
        case Undecided(trouble=trouble):
            return _failed(seen, action, Refused(trouble))
    return replace(seen, proxy=replace(proxy, secret=Look.UNKNOWN))  # it changed: read it again


def _status_written(seen: Snapshot, action: WriteStatus, answer: Answer) -> Snapshot:
    if isinstance(answer, Refused):
        return _failed(seen, action, answer)
    if isinstance(answer, EphemeralRunnerSet):
        written = Written(action.wished, view(answer.status))
        due_s = seen.now_s + STATUS_EVERY_S
        return replace(seen, item=answer, status_due_s=due_s, written=written)
    return replace(seen, gone=True)


def _failed(seen: Snapshot, action: Action, answer: Refused) -> Snapshot:
    return replace(
        seen,
        failed=True,
        failed_actions=(*seen.failed_actions, action),
        failures=(*seen.failures, answer.trouble),
    )
