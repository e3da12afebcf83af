"""The order in which a runner set is kept as wished.

GitHub first, because nothing can be made without an id; then the set that makes runners, then
the listener that scales it. What is wrong in one stage is told and stops no other; each keeps
the last good state where it cannot go on. What each does is in the file of its name.

Pure. Contract: resources-and-controllers 4.1.
"""

from typing import Any

import msgspec

from runnerscale.api import labels as keys
from runnerscale.api.fingerprint import fingerprint
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.autoscaling_runner_set import (
    competing,
    deletion,
    ephemeral_set,
    heard,
    left_behind,
    listener,
    move,
    outdated,
    registration,
    status,
    version,
)
from runnerscale.controllers.autoscaling_runner_set.snapshot import Action, PatchSelf, Snapshot
from runnerscale.controllers.stages import Stage, as_plan, joined
from runnerscale.kube.objects import is_deleting
from runnerscale.kube.patching import add_finalizers, at_version, has_finalizer, merge_apply
from runnerscale.kube.reconcile import Plan


def plan(seen: Snapshot) -> Plan[Action, Trouble]:
    """What to do about a runner set, now."""
    if is_deleting(seen.runner_set):
        return as_plan(_with_status(seen, deletion.stage(seen)))
    missing = add_finalizers(seen.meta, [keys.RUNNER_SET_FINALIZER])
    if missing is not None:
        return as_plan(Stage((PatchSelf(missing),)))
    skew = version.skew(seen)
    told: Stage[Action] = Stage(
        troubles=(*seen.wish.troubles, *((skew,) if skew else ()), *seen.refused, *seen.told),
        failed=bool(seen.refused),
    )
    stages = [
        told,
        competing.stage(seen),
        registration.stage(seen),
        move.stage(seen),
        outdated.stage(seen),
        left_behind.stage(seen),
    ]
    before = joined(stages)
    if not seen.refused:  # what the server refused would be refused again in the next round
        stages.append(ephemeral_set.stage(seen))
        stages.append(listener.stage(seen))
    said = heard.its_trouble(seen)
    stages.append(Stage(troubles=(said,) if said else ()))
    everything = _one_patch(seen, joined(stages), settled=not before.actions)
    return as_plan(_with_status(seen, everything))


def _with_status(seen: Snapshot, so_far: Stage[Action]) -> Stage[Action]:
    """The status tells how the pass ended, so it waits until nothing else is to be done."""
    held = has_finalizer(seen.runner_set, keys.RUNNER_SET_FINALIZER)
    gone = is_deleting(seen.runner_set) and not held
    if so_far.actions or gone:
        return so_far
    return joined([so_far, status.stage(seen, so_far.troubles)])


def _one_patch(seen: Snapshot, stage: Stage[Action], *, settled: bool) -> Stage[Action]:
    """All changes to the object itself in one write: they carry the same version."""
    merged: dict[str, Any] = {}
    told: list[Trouble] = []
    others: list[Action] = []
    for action in stage.actions:
        if isinstance(action, PatchSelf):
            merged = _merged(merged, action.body)
            told += action.told
        else:
            others.append(action)
    if merged or settled:
        merged = _with_set_keys(seen, _with_integrity(seen, merged))
    if merged:
        patch = at_version(merged, seen.meta.resource_version)
        others.insert(0, PatchSelf(patch, tuple(told)))
    return Stage(tuple(others), stage.troubles, stage.again_s, stage.failed, stage.stop)


def _with_integrity(seen: Snapshot, patch: dict[str, Any]) -> dict[str, Any]:
    """The fingerprint of spec and labels, as ARC keeps it; nobody here reads it."""
    changed = patch.get("metadata", {}).get("labels", {})
    labels = merge_apply(seen.meta.labels or {}, changed)
    spec = seen.runner_set.spec
    name = patch.get("spec", {}).get("runnerScaleSetName") or spec.runner_scale_set_name
    wished = msgspec.structs.replace(spec, runner_scale_set_name=name)
    stamp = fingerprint({"spec": wished, "labels": labels})
    if seen.annotation(keys.INTEGRITY_HASH) == stamp:
        return patch
    return _merged(patch, {"metadata": {"annotations": {keys.INTEGRITY_HASH: stamp}}})


def _with_set_keys(seen: Snapshot, patch: dict[str, Any]) -> dict[str, Any]:
    """Which keys on the EphemeralRunnerSet are ours, written down where ARC does not look."""
    listed = ephemeral_set.own_keys(seen)
    if seen.annotation(keys.SET_KEYS) == listed:
        return patch
    return _merged(patch, {"metadata": {"annotations": {keys.SET_KEYS: listed}}})


def _merged(one: Any, other: Any) -> dict[str, Any]:
    """Two merge patches as one; unlike `merge_apply`, a null in a patch stays a null."""
    merged = dict(one)
    for key, value in other.items():
        before = merged.get(key)
        both = isinstance(before, dict) and isinstance(value, dict)
        merged[key] = _merged(before, value) if both else value
    return merged
