"""How labels and annotations of generated objects come about.

What an administrator writes is the base, what the controller computes wins; inputs are never
changed and None is as good as empty. Keys that a prefix excludes are dropped where C1 2.9 says
so. `patched` compares only keys we own, so that foreign ones are left in peace (W4, W6, W7).
Pure. Contract: resources-and-controllers 2.6, 2.9.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runnerscale.api import labels as keys
from runnerscale.api.names import label_value
from runnerscale.kube.objects import ObjectMeta

Pairs = Mapping[str, str] | None


def merge_labels(base: Pairs, over: Pairs, *, excluded: Sequence[str] = ()) -> dict[str, str]:
    """`base`, then `over` on top, without keys that begin with an excluded prefix."""
    merged = {**(base or {}), **(over or {})}
    return {key: merged[key] for key in merged if not key.startswith(tuple(excluded))}


def merge_annotations(base: Pairs, over: Pairs) -> dict[str, str]:
    """`base`, then `over` on top."""
    return {**(base or {}), **(over or {})}


def url_labels(*, enterprise: str, organization: str, repository: str) -> dict[str, str]:
    """Labels that say which place at GitHub is served; only those that apply."""
    parts = {
        keys.ENTERPRISE: enterprise,
        keys.ORGANIZATION: organization,
        keys.REPOSITORY: repository,
    }
    return {key: label_value(part) for key, part in parts.items() if part}


def patched(
    actual: Pairs, wished: Mapping[str, str], *, owned: Iterable[str] = ()
) -> dict[str, str | None]:
    """The merge patch that makes `actual` have what is wished; empty if it has.

    `owned`: keys that we put there before; those no longer wished are removed.
    """
    now = actual or {}
    changed: dict[str, str | None] = {
        key: value for key, value in wished.items() if now.get(key) != value
    }
    gone = (key for key in owned if key in now and key not in wished)
    return changed | dict.fromkeys(gone)


def with_owned_keys(labels: Pairs, annotations: Pairs) -> dict[str, str]:
    """The annotations, and among them one that lists all keys which we put on the object."""
    listed = f"{','.join(sorted(labels or {}))};{','.join(sorted(annotations or {}))}"
    return {**(annotations or {}), keys.OWNED_KEYS: listed}


def metadata_patch(
    meta: ObjectMeta, *, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """The `metadata` part of a merge patch that gives an object what is wished; {}: it has it.

    `annotations` come from `with_owned_keys`: what the object's own list names and is no longer
    wished is taken away, everything else that is on it is left alone.
    """
    owned_labels, owned_annotations = _owned_keys(meta.annotations)
    parts = {
        "labels": patched(meta.labels, labels, owned=owned_labels),
        "annotations": patched(meta.annotations, annotations, owned=owned_annotations),
    }
    return {name: part for name, part in parts.items() if part}


def _owned_keys(annotations: Pairs) -> tuple[list[str], list[str]]:
    labels, _, names = (annotations or {}).get(keys.OWNED_KEYS, "").partition(";")
    return labels.split(",") if labels else [], names.split(",") if names else []
