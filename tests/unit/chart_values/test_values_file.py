"""A values file is read as Helm reads it, and a bad one ends in a sentence."""

from typing import Any

import helm_python
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnerscale.chart_values.values_file import (
    BYTES_MAX,
    DEPTH_MAX,
    NODES_MAX,
    NotValuesError,
    read_values,
)


def read(text: str) -> dict[str, Any]:
    return read_values("values.yaml", text.encode()).values


def by_helm(text: str) -> dict[str, Any] | None:
    try:
        return helm_python.values_from_yaml(text)
    except helm_python.HelmError:
        return None


def alike(one: Any, other: Any) -> bool:
    """Numbers are floats to Helm."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return float(one) == float(other) and isinstance(one, bool) == isinstance(other, bool)
    return bool(one == other)


SCALARS = (
    "y Yes on off N n no 0777 0o17 0o8 08 1_000 12:30 190:20:30 1e3 1E5 1e+06 1e-7 .5 -.5 +.5 . .. "
    "0x1F -0x1F +0x1 0x 0b11 -0b1 0b 0x_1 ~ +5 -5 -0 00 1. 1.e5 .e5 1e400 0.1e Null NULL null nULL "
    "TRUE True tRUE 1__0 _1 1_ 1_0.5 1._5 0777_1 12345678901234567890 0xFFFFFFFFFFFFFFFFF 9e = "
    "2020-01-01 2001-12-14t21:59:43.10-05:00 <<a 'x' \"5\" '' --- 1.0 0.0 1.5e3 text 5%"
)


@pytest.mark.parametrize("scalar", SCALARS.split())
def test_a_scalar_is_what_helm_makes_of_it(scalar: str) -> None:
    expected = by_helm(f"a: {scalar}\n")
    assert expected is not None
    assert alike(read(f"a: {scalar}\n")["a"], expected["a"])


DOCUMENTS = [
    "",
    "# only a remark",
    "null",
    "---\n",
    "a: 1\n---\nb: 2",
    "--- \n# c\n...\n---\na: 1",
    "x: 1\n...\ny: 2",
    "a: 1\na: 2",
    "a: {b: 1}\na: {c: 2}",
    "1: x\ntrue: y\n1.5: z\n0x10: h\n1e3: k\non: o",
    "a: &x {b: 1, d: 0}\nc:\n  d: 2\n  <<: *x",
    "a: &x {b: 1}\nb: &y {c: 2, b: 5}\nc: {<<: [*x, *y], e: 3}",
    "a: &x [1, *y]\n",
    "a: &x 5\nb: *x\nc: [*x, *x]",
    "a: !foo 5\nb: !!str 5\nc: ! 5\nd: !!timestamp 2020-01-01",
    "a: !foo\n  b: 1\nc: !!map {b: 1}\nd: !!seq [1]",
    "a: |\n  x\n  y\nb: >-\n  x\n  y",
    "a: [1, [2, {b: 3}], []]\nb: {}",
    "a:\nb: ''\nc: ~",
    "\ufeffa: 1",
    "a: 'é \U0001f600'",
    "'<<': 5",
]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_a_document_is_what_helm_makes_of_it(text: str) -> None:
    expected = by_helm(text)
    if expected is None:
        with pytest.raises(NotValuesError):
            read(text)
    else:
        assert read(text) == expected


@settings(max_examples=300, deadline=None)
@given(st.text("019_+-.eExXoObBaAfFtTrRuUnNlLyYsS~<= ", max_size=8))
def test_any_scalar_is_what_helm_makes_of_it(text: str) -> None:
    expected = by_helm(f"a: [{text}]\n")
    try:
        found = read(f"a: [{text}]\n")
    except NotValuesError:
        found = None
    assert (found is None) == (expected is None)
    if found and expected:
        (one,), (other,) = found["a"] or [0], expected["a"] or [0]
        assert alike(one, other)


@settings(max_examples=200, deadline=None)
@given(st.text("ab: \n-'\"[]{},&*!|>#%@`?\t0", max_size=30))
def test_any_text_is_values_for_both_or_for_neither(text: str) -> None:
    expected = by_helm(text)
    try:
        found = read(text)
    except NotValuesError:
        found = None
    if expected is not None and found is not None:
        assert found == expected
    # Two parsers differ in what they still take; neither may fail otherwise.


def test_every_value_has_its_line() -> None:
    result = read_values("v.yaml", b"a: 1\nb:\n  c:\n    - x\n    - z: 2\n")
    lines = {path: place.line for path, place in result.places.items()}
    assert lines[("a",)] == 1
    assert lines[("b", "c")] == 3
    assert lines[("b", "c", 1)] == 5
    assert lines[("b", "c", 1, "z")] == 5
    assert {place.file for place in result.places.values()} == {"v.yaml"}


def test_a_key_given_twice_is_named_with_both_lines() -> None:
    result = read_values("v.yaml", b"a: 1\nb: 2\na: 3\n")
    ((finding, place),) = result.findings
    assert place.line == 3
    assert finding.sentence() == (
        "a is given twice, here and in line 1; the last one counts. Keep one of them."
    )
    assert result.places[("a",)].line == 3


def test_a_second_document_is_named() -> None:
    ((finding, place),) = read_values("v.yaml", b"a: 1\n---\nb: 2\n").findings
    assert place.line == 2
    assert "Helm reads the first only" in finding.what


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
)
# Not one value in it, and ten thousand million maps to merge.
MERGE_BOMB = "a0: &a0 {}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 11)
)
BAD = {
    "list at the top": (b"- a\n", 1, "the file holds a list at the top"),
    "scalar at the top": (b"\n\nhello\n", 3, "the file holds a single value at the top"),
    "open bracket": (b"a: 1\nb: [1\nc: 2\n", 3, "this is not YAML"),
    "tab": (b"a:\n\tb: 1\n", 2, "this is not YAML"),
    "latin-1": (b"a: 1\nb: \xe9\n", 2, "this is not UTF-8 text"),
    "utf-16": ("a: 1".encode("utf-16"), 1, "this is not UTF-8 text"),
    "zeros": (b"a: 1\n\x00\x00\x00", 2, "this is binary data"),
    "picture": (b"\x89PNG\r\n\x1a\n\x00\x00", 1, "this is not UTF-8 text"),
    "control characters": (b"a: \x07\x08\n", 1, "this is not YAML"),
    "template": (b"a: {{ .Values.b }}\n", 1, "a name before `:` is not plain text"),
    "bomb": (BOMB.encode(), 1, f"the file grows to more than {NODES_MAX} values"),
    "bomb of merges": (MERGE_BOMB.encode(), 1, f"the file grows to more than {NODES_MAX} values"),
    "merged into itself": (b"a: &a\n  b: 1\n  <<: *a\n", 1, "values are nested more than"),
    "itself": (b"a: &a [*a]\n", 1, "values are nested more than"),
    "deep": (b"a: " + b"[" * (DEPTH_MAX + 1), 1, f"values are nested more than {DEPTH_MAX} levels"),
    "deeper": (b"a: " + b"[" * 100_000, 1, "values are nested more than"),
    "deep in blocks": (
        b"\n".join(b" " * n + b"a:" for n in range(300)),
        DEPTH_MAX + 1,
        "values are nested",
    ),
    "huge": (b"a: 1\n" * BYTES_MAX, 1, "the file is larger than"),
    "no anchor": (b"a: 1\nb: *c\n", 2, "the alias *c has no anchor above it"),
    "merge of a scalar": (b"a:\n  <<: 5\n", 2, "<< takes a map or a list of maps"),
    "null as a name": (b"~: 1\n", 1, "a name before `:` is not plain text"),
    "infinite": (b"a: .inf\n", 1, ".inf is no number that Helm takes"),
    "other yaml": (b"%YAML 1.2\n---\na: 1\n", 1, "Helm reads YAML 1.1 only"),
}


@pytest.mark.parametrize(("content", "line", "what"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_ends_in_one_sentence_with_its_line(
    content: bytes, line: int, what: str
) -> None:
    with pytest.raises(NotValuesError) as caught:
        read_values("values.yaml", content)
    assert what in caught.value.what
    assert caught.value.line == line
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_it_fail_otherwise(content: bytes) -> None:
    line = 1
    try:
        read_values("values.yaml", content)
    except NotValuesError as error:
        line = error.line
    assert line >= 1
