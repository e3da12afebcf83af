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
    return {**(annotations or {}), keys.OWNED_KEYS: listed_keys(labels, annotations)}


def listed_keys(labels: Pairs, annotations: Pairs) -> str:
    """The keys of both as one text."""
    return f"{','.join(sorted(labels or {}))};{','.join(sorted(annotations or {}))}"


def joined_keys(one: str, other: str) -> str:
    """What either of two such texts lists."""
    (labels, names), (more_labels, more_names) = _listed(one), _listed(other)
    every_label = dict.fromkeys((*labels, *more_labels), "")
    return listed_keys(every_label, dict.fromkeys((*names, *more_names), ""))


def metadata_patch(
    meta: ObjectMeta,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    owned: str | None = None,
) -> dict[str, Any]:
    """The `metadata` part of a merge patch that gives an object what is wished; {}: it has it.

    What `owned` lists (or the object's own list, where `annotations` come from `with_owned_keys`)
    and is no longer wished is taken away, everything else that is on it is left alone.
    """
    listed = (meta.annotations or {}).get(keys.OWNED_KEYS, "") if owned is None else owned
    owned_labels, owned_annotations = _listed(listed)
    parts = {
        "labels": patched(meta.labels, labels, owned=owned_labels),
        "annotations": patched(meta.annotations, annotations, owned=owned_annotations),
    }
    return {name: part for name, part in parts.items() if part}


def _listed(text: str) -> tuple[list[str], list[str]]:
    labels, _, names = text.partition(";")
    return labels.split(",") if labels else [], names.split(",") if names else []
