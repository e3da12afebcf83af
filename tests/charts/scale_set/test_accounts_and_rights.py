"""Service accounts, Roles and RoleBindings: who may do what in the runner namespace."""

from typing import Any

import pytest

from .chart import (
    GHA,
    KUBERNETES,
    MODES,
    NAMESPACE,
    NOVOLUME,
    PROTECTION,
    RELEASE,
    annotations,
    named,
    names,
    pod,
    template,
)

NO_PERMISSION = f"{RELEASE}-gha-rs-no-permission"
KUBE_MODE = f"{RELEASE}-gha-rs-kube-mode"
MANAGER = f"{RELEASE}-gha-rs-manager"
RBAC = "rbac.authorization.k8s.io"
CHANGE = {"create", "delete", "get", "patch", "update"}
NO_PERMISSION_NOTE = GHA + "cleanup-no-permission-service-account-name"
KUBE_MODE_NOTES = {
    GHA + "cleanup-kubernetes-mode-role-binding-name": KUBE_MODE,
    GHA + "cleanup-kubernetes-mode-role-name": KUBE_MODE,
    GHA + "cleanup-kubernetes-mode-service-account-name": KUBE_MODE,
}
# Contract 2.8, in its order.
MANAGER_RULES: list[tuple[str, str, set[str]]] = [
    ("", "pods", {"create", "delete", "get"}),
    ("", "pods/status", {"get"}),
    ("", "secrets", CHANGE | {"list"}),
    ("", "serviceaccounts", CHANGE | {"list"}),
    (RBAC, "rolebindings", CHANGE),
    (RBAC, "roles", CHANGE),
]
JOBS: tuple[str, str, set[str]] = ("batch", "jobs", {"get", "list", "create", "delete"})
KUBE_MODE_RULES: list[tuple[str, str, set[str]]] = [
    ("", "pods", {"get", "list", "create", "delete"}),
    ("", "pods/exec", {"get", "create"}),
    ("", "pods/log", {"get", "list", "watch"}),
    JOBS,
    ("", "secrets", {"get", "list", "create", "delete"}),
]
EXTRA = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}
CERTIFICATE = {"certificateFrom": {"configMapKeyRef": {"name": "ca", "key": "ca.crt"}}}


def rules(role: dict[str, Any]) -> list[tuple[str, str, set[str]]]:
    """One tuple for each rule, each of which has one group and one resource."""
    found = []
    for rule in role["rules"]:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        (group,), (resource,) = rule["apiGroups"], rule["resources"]
        found.append((group, resource, set(rule["verbs"])))
    return found


@pytest.mark.behaviour("C3 T40")
def test_runners_have_an_account_without_rights() -> None:
    account = named("ServiceAccount", NO_PERMISSION)
    assert account["metadata"]["finalizers"] == PROTECTION
    assert pod()["serviceAccountName"] == NO_PERMISSION
    assert annotations()[NO_PERMISSION_NOTE] == NO_PERMISSION
    assert not KUBE_MODE_NOTES.keys() & annotations().keys()
    assert names("Role") == [MANAGER]


@pytest.mark.behaviour("C3 T41", "C3 T85")
def test_mode_kubernetes_has_an_account_with_the_rights_of_the_hooks() -> None:
    extra = {"containerMode": KUBERNETES}
    for kind in ("ServiceAccount", "Role", "RoleBinding"):
        assert named(kind, KUBE_MODE, extra)["metadata"]["finalizers"] == PROTECTION
    assert rules(named("Role", KUBE_MODE, extra)) == KUBE_MODE_RULES
    binding = named("RoleBinding", KUBE_MODE, extra)
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": KUBE_MODE, "namespace": NAMESPACE}
    ]
    assert binding["roleRef"] == {"apiGroup": RBAC, "kind": "Role", "name": KUBE_MODE}
    assert pod(extra)["serviceAccountName"] == KUBE_MODE
    assert KUBE_MODE_NOTES.items() <= annotations(extra).items()


@pytest.mark.behaviour("C3 T42", "C3 T85")
def test_mode_kubernetes_novolume_has_the_same_without_jobs() -> None:
    extra = {"containerMode": NOVOLUME}
    found = rules(named("Role", KUBE_MODE, extra))
    assert found == [rule for rule in KUBE_MODE_RULES if rule != JOBS]
    assert named("RoleBinding", KUBE_MODE, extra)["subjects"][0]["name"] == KUBE_MODE
    assert named("ServiceAccount", KUBE_MODE, extra)["metadata"]["finalizers"] == PROTECTION
    assert pod(extra)["serviceAccountName"] == KUBE_MODE
    assert KUBE_MODE_NOTES.items() <= annotations(extra).items()


@pytest.mark.behaviour("C3 T43")
@pytest.mark.parametrize("mode", [KUBERNETES, NOVOLUME])
def test_the_kubernetes_modes_have_no_account_without_rights(mode: dict[str, Any]) -> None:
    assert names("ServiceAccount", {"containerMode": mode}) == [KUBE_MODE]
    assert NO_PERMISSION_NOTE not in annotations({"containerMode": mode})


@pytest.mark.behaviour("C3 T44")
@pytest.mark.parametrize("mode", MODES)
def test_an_account_of_the_user_is_used_and_none_is_made(mode: str) -> None:
    volume = {"volumes": [{"name": "work", "emptyDir": {}}]}
    extra = {**MODES[mode], **template(serviceAccountName="test-service-account", **volume)}
    assert pod(extra)["serviceAccountName"] == "test-service-account"
    assert names("ServiceAccount", extra) == []
    assert (names("Role", extra), names("RoleBinding", extra)) == ([MANAGER], [MANAGER])
    assert not {NO_PERMISSION_NOTE, *KUBE_MODE_NOTES} & annotations(extra).keys()


@pytest.mark.behaviour("C3 T74")
def test_the_controller_may_do_this_and_nothing_more() -> None:
    role = named("Role", MANAGER)
    assert role["metadata"]["finalizers"] == PROTECTION
    assert rules(role) == MANAGER_RULES
    assert rules(named("Role", MANAGER, {"additions": {"unknownValueNotes": False}})) == (
        MANAGER_RULES
    )


@pytest.mark.behaviour("C3 T75")
def test_a_certificate_of_the_server_lets_the_controller_read_config_maps() -> None:
    found = rules(named("Role", MANAGER, {"githubServerTLS": CERTIFICATE}))
    assert found == [*MANAGER_RULES, ("", "configmaps", {"get"})]


@pytest.mark.behaviour("C3 T76")
def test_the_rights_go_to_the_controller_s_account() -> None:
    binding = named("RoleBinding", MANAGER)
    assert binding["metadata"]["finalizers"] == PROTECTION
    assert binding["roleRef"] == {"apiGroup": RBAC, "kind": "Role", "name": MANAGER}
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "arc", "namespace": "arc-system"}
    ]


@pytest.mark.behaviour("C3 T203")
@pytest.mark.parametrize("mode", [KUBERNETES, NOVOLUME])
def test_additional_rules_come_last(mode: dict[str, Any]) -> None:
    more = [EXTRA, {**EXTRA, "resourceNames": ["one"]}]
    role = named(
        "Role",
        KUBE_MODE,
        {"containerMode": {**mode, "kubernetesModeAdditionalRoleRules": more}},
    )
    plain = named("Role", KUBE_MODE, {"containerMode": mode})
    assert role["rules"] == [*plain["rules"], *more]


def test_additional_rules_mean_nothing_in_other_modes() -> None:
    mode = {"type": "dind", "kubernetesModeAdditionalRoleRules": [EXTRA]}
    assert names("Role", {"containerMode": mode}) == [MANAGER]
