"""The pure rules of a write: what a status write may touch, what a client may not set.

Used by `operations.py`, which knows when each is asked; nothing here reads the store.
"""

from dataclasses import replace
from typing import Any

from runnerscale.apiserver.cel_rules import check_rules
from runnerscale.apiserver.failures import ApiFailure, FieldError, conflict
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.record import Record
from runnerscale.apiserver.schema import validate
from runnerscale.core.randomness import Random

Json = dict[str, Any]


def new_uid(random: Random) -> str:
    """A version 4 UUID from one draw: each create needs one."""
    digits = f"{random.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    tail = f"{variant}{digits[17:20]}-{digits[20:]}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{tail}"


def custom_errors(kind: Kind, obj: Json, old: Any, subresource: str = "") -> list[FieldError]:
    """What schema and rules say; rules only where the shape is right."""
    if kind.schema is None:
        return []
    errors = list(validate(obj, kind.schema, "", old))
    if subresource == "status":  # the status is judged by itself
        errors = [
            replace(e, detail=e.detail.replace(f"{e.field} in body", f"{e.field[7:]} in body"))
            for e in errors
        ]
    if not kind.schema.has_rules:
        return errors
    if any(error.type in _BLOCKING for error in errors):
        return [*errors, FieldError("FieldValueInvalid", "<nil>", NOT_CHECKED, None)]
    return errors + list(check_rules(obj, kind.schema, "", old))


_BLOCKING = (
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
)
NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing"
    " errors to complete validation"
)


def wrong_uid(kind: Kind, record: Record, uid: str) -> ApiFailure:
    """409: it is another object of that name."""
    path = "/".join(part for part in (kind.group, kind.plural, *record.key[1:]) if part)
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0,"
        f" AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object"
        f" meta: {record.uid}"
    )
    return conflict(kind.group, kind.plural, record.name, why)


def keep_system_fields(meta: Json, old: Json) -> None:
    """What a client may neither set nor clear."""
    for name in (
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
    ):
        if name in old:
            meta[name] = old[name]
        else:
            meta.pop(name, None)


def with_status_rules(kind: Kind, obj: Json, old: Json, subresource: str) -> Json:
    """Status is written through its subresource only, and nothing else is written there."""
    if subresource == "status":
        if kind.custom:
            return _with(old, "status", obj.get("status"))
        kept = _with(obj, "spec", old.get("spec"))
        if kind.resource == "pods":
            owners = old["metadata"].get("ownerReferences")
            kept["metadata"] = _with(kept["metadata"], "ownerReferences", owners)
            (kept.get("status") or {}).setdefault(
                "qosClass", (old.get("status") or {}).get("qosClass")
            )
        return kept
    if subresource == "finalize":
        spec = _with(old.get("spec") or {}, "finalizers", (obj.get("spec") or {}).get("finalizers"))
        return _with(old, "spec", spec)
    if kind.has_status:
        obj = _with(obj, "status", old.get("status"))
    if kind.resource == "namespaces":
        obj = _with(obj, "spec", old.get("spec"))
    return obj


def _with(obj: Json, name: str, value: Any) -> Json:
    changed = dict(obj)
    if value is None:
        changed.pop(name, None)
    else:
        changed[name] = value
    if "metadata" in changed and name != "metadata":
        changed["metadata"] = dict(changed["metadata"])
    return changed


def wish(obj: Json) -> Json:
    return {k: v for k, v in obj.items() if k not in ("metadata", "status")}


def is_last_update(kind: Kind, obj: Json) -> bool:
    """Being deleted, and nothing holds it any more."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if kind.resource == "namespaces" and (obj.get("spec") or {}).get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")
