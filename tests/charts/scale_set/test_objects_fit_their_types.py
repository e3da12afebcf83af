"""What every values file renders is what our controllers, our CRDs and Kubernetes read.

tests/kubernetes gives the same objects to a real API server; here the types of
`runnerscale.api` and the generated CRD stand for it, without a cluster.
"""

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml

from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS, AutoscalingRunnerSet
from runnerscale.api.values import as_body, read
from tests.charts.render import CONTROLLER, SCALE_SET, Document, render
from tests.charts.values_corpus import SCALE_SET_FILES

from .chart import GHA, PROTECTION, RELEASE, K

FILES = pytest.mark.parametrize("file", SCALE_SET_FILES, ids=lambda file: file.stem)
CRD = CONTROLLER / "crds" / "actions.github.com_autoscalingrunnersets.yaml"
EVERY_KIND = {"AutoscalingRunnerSet", "Secret", "ServiceAccount", "Role", "RoleBinding"}
LABEL = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
LABELS = {
    "type": "object",
    "additionalProperties": {"type": "string", "maxLength": 63, "pattern": LABEL},
}


@cache
def rendered(file: Path) -> list[Document]:
    return render(SCALE_SET, [file], release=RELEASE)


def runner_set(documents: list[Document]) -> Document:
    (found,) = [d for d in documents if d["kind"] == "AutoscalingRunnerSet"]
    return found


@pytest.fixture(scope="module")
def crd_schema() -> Any:
    """Of a whole AutoscalingRunnerSet, as the API server checks it."""
    crd = yaml.safe_load(CRD.read_text())
    (version,) = crd["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


@FILES
def test_the_runner_set_is_what_the_controller_reads(file: Path) -> None:
    document = runner_set(rendered(file))
    decoded = msgspec.json.decode(msgspec.json.encode(document), type=AutoscalingRunnerSet)
    assert AUTOSCALING_RUNNER_SETS.kind == document["kind"]
    # Nothing is lost: every field of the spec is known, and none is of a wrong type.
    assert as_body(decoded.spec) == document["spec"]
    names = [c["name"] for c in read(decoded.spec.template.spec)["containers"]]
    assert names.count("runner") == 1
    assert len(set(names)) == len(names)


@FILES
def test_the_runner_set_fits_the_crd(file: Path, crd_schema: Any) -> None:
    document = runner_set(rendered(file))
    errors = jsonschema_rs.Draft4Validator(crd_schema).iter_errors(dict(document))
    assert [str(error) for error in errors] == []
    unknown = set(document["spec"]) - set(crd_schema["properties"]["spec"]["properties"])
    assert unknown == set()


@FILES
def test_every_object_has_its_place_its_labels_and_its_finalizer(file: Path) -> None:
    documents = rendered(file)
    assert {d["kind"] for d in documents} <= EVERY_KIND
    assert len({(d["kind"], d.name) for d in documents}) == len(documents)
    labels = jsonschema_rs.Draft7Validator(LABELS)
    for document in documents:
        metadata = document["metadata"]
        assert metadata["namespace"]
        assert [str(e) for e in labels.iter_errors(metadata["labels"])] == []
        assert metadata["labels"][K + "part-of"] == "gha-rs"
        assert set(map(type, (metadata.get("annotations") or {"": ""}).values())) == {str}
        if document["kind"] != "AutoscalingRunnerSet":
            assert metadata["finalizers"] == PROTECTION


@FILES
def test_the_cleanup_finds_exactly_what_is_made(file: Path) -> None:
    # The controller takes the finalizer from what these annotations name, and from nothing else.
    documents = rendered(file)
    notes = runner_set(documents)["metadata"]["annotations"]
    kinds = {
        "github-secret-name": "Secret",
        "manager-role-binding": "RoleBinding",
        "manager-role-name": "Role",
        "kubernetes-mode-role-binding-name": "RoleBinding",
        "kubernetes-mode-role-name": "Role",
        "kubernetes-mode-service-account-name": "ServiceAccount",
        "no-permission-service-account-name": "ServiceAccount",
    }
    prefix = GHA + "cleanup-"
    named = {
        (kinds[key.removeprefix(prefix)], name)
        for key, name in notes.items()
        if key.startswith(prefix)
    }
    made = {(d["kind"], d.name) for d in documents if d["kind"] != "AutoscalingRunnerSet"}
    assert named == made


@FILES
def test_names_within_a_pod_are_unique_and_mounts_have_volumes(file: Path) -> None:
    pod = runner_set(rendered(file))["spec"]["template"]["spec"]
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    for entries in (containers, pod.get("volumes", [])):
        names = [entry["name"] for entry in entries]
        assert len(set(names)) == len(names)
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in containers:
        assert {m["name"] for m in container.get("volumeMounts", [])} <= volumes
        assert container["image"]
        names = [variable["name"] for variable in container.get("env", [])]
        assert len(set(names)) == len(names)
