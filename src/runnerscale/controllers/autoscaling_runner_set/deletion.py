"""A runner set that is being deleted: listener, runners, scale set, chart objects, in this order.

Nobody listens when the runners go, no runner is left when the scale set goes. Busy runners are
waited for; everything else has a bound, because the means to do it (Secret, account, network,
rights) may be gone for good (W37): then it is told, with the id that stays behind, and let go.

Pure. Contract: resources-and-controllers 4.1.3.
"""

from typing import Any

from runnerscale.api import labels as keys
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.autoscaling_runner_set import left_behind, protection
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Action,
    DeleteListener,
    DeleteScaleSet,
    DeleteSet,
    PatchSelf,
    Snapshot,
    recorded_s,
)
from runnerscale.controllers.places import place_of
from runnerscale.controllers.stages import Stage, joined
from runnerscale.core.clock import format_time
from runnerscale.credentials.place import GitHubPlace
from runnerscale.kube.objects import is_deleting
from runnerscale.kube.patching import at_version, drop_finalizers, has_finalizer

AGAIN_S = 5.0
# Without usable credentials nothing changes by waiting, unless somebody is just restoring them.
NO_CREDENTIALS_S = 120.0
# GitHub away, or rights taken from us.
UNAVAILABLE_S = 600.0
HOPELESS = (
    Reason.CREDENTIALS_MISSING,
    Reason.CREDENTIALS_INVALID,
    Reason.CREDENTIALS_REFUSED,
    Reason.CONFIG_URL_INVALID,
    Reason.PROXY_INVALID,
    Reason.CERTIFICATE_INVALID,
)


def stage(seen: Snapshot) -> Stage[Action]:
    """The next step of the way out."""
    if not has_finalizer(seen.runner_set, keys.RUNNER_SET_FINALIZER):
        return Stage(troubles=seen.told, stop=True)
    if seen.listeners:
        going = tuple(
            DeleteListener(item.metadata.name or "", item.metadata.uid or "")
            for item in seen.listeners
            if not is_deleting(item)
        )
        return _waiting(seen, going, "its listener to end")
    if seen.sets:
        draining = tuple(
            DeleteSet(item.metadata.name or "", item.metadata.uid or "")
            for item in seen.sets
            if not is_deleting(item)
        )
        return _waiting(seen, draining, "its runners to finish")
    at_github = _at_github(seen)
    return at_github if at_github is not None else _let_go(seen)


def _waiting(seen: Snapshot, actions: tuple[Action, ...], what: str) -> Stage[Action]:
    told = trouble(Reason.DELETION_WAITS, about=seen.about, happened=f"it waits for {what}")
    return Stage(actions, (*seen.refused, told), again_s=AGAIN_S, stop=True)


def _at_github(seen: Snapshot) -> Stage[Action] | None:
    """Delete what is ours there; None: done, never was, or given up."""
    struck = _struck(seen)
    if struck is not None:
        return Stage((struck,), stop=True)
    tries: list[Action] = []
    waits: list[Trouble] = []
    for item in _left(seen):
        url = item.github_config_url
        if seen.is_busy(url, item.scale_set_id):
            waits.append(_busy(seen, url, item.scale_set_id))
            continue
        refusal = seen.github.left_troubles.get(item.spot)
        if refusal is None and seen.now_s >= seen.known.left_retry_s:
            place = item.place(seen.namespace)
            tries.append(DeleteScaleSet(place, item.scale_set_id, left_behind=True))
        elif not _is_given_up(seen, refusal):
            waits.append(refusal or _pending(seen, item.scale_set_id))
    if _has_own(seen):
        refusal = _own_refusal(seen)
        if seen.is_busy(seen.issued_for, seen.scale_set_id):
            waits.append(_busy(seen, seen.issued_for, seen.scale_set_id))
        elif refusal is None:
            tries.append(DeleteScaleSet(_place(seen), seen.scale_set_id))
        elif not _is_given_up(seen, refusal):
            waits.append(refusal)
    if tries:
        return Stage(tuple(tries), stop=True)
    if waits:
        # Runners with a job are waited for however long they take: that is no failure.
        failing = any(told.reason is not Reason.DELETION_WAITS for told in waits)
        note = _note_failing(seen) if failing else ()
        return Stage(note, tuple(waits), again_s=AGAIN_S, stop=True)
    return None


def _busy(seen: Snapshot, url: str, scale_set_id: int) -> Trouble:
    what = f"it waits for runners of scale set {scale_set_id} at {url} that have a job"
    return trouble(Reason.DELETION_WAITS, about=seen.about, happened=what)


def _struck(seen: Snapshot) -> PatchSelf | None:
    """Strike out what was deleted in this pass, so that the next does not ask again."""
    annotations: dict[str, Any] = {}
    if seen.scale_set_id and (_own_url(seen), seen.scale_set_id) in seen.github.deleted:
        annotations[keys.SCALE_SET_ID] = None
    if len(_left(seen)) < len(left_behind.entries(seen)):
        annotations[keys.LEFT_BEHIND] = left_behind.as_annotation(_left(seen))
    if not annotations:
        return None
    body = {"metadata": {"annotations": annotations}}
    return PatchSelf(at_version(body, seen.meta.resource_version))


def _left(seen: Snapshot) -> list[left_behind.LeftBehind]:
    return [
        item
        for item in left_behind.entries(seen)
        if item.spot not in seen.github.deleted
        and not seen.is_neighbours(item.github_config_url, item.scale_set_id)
    ]


def _has_own(seen: Snapshot) -> bool:
    own = seen.scale_set_id
    gone = (_own_url(seen), own) in seen.github.deleted
    return own > 0 and not gone and not seen.is_neighbours(seen.issued_for, own)


def _own_url(seen: Snapshot) -> str:
    return seen.issued_for if seen.is_moving else seen.runner_set.spec.github_config_url


def _own_refusal(seen: Snapshot) -> Trouble | None:
    """Why the last try failed, also while the pause after it lasts."""
    if seen.github.trouble is not None:
        return seen.github.trouble
    return None if seen.may_ask_github else seen.known.trouble


def _is_given_up(seen: Snapshot, refusal: Trouble | None) -> bool:
    hopeless = refusal is not None and refusal.reason in HOPELESS
    return _failing_s(seen) >= (NO_CREDENTIALS_S if hopeless else UNAVAILABLE_S)


def _pending(seen: Snapshot, scale_set_id: int) -> Trouble:
    what = f"it waits for the deletion of scale set {scale_set_id} at a place it has left"
    return trouble(Reason.DELETION_WAITS, about=seen.about, happened=what)


def _let_go(seen: Snapshot) -> Stage[Action]:
    """Chart objects, then ourselves."""
    leaks = _leaks(seen)
    if seen.refused and _failing_s(seen) < UNAVAILABLE_S:
        failing: Stage[Action] = Stage(
            _note_failing(seen), seen.refused, again_s=AGAIN_S, stop=True
        )
        return joined([failing, Stage(troubles=leaks)])
    steps = () if seen.refused else protection.next_steps(seen)
    if steps:
        return Stage(steps, leaks, stop=True)
    patch = drop_finalizers(seen.meta, [keys.RUNNER_SET_FINALIZER])
    told = (*seen.refused, *leaks)
    return Stage((PatchSelf(patch, told),) if patch else (), told, stop=True)


def _leaks(seen: Snapshot) -> tuple[Trouble, ...]:
    """What stays at GitHub, with the id that a person needs to remove it."""
    told = []
    if _has_own(seen):
        refusal = _own_refusal(seen) or seen.known.trouble
        told.append(_leaked(seen, seen.scale_set_id, seen.issued_for, refusal))
    for item in _left(seen):
        refusal = seen.github.left_troubles.get(item.spot)
        told.append(_leaked(seen, item.scale_set_id, item.github_config_url, refusal))
    return tuple(told)


def _leaked(seen: Snapshot, scale_set_id: int, url: str, why: Trouble | None) -> Trouble:
    reason = f": {why.happened}" if why else ""
    what = f"scale set {scale_set_id} at {url} could not be deleted and was given up{reason}"
    return trouble(Reason.SCALE_SET_LEAKED, about=seen.about, happened=what)


def _place(seen: Snapshot) -> GitHubPlace:
    """With the credentials of the spec, at the place that the id was issued for."""
    place = place_of(seen.runner_set.spec, namespace=seen.namespace)
    if not seen.is_moving:
        return place
    return GitHubPlace(
        namespace=place.namespace,
        config_url=_own_url(seen),
        secret_name=place.secret_name,
        proxy=place.proxy,
        certificate=place.certificate,
        vault_type=place.vault_type,
        azure_key_vault=place.azure_key_vault,
    )


def _failing_s(seen: Snapshot) -> float:
    since_s = recorded_s(seen.annotation(keys.DELETION_FAILING_SINCE))
    return 0.0 if since_s is None else seen.now_s - since_s


def _note_failing(seen: Snapshot) -> tuple[Action, ...]:
    """Since when it fails: on the object, because a restart must not begin the wait anew."""
    if recorded_s(seen.annotation(keys.DELETION_FAILING_SINCE)) is not None:
        return ()
    stamp: dict[str, Any] = {keys.DELETION_FAILING_SINCE: format_time(seen.now_s)}
    body = {"metadata": {"annotations": stamp}}
    return (PatchSelf(at_version(body, seen.meta.resource_version)),)
