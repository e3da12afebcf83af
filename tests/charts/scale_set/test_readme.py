"""What the chart's README shows is true: its command line and its example are rendered."""

import re
import shlex
from itertools import pairwise

import yaml

from tests.charts.render import SCALE_SET, render

from .chart import DEFAULT_RUNNER, pod
from .test_dind import SIDECAR

README = (SCALE_SET / "README.md").read_text()


def block(language: str, beginning: str) -> str:
    """The only block of that language that begins so."""
    found = re.findall(rf"```{language}\n({re.escape(beginning)}.*?)```", README, re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def test_the_first_command_renders_a_set_of_the_release_s_name() -> None:
    words = shlex.split(block("console", "$ helm install").removeprefix("$ "))
    helm, verb, release, chart, *options = words
    assert (helm, verb, SCALE_SET.parents[1] / chart) == ("helm", "install", SCALE_SET)
    settings = [value for name, value in pairwise(options) if name == "--set"]
    found = render(SCALE_SET, {}, release=release, set_values=settings)
    assert [d.name for d in found if d["kind"] == "AutoscalingRunnerSet"] == [release]
    assert f"`runs-on: {release}`" in README
    subjects = [d["subjects"][0]["name"] for d in found if d["kind"] == "RoleBinding"]
    assert subjects == ["arc-gha-rs-controller"]  # as the controller's chart calls it: release arc


def test_the_example_of_a_daemon_of_ones_own_is_laid_over_the_chart_s() -> None:
    example = yaml.safe_load(block("yaml", "containerMode: {type: dind}"))
    mine = example["template"]["spec"]["containers"][1]
    found = pod(example)
    assert found["initContainers"][1] == {**SIDECAR, **mine, "env": [*mine["env"], *SIDECAR["env"]]}
    assert DEFAULT_RUNNER.items() <= found["containers"][0].items()
