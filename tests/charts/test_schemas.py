"""values.schema.json and values.yaml say the same, and wrong kinds are refused.

Whether a rule is right is asked in `controller/` and `scale_set/`; here it is only kinds.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from runnerscale.chart_values.known import SHORT_NAMES, Chart, charts, ignored
from runnerscale.chart_values.types import CHECKED, UNCHECKED, wrong_types

from .render import CHARTS, RenderError, render

sys.path.insert(0, str(CHARTS.parent / "tools"))

import chart_tables

SCALE_SET_NEEDS: dict[str, Any] = {
    "githubConfigUrl": "https://github.com/my-org",
    "githubConfigSecret": "my-credentials",
    "controllerServiceAccount": {"name": "arc", "namespace": "arc-systems"},
}
BOTH = pytest.mark.parametrize("chart", charts().values(), ids=lambda chart: chart.short)


def values_text(chart: Chart) -> str:
    return (CHARTS / chart.name / "values.yaml").read_text()


def schema_nodes(node: Any) -> list[dict[str, Any]]:
    """Every node of a schema, definitions too."""
    found = []
    if isinstance(node, dict):
        if set(node) & (CHECKED | {"$ref"}) and not isinstance(node.get("type"), dict):
            found.append(node)
        for child in node.values():
            found += schema_nodes(child)
    elif isinstance(node, list):
        for child in node:
            found += schema_nodes(child)
    return found


@BOTH
def test_the_package_carries_the_charts_own_schema_and_defaults(chart: Chart) -> None:
    folder = CHARTS / chart.name
    assert chart.schema == json.loads((folder / "values.schema.json").read_text())
    assert chart.defaults == yaml.safe_load((folder / "values.yaml").read_text())


@BOTH
def test_a_schema_uses_only_the_words_that_our_checker_knows(chart: Chart) -> None:
    # Draft7Validator itself refuses what is no draft-07.
    jsonschema_rs.Draft7Validator(chart.schema)
    for node in schema_nodes(chart.schema):
        maps = ("properties", "definitions")
        words = {word for word in node if word not in maps}
        assert words <= CHECKED | UNCHECKED, node
        assert node.get("additionalProperties", True) is not False  # unknown keys never fail


@BOTH
def test_null_is_allowed_for_every_value(chart: Chart) -> None:
    strict = [
        ".".join(path)
        for path, node in chart.paths()
        if "type" in node and "null" not in node["type"]
    ]
    assert strict == []


@BOTH
def test_values_yaml_explains_every_known_value_and_no_others(chart: Chart) -> None:
    keys = list(chart_tables.value_keys(values_text(chart)))
    explained = {key.path for key in keys if key.text}
    known = {path: node for path, node in chart.paths() if not ignored(node)}
    # Explained itself or, where many keys have one form, at the nearest key above that stands
    # in values.yaml.
    silent = [
        ".".join(path)
        for path in known
        if path != ("global",)
        and not any(path[:length] in explained for length in range(1, len(path) + 1))
        and not any(other[: len(path)] == path for other in explained)
    ]
    assert silent == []
    free = {path for path, node in chart.paths() if not chart.children(node)}
    odd = [
        f"line {key.line}: {'.'.join(key.path)}"
        for key in keys
        if key.path not in dict(chart.paths())
        and not any(key.path[:length] in free for length in range(1, len(key.path)))
    ]
    assert odd == []


@BOTH
def test_every_key_of_values_yaml_has_its_text_directly_above(chart: Chart) -> None:
    keys = list(chart_tables.value_keys(values_text(chart)))
    parents = {key.path[:length] for key in keys for length in range(len(key.path))}
    free = [path for path, node in chart.paths() if not chart.children(node)]
    bare = [
        f"line {key.line}: {'.'.join(key.path)}"
        for key in keys
        if not key.text
        and key.path not in parents
        and not any(key.path[: len(path)] == path and key.path != path for path in free)
    ]
    assert bare == []


@BOTH
def test_the_defaults_fit_the_schema(chart: Chart) -> None:
    assert list(jsonschema_rs.Draft7Validator(chart.schema).iter_errors(dict(chart.defaults))) == []
    assert wrong_types(chart, chart.defaults) == []


@BOTH
def test_every_example_can_be_uncommented_where_it_stands(chart: Chart) -> None:
    text = chart_tables.uncommented(values_text(chart))
    values = yaml.safe_load(text)
    assert list(jsonschema_rs.Draft7Validator(chart.schema).iter_errors(values)) == []
    examples = [key for key in chart_tables.value_keys(values_text(chart)) if not key.is_set]
    assert examples
    for key in examples:
        place: Any = values
        for part in key.path:
            assert part in place, f"line {key.line}: {'.'.join(key.path)} lands elsewhere"
            place = place[part]


@BOTH
def test_the_readme_has_a_row_for_every_explained_value(chart: Chart) -> None:
    readme = (CHARTS / chart.name / "README.md").read_text()
    for key in chart_tables.value_keys(values_text(chart)):
        if key.text:
            assert f"| `{'.'.join(key.path)}` |" in readme


WRONG_KINDS = {
    "controller": [
        {"env": {"A": "b"}},  # W-C8
        {"env": "A=b"},
        {"imagePullSecrets": ["dockerhub"]},
        {"imagePullSecrets": "dockerhub"},
        {"volumes": {"name": "a"}},
        {"replicaCount": "two"},
        {"replicaCount": 1.5},
        {"replicaCount": -1},
        {"labels": ["a"]},
        {"labels": {"a": {"b": "c"}}},
        {"metrics": ":8080"},
        {"pprof": True},
        {"flags": []},
        {"flags": {"logLevel": "trace"}},
        {"flags": {"logFormat": "xml"}},
        {"flags": {"excludeLabelPropagationPrefixes": "a/"}},
        {"flags": {"k8sClientRateLimiterQPS": 2.5}},
        {"flags": {"rateLimiter": "bucket_rate_limiter"}},
        {"serviceAccount": {"create": "false"}},
        {"additions": {"probes": "no"}},
        {"additions": False},
        {"image": {"pullPolicy": "Sometimes"}},
    ],
    "scale-set": [
        {"minRunners": True},  # W-S5
        {"minRunners": "five"},
        {"maxRunners": [5]},
        {"proxy": {"noProxy": "example.com"}},  # W-S7
        {"scaleSetLabels": "linux"},
        {"scaleSetLabels": [5]},
        {"containerMode": {"type": "dnd"}},
        {"containerMode": "dind"},
        {"containerMode": {"kubernetesModeAdditionalRoleRules": {"verbs": []}}},
        {"githubConfigSecret": 5},
        {"githubConfigSecret": ["a"]},
        {"githubConfigUrl": 5},
        {"runnerScaleSetName": 5},
        {"template": "x"},
        {"template": {"spec": []}},
        {"resourceMeta": {"managerRole": {"labels": "a=b"}}},
        {"labels": "a=b"},
        {"listenerMetrics": {"histograms": {"gha_job_startup_duration_seconds": {"buckets": 1}}}},
        {"controllerServiceAccount": "arc"},
        {"githubServerTLS": "cert"},
        {"keyVault": {"azureKeyVault": "x"}},
    ],
}
CASES = [(short, values) for short, many in WRONG_KINDS.items() for values in many]


@pytest.mark.parametrize(("short", "values"), CASES, ids=lambda value: str(value)[:60])
def test_a_wrong_kind_is_refused_by_helm_and_named_by_the_check(
    short: str, values: dict[str, Any]
) -> None:
    chart = charts()[short]
    needs = SCALE_SET_NEEDS if short == "scale-set" else {}
    with pytest.raises(RenderError):
        render(CHARTS / chart.name, {**needs, **values}, release="arc-test")
    (finding,) = wrong_types(chart, values)
    (key,) = values
    assert finding.path[0] == key
    assert finding.is_problem


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**31),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
    st.sampled_from(["5", "debug", "dind", "azure_key_vault", "Always", "true"]),
)
ANY = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


@st.composite
def values_near(draw: st.DrawFn, chart: Chart) -> dict[str, Any]:
    """Known paths with values of any kind."""
    values: dict[str, Any] = {}
    paths = [path for path, _ in chart.paths()]
    for path in draw(st.lists(st.sampled_from(paths), max_size=5)):
        place = values
        for key in path[:-1]:
            below = place.get(key)
            if not isinstance(below, dict):
                below = place[key] = {}
            place = below
        place[path[-1]] = draw(ANY)
    return values


@pytest.mark.parametrize("short", sorted(SHORT_NAMES))
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_our_checker_and_a_complete_one_agree(short: str, data: st.DataObject) -> None:
    chart = charts()[short]
    values = data.draw(values_near(chart))
    is_right = jsonschema_rs.Draft7Validator(chart.schema).is_valid(values)
    assert (wrong_types(chart, values) == []) == is_right


def test_a_generated_table_escapes_and_tells_unset_from_set(tmp_path: Path) -> None:
    text = (
        "# -- One `a|b`,\n#    on two lines.\na: 5\n\nm:\n  # -- Unset.\n  # b: x\n"
        "# no text of a key\n# c: x\n"
    )
    keys = list(chart_tables.value_keys(text))
    assert [(key.path, key.text, key.is_set) for key in keys] == [
        (("a",), "One `a|b`, on two lines.", True),
        (("m",), "", True),
        (("m", "b"), "Unset.", False),
    ]
    schema = {
        "properties": {
            "a": {"type": ["integer", "null"]},
            "m": {"type": "object", "properties": {"b": {"type": ["string", "null"]}}},
        }
    }
    chart = Chart("small", "small", schema=schema, defaults={"a": 5, "m": None})
    assert chart_tables.readme_table(chart, text).splitlines()[2:] == [
        "| `a` | whole number | `5` | One `a\\|b`, on two lines. |",
        "| `m.b` | text | unset | Unset. |",
    ]
    assert yaml.safe_load(chart_tables.uncommented(text)) == {"a": 5, "m": {"b": "x"}, "c": "x"}
