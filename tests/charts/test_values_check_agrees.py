"""`runnerscale values check` finds a problem exactly where the chart refuses to render.

Two programs hold the same rules: the templates, which stop an install, and `chart_values`, which
says all of it before. Here they judge the same values: the corpus, with single values exchanged.
"""

from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from runnerscale.chart_values.check import findings_in
from runnerscale.chart_values.known import SHORT_NAMES, charts

from .render import CHARTS, RenderError, render_texts
from .test_schemas import ANY
from .values_corpus import ALL_FILES, short_of

RELEASE = "arc-test"
CORPUS = {
    short: [yaml.safe_load(f.read_text()) or {} for f in ALL_FILES if short_of(f) == short]
    for short in SHORT_NAMES
}
# Values that one of the rules is about, right ones and wrong ones.
TELLING: dict[str, list[tuple[tuple[str, ...], list[Any]]]] = {
    "controller": [
        (("serviceAccount", "name"), ["", "default", "mine"]),
        (("serviceAccount", "create"), [True, False]),
        (
            ("metrics",),
            [{}, {"odd": 1}, {"listenerAddr": ":8080"}, {"controllerManagerAddr": ":x"}],
        ),
        (("metrics", "controllerManagerAddr"), [":8080", "0", "8080", ":0", ":65536", "[::]:80"]),
        (("metrics", "listenerAddr"), [":8080", "0", "x", "", ":99999"]),
        (("pprof", "addr"), [":6060", "localhost", "0", ":006060", ":00"]),
        (("flags", "healthProbeBindAddress"), [":8081", "8081", ":", "0"]),
        (("flags", "excludeLabelPropagationPrefixes"), [[], [""], ["a/", ""]]),
        (("flags", "k8sClientRateLimiterQPS"), ["20", "", "020", 1e6, 10**9]),
        (("imagePullSecrets",), [[], [{}], [{"name": ""}], [{"name": "a"}]]),
        (("env",), [[{"name": "A", "value": 5}], [{"name": "A", "value": "5"}], [{}], [None]]),
        (("podMonitor", "enabled"), [True, False]),
        (("serviceMonitor", "enabled"), [True, False]),
        (("replicaCount",), [0, 1, 2, "3", "", 1.0, "3\n"]),
        (("nameOverride",), ["a", "A", "a b", "x" * 80, "-", "ü" * 40]),
        (("fullnameOverride",), ["a.b", "a..b", "a-.b", "123", "null", "x" * 63 + ".y", "a\n"]),
        (("namespaceOverride",), ["123", "a.b", "a" * 64, "a\n"]),
        (("serviceAccount", "name"), ["x" * 63, "x" * 64, "a..b", "1e3"]),
        (("flags", "watchSingleNamespace"), ["123", "a.b", "A"]),
        (("metrics", "controllerManagerAddr"), [":8080\n"]),
    ],
    "scale-set": [
        (("githubConfigUrl",), ["", "/", "https://github.com/a//"]),
        (
            ("githubConfigSecret",),
            [
                "",
                {},
                {"github_token": ""},
                {"github_token": "t", "github_app_id": "1"},
                {"github_token": "t", "github_app_private_key": "k"},
                {"github_app_id": 5},
                {"github_app_id": 5, "github_app_installation_id": 0},
                {"other": "x"},
                {"github_token": "t", "a b": "x"},
                {"github_token": "t", "a\n": "x"},
                {"github_token": "t", "a.b-c_d": "x"},
                "ghp_abc",
                "a name",
                "my-secret.name",
                "my-secret\n",
            ],
        ),
        (("runnerScaleSetName",), ["a" * 45, "a" * 46, "A", "a_b", "-a", "a.b", "é", ""]),
        (("namespaceOverride",), ["a" * 63, "a" * 64, "123", "a.b", "A", "a\n", "../x"]),
        (("scaleSetLabels",), [[], [""], ["x" * 255], ["x" * 256], ["é" * 255]]),
        (
            ("minRunners",),
            [
                0,
                5,
                -1,
                2.7,
                "5",
                "",
                " 5 ",
                "05",
                2**31,
                "-1",
                2**31 - 1,
                11,
                "0" * 5000 + "1",
                "5\n",
            ],
        ),
        (("maxRunners",), [0, 5, -1, 2.7, "5", 2**31, 2**31 - 1, 4]),
        (("proxy",), [{}, {"http": {"credentialSecretRef": "x"}}, {"http": {"url": "x"}}]),
        (
            ("githubServerTLS",),
            [
                {},
                {"odd": 1},
                {"runnerMountPath": "/x"},
                {"certificateFrom": {"configMapKeyRef": {"name": "a"}}},
                {"certificateFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}},
            ],
        ),
        (("keyVault", "type"), ["", "azure_key_vault", "other"]),
        (("keyVault", "azureKeyVault"), [{}, {"url": "x", "tenant_id": "y"}]),
        (("containerMode", "type"), ["", "none", "dind", "kubernetes", "kubernetes-novolume"]),
        (("containerMode", "kubernetesModeWorkVolumeClaim"), [{}, {"accessModes": []}]),
        (
            ("template", "spec"),
            [
                {},
                {"containers": []},
                {"containers": [{}]},
                {"containers": [{"name": "other"}]},
                {"containers": [{"name": "dind"}]},
                {"containers": [{"name": "runner"}, {"name": "runner"}]},
                {"containers": [{"name": "runner"}], "initContainers": [{"name": "runner"}]},
                {"containers": [{"name": "runner", "env": [{"value": "x"}]}]},
                {"containers": [{"name": "runner", "env": {"A": "b"}}]},
                {"containers": [{"name": "runner", "volumeMounts": [{"name": 5}]}]},
                {"containers": "x"},
                {"containers": [{"name": "runner"}], "volumes": [{"name": "work"}]},
                {"containers": [{"name": "runner"}], "volumes": [{"emptyDir": {}}]},
                {"volumes": [{"name": "work"}, {"name": "work"}]},
                {"containers": [None]},
            ],
        ),
    ],
}


def refused(short: str, values: dict[str, Any]) -> str:
    try:
        render_texts(CHARTS / SHORT_NAMES[short], values, release=RELEASE)
    except RenderError as error:
        # Whom a cluster would know as the controller is no matter of the values.
        return "" if "no cluster to look in" in str(error) else str(error)
    return ""


def problems(short: str, values: dict[str, Any]) -> list[str]:
    """What stops an install; an unknown value does not."""
    found = findings_in(charts()[short], values, release=RELEASE, namespace="test-ns")
    texts = [f.sentence() for f in found if f.is_problem]
    return [text for text in texts if "is not a value of this chart" not in text]


def placed(values: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    result = deepcopy(values)
    place = result
    for key in path[:-1]:
        if not isinstance(place.get(key), dict):
            place[key] = {}
        place = place[key]
    place[path[-1]] = value
    return result


SINGLE = [
    (short, path, value) for short, rows in TELLING.items() for path, many in rows for value in many
]


@pytest.mark.parametrize(
    ("short", "path", "value"),
    SINGLE,
    ids=lambda part: str(part)[:50].encode().decode("ascii", "replace"),
)
def test_they_agree_on_one_value(short: str, path: tuple[str, ...], value: Any) -> None:
    base = CORPUS[short][0] if short == "controller" else TOKEN
    values = placed(base, path, value)
    text, found = refused(short, values), problems(short, values)
    assert bool(text) == bool(found), (text, found)


TOKEN = {
    "githubConfigUrl": "https://github.com/my-org",
    "githubConfigSecret": {"github_token": "t"},
    "controllerServiceAccount": {"name": "arc", "namespace": "arc-systems"},
}


@pytest.mark.parametrize("short", sorted(SHORT_NAMES))
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_they_agree_on_the_corpus_with_values_exchanged(short: str, data: st.DataObject) -> None:
    values = data.draw(st.sampled_from(CORPUS[short]))
    paths = [path for path, node in charts()[short].paths()]
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            path, many = data.draw(st.sampled_from(TELLING[short]))
            values = placed(values, path, data.draw(st.sampled_from(many)))
        else:
            values = placed(values, data.draw(st.sampled_from(paths)), data.draw(ANY))
    text, found = refused(short, values), problems(short, values)
    assert bool(text) == bool(found), (text, found)
