"""A fingerprint of what an object should be, for the `integrity-hash` annotation.

Null, absent and empty coincide, as they do for the API server's round trip. The version is
part of the value. A value that is not of this version (written by ARC, or by another release
of ours) says nothing: compare contents first, never restart or drain because a hash differs.
Contract: resources-and-controllers 2.8, W9.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from runnerscale.api.values import fields_of

FORM = "r1-"  # goes up when the canonical form or what is put into it changes
DIGITS = 24


def canonical(value: Any) -> Any:
    """`value` without anything that an API round trip may add or take away; None if empty.

    Structs and raw JSON are taken too. Zero, false and the empty string are kept inside raw
    JSON: there they are somebody's explicit wish (`runAsUser: 0`).
    """
    if isinstance(value, str | int):  # by far the most, so asked first
        return value
    if isinstance(value, dict):
        return {
            k: kept for k, item in value.items() if (kept := canonical(item)) is not None
        } or None
    if isinstance(value, msgspec.Raw):
        return canonical(msgspec.json.decode(value)) if bytes(value) else None
    if isinstance(value, msgspec.Struct):
        fields = ((f, getattr(value, f.name)) for f in fields_of(type(value)))
        # A field at its default is absent; a zero that is no default (maxRunners) is a wish.
        return canonical({f.encode_name: item for f, item in fields if item != f.default})
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value] or None
    if isinstance(value, Mapping):
        return canonical(dict(value))
    return value


def fingerprint(value: Any) -> str:
    """A label-safe text that two values share exactly if their canonical forms are equal."""
    text = msgspec.json.encode(canonical(value), order="sorted")
    return FORM + hashlib.sha256(text).hexdigest()[:DIGITS]


def is_ours(text: str) -> bool:
    """Whether a stored fingerprint is of this form, so that a difference means something."""
    return text.startswith(FORM)


def same(one: Any, other: Any) -> bool:
    """Whether two values mean the same."""
    return bool(canonical(one) == canonical(other))
