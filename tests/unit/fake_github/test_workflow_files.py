"""Workflow files: what is understood, and where and how the rest is refused."""

import contextlib
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnerscale.fake_github.workflow import parse_workflow
from runnerscale.fake_github.workflow_yaml import DEPTH_MAX, WorkflowError, read_yaml


def parse(text: str) -> object:
    return parse_workflow(textwrap.dedent(text), "ci.yml")


def refusal(text: str) -> str:
    with pytest.raises(WorkflowError) as refused:
        parse(text)
    return str(refused.value)


FULL = """\
name: CI ${{ github.run_number }}
on:
  push:
    branches: [main]
  workflow_dispatch:
env:
  A: 1
  B: true
jobs:
  one:
    name: First
    runs-on: [demo, gpu]
    timeout-minutes: 2.5
    env: { C: "x" }
    steps:
      - run: echo hi
      - name: Second
        run: |
          echo a
          echo b
        shell: bash
        working-directory: sub
        timeout-minutes: 1
        env: { D: y }
        if: always()
  two:
    runs-on: { group: big, labels: demo }
    needs: one
    if: ${{ failure() && github.event_name == 'push' }}
    steps: [{ run: "true" }]
"""


def test_a_file_is_read_with_everything_that_is_supported() -> None:
    workflow = parse_workflow(FULL, ".github/workflows/ci.yml")
    one, two = workflow.jobs["one"], workflow.jobs["two"]
    assert workflow.event == "push"
    assert workflow.env == (("A", "1"), ("B", "true"))
    assert (one.name, one.labels, one.group) == ("First", ("demo", "gpu"), "")
    assert (one.timeout_s, one.env) == (150.0, (("C", "x"),))
    second = one.steps[1]
    assert second.run == "echo a\necho b\n"
    assert (second.shell, second.working_directory, second.timeout_s) == ("bash", "sub", 60.0)
    assert second.env == (("D", "y"),)
    assert (two.labels, two.group, two.needs) == (("demo",), "big", ("one",))
    assert two.condition is not None
    assert workflow.instances == 2


def test_words_that_old_yaml_takes_for_booleans_stay_words() -> None:
    workflow = parse_workflow("on: push\njobs: {yes: {runs-on: on, steps: [{run: off}]}}")
    assert workflow.jobs["yes"].labels == ("on",)
    assert workflow.jobs["yes"].steps[0].run == "off"


JOB = "jobs:\n  a:\n    runs-on: x\n"


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ("permissions: read\njobs: {}", 1, ["'permissions'", "name, on, env, jobs"]),
        ("on: push", 1, ["has no 'jobs'"]),
        ("jobs: []", 1, ["'jobs' must be a map"]),
        ("jobs:\n  a:\n    steps: [{run: x}]", 2, ["job 'a' has no 'runs-on'"]),
        (JOB, 2, ["'steps'"]),
        (JOB + "    services: {}\n    steps: [{run: x}]", 4, ["'services'", "containers"]),
        (JOB + "    container: node\n    steps: [{run: x}]", 4, ["'container'", "supported:"]),
        (JOB + "    steps:\n      - run: x\n      - uses: a/b@v1", 6, ["'uses'", "'run'"]),
        (JOB + "    steps:\n      - name: x", 5, ["a step needs 'run'"]),
        (
            JOB + "    steps:\n      - run: x\n        shell: pwsh",
            6,
            ["'pwsh'", "bash, sh, python"],
        ),
        (JOB + "    steps:\n      - run: x\n        timeout-minutes: 0", 6, ["above 0"]),
        (JOB + "    steps:\n      - run: x\n        timeout-minutes: soon", 6, ["a number"]),
        (
            JOB + "    needs: b\n    steps: [{run: x}]",
            2,
            ["needs 'b'", "does not exist", "jobs: a"],
        ),
        (JOB + "    steps: [{run: x}]\n    steps: [{run: y}]", 5, ["'steps' appears twice"]),
        (JOB + "    if: explode()\n    steps: [{run: x}]", 4, ["explode()", "success, failure"]),
        (JOB + "    if: !cancelled()\n    steps: [{run: x}]", 4, ["YAML tag", "quotes"]),
        (JOB + "    steps:\n      - run: ${{ secrets.X }}", 5, ["secrets.X", "github, matrix"]),
        (JOB + "    steps:\n      - run: ${{ always() }}", 5, ["only works in 'if'"]),
        (JOB + "    steps:\n      - run: ${{ matrix.x", 5, ["without its }}"]),
        (JOB + "    strategy: {matrix: {}}\n    steps: [{run: x}]", 4, ["'matrix'"]),
        (JOB + "    strategy:\n      matrix: {v: 3}\n    steps: [{run: x}]", 5, ["for 'v'"]),
        (
            JOB + "    strategy:\n      matrix:\n        v: ${{ x }}\n    steps: [{run: x}]",
            6,
            ["inside 'matrix'"],
        ),
        (JOB + "    strategy: {max-parallel: 0}\n    steps: [{run: x}]", 4, ["'max-parallel'"]),
        (JOB + "    strategy: {fail-fast: maybe}\n    steps: [{run: x}]", 4, ["'fail-fast'"]),
        ("jobs:\n  a:\n    runs-on: {}\n    steps: [{run: x}]", 3, ["neither a group nor labels"]),
        ("jobs:\n  a: *x", 2, ["aliases"]),
        ("a: b: c", 1, ["not YAML"]),
        ("jobs: [", 2, ["not YAML"]),
        ("jobs: {a: b}\n---\njobs: {}", 2, ["second YAML document"]),
        ("jobs: {'a b': {runs-on: x, steps: [{run: x}]}}", 1, ["cannot be the id of a job"]),
        ('env: {A: "x\\0y"}\njobs: {}', 1, ["NUL"]),
        ('env: {"A\\0": y}\njobs: {}', 1, ["NUL"]),
        (JOB + '    steps: [{run: x, working-directory: "x\\0y"}]', 4, ["NUL"]),
        (JOB + "    steps: [{run: \"${{ format('{1}', 2) }}\"}]", 4, ["without a value for {1}"]),
        ("env: {A=B: c}\njobs: {a: {runs-on: x, steps: [{run: x}]}}", 1, ["environment variable"]),
    ],
)
def test_what_is_not_supported_is_refused_with_its_line(
    text: str, line: int, parts: list[str]
) -> None:
    message = refusal(text)
    assert message.startswith(f"ci.yml:{line}: ")
    for part in parts:
        assert part in message


def test_jobs_that_need_each_other_are_refused_with_the_circle() -> None:
    message = refusal("""\
        jobs:
          start: {runs-on: x, steps: [{run: x}]}
          a: {runs-on: x, needs: [start, c], steps: [{run: x}]}
          b: {runs-on: x, needs: a, steps: [{run: x}]}
          c: {runs-on: x, needs: b, steps: [{run: x}]}
        """)
    assert message == "ci.yml:3: jobs need each other in a circle: a -> c -> b -> a"


def test_a_job_that_needs_itself_is_refused() -> None:
    assert "a -> a" in refusal("jobs: {a: {runs-on: x, needs: a, steps: [{run: x}]}}")


@pytest.mark.parametrize("text", ["", "# only a comment\n"])
def test_an_empty_file_is_refused(text: str) -> None:
    assert refusal(text) == "ci.yml: the file is empty; a workflow needs at least 'jobs'"


def test_a_file_that_nests_without_end_is_refused_not_crashed_on() -> None:
    assert "maximum nesting depth" in refusal("[" * 200_000)  # the parser's own bound
    assert f"deeper than {DEPTH_MAX}" in refusal("[" * 60)
    assert f"deeper than {DEPTH_MAX}" in refusal(
        "a:\n" + "".join(" " * n + "a:\n" for n in range(500))
    )


def test_a_file_that_is_far_too_large_is_refused() -> None:
    assert "more than 10000 expressions" in refusal(
        JOB + "    steps:\n      - run: '" + "${{1}}" * 10_001 + "'"
    )
    assert "larger than 512 KiB" in refusal("#" * 600_000)
    assert "more than 50000 parts" in refusal("[" + "a," * 60_000 + "]")


def test_an_alias_bomb_is_refused() -> None:
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]"
    assert "aliases" in refusal(bomb)


def test_many_half_expressions_are_read_in_no_time() -> None:
    # A pattern that looked for the closing braces each time would take minutes here.
    text = JOB + "    steps:\n      - run: '" + "${{ " * 100_000 + "'"
    assert "cannot be read" in refusal(text) or "without its }}" in refusal(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_ends_in_a_workflow_or_a_sentence(text: str) -> None:
    with contextlib.suppress(WorkflowError):  # and nothing else
        parse_workflow(text)


LINES = [
    "jobs:",
    " a:",
    "  runs-on: x",
    "  steps:",
    "   - run: echo",
    "  if: ",
    "needs: a",
    "matrix:",
]
SIGNS = ["${{", "}}", "- ", *"[]{}:?%>|\n", "'", '"', "&a", "*a", "!x"]
PIECES = st.sampled_from(LINES + SIGNS)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=30))
def test_any_heap_of_pieces_ends_in_a_workflow_or_a_sentence(pieces: list[str]) -> None:
    with contextlib.suppress(WorkflowError):  # and nothing else
        parse_workflow("\n".join(pieces))


def test_scalars_are_read_by_the_yaml_core_rules() -> None:
    node = read_yaml("[1, -2, 1.5, 0x1f, 'true', true, ~, 1.2.3, '', 3.10]", "f")
    assert node.plain() == [1, -2, 1.5, "0x1f", "true", True, None, "1.2.3", "", 3.1]
