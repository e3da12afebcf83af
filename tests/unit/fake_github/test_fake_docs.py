"""docs/fake-github.md says what the code has: presets, calls, keys, refusals."""

import re
from pathlib import Path

import pytest

from runnerscale.fake_github import expressions, workflow
from runnerscale.fake_github.addresses import Area
from runnerscale.fake_github.operations import TABLE
from runnerscale.fake_github.presets import PRESETS
from runnerscale.fake_github.workflow import parse_workflow

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "fake-github.md").read_text()


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_in_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_how_long_a_preset_lasts_is_in_the_page() -> None:
    (said,) = re.findall(r"Without `seconds` a trouble that lasts does so for 30, (.*?) for 10;",
                         PAGE, flags=re.DOTALL)  # fmt: skip
    assert {preset.seconds for preset in PRESETS.values()} == {30.0, 10.0}
    short = {name for name, preset in PRESETS.items() if preset.seconds == 10}
    words = set(re.findall(r"`([^`]+)`", said))
    assert {w if not w.endswith("-") else f"{w}bodies" for w in words} == short


KEYS = (*workflow.TOP_KEYS, *workflow.JOB_KEYS, *workflow.STEP_KEYS, *workflow.STRATEGY_KEYS)
WORDS = (*expressions.CONTEXTS, *expressions.FUNCTIONS, *expressions.STATUS_FUNCTIONS)


@pytest.mark.parametrize("name", KEYS + WORDS)
def test_each_supported_word_of_a_workflow_is_in_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize(
    ("method", "path"), [(m, p) for _, area, m, p in TABLE if area is Area.CONTROL]
)
def test_each_call_of_the_control_api_is_in_the_page(method: str, path: str) -> None:
    shown = path.lstrip("/")
    for name in ("job", "run", "fault"):
        shown = shown.replace(f"{{{name}}}", "{id}")
    assert any(f"`{method} {shown}{end}" in PAGE for end in ("`", "?")), f"{method} {shown}"


def test_each_call_of_the_runner_protocol_is_in_the_page() -> None:
    for _, area, method, path in TABLE:
        if area is Area.RUNNER:
            shown = path.replace("{session}", "{s}").replace("{job}", "{j}")
            assert f"`{method} /runner{shown}`" in PAGE


def test_the_example_is_a_workflow_of_a_sensible_size() -> None:
    text = (ROOT / "examples" / "workflow.yml").read_text()
    example = parse_workflow(text, "examples/workflow.yml")
    assert 8 <= example.instances <= 12
    assert {"build", "test", "report"} <= set(example.jobs)
