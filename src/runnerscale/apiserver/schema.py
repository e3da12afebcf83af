"""Structural schemas of CRDs: read once, then prune, default and validate with them.

The error texts are Kubernetes' own. Rules written in CEL hang at the schema nodes but are
evaluated by `cel_rules.py`; whether a schema is acceptable at all is judged in
`crd_schema.py`, which builds these nodes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runnerscale.apiserver import formats
from runnerscale.apiserver.failures import (
    FieldError,
    duplicate,
    required,
    too_long,
    too_many,
    unsupported,
    wrong,
    wrong_type,
)

if TYPE_CHECKING:
    from runnerscale.apiserver.cel_rules import Rule

Json = dict[str, Any]
ABSENT: Any = object()


@dataclass(eq=False, slots=True)
class Schema:
    """One node. Absent limits are None."""

    type: str = ""
    format: str = ""
    description: str = ""
    nullable: bool = False
    properties: dict[str, "Schema"] = field(default_factory=dict)
    additional: "Schema | None" = None  # values of a map
    additional_any: bool = False  # additionalProperties: true
    items: "Schema | None" = None
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: re.Pattern[str] | None = None
    pattern_text: str = ""
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: tuple["Schema", ...] = ()
    any_of: tuple["Schema", ...] = ()
    one_of: tuple["Schema", ...] = ()
    not_: "Schema | None" = None
    default: Any = ABSENT
    preserve: bool = False  # keep unknown fields
    embedded: bool = False  # a whole Kubernetes object
    int_or_string: bool = False
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    rules: tuple["Rule", ...] = ()
    has_defaults: bool = False  # here or below
    has_rules: bool = False
    raw: Json = field(default_factory=dict)  # as it was written: for /openapi and explain


_ROOT_FIELDS = ("apiVersion", "kind", "metadata")


def prune(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Remove unknown fields in place; the paths of what was removed."""
    if isinstance(value, dict):
        kept = _ROOT_FIELDS if schema.embedded else ()
        for name in list(value):
            if name in kept:
                continue
            node = schema.properties.get(name) or schema.additional
            where = f"{path}.{name}" if path else name
            if node is not None:
                if value[name] is None and not node.nullable and node.default is ABSENT:
                    del value[name]  # as if it were not there
                    continue
                yield from prune(value[name], node, where)
            elif not schema.preserve and not schema.additional_any:
                del value[name]
                yield where
    elif isinstance(value, list) and schema.items is not None:
        for place, item in enumerate(value):
            yield from prune(item, schema.items, f"{path}[{place}]")


def apply_defaults(value: Any, schema: Schema) -> None:
    """Fill in absent fields, in place; a null that may not be one counts as absent."""
    if not schema.has_defaults:
        return
    if isinstance(value, dict):
        for name, node in schema.properties.items():
            if node.default is not ABSENT and (
                name not in value or (value[name] is None and not node.nullable)
            ):
                value[name] = _copy(node.default)
            if node.has_defaults and name in value:
                apply_defaults(value[name], node)
        if schema.additional is not None and schema.additional.has_defaults:
            for name, item in value.items():
                if name not in schema.properties:
                    apply_defaults(item, schema.additional)
    elif isinstance(value, list) and schema.items is not None:
        for item in value:
            apply_defaults(item, schema.items)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_copy(v) for v in value]
    return value


def validate(value: Any, schema: Schema, path: str, old: Any = ABSENT) -> Iterator[FieldError]:
    """What is wrong, without the CEL rules.

    `old`: the value it replaces; what did not change is not complained about again.
    """
    if old is not ABSENT and old == value:
        return
    if value is None:
        if not schema.nullable and (schema.type or schema.int_or_string):
            yield _type_error(value, schema, path)
        return
    if schema.int_or_string:
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield _type_error(value, schema, path)
            return
    elif schema.type and not _is_type(value, schema.type):
        yield _type_error(value, schema, path)
        return
    if schema.enum is not None and value not in schema.enum:
        yield unsupported(path, value, [_enum_text(v) for v in schema.enum])
    if isinstance(value, str):
        yield from _validate_text(value, schema, path)
    elif isinstance(value, dict):
        yield from _validate_object(value, schema, path, old)
    elif isinstance(value, list):
        yield from _validate_list(value, schema, path, old)
    elif not isinstance(value, bool):
        yield from _validate_number(value, schema, path)
    if schema.all_of or schema.any_of or schema.one_of or schema.not_ is not None:
        yield from _validate_logic(value, schema, path)


def _enum_text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else FieldError("FieldValueInvalid", "", "", value).text()[15:]
    )


def _is_type(value: Any, name: str) -> bool:
    if name == "object":
        return isinstance(value, dict)
    if name == "array":
        return isinstance(value, list)
    if name == "string":
        return isinstance(value, str)
    if name == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if name == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, int | float)


def type_name(value: Any) -> str:
    """The JSON Schema name of a value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    names: dict[type, str] = {float: "number", str: "string", dict: "object", list: "array"}
    return names[type(value)]


def _type_error(value: Any, schema: Schema, path: str) -> FieldError:
    wanted = "integer,string" if schema.int_or_string else schema.type
    found = type_name(value)
    if schema.format and not isinstance(value, str | list):
        # A format is compared with the one that the value's own type has in Go.
        wanted, found = schema.format, _GO_FORMATS.get(found, "")
    detail = f'{_in_body(path)} must be of type {wanted}: "{found}"'
    return wrong_type(path, found, detail)


_GO_FORMATS = {"integer": "int64", "number": "double"}


def _in_body(path: str) -> str:
    return f"{path} in body"


def _validate_text(value: str, schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.max_length is not None and len(value) > schema.max_length:
        yield too_long(path, schema.max_length)
    if schema.min_length is not None and len(value) < schema.min_length:
        detail = f"{_in_body(path)} should be at least {schema.min_length} chars long"
        yield wrong(path, value, detail)
    if schema.pattern is not None and not schema.pattern.search(value):
        yield wrong(path, value, f"{_in_body(path)} should match '{schema.pattern_text}'")
    if schema.format and not format_matches(value, schema.format):
        detail = f'{_in_body(path)} must be of type {schema.format}: "{value}"'
        yield wrong_type(path, value, detail)


_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*:\S+|/\S*)")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DURATION = re.compile(r"-?(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+|0|P.+")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_BYTE = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_FORMATS = {
    "date": _DATE,
    "date-time": _DATE_TIME,
    "datetime": _DATE_TIME,
    "uri": _URI,
    "uuid": _UUID,
    "duration": _DURATION,
    "email": _EMAIL,
    "byte": _BYTE,
}


def format_matches(value: str, name: str) -> bool:
    """Whether text has the format; a format nobody knows matches everything."""
    pattern = _FORMATS.get(name)
    if pattern is not None:
        return pattern.fullmatch(value) is not None
    if name == "hostname":
        return not formats.dns_subdomain(value.lower())
    return True


def _validate_number(value: float, schema: Schema, path: str) -> Iterator[FieldError]:
    low, high = schema.minimum, schema.maximum
    where = _in_body(path)
    if low is not None and (value < low or (schema.exclusive_minimum and value == low)):
        words = "greater than" if schema.exclusive_minimum else "greater than or equal to"
        yield wrong(path, value, f"{where} should be {words} {_number(low)}")
    if high is not None and (value > high or (schema.exclusive_maximum and value == high)):
        words = "less than" if schema.exclusive_maximum else "less than or equal to"
        yield wrong(path, value, f"{where} should be {words} {_number(high)}")
    if schema.multiple_of and value % schema.multiple_of != 0:
        yield wrong(path, value, f"{where} should be a multiple of {_number(schema.multiple_of)}")
    limits = {"int32": 2**31, "int64": 2**63}.get(schema.format)
    if limits is not None and not -limits <= value < limits:
        yield wrong_type(path, value, f'{where} must be of type {schema.format}: "number"')


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _validate_object(value: Json, schema: Schema, path: str, old: Any) -> Iterator[FieldError]:
    before: Json = old if isinstance(old, dict) else {}
    prefix = f"{path}." if path else ""
    for name in schema.required:
        if name not in value:
            yield required(f"{prefix}{name}")
    for name, item in value.items():
        node = schema.properties.get(name) or schema.additional
        if node is not None:
            yield from validate(item, node, f"{prefix}{name}", before.get(name, ABSENT))
    count = len(value)
    if schema.max_properties is not None and count > schema.max_properties:
        yield too_many(path, count, schema.max_properties)
    if schema.min_properties is not None and count < schema.min_properties:
        detail = f"{_in_body(path)} should have at least {schema.min_properties} properties"
        yield wrong(path, count, detail)
    if schema.embedded:
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                yield required(f"{prefix}{name}", "must not be empty")


def _validate_list(value: list[Any], schema: Schema, path: str, old: Any) -> Iterator[FieldError]:
    count = len(value)
    if schema.max_items is not None and count > schema.max_items:
        yield too_many(path, count, schema.max_items)
    if schema.min_items is not None and count < schema.min_items:
        detail = f"{_in_body(path)} should have at least {schema.min_items} items"
        yield wrong(path, count, detail)
    if schema.items is not None:
        before = keyed(old, schema) if isinstance(old, list) else {}
        for place, item in enumerate(value):
            same = before.get(item_key(item, schema), ABSENT) if before else ABSENT
            yield from validate(item, schema.items, f"{path}[{place}]", same)
    if schema.list_type in ("map", "set"):
        seen: set[str] = set()
        for place, item in enumerate(value):
            key = item_key(item, schema)
            if key in seen:
                shown: Any = item
                if schema.list_type == "map" and isinstance(item, dict):
                    shown = {k: item[k] for k in schema.list_keys if k in item}
                yield duplicate(f"{path}[{place}]", shown)
            seen.add(key)


def item_key(item: Any, schema: Schema) -> str:
    """What makes a list item the same item."""
    if schema.list_type == "map" and isinstance(item, dict):
        return repr([item.get(k) for k in schema.list_keys])
    return repr(item)


def keyed(items: list[Any], schema: Schema) -> dict[str, Any]:
    """The items of a list map by their keys; nothing for other lists: they do not correlate."""
    if schema.list_type != "map":
        return {}
    return {item_key(item, schema): item for item in items}


def _validate_logic(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    for part in schema.all_of:
        yield from validate(value, part, path)
    name = path or "<nil>"
    if schema.any_of and not any(_holds(value, part, path) for part in schema.any_of):
        yield wrong(path, value, f"{_in_body(path)} must validate at least one schema (anyOf)")
        yield from validate(value, schema.any_of[0], path)
    if schema.one_of:
        count = sum(_holds(value, part, path) for part in schema.one_of)
        if count != 1:
            found = "Found none valid" if count == 0 else f"Found {count} valid alternatives"
            text = f"{_in_body(path)} must validate one and only one schema (oneOf). {found}"
            yield wrong(path, value, text)
    if schema.not_ is not None and _holds(value, schema.not_, path):
        yield wrong(name, value, f"{_in_body(path)} must not validate the schema (not)")


def _holds(value: Any, schema: Schema, path: str) -> bool:
    return next(validate(value, schema, path), None) is None
