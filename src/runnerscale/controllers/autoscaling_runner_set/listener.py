"""The one AutoscalingListener of a runner set: made, changed in place, and no second one.

A session is closed only when the place at GitHub changes. So limits, labels, credentials, group
and template are patched into the listener that there is (its own controller decides what needs
a new pod), and a listener at another place goes before there is a new one (W8): found by what
it says it serves, not by its name, which changes with group and URL.

Pure. Contract: resources-and-controllers 3.1, 4.1 A14; 6 W4, W8.
"""

from typing import Any

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AutoscalingListener, AutoscalingListenerSpec
from runnerscale.api.fingerprint import fingerprint
from runnerscale.api.names import listener_name
from runnerscale.api.values import LocalObjectReference, as_body
from runnerscale.controllers.autoscaling_runner_set.ephemeral_set import labels
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Action,
    CreateListener,
    DeleteListener,
    PatchListener,
    Snapshot,
    once,
)
from runnerscale.controllers.autoscaling_runner_set.wish import same_address
from runnerscale.controllers.metadata import (
    merge_annotations,
    merge_labels,
    metadata_patch,
    with_owned_keys,
)
from runnerscale.controllers.places import place_of
from runnerscale.controllers.stages import Stage
from runnerscale.kube.objects import Body, is_deleting
from runnerscale.kube.patching import merge_diff


def stage(seen: Snapshot) -> Stage[Action]:
    """Strays first; then the one."""
    kept = current(seen)
    strays = tuple(
        DeleteListener(item.metadata.name or "", item.metadata.uid or "")
        for item in seen.listeners
        if item is not kept and not is_deleting(item)
    )
    if strays or kept is None:
        return Stage(strays or _missing(seen))
    patch = _change(seen)
    return Stage((PatchListener(kept.metadata.name or "", patch),) if patch else ())


@once
def current(seen: Snapshot) -> AutoscalingListener | None:
    """The one that stays: at the served place, of the name we would give it, else the oldest."""
    url = seen.runner_set.spec.github_config_url if seen.is_leaving else _served_url(seen)
    here = [
        item
        for item in seen.listeners
        if not is_deleting(item) and same_address(item.spec.github_config_url, url)
    ]
    name = wished_name(seen)

    def rank(item: AutoscalingListener) -> tuple[bool, str, str]:
        meta = item.metadata
        return meta.name != name, meta.creation_timestamp or "", meta.name or ""

    return min(here, key=rank, default=None)


def is_settled(seen: Snapshot) -> bool:
    """Whether there is exactly the one, as wished."""
    kept = current(seen)
    return kept is not None and len(seen.listeners) == 1 and not _change(seen)


def wished_name(seen: Snapshot) -> str:
    """What a new listener is called."""
    spec = seen.runner_set.spec
    return listener_name(
        namespace=seen.namespace,
        runner_set=seen.name,
        runner_group=spec.runner_group,
        config_url=spec.github_config_url,
    )


def _served_url(seen: Snapshot) -> str:
    # Until a new place has answered, and while the wish is unreadable, the old one is served.
    return seen.issued_for if seen.scale_set_id else seen.runner_set.spec.github_config_url


def _missing(seen: Snapshot) -> tuple[Action, ...]:
    ready = (
        seen.registered_id > 0
        and seen.wish.place is not None
        and seen.wish.limits is not None
        and seen.live_set is not None
        and not seen.listeners  # one that is going still holds the session
    )
    if not ready:
        return ()
    spec = as_body(_spec(seen, None))
    metadata: Body = {"name": wished_name(seen), "namespace": seen.settings.namespace}
    return (CreateListener({"metadata": metadata | _metadata(seen), "spec": spec}),)


@once
def _change(seen: Snapshot) -> Body:
    """The merge patch that makes the kept one as wished; {}: it is, or there is none."""
    kept = current(seen)
    return _patch(seen, kept) if kept is not None else {}


def _patch(seen: Snapshot, kept: AutoscalingListener) -> Body:
    """The merge patch that makes it as wished; {}: it is, or nothing can be wished just now."""
    place = seen.wish.place
    in_use = place_of(kept.spec, namespace=seen.namespace)
    if place is None or seen.registered_id == 0 or not (seen.credentials_work or in_use == place):
        return {}
    wished = _spec(seen, kept)
    patch: Body = {}
    changes = merge_diff(as_body(kept.spec), as_body(wished))
    if changes:
        patch["spec"] = changes
    metadata = _metadata(seen)
    changed = metadata_patch(
        kept.metadata, labels=metadata["labels"], annotations=metadata["annotations"]
    )
    if changed:
        patch["metadata"] = changed
    return patch


def _spec(seen: Snapshot, kept: AutoscalingListener | None) -> AutoscalingListenerSpec:
    spec = seen.runner_set.spec
    limits = seen.wish.limits
    low, high = (limits.min_runners, limits.max_runners) if limits else (0, 0)
    if limits is None and kept is not None:
        low, high = kept.spec.min_runners, kept.spec.max_runners  # the last good ones
    secrets = [LocalObjectReference(name) for name in seen.settings.image_pull_secrets]
    return AutoscalingListenerSpec(
        github_config_url=spec.github_config_url,
        github_config_secret=spec.github_config_secret,
        runner_scale_set_id=seen.registered_id,
        autoscaling_runner_set_namespace=seen.namespace,
        autoscaling_runner_set_name=seen.name,
        ephemeral_runner_set_name=seen.name,
        max_runners=high,
        min_runners=low,
        image=seen.settings.image,
        image_pull_secrets=secrets or None,
        proxy=spec.proxy,
        github_server_tls=spec.github_server_tls,
        vault_config=spec.vault_config,
        metrics=spec.listener_metrics,
        template=spec.listener_template,
        config_secret_metadata=spec.listener_config_secret_metadata,
        service_account_metadata=spec.listener_service_account_metadata,
        role_metadata=spec.listener_role_metadata,
        role_binding_metadata=spec.listener_role_binding_metadata,
    )


def _metadata(seen: Snapshot) -> dict[str, Any]:
    block = seen.runner_set.spec.autoscaling_listener
    own = labels(seen, keys.COMPONENT_LISTENER)
    if block is not None and block.labels:
        own = merge_labels(block.labels, own, excluded=seen.settings.excluded_prefixes)
    annotations = merge_annotations(
        block.annotations if block else None,
        {keys.INTEGRITY_HASH: fingerprint(_spec(seen, current(seen)))},
    )
    return {"labels": own, "annotations": with_owned_keys(own, annotations)}
