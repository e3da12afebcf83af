"""The product's own CRDs, as the server sees them: data, from the chart. Contract C1 7.1.

That the files are what the types say is held by the owner of `api/`.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.apiserver.harness import TABLE, Api, serving

FOLDER = Path(__file__).parents[3] / "charts/gha-runner-scale-set-controller/crds"
GROUP = "/apis/actions.github.com/v1alpha1/namespaces/default"
ARS, AL = f"{GROUP}/autoscalingrunnersets", f"{GROUP}/autoscalinglisteners"
ERS, ER = f"{GROUP}/ephemeralrunnersets", f"{GROUP}/ephemeralrunners"
TEMPLATE = {"spec": {"containers": [{"name": "runner", "image": "x"}]}}
RUNNER_SPEC: dict[str, Any] = {
    "githubConfigUrl": "https://github.com/octo/hello",
    "githubConfigSecret": "s",
    "runnerScaleSetId": 1,
    **TEMPLATE,
}
SET_SPEC: dict[str, Any] = {
    "githubConfigUrl": "https://github.com/octo/hello",
    "githubConfigSecret": "s",
    "template": TEMPLATE,
}
KINDS = {
    ARS: "AutoscalingRunnerSet",
    AL: "AutoscalingListener",
    ERS: "EphemeralRunnerSet",
    ER: "EphemeralRunner",
}


@pytest.fixture
async def product() -> AsyncIterator[Api]:
    crds = [yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))]
    async with serving(crds=crds) as api:
        yield api


def of(path: str, spec: Any, name: str = "x", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "actions.github.com/v1alpha1",
        "kind": KINDS[path],
        "metadata": {"name": name},
        "spec": spec,
        **more,
    }


def fields(reply: Any) -> set[str]:
    return {cause["field"] for cause in reply["details.causes"]}


async def test_the_four_kinds_are_served_namespaced_with_status_and_nothing_more(
    product: Api,
) -> None:
    listed = await product.get("/apis/actions.github.com/v1alpha1")
    resources = {r["name"]: r for r in listed["resources"]}
    plurals = {path.rsplit("/", 1)[1] for path in KINDS}
    assert set(resources) == plurals | {f"{p}/status" for p in plurals}
    assert all(r["namespaced"] for r in resources.values())
    names = {plural: resources[plural]["shortNames"] for plural in plurals}
    assert all(len(short) == 1 for short in names.values()), names
    assert all(resources[plural]["categories"] == ["runners"] for plural in plurals)
    group = await product.get("/apis/actions.github.com")
    assert [v["version"] for v in group["versions"]] == ["v1alpha1"]


@pytest.mark.behaviour("C1 T3")
async def test_a_runner_set_needs_a_patch_id_which_may_be_zero(product: Api) -> None:
    spec = {"ephemeralRunnerSpec": RUNNER_SPEC}
    refused = await product.create(ERS, of(ERS, spec))
    assert (refused.code, "spec.patchID" in fields(refused)) == (422, True)
    assert (await product.create(ERS, of(ERS, {**spec, "patchID": 0}))).code == 201


@pytest.mark.behaviour("C1 T4")
@pytest.mark.parametrize("missing", ["githubConfigUrl", "githubConfigSecret", "runnerScaleSetId"])
async def test_a_runner_needs_its_place_at_github(product: Api, missing: str) -> None:
    spec = {k: v for k, v in RUNNER_SPEC.items() if k != missing}
    refused = await product.create(ER, of(ER, spec))
    assert (refused.code, f"spec.{missing}" in fields(refused)) == (422, True)


@pytest.mark.behaviour("C1 T5")
@pytest.mark.parametrize("name", ["minRunners", "maxRunners"])
@pytest.mark.parametrize("path", [ARS, AL])
async def test_a_number_of_runners_is_never_negative(product: Api, path: str, name: str) -> None:
    refused = await product.create(path, of(path, {**SET_SPEC, name: -1}))
    assert (refused.code, f"spec.{name}" in fields(refused)) == (422, True)


@pytest.mark.behaviour("C1 T6")
async def test_a_key_vault_needs_its_four_fields_and_an_extra_one_is_dropped(product: Api) -> None:
    vault = {"url": "u", "tenantId": "t", "clientId": "c", "certificatePath": "p"}
    for missing in vault:
        less = {k: v for k, v in vault.items() if k != missing}
        spec = {**SET_SPEC, "vaultConfig": {"type": "azure_key_vault", "azureKeyVault": less}}
        refused = await product.create(ARS, of(ARS, spec))
        assert fields(refused) >= {f"spec.vaultConfig.azureKeyVault.{missing}"}
    more = {**vault, "secretKey": "dropped"}
    spec = {**SET_SPEC, "vaultConfig": {"type": "azure_key_vault", "azureKeyVault": more}}
    created = await product.create(ARS, of(ARS, spec))
    assert created["spec.vaultConfig.azureKeyVault"] == vault


@pytest.mark.behaviour("C1 T7")
async def test_a_status_written_through_the_main_resource_is_ignored(product: Api) -> None:
    status = {"phase": "Running"}
    created = await product.create(ER, of(ER, RUNNER_SPEC, status=status))
    assert created["status"] is None
    patched = await product.patch(f"{ER}/x", {"status": status})
    assert (patched.code, patched["status"]) == (200, None)
    assert (await product.patch(f"{ER}/x/status", {"status": status}))["status"] == status


@pytest.mark.behaviour("C1 T8")
async def test_any_phase_is_accepted_such_as_the_legacy_unknown(product: Api) -> None:
    await product.create(ER, of(ER, RUNNER_SPEC))
    patched = await product.patch(f"{ER}/x/status", {"status": {"phase": "Unknown"}})
    assert (patched.code, patched["status.phase"]) == (200, "Unknown")


@pytest.mark.behaviour("C1 T9")
@pytest.mark.parametrize("name", ["template", "listenerTemplate"])
async def test_a_template_with_a_spec_needs_containers(product: Api, name: str) -> None:
    refused = await product.create(ARS, of(ARS, {**SET_SPEC, name: {"spec": {}}}))
    assert (refused.code, f"spec.{name}.spec.containers" in fields(refused)) == (422, True)


async def test_no_field_of_a_pod_template_is_ever_dropped(product: Api) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [{"name": "runner", "image": "x", "fromTheFuture": {"deep": [1]}}],
            "anotherNewField": True,
        },
    }
    created = await product.create(ARS, of(ARS, {**SET_SPEC, "template": template}))
    assert created["spec.template"] == template


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"minRunners": 3, "maxRunners": 2}, "minRunners must not be greater than maxRunners"),
        ({"githubConfigUrl": "not a url"}, "githubConfigUrl must be https://HOST/"),
    ],
)
async def test_a_rule_that_types_cannot_say_is_said_by_the_server(
    product: Api, spec: Any, message: str
) -> None:
    refused = await product.create(ARS, of(ARS, {**SET_SPEC, **spec}))
    assert refused.code == 422
    assert message in refused["message"]


async def test_a_name_too_long_for_a_listener_is_refused_on_the_set(product: Api) -> None:
    refused = await product.create(ARS, of(ARS, SET_SPEC, name="x" * 46))
    assert refused.code == 422
    assert "longer than 45 characters" in refused["message"]
    assert (await product.create(ARS, of(ARS, SET_SPEC, name="x" * 45))).code == 201


async def test_the_printed_columns_have_their_values(product: Api) -> None:
    await product.create(ER, of(ER, RUNNER_SPEC))
    status = {"phase": "Running", "runnerId": 7, "jobId": "j", "workflowRunId": 5, "reason": "R"}
    await product.patch(f"{ER}/x/status", {"status": status})
    shown = await product.get(ER, accept=TABLE)
    names = [c["name"] for c in shown["columnDefinitions"]]
    cells = dict(zip(names, shown["rows.0.cells"], strict=True))
    assert cells["GitHub Config URL"] == "https://github.com/octo/hello"
    assert (cells["RunnerId"], cells["Phase"], cells["JobId"], cells["WorkflowRunId"]) == (
        7,
        "Running",
        "j",
        5,
    )
    assert cells["Reason"] == "R"
    for path in KINDS:
        shown = await product.get(path, accept=TABLE)
        assert "Age" in [c["name"].title() for c in shown["columnDefinitions"]], path
