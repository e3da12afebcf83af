"""Values that the chart refuses: each with what is wrong and what to do about it.

Credentials, certificate, discovery and the work volume are in their own files.
"""

from pathlib import Path
from typing import Any

import pytest

from .chart import KUBERNETES, MODES, refusal, spec, template
from .test_runner_set_spec import CAMEL_VAULT, SNAKE_VAULT


@pytest.mark.behaviour("C3 T71")
@pytest.mark.parametrize("mode", MODES)
def test_a_name_of_46_bytes_is_too_long(mode: str) -> None:
    text = refusal(MODES[mode], release="a" * 46)
    assert f'"{"a" * 46}" has 46 bytes, and 45 are allowed' in text
    assert "runnerScaleSetName" in text
    text = refusal({"runnerScaleSetName": "a" * 46})
    assert "45 are allowed" in text


def test_the_name_s_length_is_counted_in_bytes() -> None:
    assert "has 46 bytes" in refusal({"runnerScaleSetName": "ä" * 23})


@pytest.mark.parametrize("name", ["MyRunners", "ä", "-a", "a_", "a b", "a..b", "a/b", "_"])
def test_a_name_that_kubernetes_would_refuse_is_refused_at_once(name: str) -> None:
    text = refusal({"runnerScaleSetName": name})
    assert f'"{name}" cannot name an object in Kubernetes' in text
    assert "Set runnerScaleSetName to such a name" in text


@pytest.mark.parametrize("name", ["a", "0", "a.b-c_d", "a" * 45])
def test_a_name_that_kubernetes_takes_is_taken(name: str) -> None:
    assert spec({"runnerScaleSetName": name})["runnerScaleSetName"] == name


@pytest.mark.behaviour("C3 T72")
def test_a_namespace_of_64_letters_is_too_long() -> None:
    for options in ({"namespace": "a" * 64}, {}):
        extra = {} if options else {"namespaceOverride": "a" * 64}
        text = refusal(extra, **options)
        assert "has 64 characters, and 63 are allowed" in text
    spec(namespace="a" * 63)


@pytest.mark.parametrize("url", ["", None, "/", "  ", "//"])
def test_without_an_address_it_says_what_to_set(url: object) -> None:
    text = refusal({"githubConfigUrl": url})
    assert "githubConfigUrl is missing" in text
    assert "https://github.com/my-org" in text


@pytest.mark.behaviour("C3 T209")
def test_an_empty_label_is_refused() -> None:
    text = refusal({"scaleSetLabels": ["linux", ""]})
    assert "scaleSetLabels[1] is empty" in text


@pytest.mark.behaviour("C3 T209")
@pytest.mark.parametrize("letter", ["a", "ä"])
def test_a_label_of_256_characters_is_refused(letter: str) -> None:
    text = refusal({"scaleSetLabels": [letter * 256]})
    assert "scaleSetLabels[0]" in text and "has 256 characters" in text
    assert "shorter than 256" in text
    assert len(text) < 300


@pytest.mark.behaviour("C3 T49", "C3 T50")
@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"maxRunners": -1}, "maxRunners", "-1"),
        ({"minRunners": -1}, "minRunners", "-1"),
        ({"maxRunners": 1, "minRunners": -1}, "minRunners", "-1"),
        ({"maxRunners": -0.5}, "maxRunners", "-0.5"),
    ],
)
def test_less_than_no_runners_is_refused(given: dict[str, Any], key: str, value: str) -> None:
    assert f"{key} is {value}, but it must be 0 or more" in refusal(given)


@pytest.mark.behaviour("C3 T51")
@pytest.mark.parametrize(
    ("least", "most"), [(1, 0), (6, 5), ("6", 5), (6, "5"), (10, 9), (2147483647, 2147483646)]
)
def test_more_idle_runners_than_runners_are_refused(least: object, most: object) -> None:
    text = refusal({"minRunners": least, "maxRunners": most})
    assert f"maxRunners is {most} and minRunners is {least}" in text
    assert "greater than or equal to minRunners" in text


@pytest.mark.parametrize("number", [2147483648, 1e20, 99999999999])
def test_more_runners_than_can_be_counted_are_refused(number: float) -> None:
    assert "must not be more than 2147483647" in refusal({"maxRunners": number})


@pytest.mark.parametrize("text", ["five", "5 runners", "1e3", "-5", "5,5", "0x10"])
def test_numbers_of_runners_that_are_none_are_refused(
    text: str, chart_without_schema: Path
) -> None:
    assert "minRunners" in refusal({"minRunners": text})
    told = refusal({"minRunners": text}, chart=chart_without_schema)
    assert f"minRunners is {text}, but it must be" in told


def test_a_huge_number_is_refused_not_rounded(chart_without_schema: Path) -> None:
    text = refusal({"maxRunners": 1e300}, chart=chart_without_schema)
    assert "maxRunners is 1e+300, but it must be a whole number" in text


@pytest.mark.parametrize("kind", ["azureKeyVault", "hashicorp", "AZURE_KEY_VAULT"])
def test_a_vault_of_another_kind_is_refused_by_its_name(kind: str) -> None:
    # Upstream dies on its own message here.
    text = refusal({"keyVault": {"type": kind, "azureKeyVault": CAMEL_VAULT}})
    assert f'keyVault.type "{kind}" is not supported' in text
    assert "azure_key_vault" in text


@pytest.mark.parametrize("vault", [CAMEL_VAULT, SNAKE_VAULT])
def test_a_vault_that_lacks_something_is_refused_naming_it(vault: dict[str, str]) -> None:
    keys = {"tenant_id": "tenantId", "client_id": "clientId", "certificate_path": "certificatePath"}
    for key in vault:
        rest = {name: value for name, value in vault.items() if name != key}
        text = refusal({"keyVault": {"type": "azure_key_vault", "azure_key_vault": rest}})
        assert f"keyVault.azureKeyVault.{keys.get(key, key)} is not set" in text


@pytest.mark.parametrize("more", [{}, {"azureKeyVault": None}, {"azureKeyVault": {}}])
def test_a_vault_without_an_address_is_refused(more: dict[str, Any]) -> None:
    text = refusal({"keyVault": {"type": "azure_key_vault", **more}})
    assert "keyVault.azureKeyVault.url is not set" in text
    assert "nil pointer" not in text


@pytest.mark.parametrize("path", ["proxy", "keyVault.proxy"])
@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ({"noProxy": "a,b"}, "noProxy must be a list, but it is a text"),
        ({"http": "http://p"}, "http must be a map with url"),
        ({"https": {"credentialSecretRef": "s"}}, "https has a credentialSecretRef but no url"),
        ("http://p", " must be a map, but it is a text"),
    ],
)
def test_a_proxy_that_is_none_is_refused(
    path: str, proxy: object, said: str, chart_without_schema: Path
) -> None:
    # W-S7 for noProxy: a text vanished.
    extra = {"proxy": proxy} if path == "proxy" else {"keyVault": {"proxy": proxy}}
    dot = "" if said.startswith(" ") else "."
    assert f"{path}{dot}{said}" in refusal(extra, chart=chart_without_schema)


def test_a_mode_that_does_not_exist_is_refused(chart_without_schema: Path) -> None:
    # T202 has a typing error mean the default mode; W-S7 overrules.
    extra = {"containerMode": {"type": "kubernets"}}
    assert "/containerMode/type" in refusal(extra)
    text = refusal(extra, chart=chart_without_schema)
    assert 'containerMode.type "kubernets" is not known' in text
    assert "dind, kubernetes or kubernetes-novolume" in text


@pytest.mark.parametrize(
    ("extra", "path", "wanted"),
    [
        ({"containerMode": "dind"}, "containerMode", "a map"),
        ({"containerMode": {"type": 5}}, "containerMode.type", "a text"),
        (
            {"containerMode": {**KUBERNETES, "kubernetesModeAdditionalRoleRules": {}}},
            "containerMode.kubernetesModeAdditionalRoleRules",
            "a list",
        ),
        ({"scaleSetLabels": "linux"}, "scaleSetLabels", "a list"),  # W-S7
        ({"scaleSetLabels": {"a": 1}}, "scaleSetLabels", "a list"),
        ({"template": "x"}, "template", "a map"),
        ({"template": {"spec": []}}, "template.spec", "a map"),
        ({"template": {"metadata": {"labels": ["a"]}}}, "template.metadata.labels", "a map"),
        ({"listenerTemplate": []}, "listenerTemplate", "a map"),
        ({"listenerMetrics": "all"}, "listenerMetrics", "a map"),
        ({"githubServerTLS": "ca.crt"}, "githubServerTLS", "a map"),
        ({"keyVault": "azure"}, "keyVault", "a map"),
        ({"controllerServiceAccount": "arc"}, "controllerServiceAccount", "a map"),
        ({"labels": ["a"]}, "labels", "a map"),
        ({"annotations": "a"}, "annotations", "a map"),
        ({"resourceMeta": "a"}, "resourceMeta", "a map"),
        ({"resourceMeta": {"managerRole": "a"}}, "resourceMeta.managerRole", "a map"),
        (
            {"resourceMeta": {"ephemeralRunner": {"labels": "a"}}},
            "resourceMeta.ephemeralRunner.labels",
            "a map",
        ),
        ({"githubConfigUrl": 5}, "githubConfigUrl", "a text"),
        ({"additions": True}, "additions", "a map"),
    ],
)
def test_a_section_of_the_wrong_kind_is_refused(
    extra: dict[str, Any], path: str, wanted: str, chart_without_schema: Path
) -> None:
    by_schema = refusal(extra)
    assert f"at '/{path.replace('.', '/')}': got" in by_schema
    by_template = refusal(extra, chart=chart_without_schema)
    assert f"{path} must be {wanted}, but it is" in by_template
    assert "values.yaml" in by_template


@pytest.mark.parametrize("label", [5, 1.5, True, None, ["a"]])
def test_a_label_that_is_no_text_is_refused(label: object, chart_without_schema: Path) -> None:
    extra = {"scaleSetLabels": ["linux", label]}
    assert "/scaleSetLabels/1" in refusal(extra)
    text = refusal(extra, chart=chart_without_schema)
    assert "scaleSetLabels[1] must be a text" in text and "Write it in quotes" in text


@pytest.mark.parametrize("section", ["containers", "initContainers", "volumes"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, " must be a list, but it is a map"),
        ("x", " must be a list, but it is a text"),
        (["x"], "[0] must be a map with a name, but it is a text"),
        ([{"name": "runner"}, {"image": "x"}], "[1] has no name"),
        ([{"name": 5}], "[0] has no name, or one that is no text"),
        ([None], "[0] must be a map with a name, but it is empty"),
    ],
)
def test_entries_that_cannot_be_merged_are_refused(
    section: str, mode: str, wrong: object, said: str
) -> None:
    assert f"template.spec.{section}{said}" in refusal(
        {**MODES[mode], **template(**{section: wrong})}
    )


@pytest.mark.parametrize("section", ["containers", "initContainers"])
@pytest.mark.parametrize("field", ["env", "volumeMounts"])
def test_variables_and_mounts_that_cannot_be_merged_are_refused(section: str, field: str) -> None:
    # A map of variables vanished.
    for wrong, said in (
        ({"A": "b"}, " must be a list, but it is a map"),
        (["A=b"], "[0] must be a map with a name, but it is a text"),
        ([{"value": "x"}], "[0] has no name"),
    ):
        given = template(**{section: [{"name": "runner", field: wrong}]})
        assert f"template.spec.{section}[0].{field}{said}" in refusal(given)


@pytest.mark.parametrize(
    "pod_spec",
    [
        {"containers": [{"name": "runner"}, {"name": "runner"}]},
        {
            "containers": [{"name": "runner"}, {"name": "dind"}],
            "initContainers": [{"name": "dind"}],
        },
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_two_containers_of_one_name_are_refused(mode: str, pod_spec: dict[str, Any]) -> None:
    text = refusal({**MODES[mode], **template(**pod_spec)})
    assert "two containers of the same name" in text


@pytest.mark.parametrize("mode", MODES)
def test_two_volumes_of_one_name_are_refused(mode: str) -> None:
    # The API server would say so only when the first runner is made.
    volume = {"name": "cache", "emptyDir": {}}
    text = refusal({**MODES[mode], **template(volumes=[volume, volume])})
    assert "template.spec.volumes has two volumes of the same name: cache, cache" in text


@pytest.mark.parametrize("namespace", ["a.b", "A", "a_b", "-", "a\nb: c", "../x"])
def test_a_namespace_that_kubernetes_would_not_find_is_refused(namespace: str) -> None:
    text = refusal({"namespaceOverride": namespace})
    assert "is none that Kubernetes could have" in text
