"""What a way through Go's types does to a template means nothing; everything else does."""

from typing import Any

import msgspec
import pytest

from runnerscale.api.ephemeral_runner import EphemeralRunnerSpec
from runnerscale.api.go_form import go_form, quantity, same_in_go
from runnerscale.api.values import PodTemplate, ProxyConfig


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1000m", "1"),
        ("0.5", "0.5"),
        ("500m", "0.5"),
        (0.5, "0.5"),
        (2, "2"),
        ("1Gi", "1073741824"),
        ("1024Mi", "1073741824"),
        ("1G", "1000000000"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1k", "1000"),
        ("1E", "1000000000000000000"),
        ("100n", "0.0000001"),
        ("0", "0"),
        ("", ""),
        ("abc", "abc"),
        (".", "."),
    ],
)
def test_a_quantity_has_one_spelling(text: Any, number: str) -> None:
    assert quantity(text) == number


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "runner", **fields}]}


@pytest.mark.parametrize(
    ("written", "given_back"),
    [
        # The dind sidecar of ARC's own chart.
        (
            {"startupProbe": {"initialDelaySeconds": 0, "periodSeconds": 5}},
            {"startupProbe": {"periodSeconds": 5}},
        ),
        (
            {"resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}}},
            {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
        ),
        ({}, {"resources": {}}),
        ({"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}),
        (
            {"volumeMounts": [{"name": "w", "mountPath": "/w", "readOnly": False}]},
            {"volumeMounts": [{"name": "w", "mountPath": "/w"}]},
        ),
        ({"tty": False, "stdin": False}, {}),
        (
            {"ports": [{"containerPort": 8080}]},
            {"ports": [{"containerPort": 8080, "protocol": "TCP"}]},
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]},
            {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {
                            "resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}
                        },
                    }
                ]
            },
        ),
    ],
)
def test_what_go_adds_leaves_out_or_spells_anew_means_nothing(
    written: dict[str, Any], given_back: dict[str, Any]
) -> None:
    assert same_in_go(container(**written), container(**given_back))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"image": "a"}, {"image": "b"}),
        ({"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "2"}}}),
        ({"securityContext": {"runAsUser": 0}}, {}),
        ({"securityContext": {"allowPrivilegeEscalation": False}}, {"securityContext": {}}),
        ({"env": [{"name": "A", "value": "x"}]}, {"env": [{"name": "A"}]}),
        ({"tty": True}, {}),
        ({"ports": [{"containerPort": 53, "protocol": "UDP"}]}, {"ports": [{"containerPort": 53}]}),
        ({"args": ["a", "b"]}, {"args": ["b", "a"]}),
    ],
)
def test_what_somebody_changed_is_seen(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert not same_in_go(container(**one), container(**other))


def test_pod_fields_labels_and_the_grace_of_nothing() -> None:
    assert not same_in_go({"terminationGracePeriodSeconds": 0}, {})
    assert not same_in_go({"nodeSelector": {"a": ""}}, {"nodeSelector": {}})
    assert not same_in_go({"metadata": {"labels": {"a": ""}}}, {})
    assert same_in_go({"metadata": {"creationTimestamp": None}}, {"metadata": {}})
    assert same_in_go({"hostNetwork": False}, {})
    assert same_in_go(
        {"volumes": [{"name": "d", "emptyDir": {"sizeLimit": "1024Mi"}}]},
        {"volumes": [{"name": "d", "emptyDir": {"sizeLimit": "1Gi"}}]},
    )
    # An emptyDir without settings is a volume all the same; its name tells it from others.
    assert same_in_go({"volumes": [{"name": "d", "emptyDir": {}}]}, {"volumes": [{"name": "d"}]})


def test_structs_and_raw_json_are_taken_too() -> None:
    raw = msgspec.Raw(b'{"containers":[{"name":"runner","tty":false,"resources":{}}]}')
    other = msgspec.Raw(b'{"containers":[{"name":"runner"}]}')
    assert same_in_go(PodTemplate(spec=raw), PodTemplate(spec=other))
    one = EphemeralRunnerSpec(github_config_url="u", spec=raw)
    assert same_in_go(one, EphemeralRunnerSpec(github_config_url="u", spec=other))
    assert not same_in_go(one, EphemeralRunnerSpec(github_config_url="v", spec=other))
    proxied = EphemeralRunnerSpec(
        github_config_url="u", spec=raw, proxy=ProxyConfig(no_proxy=["a"])
    )
    assert not same_in_go(one, proxied)
    assert go_form(PodTemplate()) is None
