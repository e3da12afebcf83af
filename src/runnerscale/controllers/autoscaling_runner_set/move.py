"""The config URL changed: how a runner set leaves one place at GitHub for another.

In this order, so that the old place keeps serving until the new one has answered, and nothing
of the old place is touched with a job on it:

1. the new place is asked (credentials, group, name); until it answers well, all stays as it is;
2. the old listener goes, and the set is held so that its idle runners go, deregistered there. One
   of which GitHub says that it has a job is not idle, though nobody is left who would store that;
3. the id is struck out, the old place is remembered (`left_behind.py`), and `registration.py`
   goes on at the new place. Busy runners keep their own spec and finish.

Pure. Contract: design section 4; issue 3 section 5.
"""

from typing import Any

from runnerscale.api import labels as keys
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.autoscaling_runner_set import left_behind
from runnerscale.controllers.autoscaling_runner_set.registration import group_id, pause
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Action,
    FindGroup,
    FindScaleSet,
    Look,
    PatchSelf,
    Snapshot,
    recorded_s,
)
from runnerscale.controllers.autoscaling_runner_set.wish import same_address, scale_set_name
from runnerscale.controllers.stages import Stage
from runnerscale.core.clock import format_time
from runnerscale.credentials.place import GitHubPlace
from runnerscale.kube.patching import at_version
from runnerscale.scaleset.model import RunnerScaleSet

# With dead credentials idle runners cannot be deregistered; then they are left to finish or fail.
PATIENCE_S = 300.0
LOOK_AGAIN_S = 5.0  # GitHub's word on a runner makes no event


def stage(seen: Snapshot) -> Stage[Action]:
    """One step on the way from the old place to the new."""
    place = seen.wish.place
    if place is None or not seen.is_moving:
        return Stage()
    if not seen.is_leaving:
        return _try_out(seen, place)
    if not seen.is_view_proven:
        # Struck out on an old view, the place would be forgotten with all that is not seen of it.
        return Stage(troubles=(_moving(seen, "what is there is looked at"),))
    since_s = recorded_s(seen.annotation(keys.MOVING_SINCE)) or seen.now_s
    left_s = since_s + PATIENCE_S - seen.now_s
    listening = any(
        not same_address(item.spec.github_config_url, place.config_url) for item in seen.listeners
    )
    if listening:
        return Stage(troubles=(_moving(seen, "its listener there ends"),))
    if _has_idle(seen) and left_s > 0:
        told = _moving(seen, "idle runners there are let go")
        return Stage(troubles=(told,), again_s=min(left_s, LOOK_AGAIN_S))
    return Stage((_strike_out(seen),))


def _try_out(seen: Snapshot, place: GitHubPlace) -> Stage[Action]:
    """Whether the new place would have us; nothing is changed there yet."""
    paused = pause(seen)
    if paused is not None:
        return paused
    if seen.rivals:
        what = f"its scale set at {place.config_url} is already served by {', '.join(seen.rivals)}"
        return Stage(
            troubles=(trouble(Reason.SCALE_SET_AMBIGUOUS, about=seen.about, happened=what),)
        )
    group = group_id(seen)
    if group is None:
        return Stage((FindGroup(place, seen.runner_set.spec.runner_group),))
    found = seen.github.by_name
    if found is Look.UNASKED:
        return Stage((FindScaleSet(place, scale_set_name(seen.runner_set), group),))
    if isinstance(found, RunnerScaleSet) and found.id == seen.scale_set_id:
        # The same scale set under another address (a renamed organization): nothing is left.
        return Stage((_annotated(seen, {keys.ISSUED_FOR: place.config_url}),))
    return Stage((_annotated(seen, {keys.MOVING_SINCE: format_time(seen.now_s)}),))


def _has_idle(seen: Snapshot) -> bool:
    return any(
        number == seen.scale_set_id and same_address(url, seen.issued_for)
        for url, number in seen.runners.idle_places
    )


def _strike_out(seen: Snapshot) -> PatchSelf:
    annotations: dict[str, Any] = {
        keys.SCALE_SET_ID: None,
        keys.RUNNER_SCALE_SET_NAME: None,
        keys.RUNNER_GROUP_NAME: None,
        keys.ISSUED_FOR: None,
        keys.SETTINGS_HASH: None,
        keys.MOVING_SINCE: None,
    }
    old = seen.current_set
    if old is not None:
        spec = old.spec.ephemeral_runner_spec
        entry = left_behind.entry_of(spec, scale_set_id=seen.scale_set_id)
        left = [*left_behind.entries(seen), entry][-left_behind.ENTRIES_MAX :]
        annotations[keys.LEFT_BEHIND] = left_behind.as_annotation(left)
    return _annotated(seen, annotations)


def _annotated(seen: Snapshot, annotations: dict[str, Any]) -> PatchSelf:
    body = {"metadata": {"annotations": annotations}}
    return PatchSelf(at_version(body, seen.meta.resource_version))


def _moving(seen: Snapshot, what: str) -> Trouble:
    happened = f"it leaves {seen.issued_for}: {what}"
    return trouble(Reason.PLACE_CHANGING, about=seen.about, happened=happened)
