"""With every addition off the chart makes ARC's objects: C3 1.1 to 1.6, and the tests of 4.1."""

from typing import Any

import pytest
import yaml

from tests.charts.render import CONTROLLER, render_one

from .chart import (
    CLUSTER_RULES,
    ELECTION_RULES,
    GHA,
    HOME_RULES,
    LABELS,
    LISTENER_RULES,
    NAME,
    NAMESPACE,
    SUBJECTS,
    WATCHED_RULES,
    K,
    arc_objects,
    by_resource,
    comparable,
    deployment,
    kinds,
    named,
    objects,
    with_additions,
)

EVERY_ADDITION = (
    "labels",
    "events",
    "restrictedSecurity",
    "resources",
    "probes",
    "podDisruptionBudget",
    "topologySpread",
    "listenerSecurity",
    "listenerResources",
    "unknownValueNotes",
)


@pytest.mark.parametrize("watched", ["", "demo"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_with_every_addition_off_the_objects_are_those_of_arcs_chart(
    watched: str, replicas: int
) -> None:
    values: dict[str, Any] = {"replicaCount": replicas, "flags": {"watchSingleNamespace": watched}}
    wanted = arc_objects(watched=watched, replicas=replicas)
    assert comparable(objects(values)) == wanted
    switched_off = dict.fromkeys(EVERY_ADDITION, False)
    assert comparable(with_additions({**values, "additions": switched_off})) == wanted


def test_the_list_of_additions_is_complete() -> None:
    defaults = yaml.safe_load((CONTROLLER / "values.yaml").read_text())
    assert defaults["additions"] == dict.fromkeys(EVERY_ADDITION, True)


@pytest.mark.behaviour("C3 T1")
def test_the_account_is_made_in_the_releases_namespace_with_its_annotations() -> None:
    values = {"serviceAccount": {"create": True, "annotations": {"foo": "bar"}}}
    account = named(objects(values), "ServiceAccount", NAME)
    assert account["metadata"] == {
        "name": NAME,
        "namespace": NAMESPACE,
        "labels": LABELS,
        "annotations": {"foo": "bar"},
    }


@pytest.mark.behaviour("C3 T2")
def test_the_account_bears_the_name_it_is_given() -> None:
    values = {"serviceAccount": {"name": "overwritten-name", "annotations": {"foo": "bar"}}}
    account = named(objects(values), "ServiceAccount", "overwritten-name")
    assert account["metadata"]["annotations"] == {"foo": "bar"}


@pytest.mark.behaviour("C3 T4")
def test_no_account_is_made_where_one_is_named_instead() -> None:
    values = {"serviceAccount": {"create": False, "name": "overwritten-name"}}
    found = objects(values)
    assert "ServiceAccount" not in {d["kind"] for d in found}
    assert deployment(values)["spec"]["template"]["spec"]["serviceAccountName"] == (
        "overwritten-name"
    )
    bound = [subject for d in found for subject in d.get("subjects", ())]
    assert {subject["name"] for subject in bound} == {"overwritten-name"}


@pytest.mark.behaviour("C3 T6")
def test_the_cluster_wide_rights_are_sixteen_rules() -> None:
    found = objects()
    role = named(found, "ClusterRole", NAME)
    assert role["metadata"] == {"name": NAME}
    assert len(role["rules"]) == 16
    assert by_resource(role["rules"]) == by_resource(CLUSTER_RULES)
    assert [d.name for d in found if d["kind"] == "Role"] == [f"{NAME}-listener"]


@pytest.mark.behaviour("C3 T7")
def test_the_cluster_wide_rights_are_bound_to_the_controllers_account() -> None:
    found = objects()
    binding = named(found, "ClusterRoleBinding", NAME)
    assert binding["metadata"] == {"name": NAME}
    assert binding["roleRef"]["kind"] == "ClusterRole"
    assert binding["roleRef"]["name"] == NAME
    assert binding["subjects"] == SUBJECTS
    assert [d.name for d in found if d["kind"] == "RoleBinding"] == [f"{NAME}-listener"]


@pytest.mark.behaviour("C3 T8", "C3 T9")
def test_the_rights_at_home_are_four_rules_in_order_and_bound() -> None:
    found = objects()
    role = named(found, "Role", f"{NAME}-listener")
    assert role["metadata"] == {"name": f"{NAME}-listener", "namespace": NAMESPACE}
    assert role["rules"] == LISTENER_RULES  # in this order: pods, pods/status, secrets, accounts
    binding = named(found, "RoleBinding", f"{NAME}-listener")
    assert binding["metadata"] == role["metadata"]
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": f"{NAME}-listener",
    }
    assert binding["subjects"] == SUBJECTS


@pytest.mark.behaviour("C3 T22", "C3 T23")
def test_leader_election_brings_its_role_and_binding() -> None:
    name = f"{NAME}-leader-election"
    assert ("Role", name) not in kinds(objects())
    found = objects({"replicaCount": 2})
    role, binding = named(found, "Role", name), named(found, "RoleBinding", name)
    assert role["metadata"] == binding["metadata"] == {"name": name, "namespace": NAMESPACE}
    assert role["rules"] == ELECTION_RULES
    assert binding["roleRef"]["name"] == name
    assert binding["subjects"] == SUBJECTS


@pytest.mark.behaviour("C3 T28", "C3 T29")
def test_a_controller_of_one_namespace_has_no_rights_in_the_cluster() -> None:
    found = objects({"flags": {"watchSingleNamespace": "demo"}})
    assert not {"ClusterRole", "ClusterRoleBinding"} & {d["kind"] for d in found}


@pytest.mark.behaviour("C3 T30", "C3 T31")
def test_a_controller_of_one_namespace_has_ten_rules_at_home_and_fourteen_there() -> None:
    found = objects({"flags": {"watchSingleNamespace": "demo"}})
    single = f"{NAME}-single-namespace"
    for name, namespace, rules, count in (
        (single, NAMESPACE, HOME_RULES, 10),
        (f"{single}-watch", "demo", WATCHED_RULES, 14),
    ):
        role, binding = named(found, "Role", name), named(found, "RoleBinding", name)
        assert role["metadata"] == binding["metadata"] == {"name": name, "namespace": namespace}
        assert len(role["rules"]) == count
        assert by_resource(role["rules"]) == by_resource(rules)
        assert binding["roleRef"]["name"] == name
        assert binding["subjects"] == SUBJECTS


@pytest.mark.behaviour("C3 T34")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Deployment", NAME),
        ("Role", f"{NAME}-listener"),
        ("RoleBinding", f"{NAME}-listener"),
        ("Role", f"{NAME}-leader-election"),
        ("RoleBinding", f"{NAME}-leader-election"),
        ("Role", f"{NAME}-single-namespace"),
        ("RoleBinding", f"{NAME}-single-namespace"),
        ("Role", f"{NAME}-single-namespace-watch"),
        ("RoleBinding", f"{NAME}-single-namespace-watch"),
    ],
)
def test_another_namespace_holds_everything_but_what_the_watched_one_holds(
    kind: str, name: str
) -> None:
    values = {
        "namespaceOverride": "other",
        "replicaCount": 2,
        "flags": {"watchSingleNamespace": "target-ns"},
    }
    found = objects(values)
    wanted = "target-ns" if name.endswith("-watch") else "other"
    one = named(found, kind, name)
    assert one["metadata"]["namespace"] == wanted
    assert all(subject["namespace"] == "other" for subject in one.get("subjects", ()))


def test_in_another_namespace_the_labels_name_it_too() -> None:
    one = deployment({"namespaceOverride": "other"})
    assert one["metadata"]["labels"][K + "namespace"] == "other"
    assert one["metadata"]["labels"][f"{GHA}/controller-service-account-namespace"] == "other"
    assert one["spec"]["selector"]["matchLabels"][K + "namespace"] == "other"


@pytest.mark.parametrize(
    ("release", "values", "wanted"),
    [  # C3 1.1, the three examples first
        ("arc", {}, "arc-gha-rs-controller"),
        ("my-gha-rs-controller-x", {}, "my-gha-rs-controller-x"),
        ("a" * 53, {}, "a" * 53 + "-gha-rs-co"),
        ("arc", {"nameOverride": "controller"}, "arc-controller"),
        ("my-controller", {"nameOverride": "controller"}, "my-controller"),
        ("arc", {"fullnameOverride": "mine"}, "mine"),
        ("arc", {"fullnameOverride": "b" * 70}, "b" * 63),
        ("arc", {"fullnameOverride": "b" * 62 + "-x"}, "b" * 62),  # no dash at the end
        ("a" * 44, {}, "a" * 44 + "-gha-rs-controller"),
        ("a" * 45, {}, "a" * 45 + "-gha-rs-controller"),  # 63 characters
        ("a" * 46, {}, "a" * 46 + "-gha-rs-controlle"),
    ],
)
def test_the_full_name(release: str, values: dict[str, Any], wanted: str) -> None:
    one = render_one(CONTROLLER, "Deployment", values, release=release)
    assert one.name == wanted
    assert len(one.name) <= 63
    assert (
        f"--leader-election-id={wanted}"
        in (
            render_one(CONTROLLER, "Deployment", {**values, "replicaCount": 2}, release=release)[
                "spec"
            ]["template"]["spec"]["containers"][0]["args"]
        )
    )


def test_suffixes_come_after_the_cut() -> None:
    long = "a" * 53
    name = long + "-gha-rs-co"
    values = {"replicaCount": 2, "flags": {"watchSingleNamespace": "demo"}}
    assert {n for kind, n in kinds(objects(values, release=long)) if kind == "Role"} == {
        f"{name}-listener",
        f"{name}-leader-election",
        f"{name}-single-namespace",
        f"{name}-single-namespace-watch",
    }
