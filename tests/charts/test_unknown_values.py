"""A value that a chart does not know never fails it, and is named with what was meant.

The notes after an install and `runnerscale values check` find the same by two programs: the
templates, and `runnerscale.chart_values`.
"""

import re
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runnerscale.chart_values.findings import dotted
from runnerscale.chart_values.known import SHORT_NAMES, Chart, Node, charts, ignored
from runnerscale.chart_values.merge import overlay
from runnerscale.chart_values.nearest import features, in_order, nearest
from runnerscale.chart_values.unknown_keys import unknown_keys

from .render import CHARTS, CONTROLLER, SCALE_SET, RenderError, render_notes, render_texts
from .test_schemas import SCALE_SET_NEEDS

BOTH = pytest.mark.parametrize("chart", charts().values(), ids=lambda chart: chart.short)
NAMED_MAX = 20


def notes(chart: Chart, values: dict[str, Any]) -> str:
    whole = deepcopy(SCALE_SET_NEEDS) if chart.short == "scale-set" else {}
    overlay(whole, values)
    return render_notes(CHARTS / chart.name, whole, release="arc-test")


def named(text: str) -> dict[str, str]:
    """The unknown values in the notes, each with the proposal or an empty text."""
    _, _, rest = text.partition("not known to this chart and change nothing:\n")
    rest, _, _ = rest.partition("\n\n")
    rest, _, _ = rest.partition("These values are accepted")
    lines = [line.removeprefix("- ") for line in rest.splitlines() if line.startswith("- ")]
    found = {}
    for line in lines:
        match = re.fullmatch(r"(.*?)(?: \(did you mean (.*)\?\))?", line)
        assert match
        found[match[1]] = match[2] or ""
    return found


def test_nothing_is_said_when_all_is_known() -> None:
    for chart in charts().values():
        assert "not known" not in notes(chart, {})
        assert "accepted" not in notes(chart, {})


CASES = [
    ("controller", {"replicaCuont": 2}, "replicaCuont", "replicaCount"),
    ("controller", {"image": {"tags": "x"}}, "image.tags", "image.tag"),
    # W-C6: ARC's values.yaml shows these where they do nothing.
    (
        "controller",
        {"healthProbeBindAddress": ":8081"},
        "healthProbeBindAddress",
        "flags.healthProbeBindAddress",
    ),
    (
        "controller",
        {"k8sClientRateLimiterQPS": 20},
        "k8sClientRateLimiterQPS",
        "flags.k8sClientRateLimiterQPS",
    ),
    ("controller", {"flags": {"loglevel": "info"}}, "flags.loglevel", "flags.logLevel"),
    ("controller", {"Metrics": {}}, "Metrics", "metrics"),
    ("controller", {"evn": []}, "evn", "env"),
    ("controller", {"qqq": 1}, "qqq", ""),
    ("scale-set", {"github_config_url": "x"}, "github_config_url", "githubConfigUrl"),
    ("scale-set", {"maxRunner": 5}, "maxRunner", "maxRunners"),
    ("scale-set", {"containermode": {"type": "dind"}}, "containermode", "containerMode"),
    (
        "scale-set",
        {"containerMode": {"kubernetesModeAdditionalRoleRule": []}},
        "containerMode.kubernetesModeAdditionalRoleRule",
        "containerMode.kubernetesModeAdditionalRoleRules",
    ),
    (
        "scale-set",
        {"resourceMeta": {"listenerrole": {}}},
        "resourceMeta.listenerrole",
        "resourceMeta.listenerRole",
    ),
    ("scale-set", {"template": {"metadata": {"name": "x"}}}, "template.metadata.name", ""),
]


@pytest.mark.parametrize(("short", "values", "path", "meant"), CASES)
def test_an_unknown_value_is_named_with_what_was_meant(
    short: str, values: dict[str, Any], path: str, meant: str
) -> None:
    chart = charts()[short]
    assert named(notes(chart, values)) == {path: meant}
    (finding,) = unknown_keys(chart, values)
    assert dotted(finding.path) == path
    assert (f"Did you mean {meant}?" in finding.sentence()) == bool(meant)


def test_keys_of_free_form_maps_are_the_users_own() -> None:
    scale_set = {
        "labels": {"anything": "x"},
        "template": {"spec": {"whatever": 1, "containers": [{"name": "runner", "odd": 1}]}},
        "listenerTemplate": {"spec": {"containers": []}, "odd": 1},
        "resourceMeta": {"managerRole": {"labels": {"any": "x"}}},
        "githubConfigSecret": {"github_token": "t", "more": "x"},
        "global": {"imageRegistry": "x"},
    }
    assert named(notes(charts()["scale-set"], scale_set)) == {}
    controller = {"podAnnotations": {"any": "x"}, "resources": {"limits": {}}, "affinity": {"x": 1}}
    assert named(notes(charts()["controller"], controller)) == {}


def test_what_arc_had_is_accepted_and_said_to_be_ignored() -> None:
    text = notes(charts()["controller"], {"flags": {"updateStrategy": "eventual"}})
    assert "These values are accepted" in text
    assert "- flags.updateStrategy: " in text
    assert named(text) == {}
    assert "- nameOverride: " in notes(charts()["scale-set"], {"nameOverride": "x"})


def test_the_notes_can_be_switched_off() -> None:
    for additions in ({"unknownValueNotes": False}, None):
        text = notes(charts()["controller"], {"qqq": 1, "additions": additions})
        assert "qqq" not in text


def test_many_unknown_values_are_counted() -> None:
    text = notes(charts()["controller"], {f"zz{n:03}": n for n in range(25)})
    assert len(named(text)) == NAMED_MAX + 1  # and the line that counts
    assert "- and 5 more" in text


def test_a_strange_key_is_shown_in_quotes() -> None:
    text = notes(charts()["controller"], {"a\nb c": 1, "x" * 200: 1})
    assert '- "a\\nb c"' in text
    assert "x" * 81 not in text


@pytest.fixture(scope="module")
def umbrella(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart that contains both of ours, one under another name."""
    folder = tmp_path_factory.mktemp("charts") / "umbrella"
    parts = {"controller": CONTROLLER, "runners": SCALE_SET}
    (folder / "charts").mkdir(parents=True)
    lines = ["apiVersion: v2", "name: umbrella", "version: 0.1.0", "dependencies:"]
    for alias, chart in parts.items():
        target = folder / "charts" / chart.name
        shutil.copytree(chart, target, ignore=shutil.ignore_patterns("crds"))
        version = re.search("(?m)^version: (.*)$", (chart / "Chart.yaml").read_text())
        assert version
        lines += [f"  - name: {chart.name}", f"    version: {version[1]}"]
        if alias == "runners":
            lines.append(f"    alias: {alias}")
    (folder / "Chart.yaml").write_text("\n".join(lines) + "\n")
    return folder


def test_both_charts_in_one_release_each_know_their_own_values(umbrella: Path) -> None:
    values = {
        "global": {"any": 1},
        "gha-runner-scale-set-controller": {"replicaCuont": 1},
        "runners": {**SCALE_SET_NEEDS, "maxRunner": 1},
    }
    texts = render_texts(umbrella, values, release="arc-test")
    found = {
        name.split("/")[1]: named(text)
        for name, text in texts.items()
        if name.endswith("NOTES.txt")
    }
    assert found == {
        "gha-runner-scale-set-controller": {"replicaCuont": "replicaCount"},
        "runners": {"maxRunner": "maxRunners"},
    }


NAMES = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ_-0123456789", min_size=1, max_size=25)


@st.composite
def unknown_values(draw: st.DrawFn, chart: Chart) -> dict[str, Any]:
    """Random keys, and known keys with a letter changed, at random depths."""
    parents = [()] + [path for path, node in chart.paths() if chart.children(node)]
    known = {path for path, _ in chart.paths()}
    values: dict[str, Any] = {}
    for parent in draw(st.lists(st.sampled_from(parents), min_size=1, max_size=4)):
        siblings = [path[-1] for path in known if path[:-1] == parent]
        key = draw(NAMES | st.sampled_from(sorted(siblings)).flatmap(misspelt))
        if (*parent, key) in known or parent[:1] == ("githubConfigSecret",):
            continue
        place = values
        for step in parent:
            place = place.setdefault(step, {})
        place[key] = draw(st.none() | st.integers() | st.text(max_size=5) | st.just({"a": [1]}))
    return values


def renders(chart: Chart, values: dict[str, Any]) -> bool:
    try:
        notes(chart, values)
    except RenderError:
        return False
    return True


def without_unknown(chart: Chart, node: Node, values: dict[str, Any]) -> dict[str, Any]:
    """Known keys only; an empty map may be a mistake of its own (`certificateFrom: {}`)."""
    children = chart.children(node)
    return {
        key: without_unknown(chart, children[key], value)
        if isinstance(value, dict) and chart.children(children[key])
        else value
        for key, value in values.items()
        if key in children
    }


def misspelt(word: str) -> st.SearchStrategy[str]:
    """The word without a letter, or with two letters swapped."""
    places = st.integers(0, max(len(word) - 2, 0))
    dropped = places.map(lambda n: word[:n] + word[n + 1 :])
    swapped = places.map(lambda n: word[:n] + word[n + 1 : n + 2] + word[n : n + 1] + word[n + 2 :])
    return (dropped | swapped).filter(bool)


@pytest.mark.parametrize("short", sorted(SHORT_NAMES))
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_unknown_values_never_fail_and_templates_and_check_agree(
    short: str, data: st.DataObject
) -> None:
    chart = charts()[short]
    values = data.draw(unknown_values(chart))
    assume(renders(chart, without_unknown(chart, chart.schema, values)))
    known = in_order([path for path, node in chart.paths() if not ignored(node)])
    expected = {}
    for finding in unknown_keys(chart, values):
        path = tuple(str(part) for part in finding.path)
        if finding.is_problem:
            expected[dotted(path)] = dotted(nearest(path, known) or ())
    assert named(notes(chart, values)) == expected


@BOTH
def test_a_single_slip_finds_the_right_key_nearly_always(chart: Chart) -> None:
    known = in_order([path for path, node in chart.paths() if not ignored(node)])
    right = wrong = 0
    for path in known:
        word = path[-1]
        wanted = [features(key) for key in path]
        for n in range(len(word) - 1):
            for slip in (
                word[:n] + word[n + 1 :],
                word[:n] + word[n + 1] + word[n] + word[n + 2 :],
            ):
                here = (*path[:-1], slip)
                if here not in known and len(word) > 3:
                    # The vault's other spelling is as good: it is the same value.
                    is_right = [features(key) for key in nearest(here, known) or ()] == wanted
                    right, wrong = (right + 1, wrong) if is_right else (right, wrong + 1)
    assert right / (right + wrong) > 0.95
