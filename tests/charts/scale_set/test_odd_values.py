"""Values as people really write them: null, of the wrong kind, in any alphabet.

Nothing here may end in a sentence about Go types or nil pointers, and nothing may render what is
no YAML. The schema is skipped, as Helm can be told to, so that only the templates stand guard.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.charts.render import SCALE_SET, RenderError, render

from .chart import BASE, MODES, RELEASE, objects, runner_set, spec, values

SCHEMA = json.loads((SCALE_SET / "values.schema.json").read_text())
TOP_KEYS = sorted(SCHEMA["properties"])
ENGINE_WORDS = (
    "nil pointer",
    "error calling",
    "wrong type",
    "can't evaluate",
    "incompatible type",
    "<nil>",
    "%!",
    "no YAML",
)
ODD: list[Any] = [
    *("", "x", 5, 0, 1.5, -1, True, False, [], ["x"], [None], {}, {"a": 1}, {"a": None}),
    *([{"name": "runner"}], [{"name": 5}]),
]


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref", "")
    return dict(SCHEMA["definitions"][reference.rpartition("/")[2]]) if reference else node


def paths_below(node: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The path, and all known ones below it."""
    yield path
    for key, child in resolved(node).get("properties", {}).items():
        yield from paths_below(child, (*path, key))


def known_paths(top: str) -> list[tuple[str, ...]]:
    found = list(paths_below(SCHEMA["properties"][top], (top,)))
    if top == "template":
        fields = ("containers", "initContainers", "volumes", "serviceAccountName")
        found += [("template", "spec", field) for field in fields]
    if top in {"resourceMeta", "listenerMetrics"}:  # all keys are alike
        kept = {"managerRole", "counters"}
        found = [path for path in found if len(path) == 1 or path[1] in kept]
    return found


def with_value(path: tuple[str, ...], value: object, mode: str) -> dict[str, Any]:
    result = deepcopy({**BASE, **MODES[mode]})
    place: dict[str, Any] = result
    for key in path[:-1]:
        if not isinstance(place.get(key), dict):
            place[key] = {}
        place = place[key]
    place[path[-1]] = value
    return result


@pytest.mark.parametrize("top", TOP_KEYS)
def test_whatever_a_value_is_the_chart_renders_or_says_why_not(
    top: str, chart_without_schema: Path
) -> None:
    odd, modes = cycle(ODD), cycle(MODES)
    for path in known_paths(top):
        for value in (None, next(odd), next(odd)):
            given = with_value(path, value, next(modes))
            try:
                render(chart_without_schema, given, release=RELEASE, notes=True)
            except RenderError as refused:
                text = str(refused)
                assert text.startswith("execution error at ("), (path, value, text)
                assert not [word for word in ENGINE_WORDS if word in text], (path, value, text)


@pytest.mark.parametrize("mode", MODES)
def test_null_means_unset_everywhere(mode: str) -> None:
    needed = {*BASE, "containerMode"}
    nulls = {key: None for key in TOP_KEYS if key not in needed}
    expected = {d["kind"] + d.name: d for d in objects(MODES[mode])}
    for document in objects({**MODES[mode], **nulls}):
        plain = expected[document["kind"] + document.name]
        if document["kind"] == "AutoscalingRunnerSet":  # the hash of the values is another
            for each in (document, plain):
                each["metadata"].pop("annotations")
        assert document == plain


def test_unknown_keys_change_nothing() -> None:
    more = {"unheardOf": {"a": [1]}, "proxxy": "x", "containerMode": {"typo": 1}}
    more["resourceMeta"] = {"unheardOf": {"labels": {"a": "b"}}}
    assert spec(more) == spec()


TEXTS = [
    "two\nlines",
    "ünï",
    "日本語",
    "💥",
    "a: b",
    "- a",
    "'",
    '"',
    "{{ .Values }}",
    "\\n",
    "#",
    "null",
    "1e3",
]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_arrives_as_it_is(text: str) -> None:
    meta = {"labels": {"l": text}, "annotations": {"a": text}}
    given = {
        "runnerGroup": text,
        "scaleSetLabels": [text],
        "githubConfigUrl": f"https://github.com/{text}",
        "proxy": {"http": {"url": text}, "noProxy": [text]},
        "listenerTemplate": {"spec": {"containers": [{"name": "listener", "args": [text]}]}},
        "template": {
            "metadata": meta,
            "spec": {"containers": [{"name": "runner", "image": text, "args": [text]}]},
        },
        "resourceMeta": {"ephemeralRunner": meta},
        **meta,
    }
    found = runner_set(given)
    assert found["metadata"]["labels"]["l"] == found["metadata"]["annotations"]["a"] == text
    fields = found["spec"]
    assert fields["runnerGroup"] == text
    assert fields["runnerScaleSetLabels"] == [text]
    assert fields["githubConfigUrl"] == f"https://github.com/{text}"
    assert fields["proxy"] == {"http": {"url": text}, "noProxy": [text]}
    assert fields["listenerTemplate"] == given["listenerTemplate"]
    assert fields["template"]["metadata"] == fields["ephemeralRunnerMetadata"] == meta
    assert fields["template"]["spec"]["containers"][0]["args"] == [text]


def test_large_numbers_keep_their_digits_wherever_they_are() -> None:
    # YAML files reach the templates as floats: 1000000 must not become 1e+06.
    number = 123456789
    given = {
        "minRunners": number,
        "maxRunners": number,
        "listenerMetrics": {"histograms": {"x": {"labels": [], "buckets": [number, 0.001]}}},
        "template": {
            "spec": {
                "containers": [{"name": "runner", "securityContext": {"runAsUser": number}}],
                "activeDeadlineSeconds": number,
            }
        },
    }
    text = json.dumps(spec(given))
    assert text.count(str(number)) == 5
    assert "e+" not in text


def test_values_are_found_whole_when_the_chart_is_part_of_another(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    (parent / "charts").mkdir(parents=True)
    (parent / "charts" / "runners").symlink_to(SCALE_SET)
    (parent / "Chart.yaml").write_text("apiVersion: v2\nname: parent\nversion: 0.1.0\n")
    given = {SCALE_SET.name: values(), "global": {"anything": 1}}
    kinds = sorted(d["kind"] for d in render(parent, given, release=RELEASE))
    assert kinds == sorted(d["kind"] for d in objects())
