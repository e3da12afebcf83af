"""From `openAPIV3Schema` as it is written to `Schema` nodes, with what is wrong in it.

Judges the schema itself (structural, readable patterns, rules that compile); what objects
must look like is `schema.py`.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from runnerscale.apiserver.cel_rules import BadRule, compile_rule
from runnerscale.apiserver.failures import FieldError, not_allowed, required, unsupported, wrong
from runnerscale.apiserver.schema import ABSENT, Schema, apply_defaults, prune, validate

Json = dict[str, Any]

DEPTH_MAX = 64
TYPES = ("array", "boolean", "integer", "number", "object", "string")


@dataclass(slots=True)
class _Builder:
    errors: list[FieldError] = field(default_factory=list)


def build_schema(raw: Json, path: str) -> tuple[Schema, list[FieldError]]:
    """The root node of a CRD version's schema, and what is wrong with it."""
    builder = _Builder()
    root = _build(raw, path, builder, depth=0, logical=False, what="at the root")
    if root.type and root.type != "object":
        builder.errors.append(wrong(f"{path}.type", root.type, "must be object at the root"))
    root.embedded = True
    if not builder.errors:
        _check_defaults(root, path, builder)
    return root, builder.errors


def _build(
    raw: Json, path: str, builder: _Builder, *, depth: int, logical: bool, what: str
) -> Schema:
    node = Schema(raw=raw)
    if depth > DEPTH_MAX:
        builder.errors.append(not_allowed(path, "the schema is nested too deeply"))
        return node
    _read_facts(raw, node)
    _read_limits(raw, node)
    _read_pattern(raw, node, path, builder)
    _check_shape(raw, node, path, builder, logical=logical, what=what)
    _read_children(raw, node, path, builder, depth=depth, logical=logical)
    _read_logic(raw, node, path, builder, depth)
    node.has_defaults = _below(node, "has_defaults") or any(
        p.default is not ABSENT for p in node.properties.values()
    )
    _read_rules(raw, node, path, builder)
    node.has_rules = bool(node.rules) or _below(node, "has_rules")
    return node


def _below(node: Schema, flag: str) -> bool:
    nodes = [*node.properties.values(), *(n for n in (node.items, node.additional) if n)]
    return any(getattr(child, flag) for child in nodes)


def _read_facts(raw: Json, node: Schema) -> None:
    node.type = raw.get("type") or ""
    node.format = raw.get("format") or ""
    node.description = raw.get("description") or ""
    node.nullable = bool(raw.get("nullable"))
    node.required = tuple(raw.get("required") or ())
    node.enum = tuple(raw["enum"]) if raw.get("enum") else None
    node.default = raw["default"] if raw.get("default") is not None else ABSENT
    node.preserve = bool(raw.get("x-kubernetes-preserve-unknown-fields"))
    node.embedded = bool(raw.get("x-kubernetes-embedded-resource"))
    node.int_or_string = bool(raw.get("x-kubernetes-int-or-string"))
    node.list_type = raw.get("x-kubernetes-list-type") or ""
    node.list_keys = tuple(raw.get("x-kubernetes-list-map-keys") or ())


def _read_limits(raw: Json, node: Schema) -> None:
    node.minimum = raw.get("minimum")
    node.maximum = raw.get("maximum")
    node.exclusive_minimum = bool(raw.get("exclusiveMinimum"))
    node.exclusive_maximum = bool(raw.get("exclusiveMaximum"))
    node.multiple_of = raw.get("multipleOf")
    node.min_length = raw.get("minLength")
    node.max_length = raw.get("maxLength")
    node.min_items = raw.get("minItems")
    node.max_items = raw.get("maxItems")
    node.min_properties = raw.get("minProperties")
    node.max_properties = raw.get("maxProperties")


def _read_pattern(raw: Json, node: Schema, path: str, builder: _Builder) -> None:
    text = raw.get("pattern")
    if not text:
        return
    try:
        # Go writes the end of the text \z where Python writes \Z.
        node.pattern = re.compile(text.replace(r"\z", r"\Z"))
        node.pattern_text = text
    except re.error as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        builder.errors.append(wrong(f"{path}.pattern", text, detail))


def _check_shape(
    raw: Json, node: Schema, path: str, builder: _Builder, *, logical: bool, what: str
) -> None:
    errors = builder.errors
    if not logical and not node.type and not node.int_or_string and not node.preserve:
        errors.append(required(f"{path}.type", f"must not be empty {what}"))
    if node.type and node.type not in TYPES:
        errors.append(unsupported(f"{path}.type", node.type, TYPES))
    if raw.get("$ref"):
        errors.append(not_allowed(f"{path}.$ref", "$ref is not supported"))
    if raw.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(not_allowed(f"{path}.uniqueItems", text))
    if raw.get("properties") and raw.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        errors.append(not_allowed(f"{path}.additionalProperties", text))
    if raw.get("additionalProperties") is False:
        text = "additionalProperties cannot be set to false"
        errors.append(not_allowed(f"{path}.additionalProperties", text))
    if node.list_type == "map" and not node.list_keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        errors.append(required(f"{path}.x-kubernetes-list-map-keys", text))
    if node.type == "array" and not logical and not isinstance(raw.get("items"), dict):
        errors.append(required(f"{path}.items", "must be specified"))


def _read_children(
    raw: Json, node: Schema, path: str, builder: _Builder, *, depth: int, logical: bool
) -> None:
    for name, child in (raw.get("properties") or {}).items():
        node.properties[name] = _build(
            child or {},
            f"{path}.properties[{name}]",
            builder,
            depth=depth + 1,
            # The server knows metadata itself; its type may be left out.
            logical=logical or (depth == 0 and name == "metadata"),
            what="for specified object fields",
        )
    additional = raw.get("additionalProperties")
    if isinstance(additional, dict):
        node.additional = _build(
            additional,
            f"{path}.additionalProperties",
            builder,
            depth=depth + 1,
            logical=logical,
            what="for additionalProperties",
        )
    node.additional_any = additional is True
    if isinstance(raw.get("items"), dict):
        node.items = _build(
            raw["items"],
            f"{path}.items",
            builder,
            depth=depth + 1,
            logical=logical,
            what="for specified array items",
        )


def _read_logic(raw: Json, node: Schema, path: str, builder: _Builder, depth: int) -> None:
    def parts(name: str) -> tuple[Schema, ...]:
        return tuple(
            _build(part, f"{path}.{name}[{i}]", builder, depth=depth + 1, logical=True, what="")
            for i, part in enumerate(raw.get(name) or ())
        )

    node.all_of, node.any_of, node.one_of = parts("allOf"), parts("anyOf"), parts("oneOf")
    if isinstance(raw.get("not"), dict):
        node.not_ = _build(
            raw["not"], f"{path}.not", builder, depth=depth + 1, logical=True, what=""
        )


def _read_rules(raw: Json, node: Schema, path: str, builder: _Builder) -> None:
    rules = []
    for place, rule in enumerate(raw.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{place}].rule"
        if path.endswith("openAPIV3Schema"):
            node.embedded = True  # a rule at the root may speak of metadata
        try:
            rules.append(compile_rule(rule, node))
        except BadRule as error:
            builder.errors.append(wrong(where, _as_go_writes(rule), str(error)))
    node.rules = tuple(rules)


def _as_go_writes(rule: Json) -> Json:
    """A rule as an error repeats it."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def _check_defaults(node: Schema, path: str, builder: _Builder) -> None:
    """Defaults must fit their own schema."""
    if node.default is not ABSENT:
        where = f"{path}.default"
        for name in prune(node.default, node):
            builder.errors.append(wrong(where, node.default, f"must not have unknown field {name}"))
        apply_defaults(node.default, node)
        for error in validate(node.default, node, where):
            builder.errors.append(error)
    for name, child in node.properties.items():
        _check_defaults(child, f"{path}.properties[{name}]", builder)
    if node.items is not None:
        _check_defaults(node.items, f"{path}.items", builder)
    if node.additional is not None:
        _check_defaults(node.additional, f"{path}.additionalProperties", builder)
