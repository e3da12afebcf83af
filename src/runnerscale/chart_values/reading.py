"""Values read without trusting their kinds: a wrong kind is reported by `types.py`, once.

The rules of both charts read through these, so that each says only what it is about.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def text_of(value: Any) -> str:
    """A scalar as the templates print it; empty for null and for everything that is no scalar."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else ""


def map_of(value: Any, *keys: str) -> Mapping[str, Any]:
    """The map below some keys, or an empty one."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def list_of(value: Any) -> Sequence[Any]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []
