"""The one EphemeralRunnerSet of a runner set: made, changed in place, held, never replaced.

A changed template is patched into it; which runners are then replaced, and when, is its own
controller's rule. `replicas` and `patchID` are the listener's and never written here. Only our
own keys are compared (W6), contents before fingerprints (W9). Sets of other names, as older
releases made them, are let go: they drain by themselves (W42).

One that ARC made of the same wish is left as ARC spelled it, with ARC's hash and without a key of
ours, so that ARC finds it as it was if it ever comes back: which keys are ours is written down on
the runner set.

Pure. Contract: resources-and-controllers 3.10, 4.1 A10-A13.
"""

from typing import Any

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EphemeralRunnerSpec
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.api.fingerprint import fingerprint, is_ours
from runnerscale.api.go_form import same_in_go
from runnerscale.api.values import as_body
from runnerscale.controllers.autoscaling_runner_set.outdated import is_outdated
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Action,
    CreateSet,
    DeleteSet,
    PatchSet,
    Snapshot,
    once,
)
from runnerscale.controllers.autoscaling_runner_set.wish import same_address
from runnerscale.controllers.metadata import (
    joined_keys,
    listed_keys,
    merge_annotations,
    merge_labels,
    metadata_patch,
    url_labels,
)
from runnerscale.controllers.places import place_of
from runnerscale.controllers.stages import Stage
from runnerscale.kube.objects import Body, is_deleting
from runnerscale.kube.patching import controller_reference, merge_diff

HOLD_ALL = "0"
# Ours whatever is written down: the first must never stay, the second is where it stood before.
ALWAYS_OURS = f";{keys.HOLD},{keys.OWNED_KEYS}"


def stage(seen: Snapshot) -> Stage[Action]:
    """Make it, or change what differs; let strays go."""
    found = seen.current_set
    if found is None:
        return _missing(seen)
    if is_deleting(found):
        return Stage()  # its end is an event
    strays = tuple(
        DeleteSet(item.metadata.name or "", item.metadata.uid or "")
        for item in seen.sets
        if item is not found and not is_deleting(item)
    )
    patch = _change(seen)
    change = (PatchSet(seen.name, patch),) if patch else ()
    return Stage((*change, *strays))


def is_settled(seen: Snapshot) -> bool:
    """Whether it is there and as wished."""
    found = seen.live_set
    return found is not None and not _change(seen)


def own_keys(seen: Snapshot) -> str:
    """Which keys on the set are ours; those that are to go are among them until they have gone."""
    own = listed_keys(**_metadata(seen, ""))
    found = seen.current_set
    return own if found is None or not _change(seen) else joined_keys(own, _owned(seen, found))


def runner_spec(seen: Snapshot) -> EphemeralRunnerSpec:
    """What a runner looks like, by the wish."""
    spec = seen.runner_set.spec
    return EphemeralRunnerSpec(
        github_config_url=spec.github_config_url,
        github_config_secret=spec.github_config_secret,
        runner_scale_set_id=seen.registered_id,
        github_server_tls=spec.github_server_tls,
        proxy=spec.proxy,
        vault_config=spec.vault_config,
        ephemeral_runner_config_secret_metadata=spec.ephemeral_runner_config_secret_metadata,
        metadata=spec.template.metadata,
        spec=spec.template.spec,
    )


def labels(seen: Snapshot, component: str) -> dict[str, str]:
    """Those of the runner set, and on them what says whose this is; also for the listener."""
    own = {
        keys.PART_OF: keys.PART_OF_VALUE,
        keys.COMPONENT: component,
        keys.VERSION: (seen.meta.labels or {}).get(keys.VERSION, ""),
        keys.SCALE_SET_NAME: seen.name,
        keys.SCALE_SET_NAMESPACE: seen.namespace,
    }
    url = seen.wish.url
    of_url = (
        url_labels(
            enterprise=url.enterprise, organization=url.organization, repository=url.repository
        )
        if url
        else {}
    )
    # Those of the URL come after the filter, as in ARC: a prefix does not take them away.
    return merge_labels(seen.meta.labels, own, excluded=seen.settings.excluded_prefixes) | of_url


def may_use_place(seen: Snapshot, spec: EphemeralRunnerSpec) -> bool:
    """Whether new credentials have proven themselves, or there are none new."""
    in_use = place_of(spec, namespace=seen.namespace)
    return seen.credentials_work or in_use == seen.wish.place


def _missing(seen: Snapshot) -> Stage[Action]:
    ready = seen.registered_id > 0 and seen.wish.place is not None and seen.wish.template_usable
    if not ready or is_outdated(seen):
        return Stage()
    metadata: Body = {"name": seen.name, "namespace": seen.namespace}
    metadata |= _metadata(seen, fingerprint(runner_spec(seen)))
    metadata["ownerReferences"] = [controller_reference(seen.reference)]
    # No replicas: absence is 0, and the field is the listener's from the first write on.
    spec: Body = {"patchID": 0, "ephemeralRunnerSpec": as_body(runner_spec(seen))}
    block = seen.runner_set.spec.ephemeral_runner_metadata
    if block is not None:
        spec["ephemeralRunnerMetadata"] = as_body(block)
    return Stage((CreateSet({"metadata": metadata, "spec": spec}),))


@once
def _change(seen: Snapshot) -> Body:
    """The merge patch that makes the current set as wished; {}: it is, or there is none."""
    found = seen.current_set
    return _patch(seen, found) if found is not None else {}


def _patch(seen: Snapshot, found: EphemeralRunnerSet) -> Body:
    """The merge patch that makes it as wished; {}: it is."""
    spec_now = found.spec.ephemeral_runner_spec
    wished = runner_spec(seen)
    applicable = (
        seen.registered_id > 0
        and seen.wish.place is not None
        and seen.wish.template_usable
        and may_use_place(seen, spec_now)
    )
    if not applicable or (_is_arcs(found) and same_in_go(spec_now, wished)):
        wished = spec_now  # the last good one, or ARC's spelling of this one
    spec: Body = {}
    changes = merge_diff(as_body(spec_now), as_body(wished))
    if changes:
        spec["ephemeralRunnerSpec"] = changes
    block_now = found.spec.ephemeral_runner_metadata
    block = seen.runner_set.spec.ephemeral_runner_metadata
    spec |= merge_diff(
        {"ephemeralRunnerMetadata": as_body(block_now)}, {"ephemeralRunnerMetadata": as_body(block)}
    )
    stamp = _stamp(found) if _is_arcs(found) and not changes else fingerprint(wished)
    changed = metadata_patch(
        found.metadata,
        **_metadata(seen, stamp),
        owned=joined_keys(_owned(seen, found), ALWAYS_OURS),
    )
    patch: Body = {"metadata": changed} if changed else {}
    return patch | ({"spec": spec} if spec else {})


def _stamp(found: EphemeralRunnerSet) -> str:
    return (found.metadata.annotations or {}).get(keys.INTEGRITY_HASH, "")


def _is_arcs(found: EphemeralRunnerSet) -> bool:
    """ARC made it, and we have not changed its runner spec since."""
    return bool(_stamp(found)) and not is_ours(_stamp(found))


def _owned(seen: Snapshot, found: EphemeralRunnerSet) -> str:
    """The keys that we put on the set."""
    on_it = (found.metadata.annotations or {}).get(keys.OWNED_KEYS, "")
    return joined_keys(seen.annotation(keys.SET_KEYS), on_it)


def _is_homeless(seen: Snapshot) -> bool:
    """The old place was struck out and the new one has not taken us yet.

    The set still has the old runner spec: what it made now would register nowhere.
    """
    found = seen.current_set
    if found is None or seen.scale_set_id:
        return False
    in_use = found.spec.ephemeral_runner_spec.github_config_url
    return not same_address(in_use, seen.runner_set.spec.github_config_url)


def _metadata(seen: Snapshot, stamp: str) -> dict[str, Any]:
    block = seen.runner_set.spec.ephemeral_runner_set_metadata
    own = labels(seen, keys.COMPONENT_RUNNER_SET)
    excluded = seen.settings.excluded_prefixes
    if block is not None and block.labels:
        own = merge_labels(block.labels, own, excluded=excluded)
    annotations = merge_annotations(
        block.annotations if block else None,
        {
            keys.RUNNER_GROUP_NAME: seen.annotation(keys.RUNNER_GROUP_NAME),
            keys.RUNNER_SCALE_SET_NAME: seen.annotation(keys.RUNNER_SCALE_SET_NAME),
            keys.INTEGRITY_HASH: stamp,
        },
    )
    if seen.is_leaving or _is_homeless(seen) or is_outdated(seen):
        annotations[keys.HOLD] = HOLD_ALL
    return {"labels": own, "annotations": annotations}
