"""Names, namespaces, labels and annotations of every object of the scale-set chart."""

from typing import Any

import pytest

from tests.charts.render import Document

from .chart import (
    GHA,
    KUBERNETES,
    NAMESPACE,
    NOVOLUME,
    PROTECTION,
    RELEASE,
    K,
    annotations,
    named,
    objects,
    runner_set,
    spec,
)

FULL = f"{RELEASE}-gha-rs"
COMMON = {
    "helm.sh/chart": "gha-rs-0.14.2",
    K + "name": RELEASE,
    K + "instance": RELEASE,
    K + "version": "0.14.2",
    K + "managed-by": "Helm",
    K + "part-of": "gha-rs",
    GHA + "scale-set-name": RELEASE,
    GHA + "scale-set-namespace": NAMESPACE,
}
OBJECTS = {
    ("AutoscalingRunnerSet", RELEASE): "autoscaling-runner-set",
    ("Secret", f"{FULL}-github-secret"): "",
    ("ServiceAccount", f"{FULL}-no-permission"): "",
    ("Role", f"{FULL}-manager"): "manager-role",
    ("RoleBinding", f"{FULL}-manager"): "manager-role-binding",
}
KUBERNETES_OBJECTS = {
    **{key: value for key, value in OBJECTS.items() if key[0] != "ServiceAccount"},
    ("ServiceAccount", f"{FULL}-kube-mode"): "",
    ("Role", f"{FULL}-kube-mode"): "",
    ("RoleBinding", f"{FULL}-kube-mode"): "",
}
# The key of resourceMeta, and where it goes in mode kubernetes: an object, or a field of the spec.
METADATA_TARGETS: dict[str, tuple[str, str] | str] = {
    "autoscalingRunnerSet": ("AutoscalingRunnerSet", RELEASE),
    "githubConfigSecret": ("Secret", f"{FULL}-github-secret"),
    "kubernetesModeRole": ("Role", f"{FULL}-kube-mode"),
    "kubernetesModeRoleBinding": ("RoleBinding", f"{FULL}-kube-mode"),
    "kubernetesModeServiceAccount": ("ServiceAccount", f"{FULL}-kube-mode"),
    "managerRole": ("Role", f"{FULL}-manager"),
    "managerRoleBinding": ("RoleBinding", f"{FULL}-manager"),
    "autoscalingListener": "autoscalingListener",
    "listenerServiceAccount": "listenerServiceAccountMetadata",
    "listenerRole": "listenerRoleMetadata",
    "listenerRoleBinding": "listenerRoleBindingMetadata",
    "listenerConfigSecret": "listenerConfigSecretMetadata",
    "ephemeralRunnerSet": "ephemeralRunnerSetMetadata",
    "ephemeralRunner": "ephemeralRunnerMetadata",
    "ephemeralRunnerConfigSecret": "ephemeralRunnerConfigSecretMetadata",
}


def by_key(documents: list[Document]) -> dict[tuple[str, str], Document]:
    return {(d["kind"], d.name): d for d in documents}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [({}, OBJECTS), (KUBERNETES, KUBERNETES_OBJECTS), (NOVOLUME, KUBERNETES_OBJECTS)],
)
def test_objects_labels_and_finalizers_are_exactly_these(
    mode: dict[str, Any], expected: dict[tuple[str, str], str]
) -> None:
    found = by_key(objects({"containerMode": mode}))
    assert found.keys() == expected.keys()
    for key, component in expected.items():
        metadata = found[key]["metadata"]
        labels = {**COMMON, **({K + "component": component} if component else {})}
        assert metadata["labels"] == labels
        assert metadata["namespace"] == NAMESPACE
        assert metadata.get("finalizers") == (
            None if key[0] == "AutoscalingRunnerSet" else PROTECTION
        )
        if key[0] != "AutoscalingRunnerSet":
            assert metadata.get("annotations") is None


@pytest.mark.behaviour("C3 T46")
def test_a_name_of_ones_own_is_used_everywhere() -> None:
    name = "test-runner-scale-set-name"
    found = by_key(objects({"runnerScaleSetName": name}))
    runners = found["AutoscalingRunnerSet", name]
    assert runners["metadata"]["labels"] == {
        **COMMON,
        K + "component": "autoscaling-runner-set",
        K + "name": name,
        K + "instance": name,
        GHA + "scale-set-name": name,
    }
    assert runners["metadata"]["labels"][GHA + "scale-set-namespace"] == NAMESPACE
    assert runners["spec"]["githubConfigSecret"] == f"{name}-gha-rs-github-secret"
    assert runners["spec"]["runnerScaleSetName"] == name
    assert ("Secret", f"{name}-gha-rs-github-secret") in found


@pytest.mark.behaviour("C3 T195")
@pytest.mark.parametrize("mode", [{}, KUBERNETES])
def test_underscores_are_kept_where_they_may_be(mode: dict[str, Any]) -> None:
    found = by_key(objects({"containerMode": mode}, release="my_set"))
    account = ("ServiceAccount", "my-set-gha-rs-kube-mode")
    role = "my_set-gha-rs-kube-mode"
    kube_mode = {account, ("Role", role), ("RoleBinding", role)}
    assert found.keys() == {
        ("AutoscalingRunnerSet", "my-set"),
        ("Secret", "my-set-gha-rs-github-secret"),
        ("Role", "my_set-gha-rs-manager"),
        ("RoleBinding", "my_set-gha-rs-manager"),
        *(kube_mode if mode else {("ServiceAccount", "my-set-gha-rs-no-permission")}),
    }
    for document in found.values():
        labels = document["metadata"]["labels"]
        names = [labels[key] for key in (K + "name", K + "instance", GHA + "scale-set-name")]
        assert names == ["my_set"] * 3
    notes = found["AutoscalingRunnerSet", "my-set"]["metadata"]["annotations"]
    assert notes[GHA + "cleanup-manager-role-name"] == "my_set-gha-rs-manager"
    if mode:
        assert notes[GHA + "cleanup-kubernetes-mode-service-account-name"] == account[1]
        binding = found["RoleBinding", role]
        assert binding["roleRef"]["name"] == role
        assert binding["subjects"][0]["name"] == account[1]


def test_the_spec_has_the_name_with_its_underscore_and_only_if_it_was_given() -> None:
    assert spec({"runnerScaleSetName": "my_set"})["runnerScaleSetName"] == "my_set"
    assert "runnerScaleSetName" not in spec()
    assert "runnerScaleSetName" not in spec({"runnerScaleSetName": ""})


def test_a_name_of_45_bytes_makes_long_and_legal_names() -> None:
    name = "a" * 45
    found = by_key(objects(release=name))
    assert ("Secret", f"{name}-gha-rs-github-secret") in found
    assert found["AutoscalingRunnerSet", name]["metadata"]["labels"][K + "name"] == name


def test_name_overrides_have_no_effect() -> None:
    more = {"nameOverride": "other", "fullnameOverride": "another"}
    assert by_key(objects(more)).keys() == OBJECTS.keys()


@pytest.mark.behaviour("C3 T93")
@pytest.mark.parametrize("mode", [{}, KUBERNETES, NOVOLUME])
def test_the_namespace_is_overridden_on_every_object(mode: dict[str, Any]) -> None:
    documents = objects({"containerMode": mode, "namespaceOverride": "other-ns"})
    assert {d["metadata"]["namespace"] for d in documents} == {"other-ns"}
    assert {d["metadata"]["labels"][GHA + "scale-set-namespace"] for d in documents} == {"other-ns"}
    for document in documents:
        for subject in document.get("subjects", []):
            manager = document.name.endswith("-manager")
            assert subject["namespace"] == ("arc-system" if manager else "other-ns")


@pytest.mark.behaviour("C3 T89")
def test_labels_for_all_objects_are_taken_as_they_are_but_never_replace_ours() -> None:
    wave = "argocd.argoproj.io/sync-wave"
    labels = {wave: '"1"', K + "part-of": "no-override"}
    documents = objects({"labels": labels, "containerMode": KUBERNETES})
    assert by_key(documents).keys() == KUBERNETES_OBJECTS.keys()
    for document in documents:
        assert document["metadata"]["labels"][wave] == '"1"'
        assert document["metadata"]["labels"][K + "part-of"] == "gha-rs"


@pytest.mark.parametrize(
    "key", [*COMMON, K + "component", GHA + "anything", GHA + "scale-set-name"]
)
def test_reserved_labels_for_all_objects_are_dropped(key: str) -> None:
    assert objects({"labels": {key: "mine"}})[0]["metadata"] == {
        **objects()[0]["metadata"],
        "annotations": objects({"labels": {key: "mine"}})[0]["metadata"]["annotations"],
    }
    for document in objects({"labels": {key: "mine"}}):
        assert "mine" not in document["metadata"]["labels"].values()


@pytest.mark.behaviour("C3 T94")
def test_the_runner_set_keeps_ones_annotations_but_not_those_that_steer_the_cleanup() -> None:
    found = runner_set(
        {
            "annotations": {
                GHA + "vault": "azure_key_vault",
                GHA + "cleanup-manager-role-name": "not-propagated",
                GHA + "cleanup-something-new": "not-propagated",
                GHA + "values-hash": "not-propagated",
            },
            "labels": {"custom": "custom-value", K + "component": "not-propagated"},
        }
    )
    notes = found["metadata"]["annotations"]
    assert notes[GHA + "vault"] == "azure_key_vault"
    assert notes[GHA + "cleanup-manager-role-name"] == f"{FULL}-manager"
    assert "not-propagated" not in notes.values()
    assert found["metadata"]["labels"]["custom"] == "custom-value"
    assert found["metadata"]["labels"][K + "component"] == "autoscaling-runner-set"


def test_annotations_for_all_objects_are_on_all_objects() -> None:
    for document in objects({"annotations": {"mine": "yes"}, "containerMode": KUBERNETES}):
        assert document["metadata"]["annotations"]["mine"] == "yes"


@pytest.mark.behaviour("C3 T90", "C3 T91")
@pytest.mark.parametrize("half", ["labels", "annotations"])
def test_each_object_gets_its_own_labels_and_annotations(half: str) -> None:
    meta = {key: {half: {f"{key}-custom": f"{key}-value"}} for key in METADATA_TARGETS}
    found = by_key(objects({"resourceMeta": meta, "containerMode": KUBERNETES}))
    fields = found["AutoscalingRunnerSet", RELEASE]["spec"]
    for key, target in METADATA_TARGETS.items():
        wanted = {f"{key}-custom": f"{key}-value"}
        if isinstance(target, str):
            assert fields[target] == {half: wanted}  # the other half is absent, not empty
        else:
            assert wanted.items() <= found[target]["metadata"][half].items()
            everything = str([d["metadata"] for d in found.values()])
            assert everything.count(f"{key}-custom") == 1


@pytest.mark.behaviour("C3 T92")
@pytest.mark.parametrize("half", ["labels", "annotations"])
def test_the_account_without_rights_gets_its_own_labels_and_annotations(half: str) -> None:
    meta = {"noPermissionServiceAccount": {half: {"npsa-custom": "npsa-value"}}}
    account = named("ServiceAccount", f"{FULL}-no-permission", {"resourceMeta": meta})
    assert account["metadata"][half]["npsa-custom"] == "npsa-value"


@pytest.mark.behaviour("C3 T204")
@pytest.mark.parametrize("empty", [{}, None, {"labels": {}}, {"labels": None, "annotations": {}}])
def test_empty_metadata_leaves_the_field_out(empty: object) -> None:
    meta = dict.fromkeys(METADATA_TARGETS, empty)
    given, plain = spec({"resourceMeta": meta}), spec()
    assert given == plain


def test_what_is_nearer_to_the_object_wins_and_ours_wins_over_both() -> None:
    found = by_key(
        objects(
            {
                "labels": {"a": "global", "b": "global"},
                "annotations": {"a": "global", "b": "global"},
                "resourceMeta": {
                    "managerRole": {
                        "labels": {"a": "near", K + "part-of": "x", K + "component": "x"},
                        "annotations": {"a": "near"},
                    },
                    "autoscalingRunnerSet": {
                        "labels": {"a": "near", GHA + "mine": "x", K + "version": "9.9.9"},
                        "annotations": {
                            "a": "near",
                            GHA + "mine": "kept",
                            GHA + "cleanup-manager-role-name": "x",
                        },
                    },
                    "githubConfigSecret": {"labels": {GHA + "scale-set-name": "x"}},
                },
            }
        )
    )
    role = found["Role", f"{FULL}-manager"]["metadata"]
    assert role["labels"] == {**COMMON, K + "component": "manager-role", "a": "near", "b": "global"}
    assert role["annotations"] == {"a": "near", "b": "global"}
    runners = found["AutoscalingRunnerSet", RELEASE]["metadata"]
    component = {K + "component": "autoscaling-runner-set"}
    assert runners["labels"] == {**COMMON, **component, "a": "near", "b": "global"}
    assert runners["annotations"]["a"] == "near"
    assert runners["annotations"][GHA + "mine"] == "kept"
    assert runners["annotations"][GHA + "cleanup-manager-role-name"] == f"{FULL}-manager"
    secret = found["Secret", f"{FULL}-github-secret"]["metadata"]
    assert secret["labels"] == {**COMMON, "a": "global", "b": "global"}


def test_numbers_and_booleans_become_texts_everywhere() -> None:
    odd = {"number": 20250101, "small": 1, "fraction": 1.5, "flag": True, "none": None, "text": "1"}
    texts = {
        "number": "20250101",
        "small": "1",
        "fraction": "1.5",
        "flag": "true",
        "text": "1",
    }
    halves = {"labels": odd, "annotations": odd}
    meta = dict.fromkeys([*METADATA_TARGETS, "noPermissionServiceAccount"], halves)
    found = objects({**halves, "resourceMeta": meta, "template": {"metadata": halves}})
    for document in found:
        metadata = document["metadata"]
        assert texts.items() <= metadata["labels"].items()
        assert texts.items() <= metadata["annotations"].items()
        assert "none" not in metadata["labels"] and "none" not in metadata["annotations"]
    fields = found[[d["kind"] for d in found].index("AutoscalingRunnerSet")]["spec"]
    for target in METADATA_TARGETS.values():
        if isinstance(target, str):
            assert fields[target] == {"labels": texts, "annotations": texts}
    assert fields["template"]["metadata"] == {"labels": texts, "annotations": texts}


@pytest.mark.behaviour("C3 T88")
def test_the_hash_of_the_values_changes_with_any_of_them_and_fits_a_label() -> None:
    hashes = [
        annotations(extra)[GHA + "values-hash"]
        for extra in (
            {},
            {"githubConfigSecret": {"github_token": "another"}},
            {"maxRunners": 1},
            {"unheardOf": 1},
        )
    ]
    assert len(set(hashes)) == len(hashes)
    assert all(len(value) == 63 and set(value) <= set("0123456789abcdef") for value in hashes)
    assert annotations()[GHA + "values-hash"] == hashes[0]
    assert "gh_token12345" not in str(runner_set())


def test_the_version_label_is_the_chart_s_app_version_as_text() -> None:
    # The controller compares it with its own version (C3 9.4).
    for document in objects():
        assert document["metadata"]["labels"][K + "version"] == "0.14.2"
