"""Reading Kubernetes' protobuf bodies: kubectl's typed commands send nothing else.

Only requests are read this way (answers are JSON, which every client accepts). The field
numbers of the built-in types are data in `builtin_protobuf.json`; the types of the fields are
those of `builtin_types.py`. An entry `*X` is a message whose fields belong to the outer type.
"""

import base64
import struct
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from runnerscale.apiserver.builtin_types import SCALARS, FieldType, types
from runnerscale.apiserver.failures import bad_request
from runnerscale.core.clock import format_micro_time, format_time

Json = dict[str, Any]

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
DEPTH_MAX = 40


class _Broken(Exception):
    """The bytes are no such message."""


@cache
def _numbers() -> dict[str, dict[int, str]]:
    text = resources.files("runnerscale.apiserver").joinpath("builtin_protobuf.json").read_bytes()
    raw: dict[str, dict[str, str]] = msgspec.json.decode(text)
    return {name: {int(k): v for k, v in fields.items()} for name, fields in raw.items()}


def decode_protobuf(body: bytes) -> Json:
    """The object in a protobuf body.

    Raises:
        ApiFailure: 400, unreadable or of a kind whose numbers are not known.
    """
    if not body.startswith(MAGIC):
        raise bad_request("the body is not in Kubernetes' protobuf format")
    try:
        envelope = dict(_fields(body[4:]))
        names = {n: _text(v) for n, v in _fields(_bytes(envelope[1]))}
        kind = names.get(2, "")
        if kind not in _numbers():
            raise bad_request(f"{kind} cannot be sent as protobuf to this server; send JSON")
        obj = _message(_bytes(envelope.get(2, b"")), kind, 0)
    except (_Broken, KeyError, IndexError, UnicodeDecodeError, struct.error, ValueError):
        raise bad_request("the protobuf body cannot be read") from None
    return {"apiVersion": names.get(1, ""), "kind": kind, **obj}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field on the wire."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield number, value
        elif wire == 2:
            size, position = _varint(data, position)
            if position + size > end:
                raise _Broken
            yield number, data[position : position + size]
            position += size
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            yield number, data[position : position + size]
            position += size
        else:
            raise _Broken


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise _Broken


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise _Broken
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise _Broken
    return value - (1 << 64) if value >= 1 << 63 else value


def _message(data: bytes, name: str, depth: int, outer: str = "") -> Json:
    """A message as JSON. `outer`: the type its fields belong to, when they are inlined."""
    if depth > DEPTH_MAX:
        raise _Broken
    numbers = _numbers()[name]
    wanted = types().get(outer or name, {})
    obj: Json = {}
    for number, value in _fields(data):
        field = numbers.get(number)
        if field is None:
            continue
        if field.startswith("*"):
            obj |= _message(_bytes(value), field[1:], depth + 1, outer or name)
            continue
        kind = wanted.get(field)
        if kind is None:
            continue
        if kind.items is not None:
            obj.setdefault(field, []).append(_value(value, kind.items, depth))
        elif kind.values is not None:
            key, item = _map_entry(_bytes(value), kind.values, depth)
            obj.setdefault(field, {})[key] = item
        else:
            read = _value(value, kind, depth)
            if read not in ("", None):  # Go writes empty texts out
                obj[field] = read
    return obj


def _map_entry(data: bytes, wanted: FieldType, depth: int) -> tuple[str, Any]:
    entry = dict(_fields(data))
    value = entry.get(2, b"")
    if wanted.items is not None:  # a list in a map is a message of its own
        items = [_value(v, wanted.items, depth) for _, v in _fields(_bytes(value))]
        return _text(entry[1]), items
    return _text(entry[1]), _value(value, wanted, depth)


def _value(value: int | bytes, wanted: FieldType, depth: int) -> Any:
    if wanted.type not in SCALARS:
        return _message(_bytes(value), wanted.type, depth + 1)
    if wanted.type in ("int32", "int64"):
        return _signed(value)
    if wanted.type == "boolean":
        return bool(value)
    if wanted.type == "bytes":
        return base64.b64encode(_bytes(value)).decode()
    if wanted.type == "number":
        return struct.unpack("<d", _bytes(value))[0]
    if wanted.type in ("time", "micro-time"):
        return _time(_bytes(value), micro=wanted.type == "micro-time")
    if wanted.type == "quantity":
        return "".join(_text(v) for n, v in _fields(_bytes(value)) if n == 1)
    if wanted.type == "int-or-string":
        parts = dict(_fields(_bytes(value)))
        return _text(parts[3]) if parts.get(1) else _signed(parts.get(2, 0))
    if wanted.type == "object":
        return None  # raw documents, such as managed fields: not kept here
    return _text(value)


def _time(data: bytes, *, micro: bool) -> str | None:
    parts = {number: _signed(value) for number, value in _fields(data)}
    if not parts:
        return None
    seconds = parts.get(1, 0) + parts.get(2, 0) / 1e9
    return format_micro_time(seconds) if micro else format_time(seconds)
