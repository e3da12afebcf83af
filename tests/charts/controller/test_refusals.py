"""Values that cannot work are refused in a sentence: C3 1.8, and what 10.1 says should hold.

`values.schema.json` speaks first about types, in Helm's words; the templates say the rest, and
say it all where Helm is told to skip the schema. Odd but harmless values are not refused.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.charts.render import CONTROLLER, RenderError, render, render_one

from .chart import (
    LABELS,
    NAME,
    POD_LABELS,
    RELEASE,
    SELECTOR,
    K,
    args,
    comparable,
    deployment,
    manager,
    objects,
    refusal,
    with_additions,
)

SCHEMA = json.loads((CONTROLLER / "values.schema.json").read_text())
FREE_FORM = {"global"}  # Helm's own; ours has no meaning for it


def paths(properties: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every value that the schema knows, the outer before the inner."""
    for key, schema in properties.items():
        if key not in FREE_FORM:
            yield (*above, key)
            yield from paths(schema.get("properties", {}), (*above, key))


ALL_PATHS = list(paths(SCHEMA["properties"]))


def at(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Values with only this one in them."""
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def kind(path: tuple[str, ...]) -> set[str]:
    """The types that the schema allows there."""
    schema: dict[str, Any] = SCHEMA
    for key in path:
        schema = schema["properties"][key]
        if "$ref" in schema:
            schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    found = schema.get("type", ["object", "array", "string", "number", "boolean"])
    return set(found)


@pytest.mark.behaviour("C3 T3")
@pytest.mark.parametrize("create", [True, False])
def test_the_namespaces_default_account_is_not_allowed(create: bool) -> None:
    said = refusal({"serviceAccount": {"name": "default", "create": create}})
    assert said.startswith('serviceAccount.name "default" is not allowed')
    assert "Choose another name" in said


@pytest.mark.behaviour("C3 T5")
def test_without_an_account_of_its_own_a_name_is_asked_for() -> None:
    said = refusal({"serviceAccount": {"create": False, "name": ""}})
    assert "serviceAccount.name is empty and serviceAccount.create is false" in said
    assert "Set serviceAccount.name" in said


@pytest.mark.behaviour("C3 T208")
@pytest.mark.parametrize(
    "address", ["", None, ":", "localhost", ":http", ":8080x", "8080", ":0", ":65536", ":123456"]
)
@pytest.mark.parametrize(
    "path",
    [
        ("metrics", "controllerManagerAddr"),
        ("metrics", "listenerAddr"),
        ("pprof", "addr"),
        ("flags", "healthProbeBindAddress"),
    ],
)
def test_an_address_without_a_port_is_refused(path: tuple[str, str], address: str | None) -> None:
    values = at(path, address)
    if path[1] == "listenerAddr":
        values["metrics"]["controllerManagerAddr"] = ":8080"
    if not address and path[1] != "controllerManagerAddr":
        assert with_additions(values)  # not given, and not needed
        return
    said = refusal(values)
    assert said.startswith(f"{'.'.join(path)} must be an address that ends in a numeric port")
    assert "Write it as" in said


def test_metrics_without_the_controllers_address_are_refused_in_words() -> None:
    said = refusal({"metrics": {"listenerAddr": ":8080", "listenerEndpoint": "/metrics"}})
    assert "metrics.controllerManagerAddr must be an address" in said
    assert "remove all keys of metrics" in said


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"imagePullSecrets": ["ghcr"]}, ["imagePullSecrets[0]", "ghcr", "{name: ghcr}"]),
        ({"imagePullSecrets": [{}]}, ["imagePullSecrets[0] has no name"]),
        ({"imagePullSecrets": [None]}, ["imagePullSecrets[0]"]),
        ({"env": {"A": "b"}}, ["env is a map and must be a list"]),  # W-C8: never silently
        ({"env": [{"name": "A", "value": 1}]}, ["env[0].value (A) is not a text"]),
        ({"env": ["A=b"]}, ["env[0] is a text and must be a map"]),
        ({"env": [None]}, ["env[0] is null and must be a map"]),
        ({"flags": {"excludeLabelPropagationPrefixes": [""]}}, ["PropagationPrefixes[0]"]),
        ({"flags": {"excludeLabelPropagationPrefixes": [5]}}, ["PropagationPrefixes[0]"]),
        ({"replicaCount": -1}, ["replicaCount", "whole number"]),
        ({"replicaCount": 1.5}, ["replicaCount", "1.5"]),
        ({"replicaCount": "two"}, ["replicaCount", "two"]),
        ({"replicaCount": 10**9}, ["replicaCount", "999999999"]),
        ({"replicaCount": 1e300}, ["replicaCount"]),
        ({"flags": {"logLevel": "trace"}}, ["flags.logLevel", "debug, info, warn, error"]),
        ({"flags": {"logFormat": "xml"}}, ["flags.logFormat", "text, json"]),
        ({"flags": {"rateLimiter": {"name": "x"}}}, ["flags.rateLimiter.name", "bucket_rate"]),
        ({"image": {"tag": 1.1}}, ["image.tag", "quotes"]),
        ({"labels": {"a": {"b": "c"}}}, ["labels.a"]),
        ({"labels": {"a": ["b"]}}, ["labels.a"]),
        ({"podAnnotations": {"a": {"b": "c"}}}, ["podAnnotations.a"]),
    ],
)
def test_without_the_schema_each_refusal_names_the_value_and_what_to_write(
    values: dict[str, Any], words: list[str], chart_without_schema: Path
) -> None:
    with pytest.raises(RenderError) as caught:
        render(chart_without_schema, values, release=RELEASE)
    said = str(caught.value).rpartition("): ")[2]
    assert all(word in said for word in words), said
    assert said.endswith(".")
    with pytest.raises(RenderError):
        with_additions(values)


@pytest.mark.parametrize("path", ALL_PATHS, ids=".".join)
def test_null_means_not_given(path: tuple[str, ...], chart_without_schema: Path) -> None:
    values = at(path, None)
    if path[:-1] == ("metrics",):  # with a key in it, metrics need the controller's address
        values["metrics"] = {"controllerManagerAddr": "0"} | values["metrics"]
        values["metrics"]["controllerManagerAddr"] = "0"
    found = with_additions(values)
    assert comparable(found) == comparable(render(chart_without_schema, values, release=RELEASE))
    # Null takes a default away. Nothing but these have a default that shows in the objects.
    if path[0] not in {"additions", "flags", "image", "metrics"}:
        assert comparable(found) == comparable(with_additions())


@pytest.mark.parametrize("path", ALL_PATHS, ids=".".join)
@pytest.mark.parametrize("wrong", [["x"], {"x": "y"}, "x", 7, True], ids=repr)
def test_a_wrong_type_is_refused_with_the_name_of_the_value(
    path: tuple[str, ...], wrong: Any, chart_without_schema: Path
) -> None:
    kinds = {list: "array", dict: "object", str: "string", int: "number", bool: "boolean"}
    allowed = kind(path) | ({"number"} if "integer" in kind(path) else set())
    if kinds[type(wrong)] in allowed:
        return
    with pytest.raises(RenderError) as caught:
        with_additions(at(path, wrong))
    assert f"at '/{'/'.join(path)}'" in str(caught.value)  # the schema's words
    with pytest.raises(RenderError) as caught:
        render(chart_without_schema, at(path, wrong), release=RELEASE)
    said = str(caught.value)
    assert f"): {'.'.join(path)}" in said, said  # ours: the value, and no trace of a template


def test_integers_keep_their_digits() -> None:
    # W-C1: from a values file Helm hands the templates floats, and prints them as 1e+06.
    flags = {
        "k8sClientRateLimiterQPS": 1000000,
        "k8sClientRateLimiterBurst": 98765432,
        "runnerMaxConcurrentReconciles": "12345678",
    }
    found = args({"flags": flags})
    assert "--k8s-client-rate-limiter-qps=1000000" in found
    assert "--k8s-client-rate-limiter-burst=98765432" in found
    assert "--runner-max-concurrent-reconciles=12345678" in found
    set_ones = args(set_values=["flags.k8sClientRateLimiterQPS=1000000"])
    assert "--k8s-client-rate-limiter-qps=1000000" in set_ones
    assert manager({"image": {"tag": 20261130}})["image"].endswith(":20261130")
    one = deployment({"labels": {"build": 1000000, "ok": True}, "podSecurityContext": {}})
    assert one["metadata"]["labels"]["build"] == "1000000"
    assert one["metadata"]["labels"]["ok"] == "true"


def test_a_user_id_keeps_its_digits() -> None:
    contexts = {"podSecurityContext": {"runAsUser": 1000650000, "fsGroup": 1000650000}}
    assert deployment(contexts)["spec"]["template"]["spec"]["securityContext"] == {
        "runAsUser": 1000650000,
        "fsGroup": 1000650000,
    }


@pytest.mark.parametrize("replicas", ["2", 2.0])
def test_a_number_may_stand_in_quotes(replicas: Any) -> None:
    one = deployment({"replicaCount": replicas})
    assert one["spec"]["replicas"] == 2
    assert "--enable-leader-election" in one["spec"]["template"]["spec"]["containers"][0]["args"]


def test_labels_of_the_charts_own_cannot_be_overwritten() -> None:
    # W-C4: else the selector misses its pods, or the scale-set chart finds no controller.
    own = {**LABELS, K + "component": "x", "actions.github.com/controller-service-account-name": ""}
    mine = {**dict.fromkeys(own, "mine"), "team": "ci"}
    one = deployment({"labels": mine, "podLabels": mine})
    assert one["metadata"]["labels"] == {
        **LABELS,
        "actions.github.com/controller-service-account-namespace": "test-ns",
        "actions.github.com/controller-service-account-name": NAME,
        K + "component": "mine",  # not ours on the Deployment
        "team": "ci",
    }
    pod = one["spec"]["template"]["metadata"]["labels"]
    assert POD_LABELS.items() <= pod.items()
    assert pod["team"] == "ci"
    assert one["spec"]["selector"]["matchLabels"] == SELECTOR


def test_the_default_container_can_be_another() -> None:
    key = "kubectl.kubernetes.io/default-container"
    one = deployment({"podAnnotations": {key: "other", "n": 5}})
    assert one["spec"]["template"]["metadata"]["annotations"] == {key: "other", "n": "5"}


def test_nulls_at_every_top_level_key_make_what_no_values_make() -> None:
    nulls = dict.fromkeys(SCHEMA["properties"])
    bare = comparable(with_additions(nulls))
    wanted = comparable(objects())
    # `flags: null` takes the defaults of the log with it, and `image: null` the pull policy.
    for found, one in zip(bare, wanted, strict=True):
        if found["kind"] == "Deployment":
            container = one["spec"]["template"]["spec"]["containers"][0]
            container["args"] = [
                arg for arg in container["args"] if "log" not in arg and "reconciles" not in arg
            ]
            del container["imagePullPolicy"]
        assert found == one


@pytest.mark.parametrize("length", [1, 44, 45, 46, 53])
@pytest.mark.parametrize("override", ["", "x" * 63, "x" * 80])
def test_names_of_any_length_stay_valid(length: int, override: str) -> None:
    values = {"nameOverride": override, "replicaCount": 2}
    found = render(CONTROLLER, values, release="r" * length)
    for one in found:
        limit = 63 if one["kind"] in {"Deployment", "ServiceAccount", "Service"} else 80
        assert len(one.name) <= limit
        assert not one.name.endswith("-")
        for value in one["metadata"].get("labels", {}).values():
            assert len(value) <= 63


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nameOverride": "a b"}, 'nameOverride makes the name "a b"'),
        ({"nameOverride": "x: y", "fullnameOverride": "fine"}, "nameOverride makes"),
        ({"nameOverride": "UPPER"}, "nameOverride makes the name"),  # as part of the full name
        ({"fullnameOverride": "Upper"}, 'fullnameOverride makes the name "Upper"'),
        ({"fullnameOverride": "x\nkind: Pod"}, "fullnameOverride makes the name"),
        ({"fullnameOverride": "-x"}, "fullnameOverride makes the name"),
        ({"fullnameOverride": "a..b"}, "fullnameOverride makes the name"),
        ({"fullnameOverride": "a-.b"}, "fullnameOverride makes the name"),
        ({"serviceAccount": {"name": "x" * 64}}, "serviceAccount.name makes the name"),
        ({"namespaceOverride": "a.b"}, "namespaceOverride makes the name"),
        ({"namespaceOverride": "n" * 64}, "at most 63"),
        ({"serviceAccount": {"name": "a_b"}}, "serviceAccount.name makes the name"),
        ({"flags": {"watchSingleNamespace": "a/b"}}, "flags.watchSingleNamespace makes"),
    ],
)
def test_a_name_that_is_none_is_refused(values: dict[str, Any], words: str) -> None:
    assert words in refusal(values)


# All of them can be the name of a namespace or an account, and are something else to YAML.
WORDS = ["123", "0", "0x1f", "1e3", "null", "true", "yes", "off", "2026-01-01"]
ALL_KINDS = {
    "replicaCount": 2,
    "metrics": {
        "controllerManagerAddr": ":8080",
        "listenerAddr": ":8080",
        "listenerEndpoint": "/metrics",
    },
    **{
        key: {"enabled": True}
        for key in ("networkPolicy", "podMonitor", "serviceMonitor", "prometheusRule")
    },
}


@pytest.mark.parametrize("word", WORDS)
def test_a_name_that_is_a_number_or_a_word_to_yaml_stays_a_name(word: str) -> None:
    values = {**ALL_KINDS, "fullnameOverride": word, "serviceAccount": {"name": word}}
    watching = {**values, "flags": {"watchSingleNamespace": word}}
    for one in with_additions(values, namespace=word) + with_additions(watching, namespace=word):
        assert isinstance(one["metadata"]["name"], str)
        assert one["metadata"].get("namespace", word) == word
        for subject in one.get("subjects", []):
            assert (subject["name"], subject["namespace"]) == (word, word)
            assert isinstance(one["roleRef"]["name"], str)
        if one["kind"] == "Deployment":
            assert one["spec"]["template"]["spec"]["serviceAccountName"] == word


@pytest.mark.parametrize("name", ["my.release", "1st", "123", "0.1.2", "x" * 63])
def test_the_service_has_a_name_that_every_version_of_kubernetes_takes(name: str) -> None:
    (one,) = (
        d for d in with_additions({**ALL_KINDS, "fullnameOverride": name}) if d["kind"] == "Service"
    )
    assert re.fullmatch("[a-z]([-a-z0-9]{0,61}[a-z0-9])?", one.name)


def test_what_may_be_a_secret_is_not_repeated(chart_without_schema: Path) -> None:
    for env in ("T=s3cret", ["T=s3cret"], [{"name": "T", "value": ["s3cret"]}]):
        with pytest.raises(RenderError) as caught:
            render(chart_without_schema, {"env": env}, release=RELEASE)
        assert "s3cret" not in str(caught.value)


def test_a_label_may_have_what_a_name_may_not() -> None:
    values = {"nameOverride": "My_Controller", "fullnameOverride": "mine"}
    assert deployment(values)["metadata"]["labels"][K + "name"] == "My_Controller"


def test_an_unknown_value_never_fails() -> None:
    unknown = {"nonsense": {"a": [1]}, "flags": {"nonsense": 1}, "image": {"nonsense": None}}
    assert comparable(with_additions(unknown)) == comparable(with_additions())


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(ALL_PATHS), value=ANYTHING)
def test_whatever_a_value_is_the_chart_renders_or_says_why_not(
    path: tuple[str, ...], value: Any
) -> None:
    try:
        found = with_additions(at(path, value))
    except RenderError as error:
        said = str(error)
        by_schema = "at '/" in said
        by_us = "execution error at" in said and said.rstrip().endswith(".")
        assert by_schema or by_us, said
    else:
        assert any(d["kind"] == "Deployment" for d in found)


def test_the_same_values_from_a_file_and_from_the_command_line_are_the_same(
    tmp_path: Path,
) -> None:
    file = tmp_path / "v.yaml"
    file.write_text("replicaCount: 2\nflags: {k8sClientRateLimiterQPS: 1000000}\n")
    by_file = render_one(CONTROLLER, "Deployment", [file], release=RELEASE)
    expressions = ["replicaCount=2", "flags.k8sClientRateLimiterQPS=1000000"]
    by_set = render_one(CONTROLLER, "Deployment", {}, release=RELEASE, set_values=expressions)
    assert by_file == by_set
