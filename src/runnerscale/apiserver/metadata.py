"""The rules of metadata that hold for every kind, for creates and for updates.

Decides what is accepted; what the server itself fills in (uid, times, generation) is set by
`operations.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from runnerscale.apiserver import formats
from runnerscale.apiserver.failures import (
    FieldError,
    not_allowed,
    required,
    too_long,
    wrong,
)
from runnerscale.apiserver.kinds import Kind

Json = dict[str, Any]

ANNOTATIONS_BYTES_MAX = 256 * 1024
ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

_SEGMENT_NAMES = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")


def name_check(kind: Kind) -> Callable[[str], list[str]]:
    """How names of this kind must look."""
    if kind.plural == "namespaces" and not kind.group:
        return formats.dns_label
    if kind.plural in _SEGMENT_NAMES:
        return formats.path_segment
    return formats.dns_subdomain


def check_metadata(kind: Kind, meta: Json) -> list[FieldError]:
    """Metadata of an object that is to be created, after its name was generated."""
    errors: list[FieldError] = []
    check = name_check(kind)
    prefix = meta.get("generateName") or ""
    if prefix and kind.resource != "events":
        masked = formats.mask_trailing_dash(prefix)
        errors += [wrong("metadata.generateName", prefix, text) for text in check(masked)]
    name = meta.get("name") or ""
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += [wrong("metadata.name", name, text) for text in check(name)]
    namespace = meta.get("namespace")
    if not kind.namespaced and namespace:
        errors.append(not_allowed("metadata.namespace", "not allowed on this type"))
    errors += _check_maps(meta)
    errors += check_owners(meta.get("ownerReferences") or [])
    errors += _check_finalizers(meta.get("finalizers") or [])
    if not kind.custom:
        errors += _check_core_finalizers(meta.get("finalizers") or [])
    return errors


def _check_core_finalizers(finalizers: Sequence[str]) -> list[FieldError]:
    """Built-in kinds take only the standard names without a domain."""
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        wrong(f"metadata.finalizers[{place}]", name, text)
        for place, name in enumerate(finalizers)
        if "/" not in name and name not in (ORPHAN, FOREGROUND, "kubernetes")
    ]


def _check_maps(meta: Json) -> list[FieldError]:
    errors = check_labels(meta.get("labels") or {}, "metadata.labels")
    annotations = meta.get("annotations") or {}
    for key in sorted(annotations):
        for text in formats.label_key(key.lower()):
            errors.append(wrong("metadata.annotations", key, text))
    size = sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items())
    if size > ANNOTATIONS_BYTES_MAX:
        errors.append(too_long("metadata.annotations", ANNOTATIONS_BYTES_MAX))
    return errors


def check_labels(labels: Json, path: str) -> list[FieldError]:
    """Keys and values of labels."""
    errors: list[FieldError] = []
    for key in sorted(labels):
        errors += [wrong(path, key, text) for text in formats.label_key(key)]
        errors += [wrong(path, labels[key], text) for text in formats.label_value(labels[key])]
    return errors


def check_owners(owners: Sequence[Json]) -> list[FieldError]:
    """Owner references are complete, and at most one controls."""
    path = "metadata.ownerReferences"
    errors: list[FieldError] = []
    controller = ""
    for owner in owners:
        if not (owner.get("apiVersion") or "").rpartition("/")[2]:
            errors.append(
                wrong(
                    f"{path}.apiVersion", owner.get("apiVersion") or "", "version must not be empty"
                )
            )
        for part in ("kind", "name", "uid"):
            if not owner.get(part):
                errors.append(wrong(f"{path}.{part}", "", "must not be empty"))
        if owner.get("kind") == "Event" and owner.get("apiVersion") == "v1":
            text = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(wrong(path, owner, text))
        if owner.get("controller"):
            this = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                text = (
                    'Only one reference can have Controller set to true. Found "true" in'
                    f" references for {controller} and {this}"
                )
                errors.append(wrong(path, list(owners), text))
            controller = controller or this
    return errors


def _check_finalizers(finalizers: Sequence[str]) -> list[FieldError]:
    path = "metadata.finalizers"
    errors = [wrong(path, f, text) for f in finalizers for text in formats.label_key(f)]
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        text = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        errors.append(wrong(path, list(finalizers), text))
    return errors


_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def check_metadata_update(new: Json, old: Json) -> list[FieldError]:
    """Metadata of an object that replaces another."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        extra = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            listed = ", ".join(f'"{name}"' for name in extra)
            text = (
                "no new finalizers can be added if the object is being deleted, found new"
                f" finalizers []string{{{listed}}}"
            )
            errors.append(not_allowed("metadata.finalizers", text))
    for part in _IMMUTABLE:
        if new.get(part) != old.get(part):
            errors.append(wrong(f"metadata.{part}", new.get(part), "field is immutable"))
    errors += _check_maps(new)
    errors += check_owners(new.get("ownerReferences") or [])
    errors += _check_finalizers(new.get("finalizers") or [])
    return errors
