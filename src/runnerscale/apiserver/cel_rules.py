"""Rules in CEL (`x-kubernetes-validations`): compiled with their CRD, asked on every write.

The only file that imports the CEL library. It evaluates but does not type-check, so what
Kubernetes' compiler would find in a rule is searched for here in a simpler way: unknown
variables and functions, and fields that the schema does not declare. `self` shows only
declared fields, as in Kubernetes, which also keeps large open templates out of the way.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cel
from cel import stdlib

from runnerscale.apiserver.failures import (
    OMITTED,
    FieldError,
    not_allowed,
    required,
    wrong,
)
from runnerscale.apiserver.schema import ABSENT, Schema, item_key, keyed

Json = dict[str, Any]

_FIELD_PATH = re.compile(r"\b(?:self|oldSelf)((?:\.[A-Za-z_]\w*(?!\w*\s*\())+)")
_SELF = re.compile(r"\b(?:self|oldSelf)\b(?:\.([A-Za-z_]\w*)(?!\w*\s*\())?")
_TEXT = re.compile(r"""r?"(?:[^"\\]|\\.)*"|r?'(?:[^'\\]|\\.)*'""")


class BadRule(Exception):
    """A rule that does not compile."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule."""

    source: str
    message: str
    reason: str
    field_path: str
    transition: bool  # speaks of oldSelf: asked on updates only
    program: cel.Program
    message_program: cel.Program | None
    fields: frozenset[str] | None  # of self and oldSelf, that it speaks of; None: maybe all


def _context(variables: Json) -> cel.Context:
    context = cel.Context(variables=variables)
    stdlib.add_stdlib_to_context(context)
    context.add_function("isURL", _is_url)
    return context


def _is_url(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s]+\S*|/\S*", text) is not None


def known_functions() -> frozenset[str]:
    """The functions a rule may call."""
    core = (
        "size has all exists exists_one map filter matches startsWith endsWith contains int uint"
        " double string bytes timestamp duration dyn type getFullYear getMonth getDate getHours"
        " getMinutes getSeconds"
    )
    return frozenset([*core.split(), *_context({}).functions])


_PLAIN = re.compile(r"[a-zA-Z]\w*")


def compile_rule(raw: Json, schema: Schema) -> Rule:
    """Compile one entry of `x-kubernetes-validations`.

    Raises:
        BadRule: with the reason, for the CRD's error.
    """
    source = raw.get("rule") or ""
    if not source.strip():
        raise BadRule("rule is not specified")
    if raw.get("optionalOldSelf"):
        raise BadRule("optionalOldSelf is not supported by this server")
    program = _compile(source, schema)
    message_program = None
    if raw.get("messageExpression"):
        message_program = _compile(raw["messageExpression"], schema)
    bare = _TEXT.sub("''", source)
    return Rule(
        source=source,
        message=raw.get("message") or "",
        reason=raw.get("reason") or "FieldValueInvalid",
        field_path=raw.get("fieldPath") or "",
        transition=re.search(r"\boldSelf\b", bare) is not None,
        program=program,
        message_program=message_program,
        fields=_fields(bare, _TEXT.sub("''", raw.get("messageExpression") or "")),
    )


def _fields(*sources: str) -> frozenset[str] | None:
    """The first steps from self; what is not spoken of need not be converted for the library."""
    found = [match[1] for source in sources for match in _SELF.finditer(source)]
    return None if None in found else frozenset(found)


def _compile(source: str, schema: Schema) -> cel.Program:
    try:
        program = cel.compile(source)
    except (ValueError, RuntimeError, TypeError) as error:
        raise BadRule(f"compilation failed: {error}") from None
    unknown = [f for f in program.functions() if _PLAIN.fullmatch(f) and f not in FUNCTIONS]
    if unknown:
        raise BadRule(
            f"compilation failed: ERROR: undeclared reference to '{unknown[0]}'"
            f" (in container '') | {source}"
        )
    bare = _TEXT.sub("''", source)
    bound = set(re.findall(r"\(\s*([A-Za-z_]\w*)\s*,", bare))
    for name in program.variables():
        if name not in ("self", "oldSelf", *bound) and name not in _TYPES:
            raise BadRule(
                f"compilation failed: ERROR: undeclared reference to '{name}'"
                f" (in container '') | {source}"
            )
    for match in _FIELD_PATH.finditer(bare):
        _check_path(match[1].strip(".").split("."), schema, source)
    return program


_TYPES = frozenset(
    (
        *("int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"),
        *("math", "sets", "base64", "lists", "strings"),  # prefixes of function names
    )
)
FUNCTIONS = known_functions()


def _check_path(parts: list[str], schema: Schema, source: str) -> None:
    node: Schema | None = schema
    for part in parts:
        if node is None or node.additional is not None or node.additional_any:
            return  # a map: any key will do
        if node.type != "object":
            return
        if node.embedded and part in ("apiVersion", "kind", "metadata"):
            return
        known = node.properties.get(part)
        if known is None:
            raise BadRule(f"compilation failed: ERROR: undefined field '{part}' | {source}")
        node = known


def check_rules(value: Any, schema: Schema, path: str, old: Any = ABSENT) -> Iterator[FieldError]:
    """The rules that do not hold, here and below; unchanged values are not asked again."""
    if not schema.has_rules or (old is not ABSENT and old == value):
        return
    if value is None:
        return
    if schema.rules:
        yield from _check_here(value, schema, path, old)
    if isinstance(value, dict):
        before: Json = old if isinstance(old, dict) else {}
        for name, item in value.items():
            node = schema.properties.get(name) or schema.additional
            if node is not None and node.has_rules:
                where = f"{path}.{name}" if path else name
                yield from check_rules(item, node, where, before.get(name, ABSENT))
    elif isinstance(value, list) and schema.items is not None:
        same = keyed(old, schema) if isinstance(old, list) else {}
        for place, item in enumerate(value):
            correlated = same.get(item_key(item, schema), ABSENT)
            yield from check_rules(item, schema.items, f"{path}[{place}]", correlated)


def _check_here(value: Any, schema: Schema, path: str, old: Any) -> Iterator[FieldError]:
    rules = [rule for rule in schema.rules if old is not ABSENT or not rule.transition]
    if not rules:
        return
    named = [rule.fields for rule in rules]
    fields = None if None in named else frozenset().union(*(f for f in named if f is not None))
    variables: Json = {"self": visible(value, schema, fields)}
    if old is not ABSENT:
        variables["oldSelf"] = visible(old, schema, fields)
    context = _context(variables)
    for rule in rules:
        try:
            holds = rule.program.execute(context)
        except (KeyError, IndexError) as error:
            yield wrong(
                path, schema.type, f"no such key: {error.args[0]} evaluating rule: {_said(rule)}"
            )
            continue
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            text = str(error).split(". ")[0]
            yield wrong(path, schema.type, f"{text} evaluating rule: {_said(rule)}")
            continue
        if holds is not True:
            yield _failed(rule, path, context, value)


def _said(rule: Rule) -> str:
    return rule.message.strip() or rule.source.strip()


def _failed(rule: Rule, path: str, context: cel.Context, value: Any) -> FieldError:
    text = rule.message.strip() or f"failed rule: {rule.source.strip()}"
    if rule.message_program is not None:
        try:
            said = rule.message_program.execute(context)
            text = said.strip() if isinstance(said, str) and said.strip() else text
        except (KeyError, TypeError, ValueError, RuntimeError):
            pass  # as in Kubernetes: the plain message stands in
    where = f"{path}{rule.field_path}" if rule.field_path else path or "<nil>"
    if rule.reason == "FieldValueForbidden":
        return not_allowed(where, text)
    if rule.reason == "FieldValueRequired":
        return required(where, text)
    if rule.reason == "FieldValueDuplicate":
        return FieldError("FieldValueDuplicate", where)
    shown = OMITTED if isinstance(value, dict | list) else value  # as much as fits a line
    return FieldError("FieldValueInvalid", where, text, shown)


def visible(value: Any, schema: Schema, fields: frozenset[str] | None = None) -> Any:
    """The value as a rule sees it: declared fields, nothing else; of `fields`, if any are named."""
    if isinstance(value, dict):
        if schema.additional is not None:
            return {k: visible(v, schema.additional) for k, v in value.items()}
        if schema.additional_any:
            return value
        seen = {
            name: visible(value[name], node)
            for name, node in schema.properties.items()
            if (fields is None or name in fields) and value.get(name) is not None
        }
        if schema.embedded:
            meta = value.get("metadata") or {}
            seen["metadata"] = {k: meta[k] for k in ("name", "generateName") if k in meta}
            for name in ("apiVersion", "kind"):
                seen[name] = value.get(name) or ""
        return seen
    if isinstance(value, list) and schema.items is not None:
        return [visible(item, schema.items) for item in value]
    return value
