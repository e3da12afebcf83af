"""The scale set at GitHub: registered, adopted, kept as wished, registered anew when it is gone.

Nothing is ever deleted here. An id is believed until GitHub denies it; it is asked about it every
now and then, because an id can die without a word (W18). What GitHub has is compared with the
wish, not what we wrote down: a lost annotation is restored by id (W17), an emptied group means
the default group (W48), labels follow the spec (W16). Leaving an old place is `move.py`.

Pure. Contract: resources-and-controllers 4.1 A7-A9, 4.1.2.
"""

from typing import Any

from runnerscale.api import labels as keys
from runnerscale.api.fingerprint import fingerprint
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.autoscaling_runner_set import heard
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Action,
    CreateScaleSet,
    FindGroup,
    FindScaleSet,
    GetScaleSet,
    Look,
    PatchSelf,
    Snapshot,
    UpdateScaleSet,
)
from runnerscale.controllers.autoscaling_runner_set.wish import scale_set_labels, scale_set_name
from runnerscale.controllers.metadata import patched, url_labels
from runnerscale.controllers.stages import Stage, joined
from runnerscale.credentials.place import GitHubPlace
from runnerscale.kube.patching import at_version
from runnerscale.scaleset.model import RunnerGroup, RunnerScaleSet

DEFAULT_GROUP_ID = 1
DEFAULT_GROUP = "default"
# A scale set that vanished is noticed and healed within two minutes.
CHECK_EVERY_S = 90.0
# A runner's doubt is believed only if it is younger than the last check.
DOUBT_AFTER_S = 5.0
GONE_SHOWN_S = 60.0
URL_LABELS = (keys.ENTERPRISE, keys.ORGANIZATION, keys.REPOSITORY)


def stage(seen: Snapshot) -> Stage[Action]:
    """One step nearer to a scale set as wished."""
    place = seen.wish.place
    if place is None or seen.is_moving:
        return Stage()
    return joined([_step(seen, place), _gone(seen)])


def _step(seen: Snapshot, place: GitHubPlace) -> Stage[Action]:
    paused = pause(seen)
    if paused is not None:
        return paused
    if seen.registered_id == 0:
        return _register(seen, place)
    return _keep(seen, place)


def group_id(seen: Snapshot) -> int | None:
    """The wished group's id; None: not looked up yet."""
    if not seen.runner_set.spec.runner_group:
        return DEFAULT_GROUP_ID
    return seen.github.group.id if seen.github.group else None


def settings_hash(seen: Snapshot, found: RunnerScaleSet) -> str:
    """What which scale set is told beside name and group, so that it is told once."""
    spec = seen.runner_set.spec
    labels = sorted(set(spec.runner_scale_set_labels or ()))
    whom = {"id": found.id, "url": spec.github_config_url}
    return fingerprint({"labels": labels, "disableUpdate": True, **whom})


def registered_anew(seen: Snapshot) -> Trouble | None:
    """That the scale set was gone, though another is there by now; told for a while."""
    return _gone_trouble(seen) if seen.registered_id > 0 else None


def pause(seen: Snapshot) -> Stage[Action] | None:
    """Nothing is asked for a while after a failure; what it was is told meanwhile."""
    if seen.may_ask_github:
        return None
    told = seen.github.trouble or seen.known.trouble
    again_s = max(0.1, seen.known.retry_s - seen.now_s)
    return Stage(troubles=(told,) if told else (), again_s=again_s)


# --- a scale set is needed ---------------------------------------------------------------------


def _register(seen: Snapshot, place: GitHubPlace) -> Stage[Action]:
    if seen.rivals:
        names = ", ".join(seen.rivals)
        what = f"its scale set is already served by AutoscalingRunnerSet {names}"
        return Stage(
            troubles=(trouble(Reason.SCALE_SET_AMBIGUOUS, about=seen.about, happened=what),)
        )
    group = group_id(seen)
    if group is None:
        return Stage((FindGroup(place, seen.runner_set.spec.runner_group),))
    name = scale_set_name(seen.runner_set)
    found = seen.github.by_name
    if found is Look.UNASKED:
        return Stage((FindScaleSet(place, name, group),))
    if isinstance(found, Look) or found.id != seen.known.gone_id:
        before = _before_the_edit(seen, place, name, group)
        if before is not None:
            return Stage((before,))
    if isinstance(found, Look):
        labels = scale_set_labels(name, seen.runner_set.spec.runner_scale_set_labels)
        return Stage((CreateScaleSet(place, name, group, labels),))
    current = seen.github.by_id if isinstance(seen.github.by_id, RunnerScaleSet) else found
    update = _settings_update(seen, place, current)
    return Stage((update,)) if update else _recorded(seen, current)


def _before_the_edit(
    seen: Snapshot, place: GitHubPlace, name: str, group: int
) -> FindScaleSet | FindGroup | None:
    """Whether the denied one is after all where it was; None: it is not, or was asked about.

    GitHub was seen to deny what it has. Where nothing was edited the look-up by name finds it; if
    group or name were, it would stay behind there, with its jobs, for a new one or for another
    of the new name. A process that was started since the edit has only what is written down: names.
    """
    denied, last = seen.known.gone_id, seen.known.scale_set
    if denied == 0 or seen.github.before_asked:
        return None
    if last is not None and last.id == denied and last.runner_group_id:
        name_before, group_before = last.name, last.runner_group_id
    elif seen.scale_set_id == denied:
        recorded = _recorded_group(seen, group)
        if recorded is Look.UNASKED:
            return FindGroup(place, seen.annotation(keys.RUNNER_GROUP_NAME), is_before=True)
        if isinstance(recorded, Look):
            return None
        name_before = seen.annotation(keys.RUNNER_SCALE_SET_NAME) or name
        group_before = recorded
    else:
        return None
    if (name_before, group_before) == (name, group):
        return None
    return FindScaleSet(place, name_before, group_before, only_id=denied)


def _recorded_group(seen: Snapshot, wished: int) -> int | Look:
    """The id of the group that the scale set was in when it was written down last."""
    recorded = seen.annotation(keys.RUNNER_GROUP_NAME)
    if not recorded or _same(recorded, DEFAULT_GROUP):
        return DEFAULT_GROUP_ID
    if _same(recorded, seen.runner_set.spec.runner_group):
        return wished
    found = seen.github.group_before
    return found.id if isinstance(found, RunnerGroup) else found


def _gone(seen: Snapshot) -> Stage[Action]:
    """It is over within seconds, and somebody who looks a moment later wants to know."""
    told = _gone_trouble(seen)
    if told is None:
        return Stage()
    return Stage(troubles=(told,), again_s=seen.known.gone_s + GONE_SHOWN_S - seen.now_s)


def _gone_trouble(seen: Snapshot) -> Trouble | None:
    known = seen.known
    if known.gone_id == 0 or seen.now_s >= known.gone_s + GONE_SHOWN_S:
        return None
    happened = f"GitHub no longer knew the scale set {known.gone_id}"
    if seen.registered_id not in (0, known.gone_id):  # else it was denied wrongly
        happened += f"; it is registered anew as {seen.registered_id}"
    return trouble(Reason.SCALE_SET_GONE, about=seen.about, happened=happened)


# --- a scale set is there ----------------------------------------------------------------------


def _keep(seen: Snapshot, place: GitHubPlace) -> Stage[Action]:
    found = _current(seen)
    if found is None:
        return Stage((GetScaleSet(place, seen.scale_set_id),))
    # Changed only right after it was read, and once: a server that ignores it is not nagged.
    # One that refused is asked again, after the pause.
    read_now = seen.github.by_id is not Look.UNASKED
    if (read_now or seen.known.trouble is not None) and not seen.github.renamed:
        moved = _rename(seen, place, found) or _regroup(seen, place, found)
        if moved is not None:
            return Stage((moved,))
    update = _settings_update(seen, place, found)
    if update is not None:
        return Stage((update,))
    doubt_s = heard.doubt_s(seen)
    check_s = max(1.0, seen.known.checked_s + CHECK_EVERY_S - seen.now_s)
    again_s = check_s if doubt_s is None else min(check_s, max(0.1, doubt_s))
    ignored = _ignored(seen, found)
    settled: Stage[Action] = Stage(troubles=() if ignored is None else (ignored,), again_s=again_s)
    return joined([_recorded(seen, found), settled])


def _current(seen: Snapshot) -> RunnerScaleSet | None:
    """What GitHub has; None: it has to be asked."""
    if isinstance(seen.github.by_id, RunnerScaleSet):
        return seen.github.by_id
    known = seen.known
    age_s = seen.now_s - known.checked_s
    fresh = age_s < CHECK_EVERY_S and known.checked_generation == (seen.meta.generation or 0)
    doubted = seen.scale_set_id in seen.runners.doubted and age_s > DOUBT_AFTER_S
    doubted = doubted or heard.doubt_s(seen) == 0
    if known.scale_set is None or known.scale_set.id != seen.scale_set_id:
        return None
    # New credentials are tried out before anybody is told to use them.
    if not fresh or doubted or not seen.credentials_work:
        return None
    return known.scale_set


def _rename(seen: Snapshot, place: GitHubPlace, found: RunnerScaleSet) -> Action | None:
    wished = seen.runner_set.spec.runner_scale_set_name  # empty: whatever it is called now
    if not wished or _same(found.name, wished):
        return None
    return UpdateScaleSet(place, found.id, name=wished)


def _regroup(seen: Snapshot, place: GitHubPlace, found: RunnerScaleSet) -> Action | None:
    wished = seen.runner_set.spec.runner_group
    if not wished:
        if found.runner_group_id in (0, DEFAULT_GROUP_ID):
            return None
        return UpdateScaleSet(place, found.id, group_id=DEFAULT_GROUP_ID)
    if _same(found.runner_group_name, wished):
        return None
    group = group_id(seen)
    if group is None:
        return FindGroup(place, wished)
    return (
        None if group == found.runner_group_id else UpdateScaleSet(place, found.id, group_id=group)
    )


def _settings_update(
    seen: Snapshot, place: GitHubPlace, found: RunnerScaleSet
) -> UpdateScaleSet | None:
    """Labels and self-update, told once for each wish: old servers take no labels at all."""
    told = seen.annotation(keys.SETTINGS_HASH) == settings_hash(seen, found)
    if told or seen.github.settings_told:
        return None
    extra = set(seen.runner_set.spec.runner_scale_set_labels or ())
    wished = scale_set_labels(found.name, seen.runner_set.spec.runner_scale_set_labels)
    names = {
        found.name,
        scale_set_name(seen.runner_set),
        seen.annotation(keys.RUNNER_SCALE_SET_NAME),
    }
    if set(found.labels) - names == extra - names and found.disable_update:
        return None
    return UpdateScaleSet(place, found.id, labels=wished, disable_update=True)


def _ignored(seen: Snapshot, found: RunnerScaleSet) -> Any:
    wished = set(seen.runner_set.spec.runner_scale_set_labels or ())
    missing = sorted(wished - set(found.labels))
    if not missing:
        return None
    what = f"the scale set lacks the label{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    return trouble(Reason.SETTINGS_IGNORED, about=seen.about, happened=what)


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


# --- writing down what is known ----------------------------------------------------------------


def _recorded(seen: Snapshot, found: RunnerScaleSet) -> Stage[Action]:
    record = _record(seen, found)
    return Stage((record,) if record.body else ())


def _record(seen: Snapshot, found: RunnerScaleSet) -> PatchSelf:
    """Id, names and place; an empty body: all is written down already."""
    spec = seen.runner_set.spec
    group = found.runner_group_name or (seen.github.group.name if seen.github.group else "")
    annotations = patched(
        seen.meta.annotations,
        owned=[keys.MOVING_SINCE],  # it has arrived, or was called back
        wished={
            keys.SCALE_SET_ID: str(found.id),
            keys.RUNNER_SCALE_SET_NAME: found.name,
            keys.RUNNER_GROUP_NAME: group or seen.annotation(keys.RUNNER_GROUP_NAME),
            keys.ISSUED_FOR: spec.github_config_url,
            keys.SETTINGS_HASH: settings_hash(seen, found),
        },
    )
    url = seen.wish.url
    wished_labels = (
        url_labels(
            enterprise=url.enterprise, organization=url.organization, repository=url.repository
        )
        if url
        else {}
    )
    labels = patched(seen.meta.labels, wished_labels, owned=URL_LABELS)
    metadata: dict[str, Any] = {}
    if annotations:
        metadata["annotations"] = annotations
    if labels:
        metadata["labels"] = labels
    body: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if not spec.runner_scale_set_name:
        body["spec"] = {"runnerScaleSetName": scale_set_name(seen.runner_set)}
    return PatchSelf(at_version(body, seen.meta.resource_version) if body else {})
