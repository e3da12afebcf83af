"""From a Struct to the structural schema of a CRD.

Own, because no library makes structural schemas: references are inlined, every level has a
type, nothing is said twice, and what a description or keyword in `doc()` says wins.
"""

from typing import Any

import msgspec
from msgspec import inspect

DEPTH_MAX = 12  # a structural schema is finite


def struct_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The OpenAPI v3 schema of a Struct, as a CRD wants it."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return _struct(info, DEPTH_MAX)


def summary(kind: type) -> str:
    """The first paragraph of a docstring, on one line."""
    text = (kind.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(text.split())


def _struct(info: inspect.StructType, depth: int) -> dict[str, Any]:
    properties = {field.encode_name: _schema(field.type, depth - 1) for field in info.fields}
    required = [field.encode_name for field in info.fields if _required(field)]
    schema: dict[str, Any] = {"type": "object", "description": summary(info.cls)}
    if required:
        schema["required"] = sorted(required)
    schema["properties"] = dict(sorted(properties.items()))
    return schema


def _required(field: inspect.Field) -> bool:
    marked = isinstance(field.type, inspect.Metadata) and (field.type.extra or {}).get("mandatory")
    return bool(marked) or (field.required and not isinstance(field.type, inspect.Metadata))


def _schema(info: inspect.Type, depth: int) -> dict[str, Any]:
    if depth <= 0:
        raise ValueError("a type refers to itself; a CRD cannot say that")
    match info:
        case inspect.Metadata():
            return _documented(info, depth)
        case inspect.UnionType():
            (inner,) = (part for part in info.types if not isinstance(part, inspect.NoneType))
            return _schema(inner, depth)
        case inspect.StructType():
            return _struct(info, depth)
        case inspect.ListType():
            return {"type": "array", "items": _schema(info.item_type, depth - 1)}
        case inspect.DictType():
            values = _schema(info.value_type, depth - 1)
            return {"type": "object", "additionalProperties": values}
        case inspect.StrType():
            return {"type": "string"}
        case inspect.IntType():
            return {"type": "integer"}
        case inspect.FloatType():
            return {"type": "number"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.RawType() | inspect.AnyType():
            return {}  # described in full by doc()
    raise TypeError(f"no schema for {info!r}")


def _documented(info: inspect.Metadata, depth: int) -> dict[str, Any]:
    extra = dict(info.extra_json_schema or {})
    text = extra.pop("description", "")
    described = {"description": text} if text else {}
    # What doc() describes in full needs no schema from the type (conditions, pod templates).
    derived = {} if "type" in extra else _schema(info.type, depth)
    return derived | described | extra
