"""GitHub's expressions, as far as workflows on one machine need them."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.fake_github.expressions import (
    JOB_MAX,
    RUN_MAX,
    VALUE_MAX,
    Allowance,
    ExpressionError,
    Status,
    compile_expression,
    evaluate,
    holds,
    substitute,
)

CONTEXTS = {
    "matrix": {"os": "Linux", "n": 3, "flag": True, "list": ["a", "b"]},
    "env": {"WHO": "me", "EMPTY": ""},
    "github": {"event_name": "push", "run_id": "17"},
    "needs": {"build": {"result": "success"}},
}


def value(source: str) -> object:
    return evaluate(compile_expression(source, status_allowed=True), CONTEXTS, Status())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("'it''s'", "it's"),
        ("1 == 1.0", True),
        ("-3", -3),
        ("'A' == 'a'", True),  # texts are compared without case
        ("matrix.os", "Linux"),
        ("matrix.nothing", None),
        ("matrix.os.deeper", None),
        ("matrix.n > 2 && matrix.n <= 3", True),
        ("matrix.n == '3'", True),  # the text becomes a number
        ("env.EMPTY || 'default'", "default"),
        ("env.WHO && 'yes'", "yes"),
        ("!env.EMPTY", True),
        ("!!env.WHO", True),
        ("!(env.WHO == 'me')", False),
        ("null == 0", True),
        ("true && false || true", True),
        ("contains('Hello World', 'WORLD')", True),
        ("contains(matrix.list, 'b')", True),
        ("startsWith(github.event_name, 'pu')", True),
        ("endsWith('abc', 'b')", False),
        ("format('{0}-{1} {{}}', 'a', 2)", "a-2 {}"),
        ("needs.build.result == 'success'", True),
        ("'x' < 'y'", True),
        ("'x' < 1", False),  # not a number: every comparison is false
    ],
)
def test_expressions_have_githubs_values(source: str, expected: object) -> None:
    assert value(source) == expected


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "is empty"),
        ("1 +", "cannot be read"),
        ("(1", "lacks a ')'"),
        ("1 2", "left over"),
        ("&& 1", "cannot be read"),
        ("'open", "cannot be read"),
        ("foo.bar", "'foo.bar', which is not known"),
        ("hashFiles('x')", "hashFiles()"),
        ("success(1)", "takes none"),
        ("contains('a')", "takes 2"),
        ("format()", "without arguments"),
        ("${{ 1 }} && ${{ 2 }}", "mixes"),
        ("(" * 100 + "1" + ")" * 100, "nested deeper"),
        ("1" * 5_000, "longer than"),
        ("1 ||", "ends too early"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(source: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(says)):
        compile_expression(source, status_allowed=True)


def test_a_format_without_its_value_is_an_error() -> None:
    with pytest.raises(ExpressionError, match="without a value"):
        value("format('{1}', 'a')")


@pytest.mark.parametrize("times", [5, 9])
def test_a_format_that_would_fill_the_memory_is_refused_when_it_is_read(times: int) -> None:
    source = "'0123456789'"
    for _ in range(times):
        source = f"format('{'{0}' * 10}', {source})"
    with pytest.raises(ExpressionError, match=f"more than {VALUE_MAX} characters"):
        compile_expression(source, status_allowed=True)


def test_a_text_of_many_long_values_is_refused_before_it_is_made() -> None:
    contexts = {"env": {"LONG": "x" * 50_000}}
    with pytest.raises(ExpressionError, match=f"more than {VALUE_MAX} characters"):
        substitute("${{ env.LONG }}" * 10_000, contexts)
    assert len(substitute("${{ env.LONG }}" * 2, contexts)) == 100_000


@pytest.mark.parametrize(
    "source", ["env.LONG == env.LONG", "contains(env.LONG, 'y')", "format(env.LONG, 1)"]
)
def test_long_values_that_are_only_looked_through_count_too(source: str) -> None:
    contexts = {"env": {"LONG": "x" * 50_000}}
    expression = compile_expression(source, status_allowed=True)
    allowance = Allowance()
    job = allowance.for_job()

    def many(of: Allowance, characters: int) -> None:
        for _ in range(characters // 50_000 + 1):
            holds(expression, contexts, Status(), of)

    with pytest.raises(ExpressionError, match="this job makes too much text"):
        many(job, JOB_MAX)
    with pytest.raises(ExpressionError, match="this run makes too much text"):
        many(allowance, RUN_MAX)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("||".join(["0"] * 1_300) + "||7", 7),
        ("&&".join(["7"] * 1_300), 7),
        ("<".join(["1"] * 1_901), True),  # 1 < 1 is false, false < 1 is true, true < 1 is false
        ("9" * 400 + " == 1.5", False),
        ("9" * 400, float("inf")),  # as GitHub's numbers: doubles
    ],
)
def test_a_long_chain_and_a_long_number_have_a_value(source: str, expected: object) -> None:
    assert value(source) == expected


GOOD, BAD, GONE = Status(), Status(success=False, failure=True), Status(False, cancelled=True)


@pytest.mark.parametrize(
    ("source", "good", "bad", "gone"),
    [
        ("success()", True, False, False),
        ("failure()", False, True, False),
        ("always()", True, True, True),
        ("cancelled()", False, False, True),
        ("!cancelled()", True, True, False),
        ("failure() || cancelled()", False, True, True),
        ("env.WHO == 'me'", True, False, False),  # no status function: success() as well
        ("always() && env.WHO == 'you'", False, False, False),
    ],
)
def test_a_condition_depends_on_how_things_stand(
    source: str, good: bool, bad: bool, gone: bool
) -> None:
    expression = compile_expression(source, status_allowed=True)
    assert [holds(expression, CONTEXTS, each) for each in (GOOD, BAD, GONE)] == [good, bad, gone]


def test_no_condition_means_success() -> None:
    assert [holds(None, CONTEXTS, each) for each in (GOOD, BAD, GONE)] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a ${{ matrix.os }} b ${{matrix.n}}", "a Linux b 3"),
        ("${{ matrix.flag }}${{ matrix.none }}", "true"),
        ("${{ matrix.list }} ${{ matrix }}", "Array Object"),
        ("}} $ {{ x }}", "}} $ {{ x }}"),
        ("${{ 2.0 }}", "2"),
    ],
)
def test_expressions_in_a_text_are_replaced(text: str, expected: str) -> None:
    assert substitute(text, CONTEXTS) == expected


@given(st.text(alphabet="()!&|=<>'abc.1, -{}$", max_size=60))
def test_any_text_is_an_expression_or_refused(source: str) -> None:
    with contextlib.suppress(ExpressionError):  # and nothing else
        expression = compile_expression(source, status_allowed=True)
        evaluate(expression, CONTEXTS, Status())
