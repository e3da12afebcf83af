"""Merge patches, owner references and finalizers as plain values. Pure.

What a patch carries decides who wins: with `metadata.resourceVersion` in it, the server takes
it only if nobody wrote in between. A list is exchanged as a whole by a merge patch, so the
finalizer patches always carry the version that their list was read at.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from runnerscale.kube.objects import Body, KubeObject, ObjectMeta, ObjectReference


def merge_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> Body:
    """The JSON merge patch (RFC 7386) that turns `old` into `new`; empty: they are equal.

    `None` as a value in `new` means: the field is absent.
    """
    patch: Body = {}
    for name, value in new.items():
        before = old.get(name)
        if value is None:
            if before is not None:
                patch[name] = None
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = merge_diff(before, value)
            if inner:
                patch[name] = inner
        elif value != before or type(value) is not type(before):
            patch[name] = value
    for name, before in old.items():
        if name not in new and before is not None:
            patch[name] = None
    return patch


def merge_apply(target: Any, patch: Any) -> Any:
    """What a server makes of `target` under a merge patch (RFC 7386); neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_apply(result.get(name), value)
    return result


def at_version(patch: Mapping[str, Any], version: str | None) -> Body:
    """The patch, good only for this version of the object.

    Raises:
        ValueError: there is no version to be held to.
    """
    if not version:
        raise ValueError("a guarded patch needs the resourceVersion that it was planned on")
    metadata = {**patch.get("metadata", {}), "resourceVersion": version}
    return {**patch, "metadata": metadata}


def controller_reference(owner: ObjectReference) -> Body:
    """The owner reference of the one owner that controls an object."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_controlled_by(item: KubeObject, owner: ObjectReference) -> bool:
    """Whether the controlling owner is this very object (a namesake has another uid)."""
    return any(
        reference.controller and reference.uid == owner.uid
        for reference in item.metadata.owner_references or ()
    )


def owner_index(item: KubeObject) -> list[str]:
    """For an informer's index "owner": `kind/namespace/name` of the controlling owner.

    Readers check the uid as well: the owner may have been replaced by a namesake.
    """
    return [
        f"{reference.kind}/{item.metadata.namespace or ''}/{reference.name}"
        for reference in item.metadata.owner_references or ()
        if reference.controller
    ]


def has_finalizer(item: KubeObject, name: str) -> bool:
    """Whether this finalizer holds the object."""
    return name in (item.metadata.finalizers or ())


def add_finalizers(meta: ObjectMeta, names: Sequence[str]) -> Body | None:
    """The guarded merge patch that adds what is missing; None: nothing is."""
    present = meta.finalizers or []
    missing = [name for name in names if name not in present]
    if not missing:
        return None
    return at_version({"metadata": {"finalizers": [*present, *missing]}}, meta.resource_version)


def drop_finalizers(meta: ObjectMeta, names: Sequence[str]) -> Body | None:
    """The guarded merge patch that takes these away and leaves others'; None: none is there."""
    present = meta.finalizers or []
    kept = [name for name in present if name not in names]
    if len(kept) == len(present):
        return None
    return at_version({"metadata": {"finalizers": kept}}, meta.resource_version)
