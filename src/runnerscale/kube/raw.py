"""Raw JSON inside decoded objects must not pin the buffer that it came in.

A `msgspec.Raw` is a window into the received bytes: one small pod template in a cache would
keep a whole list page of megabytes alive. `raw_copier` finds out once per type where its raw
fields are and returns the function that copies just these.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from runnerscale.kube.depth import TOO_DEEP, is_too_deep

DEPTH_MAX = 12  # a type that refers to itself has no raw fields worth following further

Copier = Callable[[Any], None]


@cache  # one entry a type of the code; every client asks anew
def raw_copier(kind: type) -> Copier | None:
    """The function that copies all raw fields of a value of this type in place; None: has none.

    It raises `msgspec.ValidationError` for a raw field that nobody could walk over (`depth.py`).
    """
    info = inspect.type_info(kind)
    value = _value_copier(info, DEPTH_MAX)
    if value is None:
        return None

    def copy(item: Any) -> None:
        value(item)

    return copy


def _value_copier(info: inspect.Type, depth: int) -> Callable[[Any], Any] | None:
    """A function from a value to the value to keep instead, or None: leave it as it is."""
    if depth == 0:
        return None
    if isinstance(info, inspect.RawType):
        return _copy_raw
    if isinstance(info, inspect.Metadata):  # Annotated[...]
        return _value_copier(info.type, depth)
    if isinstance(info, inspect.UnionType):
        found = [copier for part in info.types if (copier := _value_copier(part, depth - 1))]
        return found[0] if found else None
    if isinstance(info, inspect.StructType):
        return _struct_copier(info, depth)
    if isinstance(info, inspect.ListType):
        inner = _value_copier(info.item_type, depth - 1)
        return None if inner is None else _list_copier(inner)
    if isinstance(info, inspect.DictType):
        inner = _value_copier(info.value_type, depth - 1)
        return None if inner is None else _dict_copier(inner)
    return None


def _copy_raw(value: Any) -> Any:
    if isinstance(value, msgspec.Raw) and memoryview(value).nbytes:
        copy = value.copy()
        if is_too_deep(bytes(copy)):
            raise msgspec.ValidationError(TOO_DEEP)
        return copy
    return value


def _struct_copier(info: inspect.StructType, depth: int) -> Callable[[Any], Any] | None:
    steps = [
        (field.name, copier)
        for field in info.fields
        if (copier := _value_copier(field.type, depth - 1))
    ]
    if not steps:
        return None
    kind = info.cls

    def copy(value: Any) -> Any:
        if isinstance(value, kind):
            for name, copier in steps:
                old = getattr(value, name)
                if old is None:
                    continue
                new = copier(old)
                if new is not old:
                    msgspec.structs.force_setattr(value, name, new)
        return value

    return copy


def _list_copier(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def copy(value: Any) -> Any:
        return [inner(item) for item in value] if isinstance(value, list) else value

    return copy


def _dict_copier(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def copy(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: inner(item) for name, item in value.items()}

    return copy
