"""The objects a single machine needs before the controller starts: namespaces, rights, accounts.

The rights are those of ARC's charts and no more (contract: resources-and-controllers 4.0), plus
Events; RBAC is enforced here as on a cluster, so a right that is missing there fails here too.
What the charts render for a real cluster is theirs; this page is for the embedded API only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS
from runnerscale.kube.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from runnerscale.kube.resource import Resource

SYSTEM_NAMESPACE = "runnerscale-system"
CONTROLLER_ACCOUNT = "runnerscale-controller"
NODE_ACCOUNT = "runnerscale-node"
GITHUB_SECRET = "github"  # noqa: S105 - the name of an object
RUNNER_IMAGE = "runnerscale.dev/demo-runner:1"
CONTROLLER_IMAGE = "runnerscale.dev/runnerscale:1"
RBAC = "rbac.authorization.k8s.io"

Rule = dict[str, list[str]]
KINDS = ["autoscalingrunnersets", "autoscalinglisteners", "ephemeralrunnersets", "ephemeralrunners"]
ALL_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to create if it is not there."""

    resource: Resource[Any]
    namespace: str
    body: dict[str, Any]


def rule(groups: str, resources: Sequence[str], verbs: Sequence[str]) -> Rule:
    """One rule of a role."""
    return {"apiGroups": [groups], "resources": list(resources), "verbs": list(verbs)}


def controller_cluster_rules() -> list[Rule]:
    """What the controller may do in every namespace."""
    own = "actions.github.com"
    return [
        rule(own, KINDS, ALL_VERBS),
        rule(own, [f"{kind}/status" for kind in KINDS], ["get", "patch", "update"]),
        rule(own, [f"{kind}/finalizers" for kind in KINDS], ["patch", "update"]),
        rule("", ["pods", "serviceaccounts"], ["list", "watch"]),
        rule(RBAC, ["rolebindings"], ["list", "watch"]),
        rule(RBAC, ["roles"], ["list", "watch", "patch"]),
        rule("", ["events"], ["create", "patch"]),
    ]


def controller_home_rules() -> list[Rule]:
    """What the controller may do in its own namespace, where the listeners run."""
    return [
        rule("", ["pods"], ["create", "delete", "get"]),
        rule("", ["pods/status"], ["get"]),
        rule("", ["secrets"], ["create", "delete", "get", "patch", "update"]),
        rule("", ["serviceaccounts"], ["create", "delete", "get", "patch", "update"]),
    ]


def controller_set_rules() -> list[Rule]:
    """What the controller may do in a namespace with runner sets."""
    change = ["create", "delete", "get", "patch", "update"]
    return [
        rule("", ["pods"], ["create", "delete", "get"]),
        rule("", ["pods/status"], ["get"]),
        rule("", ["secrets", "serviceaccounts"], [*change, "list"]),
        rule(RBAC, ["roles", "rolebindings"], change),
        rule("", ["configmaps"], ["get"]),
    ]


def node_rules() -> list[Rule]:
    """What the node agent may do: pods, what they mount, tokens for their accounts."""
    return [
        rule("", ["pods"], ["get", "list", "watch", "patch", "delete"]),
        rule("", ["pods/status"], ["get", "patch", "update"]),
        rule("", ["pods/binding", "bindings"], ["create"]),
        rule("", ["secrets", "configmaps"], ["get", "list", "watch"]),
        rule("", ["serviceaccounts"], ["get"]),
        rule("", ["serviceaccounts/token"], ["create"]),
        rule("", ["nodes"], ["create", "get", "list", "watch", "patch", "update"]),
        rule("", ["nodes/status"], ["patch", "update"]),
        rule("coordination.k8s.io", ["leases"], ["create", "get", "patch", "update"]),
        rule("", ["events"], ["create", "patch"]),
    ]


def system_manifests() -> list[Manifest]:
    """Namespace, accounts and cluster-wide rights of controller and node agent."""
    home = SYSTEM_NAMESPACE
    return [
        _namespace(home),
        _account(home, CONTROLLER_ACCOUNT),
        _account(home, NODE_ACCOUNT),
        *_cluster_role(CONTROLLER_ACCOUNT, controller_cluster_rules(), account=CONTROLLER_ACCOUNT),
        *_cluster_role(NODE_ACCOUNT, node_rules(), account=NODE_ACCOUNT),
        *_role(home, "runnerscale-controller-home", controller_home_rules()),
    ]


def set_namespace_manifests(namespace: str) -> list[Manifest]:
    """A namespace for runner sets, with the controller's rights in it."""
    return [
        _namespace(namespace),
        *_role(namespace, "runnerscale-manager", controller_set_rules()),
    ]


def github_secret(namespace: str, token: str) -> Manifest:
    """The credentials of a runner set."""
    return Manifest(
        SECRETS,
        namespace,
        {"metadata": {"name": GITHUB_SECRET}, "stringData": {"github_token": token}},
    )


def runner_set(
    namespace: str,
    name: str,
    *,
    config_url: str,
    min_runners: int,
    max_runners: int,
    version: str,
    grace_s: int = 10,
) -> Manifest:
    """An AutoscalingRunnerSet whose runners are the demo's."""
    spec: dict[str, Any] = {
        "githubConfigUrl": config_url,
        "githubConfigSecret": GITHUB_SECRET,
        "minRunners": min_runners,
        "maxRunners": max_runners,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": grace_s,
                "containers": [
                    {
                        "name": "runner",
                        "image": RUNNER_IMAGE,
                        "command": ["/home/runner/run.sh"],
                        "terminationMessagePolicy": "FallbackToLogsOnError",
                    }
                ],
            }
        },
    }
    labels = {
        "app.kubernetes.io/version": version,
        "actions.github.com/scale-set-name": name,
        "actions.github.com/scale-set-namespace": namespace,
    }
    body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    return Manifest(AUTOSCALING_RUNNER_SETS, namespace, body)


def _namespace(name: str) -> Manifest:
    return Manifest(NAMESPACES, "", {"metadata": {"name": name}})


def _account(namespace: str, name: str) -> Manifest:
    return Manifest(SERVICE_ACCOUNTS, namespace, {"metadata": {"name": name}})


def _subject(account: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE}


def _cluster_role(name: str, rules: list[Rule], *, account: str) -> list[Manifest]:
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [_subject(account)],
    }
    return [
        Manifest(CLUSTER_ROLES, "", {"metadata": {"name": name}, "rules": rules}),
        Manifest(CLUSTER_ROLE_BINDINGS, "", binding),
    ]


def _role(namespace: str, name: str, rules: list[Rule]) -> list[Manifest]:
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [_subject(CONTROLLER_ACCOUNT)],
    }
    return [
        Manifest(ROLES, namespace, {"metadata": {"name": name}, "rules": rules}),
        Manifest(ROLE_BINDINGS, namespace, binding),
    ]
