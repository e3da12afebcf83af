"""Are the values of the kinds that the schema names?

A checker for the part of draft-07 that our two schemas use and a test keeps them to; the helm
binary checks the same schema with a complete one. A library would be a dependency of the image
for five words.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runnerscale.chart_values.findings import Finding, ValuePath, dotted
from runnerscale.chart_values.known import Chart, Node

# The words of a schema that this page knows; tests/charts/test_schemas.py asks for no others.
CHECKED = {
    "type",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "properties",
    "additionalProperties",
    "items",
}
UNCHECKED = {"$schema", "$ref", "title", "description", "definitions", "x-free-form", "x-ignored"}

_KINDS = {
    "object": "a map",
    "array": "a list",
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}


def wrong_types(chart: Chart, values: Mapping[str, Any]) -> list[Finding]:
    """Every value that is not of its kind, in the order of the values."""
    return list(_below(chart, chart.schema, values, ()))


def _below(chart: Chart, node: Node, value: Any, path: ValuePath) -> Iterator[Finding]:
    node = chart.resolved(node)
    problem = _problem(node, value, path)
    if problem is not None:
        yield problem
        return
    if isinstance(value, Mapping):
        properties = node.get("properties", {})
        others = node.get("additionalProperties", True)
        for key, child in value.items():
            rule = properties.get(key, others)
            if isinstance(rule, Mapping):
                yield from _below(chart, rule, child, (*path, key))
    elif isinstance(value, list) and "items" in node:
        for index, item in enumerate(value):
            yield from _below(chart, node["items"], item, (*path, index))


def _problem(node: Node, value: Any, path: ValuePath) -> Finding | None:
    name = dotted(path)
    wanted = node.get("type")
    names = [wanted] if isinstance(wanted, str) else list(wanted or ())
    if names and not any(_is(value, one) for one in names):
        allowed = " or ".join(_KINDS[one] for one in names if one != "null")
        return Finding(
            path, f"{name} is {kind_of(value)}, {allowed} is expected", _hint(value, names)
        )
    if "enum" in node and value not in node["enum"]:
        allowed = ", ".join(str(one) for one in node["enum"] if one not in ("", None))
        what = f"{name} is {str(value)[:60]!r}, which is none of its values"
        return Finding(path, what, f"Take one of {allowed}")
    if isinstance(value, str) and "pattern" in node and not _matches(node["pattern"], value):
        return Finding(path, f"{name} is text that is no whole number", "Write digits only")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < node.get("minimum", value):
            what = f"{name} is {value}, less than {node['minimum']}"
            return Finding(path, what, f"Write {node['minimum']} or more")
        if value > node.get("maximum", value):
            what = f"{name} is {value}, more than {node['maximum']}"
            return Finding(path, what, f"Write {node['maximum']} or less")
    return None


def _matches(pattern: str, text: str) -> bool:
    """As Helm's engine does: to it `$` is the very end, to Python also before a last newline."""
    return re.search(re.sub(r"\$$", r"\\Z", pattern), text) is not None


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, float) and kind == "integer":
        return value.is_integer()  # to JSON 2.0 is a whole number
    kinds: dict[str, type | tuple[type, ...]] = {
        "object": Mapping,
        "array": list,
        "string": str,
        "number": (int, float),
        "integer": int,
        "null": type(None),
    }
    return kind in kinds and isinstance(value, kinds[kind])


def kind_of(value: Any) -> str:
    """What a value is, never what it says: it may be a secret."""
    if isinstance(value, float) and not value.is_integer():
        return "a number with a fraction"
    return next(text for kind, text in _KINDS.items() if _is(value, kind))


def _hint(value: Any, names: list[str]) -> str:
    if isinstance(value, str) and "boolean" in names and value.lower() in {"true", "false"}:
        return "Take the quotes away"
    if isinstance(value, bool | int | float) and "string" in names:
        return "Put it in quotes"
    if "array" in names:
        return "Write it as a list, a line with `- ` for each"
    if "object" in names:
        return "Write `name: value` lines below it"
    return "Correct it, or leave it out for the default"
