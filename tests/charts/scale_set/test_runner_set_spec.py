"""The sections of the AutoscalingRunnerSet's spec beside the pod template."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.render import SCALE_SET, render_one

from .chart import (
    BASE,
    DEFAULT_RUNNER,
    GHA,
    MODES,
    RELEASE,
    K,
    runner_set,
    spec,
)

LISTENER_TEMPLATE = {
    "spec": {
        "hostname": "example",
        "containers": [
            {
                "name": "listener",
                "image": "listener:latest",
                "command": ["/path/to/entrypoint"],
                "volumeMounts": [{"name": "work", "mountPath": "/home/example"}],
            },
            {"name": "side-car", "image": "nginx:latest"},
        ],
    }
}
METRICS = {
    "counters": {"gha_started_jobs_total": {"labels": ["repository", "job_name"]}},
    "gauges": {"gha_assigned_jobs": {"labels": ["name", "namespace"]}},
    "histograms": {
        "gha_job_startup_duration_seconds": {
            "labels": ["job_name"],
            "buckets": [0.01, 0.5, 1, 30, 3600],
        }
    },
}
CAMEL_VAULT = {
    "url": "https://v.vault.azure.net",
    "tenantId": "t",
    "clientId": "c",
    "certificatePath": "/akv/cert.pfx",
}
SNAKE_VAULT = {
    "url": "https://v.vault.azure.net",
    "tenant_id": "t",
    "client_id": "c",
    "certificate_path": "/akv/cert.pfx",
}


@pytest.mark.behaviour("C3 T45")
def test_with_the_least_values_the_runner_set_is_this() -> None:
    found = runner_set()
    labels = found["metadata"]["labels"]
    assert labels[K + "name"] == labels[K + "instance"] == RELEASE
    assert labels[K + "part-of"] == "gha-rs"
    assert labels[K + "component"] == "autoscaling-runner-set"
    assert labels[K + "version"]
    assert found["apiVersion"] == GHA + "v1alpha1"
    assert found["spec"] == {
        "githubConfigUrl": "https://github.com/actions",
        "githubConfigSecret": f"{RELEASE}-gha-rs-github-secret",
        "template": {
            "spec": {
                "containers": [DEFAULT_RUNNER],
                "restartPolicy": "Never",
                "serviceAccountName": f"{RELEASE}-gha-rs-no-permission",
            }
        },
    }


@pytest.mark.behaviour("C3 T73")
@pytest.mark.parametrize("slashes", ["", "/", "//", "////"])
def test_slashes_at_the_end_of_the_address_are_cut_off(slashes: str) -> None:
    # T198 has one of two slashes left; all go (W-S6).
    given = "https://github.com/actions" + slashes
    assert spec({"githubConfigUrl": given})["githubConfigUrl"] == "https://github.com/actions"


def test_blanks_around_the_address_are_cut_off() -> None:
    given = " https://github.com/actions/ \n"
    assert spec({"githubConfigUrl": given})["githubConfigUrl"] == "https://github.com/actions"


@pytest.mark.behaviour("C3 T47")
def test_labels_are_passed_on() -> None:
    assert spec({"scaleSetLabels": ["linux", "x64"]})["runnerScaleSetLabels"] == ["linux", "x64"]
    assert "runnerScaleSetLabels" not in spec({"scaleSetLabels": []})
    assert "runnerScaleSetLabels" not in spec({"scaleSetLabels": None})


@pytest.mark.behaviour("C3 T209")
@pytest.mark.parametrize("letter", ["a", "ä", "💥"])
def test_a_label_may_have_255_characters(letter: str) -> None:
    label = letter * 255
    assert spec({"scaleSetLabels": [label]})["runnerScaleSetLabels"] == [label]


def test_labels_that_look_like_something_else_in_yaml_stay_texts() -> None:
    odd = [
        "1",
        "true",
        "null",
        "~",
        "1e3",
        "0x1F",
        "12:30:45",
        "yes",
        "a: b",
        "- a",
        "#",
        '"',
        " a",
    ]
    assert spec({"scaleSetLabels": odd})["runnerScaleSetLabels"] == odd


def test_the_runner_group_is_passed_on_when_there_is_one() -> None:
    assert spec({"runnerGroup": "my group"})["runnerGroup"] == "my group"
    assert "runnerGroup" not in spec({"runnerGroup": ""})


def counts(**given: Any) -> tuple[int | None, int | None]:
    """minRunners and maxRunners of the object."""
    found = spec(given)
    return found.get("minRunners"), found.get("maxRunners")


@pytest.mark.behaviour("C3 T52", "C3 T53", "C3 T54")
def test_each_number_of_runners_is_passed_on_when_given() -> None:
    assert counts(minRunners=0, maxRunners=0) == (0, 0)
    assert counts(minRunners=5) == (5, None)
    assert counts(maxRunners=5) == (None, 5)


@pytest.mark.behaviour("C3 T55")
def test_numbers_of_runners_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({**BASE, "minRunners": 5, "maxRunners": 10}))
    found = render_one(SCALE_SET, "AutoscalingRunnerSet", [file], release=RELEASE)["spec"]
    assert (found["minRunners"], found["maxRunners"]) == (5, 10)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"minRunners": 10, "maxRunners": 10}, (10, 10)),
        ({"maxRunners": 1000000}, (None, 1000000)),
        ({"maxRunners": 2147483647}, (None, 2147483647)),
        ({"minRunners": None, "maxRunners": None}, (None, None)),
        ({"minRunners": "", "maxRunners": ""}, (None, None)),
        ({"minRunners": "5", "maxRunners": "010"}, (5, 10)),
        ({"minRunners": "0"}, (0, None)),
        ({"minRunners": 2.7, "maxRunners": 2.1}, (2, 2)),
        ({"minRunners": 0.5}, (0, None)),
    ],
)
def test_numbers_of_runners(given: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    assert counts(**given) == expected


@pytest.mark.behaviour("C3 T197")
def test_a_fraction_of_a_runner_is_cut() -> None:
    assert spec({"maxRunners": 2.7})["maxRunners"] == 2


def test_a_number_in_quotes_counts() -> None:
    # T196 has it vanish; W-S5 overrules.
    assert spec({"minRunners": "5"})["minRunners"] == 5


def test_numbers_of_set_expressions() -> None:
    found = spec(set_values=["minRunners=7", "maxRunners=1000000"])
    assert (found["minRunners"], found["maxRunners"]) == (7, 1000000)


@pytest.mark.behaviour("C3 T68")
def test_proxies_are_passed_on() -> None:
    proxy = {
        "http": {"url": "http://proxy.example.com", "credentialSecretRef": "http-secret"},
        "https": {"url": "https://proxy.example.com", "credentialSecretRef": "https-secret"},
        "noProxy": ["example.com", "example.org"],
    }
    assert spec({"proxy": proxy})["proxy"] == proxy


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"http": {}, "https": None, "noProxy": []}, None),
        ({"http": {"url": "http://p", "credentialSecretRef": ""}}, {"http": {"url": "http://p"}}),
        ({"https": {"url": "http://p"}, "http": {}}, {"https": {"url": "http://p"}}),
        ({"noProxy": ["10.96.0.1"]}, {"noProxy": ["10.96.0.1"]}),
    ],
)
def test_only_the_parts_of_a_proxy_that_are_set_are_passed_on(
    given: dict[str, Any], expected: object
) -> None:
    assert spec({"proxy": given}).get("proxy") == expected


@pytest.mark.behaviour("C3 T65")
def test_the_listener_s_template_is_passed_on_as_it_is() -> None:
    assert spec({"listenerTemplate": LISTENER_TEMPLATE})["listenerTemplate"] == LISTENER_TEMPLATE
    assert "listenerTemplate" not in spec({"listenerTemplate": {}})


def test_the_listener_s_metrics_are_passed_on_as_they_are() -> None:
    # The contract's listenerMetrics and W-S23: never tested before.
    assert spec({"listenerMetrics": METRICS})["listenerMetrics"] == METRICS
    assert "listenerMetrics" not in spec({"listenerMetrics": {}})


@pytest.mark.parametrize(
    "vault",
    [
        {"azureKeyVault": CAMEL_VAULT},
        {"azure_key_vault": SNAKE_VAULT},
        {"azureKeyVault": SNAKE_VAULT},
        {"azure_key_vault": CAMEL_VAULT},
        {"azureKeyVault": {**CAMEL_VAULT, "secretKey": "x", "secret_key": "y"}},
    ],
)
def test_a_vault_is_understood_in_both_spellings(vault: dict[str, Any]) -> None:
    given = {"githubConfigSecret": "item", "keyVault": {"type": "azure_key_vault", **vault}}
    found = spec(given)
    assert found["vaultConfig"] == {"type": "azure_key_vault", "azureKeyVault": CAMEL_VAULT}
    assert found["githubConfigSecret"] == "item"


def test_the_proxy_of_a_vault_is_passed_on_as_it_is() -> None:
    proxy = {"https": {"url": "http://p", "credentialSecretRef": "s"}, "noProxy": ["a"]}
    vault = {"type": "azure_key_vault", "azureKeyVault": CAMEL_VAULT, "proxy": proxy}
    assert spec({"keyVault": vault})["vaultConfig"]["proxy"] == proxy


def test_a_vault_without_a_type_is_none() -> None:
    for vault in ({}, {"azureKeyVault": CAMEL_VAULT}, {"type": "", "azureKeyVault": None}):
        assert "vaultConfig" not in spec({"keyVault": vault})


@pytest.mark.behaviour("C3 T70")
@pytest.mark.parametrize("mode", MODES)
def test_a_certificate_without_a_path_is_for_controller_and_listener_only(mode: str) -> None:
    source = {"configMapKeyRef": {"name": "certs-configmap", "key": "cert.pem"}}
    found = spec({**MODES[mode], "githubServerTLS": {"certificateFrom": source}})
    plain = spec(MODES[mode])
    assert found.pop("githubServerTLS") == {"certificateFrom": source}
    assert found == plain
