"""The four CRDs: what they say, and that the checked-in files say the same.

How an API server acts on them is asked where there is one (tests of apiserver/, conformance);
here the schema itself is judged, once as data and once by a JSON Schema validator.
"""

import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from runnerscale.api.crds import crd_documents, file_name, render_yaml

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "charts/gha-runner-scale-set-controller/crds"
BY_KIND = {d["spec"]["names"]["kind"]: d for d in crd_documents()}
KINDS = ("AutoscalingRunnerSet", "AutoscalingListener", "EphemeralRunnerSet", "EphemeralRunner")


def version_of(kind: str) -> dict[str, Any]:
    (version,) = BY_KIND[kind]["spec"]["versions"]
    return version


def schema_of(kind: str) -> dict[str, Any]:
    return version_of(kind)["schema"]["openAPIV3Schema"]


def accepts(kind: str, **sections: Any) -> bool:
    body = {"apiVersion": "actions.github.com/v1alpha1", "kind": kind, "metadata": {}, **sections}
    return bool(jsonschema_rs.is_valid(schema_of(kind), body))


def columns_of(kind: str) -> list[tuple[str, str, str]]:
    found = version_of(kind)["additionalPrinterColumns"]
    return [(c["name"], c["type"], c["jsonPath"]) for c in found if not c.get("priority")]


@pytest.mark.parametrize("document", crd_documents(), ids=file_name)
def test_the_checked_in_file_is_what_the_code_says(document: dict[str, Any]) -> None:
    assert (FOLDER / file_name(document)).read_text() == render_yaml(document)
    assert yaml.safe_load(render_yaml(document)) == document


@pytest.mark.parametrize("document", crd_documents(), ids=file_name)
def test_each_is_small_enough_for_kubectl_apply(document: dict[str, Any]) -> None:
    # The last-applied annotation may hold 256 KiB; the issue allows 200 KB.
    assert len(render_yaml(document)) < 200_000


@pytest.mark.parametrize(
    ("kind", "plural", "short"),
    [
        ("AutoscalingRunnerSet", "autoscalingrunnersets", "ars"),
        ("AutoscalingListener", "autoscalinglisteners", "arl"),
        ("EphemeralRunnerSet", "ephemeralrunnersets", "ers"),
        ("EphemeralRunner", "ephemeralrunners", "er"),
    ],
)
def test_names_scope_and_status(kind: str, plural: str, short: str) -> None:
    # Overrules T1 where it says "no short names, no categories": issue 3 section 2.
    spec = BY_KIND[kind]["spec"]
    assert BY_KIND[kind]["metadata"]["name"] == f"{plural}.actions.github.com"
    assert spec["group"] == "actions.github.com"
    assert spec["scope"] == "Namespaced"
    assert spec["names"] == {
        "categories": ["runners"],
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "shortNames": [short],
        "singular": kind.lower(),
    }
    version = version_of(kind)
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version["subresources"] == {"status": {}}


def test_the_columns_are_those_of_arc_with_reason_and_age() -> None:
    # Overrules T2 where it says "exactly" and "blank": issue 3 section 2.
    counters = [
        ("Pending Runners", "integer", ".status.pendingEphemeralRunners"),
        ("Running Runners", "integer", ".status.runningEphemeralRunners"),
        ("Finished Runners", "integer", ".status.finishedEphemeralRunners"),
        ("Deleting Runners", "integer", ".status.deletingEphemeralRunners"),
    ]
    reason = ("Reason", "string", ".status.reason")
    age = ("Age", "date", ".metadata.creationTimestamp")
    phase = ("Phase", "string", ".status.phase")
    assert columns_of("AutoscalingRunnerSet") == [
        ("Minimum Runners", "integer", ".spec.minRunners"),
        ("Maximum Runners", "integer", ".spec.maxRunners"),
        ("Current Runners", "integer", ".status.currentRunners"),
        phase,
        *counters,
        reason,
        age,
    ]
    assert columns_of("AutoscalingListener") == [
        ("GitHub Configure URL", "string", ".spec.githubConfigUrl"),
        ("AutoscalingRunnerSet Namespace", "string", ".spec.autoscalingRunnerSetNamespace"),
        ("AutoscalingRunnerSet Name", "string", ".spec.autoscalingRunnerSetName"),
        reason,
        age,
    ]
    assert columns_of("EphemeralRunnerSet") == [
        ("DesiredReplicas", "integer", ".spec.replicas"),
        ("CurrentReplicas", "integer", ".status.currentReplicas"),
        *counters,
        phase,
        reason,
        age,
    ]
    assert columns_of("EphemeralRunner") == [
        ("GitHub Config URL", "string", ".spec.githubConfigUrl"),
        ("RunnerId", "number", ".status.runnerId"),
        phase,
        ("JobRepository", "string", ".status.jobRepositoryName"),
        ("JobWorkflowRef", "string", ".status.jobWorkflowRef"),
        ("WorkflowRunId", "number", ".status.workflowRunId"),
        ("JobDisplayName", "string", ".status.jobDisplayName"),
        ("JobId", "string", ".status.jobId"),
        reason,
        ("Message", "string", ".status.message"),
        age,
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_no_column_points_at_a_field_that_does_not_exist(kind: str) -> None:
    for _, _, path in columns_of(kind):
        node = schema_of(kind)
        for part in path.strip(".").split("."):
            if part == "metadata":
                break
            node = node["properties"][part]


@pytest.mark.behaviour("C1 T3")
def test_a_set_needs_a_patch_id() -> None:
    assert not accepts("EphemeralRunnerSet", spec={"replicas": 1})
    assert accepts("EphemeralRunnerSet", spec={"patchID": 0})


@pytest.mark.behaviour("C1 T4")
@pytest.mark.parametrize("missing", ["githubConfigUrl", "githubConfigSecret", "runnerScaleSetId"])
def test_a_runner_needs_to_know_where_it_belongs(missing: str) -> None:
    spec = {"githubConfigUrl": "https://github.com/o", "githubConfigSecret": "s"}
    whole = spec | {"runnerScaleSetId": 1}
    assert accepts("EphemeralRunner", spec=whole)
    part = {key: value for key, value in whole.items() if key != missing}
    assert not accepts("EphemeralRunner", spec=part)
    assert not accepts("EphemeralRunnerSet", spec={"patchID": 0, "ephemeralRunnerSpec": part})


@pytest.mark.behaviour("C1 T5")
@pytest.mark.parametrize("kind", ["AutoscalingRunnerSet", "AutoscalingListener"])
@pytest.mark.parametrize("field", ["minRunners", "maxRunners"])
def test_there_are_no_fewer_than_no_runners(kind: str, field: str) -> None:
    assert not accepts(kind, spec={field: -1})
    assert accepts(kind, spec={field: 0})


@pytest.mark.behaviour("C1 T6")
@pytest.mark.parametrize("missing", ["url", "tenantId", "clientId", "certificatePath"])
def test_a_key_vault_needs_all_four(missing: str) -> None:
    whole = dict.fromkeys(("url", "tenantId", "clientId", "certificatePath"), "x")
    assert accepts("AutoscalingRunnerSet", spec={"vaultConfig": {"azureKeyVault": whole}})
    part = {key: value for key, value in whole.items() if key != missing}
    assert not accepts("AutoscalingRunnerSet", spec={"vaultConfig": {"azureKeyVault": part}})


@pytest.mark.behaviour("C1 T6")
def test_what_a_schema_does_not_know_is_pruned() -> None:
    # The chart also renders azureKeyVault.secretKey: nothing preserves it.
    spec = schema_of("AutoscalingRunnerSet")["properties"]["spec"]["properties"]
    vault = spec["vaultConfig"]["properties"]["azureKeyVault"]
    assert "secretKey" not in vault["properties"]
    assert "x-kubernetes-preserve-unknown-fields" not in vault


@pytest.mark.behaviour("C1 T7")
@pytest.mark.parametrize("kind", KINDS)
def test_the_status_is_a_subresource(kind: str) -> None:
    assert version_of(kind)["subresources"]["status"] == {}
    assert schema_of(kind)["properties"]["status"]["type"] == "object"


@pytest.mark.behaviour("C1 T8")
def test_a_phase_that_nobody_writes_any_more_is_accepted() -> None:
    spec = {
        "githubConfigUrl": "https://github.com/o",
        "githubConfigSecret": "s",
        "runnerScaleSetId": 1,
    }
    assert accepts("EphemeralRunner", spec=spec, status={"phase": "Unknown"})


@pytest.mark.behaviour("C1 T9")
@pytest.mark.parametrize("field", ["template", "listenerTemplate"])
def test_a_pod_spec_needs_containers(field: str) -> None:
    assert not accepts("AutoscalingRunnerSet", spec={field: {"spec": {}}})
    assert accepts("AutoscalingRunnerSet", spec={field: {"spec": {"containers": []}}})
    assert accepts("AutoscalingRunnerSet", spec={field: {}})
    assert not accepts("AutoscalingRunnerSet", spec={field: {"spec": {"containers": [{}]}}})


def test_a_pod_field_newer_than_this_program_passes_through() -> None:
    container = {"name": "runner", "brandNew": {"x": [1]}}
    template = {"spec": {"containers": [container], "alsoNew": True}}
    assert accepts("AutoscalingRunnerSet", spec={"template": template})
    open_marks = [
        schema_of("AutoscalingRunnerSet")["properties"]["spec"]["properties"]["template"],
        schema_of("AutoscalingListener")["properties"]["spec"]["properties"]["template"],
    ]
    for template_schema in open_marks:
        spec = template_schema["properties"]["spec"]
        assert spec["x-kubernetes-preserve-unknown-fields"] is True
        item = spec["properties"]["containers"]["items"]
        assert item["x-kubernetes-preserve-unknown-fields"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_are_a_list_map_by_type_on_every_kind(kind: str) -> None:
    conditions = schema_of(kind)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert set(conditions["items"]["required"]) == {
        "type",
        "status",
        "reason",
        "message",
        "lastTransitionTime",
    }


# --- rules that types cannot say ---------------------------------------------------------------


def rules(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [rule["rule"] for rule in node.get("x-kubernetes-validations", ())]
        return own + [rule for value in node.values() for rule in rules(value)]
    return [rule for item in node for rule in rules(item)] if isinstance(node, list) else []


def test_there_are_exactly_three_rules_all_on_what_a_user_writes() -> None:
    assert {kind: len(rules(schema_of(kind))) for kind in KINDS} == {
        "AutoscalingRunnerSet": 3,
        "AutoscalingListener": 0,
        "EphemeralRunnerSet": 0,
        "EphemeralRunner": 0,
    }
    root = schema_of("AutoscalingRunnerSet")
    assert "self.metadata.name.size() <= 45" in rules(root)
    (limits,) = root["properties"]["spec"]["x-kubernetes-validations"]
    assert "self.minRunners <= self.maxRunners" in limits["rule"]


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("https://github.com/org", True),
        ("https://github.com/org/repo/", True),
        ("https://github.com//org", True),
        ("https://github.com/enterprises/e", True),
        ("http://localhost:8080/my-org", True),
        ("HTTPS://x.ghe.com:8443/org?x=1", True),
        ("https://user:pw@github.com/org#f", True),
        ("", False),
        ("github.com/org", False),
        ("https://github.com", False),
        ("https://github.com/", False),
        ("https://github.com/a/b/c", False),
        ("https://my host/org", False),
        ("ftp://github.com/org", False),
    ],
)
def test_the_shape_of_a_config_url(url: str, good: bool) -> None:
    # The pattern means the same to RE2, which API servers use, and to Python.
    field = schema_of("AutoscalingRunnerSet")["properties"]["spec"]["properties"]["githubConfigUrl"]
    (rule,) = field["x-kubernetes-validations"]
    match = re.fullmatch(r"self\.matches\(r'(.*)'\)", rule["rule"])
    assert match is not None
    assert bool(re.search(match[1], url)) is good
    assert field["maxLength"] == 2048  # bounds what the rule costs


@pytest.mark.parametrize("kind", KINDS)
def test_every_level_of_the_schema_is_structural(kind: str) -> None:
    def check(node: dict[str, Any], path: str) -> None:
        assert node.get("type"), path
        assert "$ref" not in node
        for name, inner in node.get("properties", {}).items():
            check(inner, f"{path}.{name}")
        if "items" in node:
            check(node["items"], f"{path}[]")
        if isinstance(node.get("additionalProperties"), dict):
            check(node["additionalProperties"], f"{path}{{}}")

    check(schema_of(kind), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_own_field_is_described(kind: str) -> None:
    for section in ("spec", "status"):
        for name, field in schema_of(kind)["properties"][section]["properties"].items():
            assert field.get("description"), f"{kind}.{section}.{name}"


def test_the_documents_are_fresh_values() -> None:
    first = crd_documents()
    first[0]["spec"]["group"] = "changed"
    assert crd_documents()[0]["spec"]["group"] == "actions.github.com"
