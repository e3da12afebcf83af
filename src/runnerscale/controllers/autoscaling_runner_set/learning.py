"""How answers come back into the snapshot of a runner set.

What an answer means for the rules is decided there; this file only puts it where they look.
Pure.
"""

from collections.abc import Sequence
from dataclasses import replace

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AutoscalingListener
from runnerscale.api.autoscaling_runner_set import AutoscalingRunnerSet
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Action,
    Answer,
    Call,
    CountLeftJobs,
    CreateListener,
    CreateScaleSet,
    CreateSet,
    DeleteListener,
    DeleteScaleSet,
    DeleteSet,
    FindGroup,
    FindScaleSet,
    GetScaleSet,
    Known,
    LeftJobs,
    Look,
    PatchListener,
    PatchSelf,
    PatchSet,
    Snapshot,
    Unprotect,
    UpdateScaleSet,
    WriteStatus,
)
from runnerscale.core.backoff import Backoff
from runnerscale.kube.objects import ObjectMeta
from runnerscale.scaleset.model import RunnerGroup, RunnerScaleSet

# Between calls to GitHub that fail; a Secret that appears is noticed within a minute.
RETRY = Backoff(first_s=2.0, cap_s=60.0)
LEFT_RETRY_S = 60.0


def learn(seen: Snapshot, answers: Sequence[tuple[Action, Answer]]) -> Snapshot:
    """The snapshot with this pass's answers in it."""
    for action, answer in answers:
        seen = _learn_one(seen, action, answer)
    return seen


def _learn_one(seen: Snapshot, action: Action, answer: Answer) -> Snapshot:
    match action:
        case FindGroup() | FindScaleSet() | GetScaleSet() | CreateScaleSet() | UpdateScaleSet():
            return _learn_github(seen, action, answer)
        case DeleteScaleSet():
            return _learn_deleted(seen, action, answer)
        case CountLeftJobs():
            return _learn_left_jobs(seen, action, answer)
        case Unprotect(key=key):
            if not isinstance(answer, Trouble):
                return replace(seen, unprotected=seen.unprotected | {key})
        case WriteStatus(told=told):
            known = replace(seen.known, status_told=told, counted_s=seen.now_s)
            seen = replace(seen, known=known)
        case _:
            pass
    return _learn_object(seen, action, answer)


def _learn_object(seen: Snapshot, action: Action, answer: Answer) -> Snapshot:
    if isinstance(answer, Trouble):
        return replace(seen, refused=(*seen.refused, answer))
    if isinstance(action, PatchSelf):
        seen = replace(seen, told=(*seen.told, *action.told))
        if keys.CONTROLLER in action.body.get("metadata", {}).get("annotations", {}):
            stamp = replace(seen.known.stamp, there=True, put_s=seen.now_s)
            seen = replace(seen, known=replace(seen.known, stamp=stamp))
    if isinstance(answer, AutoscalingRunnerSet):
        known = _recorded(seen.known, action)
        if known.checked_generation == (seen.meta.generation or 0):
            # Our own write: what GitHub was compared with is what the object now says.
            known = replace(known, checked_generation=answer.metadata.generation or 0)
        return replace(seen, runner_set=answer, known=known)
    match action:
        case CreateSet() | PatchSet() | DeleteSet():
            name = action.name if not isinstance(action, CreateSet) else seen.name
            others = tuple(item for item in seen.sets if item.metadata.name != name)
            found = (answer,) if isinstance(answer, EphemeralRunnerSet) else ()
            return replace(seen, sets=(*others, *found))
        case PatchListener(name=name) | DeleteListener(name=name):
            rest = tuple(item for item in seen.listeners if item.metadata.name != name)
            kept = (answer,) if isinstance(answer, AutoscalingListener) else ()
            return replace(seen, listeners=(*rest, *kept))
        case CreateListener():
            if isinstance(answer, AutoscalingListener):
                return replace(seen, listeners=(*seen.listeners, answer))
        case PatchSelf():
            # It is gone: nothing holds it any more.
            meta = ObjectMeta(name=seen.name, namespace=seen.namespace, deletion_timestamp="gone")
            return replace(seen, runner_set=AutoscalingRunnerSet(metadata=meta))
        case _:
            pass
    return seen


def _recorded(known: Known, action: Action) -> Known:
    """A write about the id says what is to be known of it from now on: there, or struck out."""
    if isinstance(action, PatchSelf):
        written = (action.body.get("metadata") or {}).get("annotations") or {}
        if known.unrecorded and keys.SCALE_SET_ID in written:
            return replace(known, unrecorded={})
    return known


def _learn_github(seen: Snapshot, action: Call, answer: Answer) -> Snapshot:
    github = seen.github
    if isinstance(answer, Trouble):
        return _failed(seen, answer)
    seen = replace(seen, known=replace(seen.known, trouble=None, failures=0, retry_s=0.0))
    match action, answer:
        case FindGroup(is_before=True), RunnerGroup() | Look():
            github = replace(github, group_before=answer)
        case FindGroup(), RunnerGroup():
            github = replace(github, group=answer)
        case FindScaleSet(place=place, only_id=only_id), RunnerScaleSet() | Look():
            if only_id:
                github = replace(github, before_asked=True)
                if not isinstance(answer, RunnerScaleSet) or answer.id != only_id:
                    answer = github.by_name  # under the wished name, as was asked before
            github = replace(github, by_name=answer)
            # Nothing may have been found, but the credentials are good.
            known = replace(seen.known, place=place)
            if isinstance(answer, RunnerScaleSet):
                known = _checked(seen, known, answer)
                if answer.id == seen.scale_set_id and not seen.is_moving:
                    github = replace(github, by_id=answer)
            return replace(seen, github=github, known=known)
        case ((GetScaleSet(id=asked) | UpdateScaleSet(id=asked)), Look()):
            github = replace(github, by_id=answer)
            known = replace(seen.known, gone_id=asked, gone_s=seen.now_s, unrecorded={})
            return replace(seen, github=github, known=known)
        case _, RunnerScaleSet():
            github = replace(github, by_id=answer)
            if isinstance(action, CreateScaleSet):
                github = replace(github, by_name=answer, settings_told=True)
            if isinstance(action, UpdateScaleSet) and action.labels is not None:
                github = replace(github, settings_told=True)
            if isinstance(action, UpdateScaleSet) and action.labels is None:
                github = replace(github, renamed=True)
            known = replace(_checked(seen, seen.known, answer), place=action.place)
            if isinstance(action, CreateScaleSet):
                made = {
                    keys.SCALE_SET_ID: str(answer.id),
                    keys.RUNNER_SCALE_SET_NAME: answer.name,
                    keys.RUNNER_GROUP_NAME: answer.runner_group_name,
                    keys.ISSUED_FOR: action.place.config_url,
                }
                known = replace(known, unrecorded=made)
            return replace(seen, github=github, known=known)
        case _:
            pass
    return replace(seen, github=github)


def _failed(seen: Snapshot, trouble: Trouble) -> Snapshot:
    known = replace(
        seen.known,
        trouble=trouble,
        failed_generation=seen.meta.generation or 0,
        failures=seen.known.failures + 1,
        retry_s=seen.now_s + RETRY.delay_s(seen.known.failures),
    )
    return replace(seen, github=replace(seen.github, trouble=trouble), known=known)


def _checked(seen: Snapshot, known: Known, scale_set: RunnerScaleSet) -> Known:
    return replace(
        known,
        scale_set=scale_set,
        checked_s=seen.now_s,
        checked_generation=seen.meta.generation or 0,
    )


def _learn_deleted(seen: Snapshot, action: DeleteScaleSet, answer: Answer) -> Snapshot:
    github, spot = seen.github, (action.place.config_url, action.id)
    if not isinstance(answer, Trouble):
        left = {k: v for k, v in seen.known.left_troubles.items() if k != spot}
        jobs = {k: v for k, v in seen.known.left_jobs.items() if k != spot}
        known = replace(seen.known, left_troubles=left, left_jobs=jobs)
        deleted = replace(github, deleted=github.deleted | {spot})
        return replace(seen, github=deleted, known=known)
    if action.left_behind:
        troubles = {**github.left_troubles, spot: answer}
        known = replace(seen.known, left_retry_s=seen.now_s + LEFT_RETRY_S, left_troubles=troubles)
        return replace(seen, github=replace(github, left_troubles=troubles), known=known)
    return _failed(seen, answer)


def _learn_left_jobs(seen: Snapshot, action: CountLeftJobs, answer: Answer) -> Snapshot:
    """Whatever the answer is, it is not asked again for a while; none leaves what was known."""
    spot = (action.place.config_url, action.id)
    waiting = seen.known.left_jobs.get(spot, LeftJobs()).waiting
    if isinstance(answer, RunnerScaleSet) and answer.statistics is not None:
        waiting = max(0, answer.statistics.assigned_jobs - answer.statistics.running_jobs)
    elif answer is Look.ABSENT:
        waiting = 0
    left_jobs = {**seen.known.left_jobs, spot: LeftJobs(seen.now_s, waiting)}
    return replace(seen, known=replace(seen.known, left_jobs=left_jobs))
