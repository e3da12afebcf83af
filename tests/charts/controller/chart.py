"""The controller chart as its tests ask for it, and the objects that ARC's chart would make.

`arc_objects` is C3 sections 1.1 to 1.6 once more, in Python: with every addition off the chart
has to come to the same objects. C3 4.1 names release `test-arc`.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from tests.charts.render import CONTROLLER, Document, RenderError, render

RELEASE = "test-arc"
NAMESPACE = "test-ns"
NAME = "test-arc-gha-rs-controller"
GHA = "actions.github.com"
K = "app.kubernetes.io/"
RBAC = "rbac.authorization.k8s.io"
IMAGE = "ghcr.io/runnerscale/runnerscale:0.14.2"
FULL = ["create", "delete", "get", "list", "patch", "update", "watch"]
STATUS = ["get", "patch", "update"]
FINALIZERS = ["patch", "update"]
WATCH = ["list", "watch"]
CHANGE = ["create", "delete", "get", "patch", "update"]

Values = Mapping[str, Any]


def objects(values: Values = {}, **options: Any) -> list[Document]:  # noqa: B006 - never written
    """What the chart makes of these values alone: every addition is off."""
    return render(CONTROLLER, {"additions": None, **values}, **{"release": RELEASE, **options})


def with_additions(values: Values = {}, **options: Any) -> list[Document]:  # noqa: B006
    """What a user gets who says nothing about additions."""
    return render(CONTROLLER, values, **{"release": RELEASE, **options})


def named(found: list[Document], kind: str, name: str) -> Document:
    """The one object of that kind and name."""
    (one,) = (d for d in found if (d["kind"], d.name) == (kind, name))
    return one


def kinds(found: list[Document]) -> list[tuple[str, str]]:
    """Kind and name of each, sorted."""
    return sorted((d["kind"], d.name) for d in found)


def deployment(values: Values = {}, **options: Any) -> Document:  # noqa: B006
    """The Deployment, without additions."""
    (one,) = (d for d in objects(values, **options) if d["kind"] == "Deployment")
    return one


def pod(values: Values = {}, **options: Any) -> dict[str, Any]:  # noqa: B006
    """Its pod's spec, without additions."""
    spec: dict[str, Any] = deployment(values, **options)["spec"]["template"]["spec"]
    return spec


def manager(values: Values = {}, **options: Any) -> dict[str, Any]:  # noqa: B006
    """The manager's container, without additions."""
    (container,) = pod(values, **options)["containers"]
    return dict(container)


def args(values: Values = {}, **options: Any) -> list[str]:  # noqa: B006
    """The manager's command line, without additions."""
    return list(manager(values, **options)["args"])


def refusal(values: Values, **options: Any) -> str:
    """What a person reads when the chart refuses; Helm's own prefix is cut off."""
    with pytest.raises(RenderError) as caught:
        with_additions(values, **options)
    return str(caught.value).rpartition("): ")[2] or str(caught.value)


# --- ARC's objects, as C3 describes them -----------------------------------------------------


def rule(group: str, resource: str, verbs: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": [resource], "verbs": verbs}


def kind_rules(kind: str) -> list[dict[str, list[str]]]:
    """FULL on a kind, then its finalizers and its status."""
    return [
        rule(GHA, kind, FULL),
        rule(GHA, f"{kind}/finalizers", FINALIZERS),
        rule(GHA, f"{kind}/status", STATUS),
    ]


def caches(roles: list[str]) -> list[dict[str, list[str]]]:
    return [
        rule("", "pods", WATCH),
        rule("", "serviceaccounts", WATCH),
        rule(RBAC, "rolebindings", WATCH),
        rule(RBAC, "roles", roles),
    ]


SETS = ("autoscalingrunnersets", "ephemeralrunnersets", "ephemeralrunners")
# C3 1.6, column by column. The order of rules is free but for the listener's (#8).
CLUSTER_RULES = [
    *kind_rules("autoscalingrunnersets"),
    *kind_rules("autoscalinglisteners"),
    *kind_rules("ephemeralrunnersets"),
    *kind_rules("ephemeralrunners"),
    *caches(["list", "watch", "patch"]),
]
HOME_RULES = [
    *(rule(GHA, kind, WATCH) for kind in SETS),
    *kind_rules("autoscalinglisteners"),
    *caches(WATCH),
]
WATCHED_RULES = [
    *(one for kind in SETS for one in kind_rules(kind)),
    rule(GHA, "autoscalinglisteners", WATCH),
    *caches(["list", "watch", "patch"]),
]
LISTENER_RULES = [
    rule("", "pods", ["create", "delete", "get"]),
    rule("", "pods/status", ["get"]),
    rule("", "secrets", CHANGE),
    rule("", "serviceaccounts", CHANGE),
]
ELECTION_RULES = [
    rule("coordination.k8s.io", "leases", ["get", "watch", "list", "delete", "update", "create"]),
    rule("", "events", ["create", "patch"]),
]
LABELS = {
    "helm.sh/chart": "gha-rs-controller-0.14.2",
    K + "name": "gha-rs-controller",
    K + "namespace": NAMESPACE,
    K + "instance": RELEASE,
    K + "version": "0.14.2",
    K + "part-of": "gha-rs-controller",
    K + "managed-by": "Helm",
}
SELECTOR = {key: LABELS[key] for key in (K + "name", K + "namespace", K + "instance")}
POD_LABELS = {
    **SELECTOR,
    K + "part-of": "gha-rs-controller",
    K + "component": "controller-manager",
    K + "version": "0.14.2",
}
SUBJECTS = [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]


def by_resource(rules: list[dict[str, list[str]]]) -> list[dict[str, Any]]:
    """Rules in an order of their own; the order of verbs within one says nothing."""
    plain = [{**one, "verbs": sorted(one["verbs"])} for one in rules]
    return sorted(plain, key=lambda one: (one["apiGroups"], one["resources"]))


def grant(
    kind: str, name: str, rules: list[dict[str, list[str]]], namespace: str | None = None
) -> list[dict[str, Any]]:
    """A role and its binding of the same name, without labels."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    version = f"{RBAC}/v1"
    return [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": version,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": SUBJECTS,
        },
    ]


ARGS = [
    "--auto-scaling-runner-set-only",
    "--log-level=debug",
    "--log-format=text",
    "--runner-max-concurrent-reconciles=2",
    "--listener-metrics-addr=0",
    "--listener-metrics-endpoint=",
    "--metrics-addr=0",
]
ENV = [
    {"name": "CONTROLLER_MANAGER_CONTAINER_IMAGE", "value": IMAGE},
    {
        "name": "CONTROLLER_MANAGER_POD_NAMESPACE",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
    },
]
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": NAME,
        "namespace": NAMESPACE,
        "labels": {
            **LABELS,
            f"{GHA}/controller-service-account-namespace": NAMESPACE,
            f"{GHA}/controller-service-account-name": NAME,
        },
    },
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": SELECTOR},
        "template": {
            "metadata": {
                "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
                "labels": POD_LABELS,
            },
            "spec": {
                "serviceAccountName": NAME,
                "containers": [
                    {
                        "name": "manager",
                        "image": IMAGE,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["/manager"],
                        "args": ARGS,
                        "env": ENV,
                        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                    }
                ],
                "terminationGracePeriodSeconds": 10,
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            },
        },
    },
}


def arc_objects(*, watched: str = "", replicas: int = 1) -> list[dict[str, Any]]:
    """C3 1.3: which objects there are, and what is in each, for the two values that decide it."""
    one = deepcopy(DEPLOYMENT)
    container = one["spec"]["template"]["spec"]["containers"][0]
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": LABELS},
    }
    result = [one, account, *grant("Role", f"{NAME}-listener", LISTENER_RULES, NAMESPACE)]
    if watched:
        single = f"{NAME}-single-namespace"
        one["metadata"]["labels"][f"{GHA}/controller-watch-single-namespace"] = watched
        container["args"].insert(3, f"--watch-single-namespace={watched}")
        result += grant("Role", single, HOME_RULES, NAMESPACE)
        result += grant("Role", f"{single}-watch", WATCHED_RULES, watched)
    else:
        result += grant("ClusterRole", NAME, CLUSTER_RULES)
    if replicas > 1:
        one["spec"]["replicas"] = replicas
        container["args"][1:1] = ["--enable-leader-election", f"--leader-election-id={NAME}"]
        result += grant("Role", f"{NAME}-leader-election", ELECTION_RULES, NAMESPACE)
    return comparable(result)


def comparable(found: list[Any]) -> list[dict[str, Any]]:
    """Plain objects in one order; in a role the order of the rules is free."""
    plain = [dict(d) | ({"rules": by_resource(d["rules"])} if "rules" in d else {}) for d in found]
    return sorted(plain, key=lambda d: (d["kind"], d["metadata"]["name"]))
