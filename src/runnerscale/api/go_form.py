"""A pod template as ARC's controller gives it back, for comparing a wish with what ARC made of it.

ARC reads what a user wrote into Go's types and writes it out again. On the way zeros of fields that
are no pointers vanish (`initialDelaySeconds: 0`, `readOnly: false`, `value: ""`), quantities are
spelled anew (`0.5` becomes `500m`), and zeros of structs appear (`divisor: "0"`, `resources: {}`).
None of it means anything, and all of it would look like a changed template: whoever takes a cluster
over would exchange every idle runner (T31). What we made ourselves is compared by fingerprint.

Pure. Contract: resources-and-controllers 1.9, 2.8, W9.
"""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from runnerscale.api.fingerprint import canonical
from runnerscale.api.values import fields_of

# Pointers in Go: here a zero is somebody's wish and is written out.
ZERO_IS_A_WISH = frozenset(
    {
        "activeDeadlineSeconds",
        "allowPrivilegeEscalation",
        "automountServiceAccountToken",
        "defaultMode",
        "enableServiceLinks",
        "expirationSeconds",
        "fsGroup",
        "hostUsers",
        "minDomains",
        "mode",
        "optional",
        "priority",
        "privileged",
        "readOnlyRootFilesystem",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "storageClassName",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
    }
)
# Keys and values of the user's own: an empty value is one.
FREE = frozenset({"labels", "annotations", "nodeSelector", "matchLabels"})
QUANTITY_MAPS = frozenset({"limits", "requests", "overhead"})
QUANTITIES = frozenset({"sizeLimit", "divisor"})
# What the schema of the kinds fills in; one that is stored may be older than the schema.
DEFAULTS = {"protocol": "TCP"}

CHARS_MAX = 64  # of a quantity; a longer text is none
SUFFIX_CHARS_MAX = 4  # e-99 to e+99
_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]*)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
_POWERS = {letter: power for power, letter in enumerate("kMGTPE", 1)}
_SMALL = {"n": -9, "u": -6, "m": -3}


def go_form(value: Any) -> Any:
    """`value` without what the way through Go's types may add, take away or spell anew."""
    if isinstance(value, msgspec.Raw):
        return go_form(msgspec.json.decode(value)) if bytes(value) else None
    if isinstance(value, msgspec.Struct):
        fields = ((f, getattr(value, f.name)) for f in fields_of(type(value)))
        return go_form({f.encode_name: item for f, item in fields if item != f.default})
    if isinstance(value, Mapping):
        kept = {key: _member(str(key), item) for key, item in value.items()}
        return canonical({key: item for key, item in kept.items() if item is not None})
    if isinstance(value, list | tuple):
        return [go_form(item) for item in value] or None
    return value


def same_in_go(one: Any, other: Any) -> bool:
    """Whether ARC would have made the same of both."""
    return bool(go_form(one) == go_form(other))


def quantity(value: Any) -> str:
    """A quantity in one spelling; what is none, as it is."""
    text = str(value).strip()
    found = _QUANTITY.fullmatch(text) if len(text) <= CHARS_MAX else None
    try:
        number = Decimal(found[1]) if found else None
    except InvalidOperation:
        return text
    if found is None or number is None or len(found[2] or "") > SUFFIX_CHARS_MAX:
        return text  # written out, an exponent of nine digits would be a gigabyte
    return f"{(number * _factor(found[2] or '')).normalize():f}"


def _factor(suffix: str) -> Decimal:
    if suffix in _SMALL:
        return Decimal(10) ** _SMALL[suffix]
    if suffix.endswith("i"):
        return Decimal(1024) ** _POWERS[suffix[0].replace("K", "k")]
    if suffix in _POWERS:
        return Decimal(1000) ** _POWERS[suffix]
    return Decimal(f"1{suffix}") if suffix else Decimal(1)


def _member(key: str, item: Any) -> Any:
    if key in FREE:
        return canonical(item)
    if key in QUANTITY_MAPS and isinstance(item, Mapping):
        return {name: quantity(amount) for name, amount in item.items()}
    if key in QUANTITIES and not isinstance(item, Mapping):
        amount = quantity(item)
        return None if key == "divisor" and amount == "0" else amount
    if DEFAULTS.get(key) == item and key in DEFAULTS:
        return None
    is_zero = item is False or item == "" or (type(item) in (int, float) and item == 0)
    if is_zero and key not in ZERO_IS_A_WISH:
        return None
    return go_form(item)
