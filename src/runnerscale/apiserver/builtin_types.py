"""The field types of the built-in kinds, and reading an object by them.

The table `builtin_types.json` says of every type which fields it has: their types, which are
required, and how lists merge in a strategic patch. It holds the facts of the Kubernetes 1.36
API (names, types, merge keys), nothing else. Format of a field: its type, then words:
`[X]` list, `{X}` map, `merge` or `merge=KEY` (strategic merge), `retainKeys`,
`keys=A+B` (what makes list items unique where it is more than the merge key), `required`.

As in Kubernetes, unknown fields and nulls are dropped, and the dropped names are reported so
that a strict request can be refused.
"""

import binascii
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from runnerscale.apiserver.formats import parse_quantity

Json = dict[str, Any]

DEPTH_MAX = 64


@dataclass(frozen=True, slots=True)
class FieldType:
    """One field of a type."""

    type: str  # a scalar's name, a type's name, or "" for lists and maps
    items: "FieldType | None" = None  # of a list
    values: "FieldType | None" = None  # of a map
    merge_key: str = ""  # list of maps merged by this key
    merge: bool = False  # list merged rather than replaced by a strategic patch
    retain_keys: bool = False
    unique: tuple[str, ...] = ()
    required: bool = False


_SCALAR_NAMES = (
    *("string", "int32", "int64", "boolean", "number", "quantity", "int-or-string"),
    *("time", "micro-time", "bytes", "object", "any"),
)
SCALARS = frozenset(_SCALAR_NAMES)


@cache
def types() -> dict[str, dict[str, FieldType]]:
    """Every type by its name."""
    text = resources.files("runnerscale.apiserver").joinpath("builtin_types.json").read_bytes()
    raw: dict[str, dict[str, str]] = msgspec.json.decode(text)
    return {name: {k: _parse(v) for k, v in fields.items()} for name, fields in raw.items()}


def _parse(text: str) -> FieldType:
    words = text.split()
    merge_key, merge, retain, needed = "", False, False, False
    unique: tuple[str, ...] = ()
    for word in words[1:]:
        name, _, value = word.partition("=")
        if name == "merge":
            merge, merge_key = True, value
        elif name == "keys":
            unique = tuple(value.split("+"))
        retain = retain or name == "retainKeys"
        needed = needed or name == "required"
    inner = words[0]
    unique = unique or ((merge_key,) if merge_key else ())
    if inner[0] == "[":
        return FieldType("", _parse(inner[1:-1]), None, merge_key, merge, retain, unique, needed)
    if inner[0] == "{":
        return FieldType("", None, _parse(inner[1:-1]), required=needed)
    return FieldType(inner, retain_keys=retain, required=needed)


class WrongType(Exception):
    """A value cannot be what its field wants."""


@dataclass(slots=True)
class Reading:
    """What came up while an object was read."""

    unknown: list[str] = field(default_factory=list)  # paths of fields that no type has


def read_object(obj: Json, type_name: str) -> tuple[Json, Reading]:
    """A copy with known fields only.

    Raises:
        WrongType: a value is of another JSON type than its field.
    """
    reading = Reading()
    return _read_fields(obj, type_name, "", reading), reading


def _read_fields(obj: Json, type_name: str, path: str, reading: Reading) -> Json:
    fields = types()[type_name]
    kept: Json = {}
    for name, value in obj.items():
        wanted = fields.get(name)
        where = f"{path}.{name}" if path else name
        if wanted is None:
            reading.unknown.append(where)
        elif value is not None:
            read = _read_value(value, wanted, where, type_name, reading)
            if read or name in _KEPT_EMPTY or (wanted.items is None and wanted.values is None):
                kept[name] = read
    for name, value in _ALWAYS_WRITTEN.get(type_name, {}).items():
        kept.setdefault(name, dict(value) if isinstance(value, dict) else value)
    return kept


# What Go writes out even when it is not set.
_ALWAYS_WRITTEN: dict[str, Json] = {
    "PodCondition": {"lastProbeTime": None, "lastTransitionTime": None},
    "NodeCondition": {"lastHeartbeatTime": None, "lastTransitionTime": None},
    "ContainerStatus": {
        "image": "",
        "imageID": "",
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "state": {},
    },
}


# Lists that Go writes out even when they are empty.
_KEPT_EMPTY = frozenset(("containers", "verbs"))


def _read_value(value: Any, wanted: FieldType, path: str, owner: str, reading: Reading) -> Any:
    if wanted.items is not None:
        if not isinstance(value, list):
            raise _mismatch(value, path, owner, "[]" + _go_name(wanted.items))
        return [
            _read_value(item, wanted.items, f"{path}[{i}]", owner, reading)
            for i, item in enumerate(value)
            if item is not None
        ]
    if wanted.values is not None:
        if not isinstance(value, dict):
            raise _mismatch(value, path, owner, "map[string]" + _go_name(wanted.values))
        return {
            # Go's decoder names the map, not the key.
            key: _read_value(item, wanted.values, path, owner, reading)
            for key, item in value.items()
            if item is not None
        }
    if wanted.type in SCALARS:
        return _read_scalar(value, wanted.type, path, owner)
    if not isinstance(value, dict):
        raise _mismatch(value, path, owner, f"v1.{wanted.type}")
    return _read_fields(value, wanted.type, path, reading)


_ALLOWED: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "bytes": (str,),
    "time": (str,),
    "micro-time": (str,),
    "int32": (int,),
    "int64": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "quantity": (str, int, float),
    "int-or-string": (str, int),
    "object": (dict,),
}
_BITS = {"int32": 31, "int64": 63, "int-or-string": 31}  # without the sign


def _read_scalar(value: Any, wanted: str, path: str, owner: str) -> Any:
    allowed = _ALLOWED.get(wanted)
    if allowed is None:
        return value
    if not isinstance(value, allowed) or (isinstance(value, bool) and wanted != "boolean"):
        if isinstance(value, float) and value.is_integer() and wanted in ("int32", "int64"):
            return _in_range(int(value), wanted, path, owner)
        raise _mismatch(value, path, owner, wanted)
    if wanted in _BITS:
        return _in_range(value, wanted, path, owner)
    if wanted == "quantity":
        return _read_quantity(value)
    if wanted == "bytes" and value:
        try:
            binascii.a2b_base64(str(value), strict_mode=True)
        except ValueError:
            raise WrongType("illegal base64 data at input byte 0") from None
    return value


def _read_quantity(value: Any) -> str:
    text = str(value)
    if parse_quantity(text) is None:
        raise WrongType(
            "quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    return text


def _go_name(wanted: FieldType) -> str:
    if wanted.type in SCALARS:
        return wanted.type
    return f"v1.{wanted.type}" if wanted.type else "[]"


def _in_range(value: Any, wanted: str, path: str, owner: str) -> Any:
    bits = _BITS[wanted]
    if isinstance(value, int) and not -(1 << bits) <= value < 1 << bits:
        raise _mismatch(value, path, owner, f"int{bits + 1}")
    return value


def _mismatch(value: Any, path: str, owner: str, wanted: str) -> WrongType:
    found = {str: "string", bool: "bool", dict: "object", list: "array"}.get(type(value), "number")
    wanted = {"boolean": "bool", "number": "float64"}.get(wanted, wanted)
    plain = "".join(part.split("]")[-1] for part in path.split("["))
    return WrongType(
        f"json: cannot unmarshal {found} into Go struct field {owner}.{plain} of type {wanted}"
    )
