"""Label and field selectors: parsed once, asked for every object.

Both become plain functions of a `Record`; an empty selector becomes None, so that nothing is
asked at all. How a label selector is written is `selector_text.py`.
"""

from collections.abc import Callable, Mapping

from runnerscale.apiserver.failures import bad_request
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.record import Record
from runnerscale.apiserver.selector_text import Requirement, read_selector

Match = Callable[[Record], bool]
LabelMatch = Callable[[Mapping[str, str]], bool]


def parse_labels(text: str) -> LabelMatch | None:
    """A label selector as a function of labels.

    Raises:
        ApiFailure: 400, the selector cannot be read.
    """
    tests = [_label_test(requirement) for requirement in read_selector(text)]
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def _label_test(requirement: Requirement) -> LabelMatch:
    key, operator = requirement.key, requirement.operator
    if operator == "exists":
        return lambda labels: key in labels
    if operator == "!":
        return lambda labels: key not in labels
    values = frozenset(requirement.values)
    if operator in ("in", "=", "=="):
        return lambda labels: labels.get(key) in values
    if operator in ("notin", "!="):
        return lambda labels: labels.get(key) not in values
    return _numeric(key, operator, int(requirement.values[0]))


def _numeric(key: str, operator: str, bound: int) -> LabelMatch:
    def test(labels: Mapping[str, str]) -> bool:
        try:
            number = int(labels[key])
        except (KeyError, ValueError):
            return False
        return number > bound if operator == ">" else number < bound

    return test


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
        # By hand: a pattern for this takes the cube of a long row of blanks.
        head, equals, value = part.partition("=")
        op = "!=" if head.endswith("!") else "="
        field = head.removesuffix("!").strip()
        if not equals or not field or "!" in field:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if op == "=":
            value = value.removeprefix("=")
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
