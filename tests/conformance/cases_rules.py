"""What is refused and filled in: schemas, pods, quota, rights, namespaces, discovery."""

from typing import Any

from tests.conformance.cases_objects import (
    CM,
    PODS,
    WIDGETS,
    config_map,
    delete,
    get,
    patch,
    pod,
    post,
    widget,
)
from tests.conformance.transcript import Case, Step

Json = dict[str, Any]

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
RBAC_VERSION = "rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def wrong_widget(**spec: Any) -> Step:
    return post(WIDGETS, widget("w", {"size": 1, **spec}))


def wrong_pod(**spec: Any) -> Step:
    return post(PODS, pod("p", **spec))


def container(**more: Any) -> list[Json]:
    return [{"name": "main", "image": "busybox:1", **more}]


def role(name: str, *rules: Json) -> Json:
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "Role",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def rule(resources: list[str], verbs: list[str], group: str = "", **more: Any) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs, **more}


def binding(name: str, role_name: str, user: str) -> Json:
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": role_name,
        },
        "subjects": [{"kind": "User", "name": user}],
    }


def quota(hard: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": hard},
    }


def bad_crd(plural: str, schema: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.bad.runnerscale.dev"},
        "spec": {
            "group": "bad.runnerscale.dev",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Bad"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
            **spec,
        },
    }


SCHEMAS = (
    Case(
        "schema_defaults_and_pruning",
        (
            post(
                WIDGETS,
                widget(
                    "w",
                    {
                        "size": 1,
                        "unknown": 1,
                        "mode": None,
                        "maybe": None,
                        "open": {"any": {"thing": 1}},
                        "template": {"containers": [{"name": "x", "anything": [1]}], "other": 1},
                        "counts": {"a": 1},
                        "parts": [{"name": "a", "dropped": 1}],
                    },
                ),
            ),
            patch(f"{WIDGETS}/w", {"spec": {"nested": {"deep": 1, "gone": 2}}}),
        ),
    ),
    Case(
        "schema_refusals",
        (
            post(WIDGETS, widget("w", {})),
            post(
                WIDGETS,
                {
                    "apiVersion": "conformance.runnerscale.dev/v1",
                    "kind": "Widget",
                    "metadata": {"name": "w"},
                },
            ),
            post(WIDGETS, widget("w", {"size": "one"})),
            post(WIDGETS, widget("w", {"size": -1})),
            post(WIDGETS, widget("w", {"size": 101})),
            post(WIDGETS, widget("w", {"size": None})),
            wrong_widget(ratio=0),
            wrong_widget(color="blue"),
            wrong_widget(url="ftp://x"),
            wrong_widget(url="https://example.com/too/long"),
            wrong_widget(label="x"),
            wrong_widget(port=True),
            wrong_widget(when="yesterday"),
            wrong_widget(tags=["a", "a"]),
            wrong_widget(tags=["a", "b", "c"]),
            wrong_widget(parts=[{"name": "a"}, {"name": "a"}]),
            wrong_widget(parts=[{"count": 1}]),
            wrong_widget(counts={"a": "one"}),
            wrong_widget(template={}),
            wrong_widget(template={"containers": "none"}),
            wrong_widget(nested="text"),
            wrong_widget(size=-1, color="blue", label="x"),
        ),
    ),
    Case(
        "schema_rules",
        (
            wrong_widget(min=3, max=2),
            post(WIDGETS, widget("w", {"size": 1, "min": 1, "max": 2, "frozen": "x"})),
            patch(f"{WIDGETS}/w", {"spec": {"min": 5}}),
            patch(f"{WIDGETS}/w", {"spec": {"frozen": "y"}}),
            patch(f"{WIDGETS}/w", {"spec": {"frozen": None}}),
            patch(f"{WIDGETS}/w", {"spec": {"max": 3}}),
            patch(
                f"{WIDGETS}/w/status",
                {"status": {"conditions": [{"type": "A", "status": "True"}] * 2}},
            ),
            patch(f"{WIDGETS}/w/status", {"status": {"phase": 5}}),
        ),
    ),
    Case(
        "crds_that_are_refused",
        (
            post(CRDS, bad_crd("bads", {"type": "string"})),
            post(
                CRDS,
                bad_crd("bads", {"type": "object", "properties": {"spec": {}}}),
            ),
            post(
                CRDS,
                bad_crd(
                    "bads",
                    {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-validations": [{"rule": "self.nope == 1"}],
                            }
                        },
                    },
                ),
            ),
            post(
                CRDS,
                bad_crd(
                    "bads",
                    {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-validations": [{"rule": "self. =="}],
                            }
                        },
                    },
                ),
            ),
            post(CRDS, bad_crd("bads", {"type": "object"}, scope="Odd")),
            post(
                CRDS,
                {**bad_crd("bads", {"type": "object"}), "metadata": {"name": "other.name.dev"}},
            ),
        ),
    ),
)

PODS_CASES = (
    Case("pod_defaults", (post(PODS, pod("p")),)),
    Case(
        "pod_defaults_of_many_fields",
        (
            post(
                PODS,
                pod(
                    "p",
                    restartPolicy="Never",
                    containers=[
                        {
                            "name": "main",
                            "image": "busybox",
                            "env": [
                                {
                                    "name": "N",
                                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                                }
                            ],
                            "ports": [{"containerPort": 80, "name": "web"}],
                            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                            "readinessProbe": {"httpGet": {"port": 80}},
                            "volumeMounts": [{"name": "s", "mountPath": "/s"}],
                        }
                    ],
                    initContainers=[{"name": "init", "image": "a/b@sha256:" + "0" * 64}],
                    volumes=[
                        {"name": "s", "secret": {"secretName": "x"}},
                        {"name": "c", "configMap": {"name": "x"}},
                        {"name": "e"},
                        {
                            "name": "p",
                            "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
                        },
                    ],
                ),
            ),
        ),
    ),
    Case(
        "pods_that_are_refused",
        (
            wrong_pod(containers=[]),
            wrong_pod(containers=[{"name": "main"}]),
            wrong_pod(containers=[{"image": "x"}]),
            wrong_pod(containers=container() + container()),
            wrong_pod(containers=[{"name": "Bad_Name", "image": "x"}]),
            wrong_pod(containers=container(image=" x")),
            wrong_pod(containers=container(env=[{"name": ""}])),
            wrong_pod(containers=container(env=[{"name": "a=b"}])),
            wrong_pod(containers=container(env=[{"name": "A", "valueFrom": {}}])),
            wrong_pod(
                containers=container(
                    env=[
                        {
                            "name": "A",
                            "value": "x",
                            "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
                        }
                    ]
                )
            ),
            wrong_pod(containers=container(volumeMounts=[{"name": "none", "mountPath": "/x"}])),
            wrong_pod(containers=container(imagePullPolicy="Sometimes")),
            wrong_pod(containers=container(ports=[{"containerPort": 0}])),
            wrong_pod(containers=container(ports=[{"containerPort": 70000}])),
            wrong_pod(
                containers=container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})
            ),
            wrong_pod(restartPolicy="Maybe"),
            wrong_pod(terminationGracePeriodSeconds=-5),
            wrong_pod(volumes=[{"name": "v", "secret": {}}]),
            wrong_pod(volumes=[{"name": "v", "secret": {"secretName": "x"}, "emptyDir": {}}]),
            wrong_pod(volumes=[{"name": "v"}, {"name": "v"}]),
            wrong_pod(nodeSelector={"a b": "c"}),
            wrong_pod(priorityClassName="notexist"),
            wrong_pod(serviceAccountName="notexist"),
            post(
                PODS,
                {**pod("p"), "metadata": {"name": "p", "labels": {"x": "a b"}}},
            ),
            wrong_pod(containers="none"),
            wrong_pod(terminationGracePeriodSeconds="long"),
        ),
    ),
    Case(
        "pod_life",
        (
            post(PODS, pod("p")),
            post(
                f"{PODS}/p/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": "p"},
                    "target": {"kind": "Node", "name": "n1"},
                },
            ),
            post(
                f"{PODS}/p/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": "p"},
                    "target": {"kind": "Node", "name": "n2"},
                },
            ),
            get(f"{PODS}/p"),
            patch(f"{PODS}/p", {"spec": {"nodeName": "n3"}}),
            patch(
                f"{PODS}/p/status",
                {
                    "status": {"phase": "Succeeded"},
                    "spec": {"restartPolicy": "Never"},
                    "metadata": {"labels": {"from": "status"}},
                },
            ),
            delete(f"{PODS}/p"),
            get(f"{PODS}/p"),
        ),
    ),
    Case(
        "quota_on_pods",
        (
            post(
                "/api/v1/namespaces/{ns}/resourcequotas",
                quota({"pods": "1", "requests.cpu": "1", "limits.memory": "1Gi"}),
            ),
            get(
                "/api/v1/namespaces/{ns}/resourcequotas/q",
                until={"status.used.pods": "0"},
            ),
            wrong_pod(),
            wrong_pod(
                containers=container(
                    resources={"requests": {"cpu": "2"}, "limits": {"memory": "1Mi"}}
                )
            ),
            post(
                PODS,
                pod(
                    "first",
                    containers=container(
                        resources={"requests": {"cpu": "500m"}, "limits": {"memory": "512Mi"}}
                    ),
                ),
            ),
            post(
                PODS,
                pod(
                    "second",
                    containers=container(
                        resources={"requests": {"cpu": "600m"}, "limits": {"memory": "768Mi"}}
                    ),
                ),
            ),
            get(
                "/api/v1/namespaces/{ns}/resourcequotas/q",
                until={"status.used.pods": "1"},
            ),
        ),
    ),
)

RIGHTS = (
    Case(
        "rights",
        (
            get(CM, user="bob"),
            get(f"{CM}/x", user="bob"),
            post(CM, config_map("x"), user="bob"),
            patch(f"{PODS}/p/status", {}, user="bob"),
            get("/api/v1/nodes", user="bob"),
            get("/metrics", user="bob"),
            get("/version", user="bob"),
            post(
                f"{RBAC}/roles",
                role(
                    "r",
                    rule(["configmaps"], ["get", "list"]),
                    rule(["secrets"], ["get"], resourceNames=["one"]),
                ),
            ),
            post(f"{RBAC}/rolebindings", binding("b", "r", "bob")),
            get(CM, user="bob", until_code=200),
            get("/api/v1/namespaces/{ns}/secrets/one", user="bob"),
            get("/api/v1/namespaces/{ns}/secrets/two", user="bob"),
            get("/api/v1/namespaces/{ns}/secrets", user="bob"),
            delete(f"{CM}/x", user="bob"),
            get("/api/v1/namespaces/default/configmaps", user="bob"),
        ),
    ),
    Case(
        "nobody_grants_what_they_do_not_hold",
        (
            post(
                f"{RBAC}/roles",
                role(
                    "granter",
                    rule(
                        ["roles", "rolebindings"],
                        ["create", "update", "patch", "get"],
                        "rbac.authorization.k8s.io",
                    ),
                    rule(["configmaps"], ["get"]),
                ),
            ),
            post(f"{RBAC}/rolebindings", binding("granter", "granter", "bob")),
            post(
                f"{RBAC}/roles",
                role("ok", rule(["configmaps"], ["get"])),
                user="bob",
                until_code=201,
            ),
            post(
                f"{RBAC}/roles",
                role("no", rule(["configmaps", "secrets"], ["get", "list"])),
                user="bob",
            ),
            patch(
                f"{RBAC}/roles/ok",
                {"rules": [rule(["pods"], ["delete"])]},
                user="bob",
            ),
            post(f"{RBAC}/rolebindings", binding("ok", "ok", "bob"), user="bob"),
            post(f"{RBAC}/roles", role("big", rule(["secrets"], ["*"]))),
            post(f"{RBAC}/rolebindings", binding("no", "big", "bob"), user="bob"),
            patch(
                f"{RBAC}/rolebindings/ok",
                {"roleRef": {"name": "big"}},
            ),
            post(
                f"{RBAC}/roles",
                role("bad", {"apiGroups": [""], "resources": ["pods"]}),
            ),
            post(f"{RBAC}/roles", role("bad", {"verbs": ["get"]})),
            post(
                f"{RBAC}/rolebindings",
                {**binding("bad", "x", "bob"), "subjects": [{"kind": "Robot", "name": "x"}]},
            ),
        ),
    ),
    Case(
        "access_reviews",
        (
            post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {
                        "resourceAttributes": {
                            "namespace": "{ns}",
                            "verb": "get",
                            "resource": "pods",
                        }
                    },
                },
                user="bob",
            ),
            post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"nonResourceAttributes": {"verb": "get", "path": "/apis"}},
                },
                user="bob",
            ),
            post(
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
                user="bob",
            ),
        ),
    ),
    Case(
        "token_requests",
        (
            post(
                "/api/v1/namespaces/{ns}/serviceaccounts/default/token",
                {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {"expirationSeconds": 3600},
                },
            ),
            post(
                "/api/v1/namespaces/{ns}/serviceaccounts/default/token",
                {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {"expirationSeconds": 5},
                },
            ),
            post(
                "/api/v1/namespaces/{ns}/serviceaccounts/none/token",
                {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {},
                },
            ),
        ),
    ),
)


def owned(name: str, block: bool = True) -> Json:
    reference = {
        "apiVersion": "conformance.runnerscale.dev/v1",
        "kind": "Widget",
        "name": "owner",
        "uid": "{uid}",
        "controller": True,
        "blockOwnerDeletion": block,
    }
    return {**config_map(name), "metadata": {"name": name, "ownerReferences": [reference]}}


OWNERS = (
    Case(
        "owner_collected_in_the_background",
        (
            post(WIDGETS, widget("owner"), save={"uid": "metadata.uid"}),
            post(CM, owned("child")),
            delete(f"{WIDGETS}/owner"),
            get(f"{CM}/child", until_code=404),
            post(CM, owned("late")),
            get(f"{CM}/late", until_code=404),
        ),
    ),
    Case(
        "owner_orphans",
        (
            post(WIDGETS, widget("owner"), save={"uid": "metadata.uid"}),
            post(CM, owned("child")),
            delete(
                f"{WIDGETS}/owner",
                {"propagationPolicy": "Orphan"},
            ),
            get(f"{WIDGETS}/owner", until_code=404),
            get(f"{CM}/child"),
        ),
    ),
    Case(
        "owner_waits_for_its_dependents",
        (
            post(WIDGETS, widget("owner"), save={"uid": "metadata.uid"}),
            post(
                CM,
                {
                    **owned("child"),
                    "metadata": {**owned("child")["metadata"], "finalizers": ["a.b/c"]},
                },
            ),
            delete(
                f"{WIDGETS}/owner",
                {"propagationPolicy": "Foreground"},
            ),
            get(
                f"{CM}/child",
                until={"metadata.deletionGracePeriodSeconds": 0},
            ),
            get(f"{WIDGETS}/owner"),
            patch(f"{CM}/child", {"metadata": {"finalizers": None}}),
            get(f"{WIDGETS}/owner", until_code=404),
        ),
    ),
    Case(
        "namespace_empties_itself",
        (
            post(CM, config_map("a")),
            post(WIDGETS, widget("w", finalizers=["example.com/hold"])),
            delete("/api/v1/namespaces/{ns}"),
            get(f"{CM}/a", until_code=404),
            post(CM, config_map("b")),
            post(WIDGETS, widget("v")),
            get(
                f"{WIDGETS}/w",
                until={"metadata.deletionGracePeriodSeconds": 0},
            ),
            patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}}),
            get("/api/v1/namespaces/{ns}", until_code=404),
            delete("/api/v1/namespaces/default"),
        ),
    ),
)

DISCOVERY = (
    Case(
        "discovery",
        (
            get("/apis/conformance.runnerscale.dev"),
            get(
                "/apis/conformance.runnerscale.dev/v1",
            ),
            get("/apis/none.such.group"),
            get("/api/v1/nonesuch"),
            post("/api/v1/namespaces/{ns}/configmaps/x", config_map("x")),
            Step("PUT", CM, config_map("x")),
            get("/healthz"),
            get("/readyz"),
        ),
    ),
    Case(
        "leases",
        (
            post(
                "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": "l"},
                    "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15},
                },
                save={"rv": "metadata.resourceVersion"},
            ),
            Step(
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l",
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": "l", "resourceVersion": "{rv}"},
                    "spec": {"holderIdentity": "you", "leaseDurationSeconds": 15},
                },
            ),
            Step(
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l",
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": "l", "resourceVersion": "{rv}"},
                    "spec": {"holderIdentity": "her", "leaseDurationSeconds": 15},
                },
            ),
            patch(
                "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l",
                {"spec": {"leaseDurationSeconds": 0}},
            ),
        ),
    ),
    Case(
        "events",
        (
            post(
                "/api/v1/namespaces/{ns}/events",
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": "e"},
                    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"},
                    "reason": "Why",
                    "message": "because",
                    "type": "Warning",
                },
            ),
            post(
                "/api/v1/namespaces/{ns}/events",
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": "f"},
                    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "other"},
                },
            ),
            get(
                "/api/v1/namespaces/{ns}/events",
                query={"fieldSelector": "involvedObject.name=p,type=Warning"},
            ),
        ),
    ),
)

CASES = (*SCHEMAS, *PODS_CASES, *RIGHTS, *OWNERS, *DISCOVERY)
