"""Label and field selectors: parsed once, asked for every object.

Both become plain functions of a `Record`; an empty selector becomes None, so that nothing is
asked at all.
"""

import re
from collections.abc import Callable, Mapping

from runnerscale.apiserver import formats
from runnerscale.apiserver.failures import bad_request
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.record import Record

Match = Callable[[Record], bool]
LabelMatch = Callable[[Mapping[str, str]], bool]

_SET = re.compile(r"^(?P<key>[^\s!=<>,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_COMPARE = re.compile(r"^(?P<key>[^\s!=<>,()]+)\s*(?P<op>==|!=|=|>|<)\s*(?P<value>[^\s=!<>()]*)$")
_KEY = re.compile(r"^(?P<no>!?)\s*(?P<key>[^\s!=<>,()]+)$")


def parse_labels(text: str) -> LabelMatch | None:
    """A label selector as a function of labels.

    Raises:
        ApiFailure: 400, the selector cannot be read.
    """
    parts = _split(text)
    if not parts:
        return None
    tests = [_label_test(part, text) for part in parts]
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def _split(text: str) -> list[str]:
    """At the commas that are not inside parentheses."""
    parts = re.split(r",(?![^()]*\))", text)
    return [part.strip() for part in parts if part.strip()]


def _label_test(part: str, whole: str) -> LabelMatch:
    match = _SET.match(part)
    if match:
        key = _checked_key(match["key"])
        values = frozenset(_checked_value(v.strip(), whole) for v in match["values"].split(","))
        if match["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    match = _COMPARE.match(part)
    if match:
        key, op, value = _checked_key(match["key"]), match["op"], match["value"]
        _checked_value(value, whole)
        if op in ("=", "=="):
            return lambda labels: labels.get(key) == value
        if op == "!=":
            return lambda labels: labels.get(key) != value
        return _numeric(key, op, value, whole)
    match = _KEY.match(part)
    if match:
        key = _checked_key(match["key"])
        if match["no"]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise bad_request(f"unable to parse requirement: found {part!r}, in selector {whole!r}")


def _numeric(key: str, op: str, value: str, whole: str) -> LabelMatch:
    try:
        bound = int(value)
    except ValueError:
        raise bad_request(
            f"values: Invalid value: {value!r}: for 'Gt', 'Lt' operators, the value"
            f" must be an integer, in selector {whole!r}"
        ) from None

    def test(labels: Mapping[str, str]) -> bool:
        try:
            number = int(labels[key])
        except (KeyError, ValueError):
            return False
        return number > bound if op == ">" else number < bound

    return test


def _checked_key(key: str) -> str:
    errors = formats.label_key(key)
    if errors:
        raise bad_request(
            f'unable to parse requirement: key: Invalid value: "{key}": {"; ".join(errors)}'
        )
    return key


def _checked_value(value: str, whole: str) -> str:
    errors = formats.label_value(value)
    if errors:
        raise bad_request(
            f'unable to parse requirement: values[0][{whole}]: Invalid value: "{value}":'
            f" {'; '.join(errors)}"
        )
    return value


def parse_fields(text: str, kind: Kind) -> tuple[Match | None, str]:
    """A field selector as a function, and the one name it asks for, if it does.

    Raises:
        ApiFailure: 400, unreadable or about a field that this kind cannot be selected by.
    """
    tests: list[Match] = []
    only_name = ""
    for part in text.split(","):
        if not part.strip():
            continue
        match = re.match(r"^\s*([^=!]+?)\s*(==|!=|=)(.*)$", part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        field, op, value = match.groups()
        if field == "metadata.name" and op != "!=":
            only_name = value
        tests.append(_field_test(field, op == "!=", value, kind))
    if not tests:
        return None, ""
    if len(tests) == 1:
        return tests[0], only_name
    return (lambda record: all(test(record) for test in tests)), only_name


def _field_test(field: str, negated: bool, value: str, kind: Kind) -> Match:
    if field == "metadata.name":
        return lambda record: (record.name == value) != negated
    if field == "metadata.namespace":
        return lambda record: (record.namespace == value) != negated
    if field not in kind.selectable:
        if kind.custom or len(kind.selectable) > 0:
            raise bad_request(f"field label not supported: {field}")
        raise bad_request(
            f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
    return lambda record: (record.fields.get(field, "") == value) != negated


def combined(labels: LabelMatch | None, fields: Match | None) -> Match | None:
    """One function for both."""
    if labels is None:
        return fields
    if fields is None:
        return lambda record: labels(record.labels)
    return lambda record: labels(record.labels) and fields(record)
