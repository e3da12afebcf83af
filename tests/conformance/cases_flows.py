"""The requests that our controllers, listener, node agent and kubectl really make, in order."""

from typing import Any

from tests.conformance.cases_objects import (
    CM,
    PODS,
    SECRETS,
    WIDGETS,
    config_map,
    delete,
    get,
    patch,
    pod,
    post,
    widget,
)
from tests.conformance.transcript import JSON_PATCH, MERGE, STRATEGIC, TABLE, Case, Step

Json = dict[str, Any]

SA = "/api/v1/namespaces/{ns}/serviceaccounts"
NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/{ns}/events"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def owner(kind: str = "Widget", api: str = "conformance.runnerscale.dev/v1") -> Json:
    return {
        "apiVersion": api,
        "kind": kind,
        "name": "w",
        "uid": "{uid}",
        "controller": True,
        "blockOwnerDeletion": True,
    }


RUNNER = (
    Case(
        "life_of_a_runner_object",
        (
            post(
                WIDGETS,
                {
                    **widget("x"),
                    "metadata": {
                        "generateName": "set-runner-",
                        "labels": {"app.kubernetes.io/component": "runner"},
                        "annotations": {"actions.github.com/patch-id": "3"},
                        "finalizers": ["a.example.com/f", "a.example.com/registration"],
                    },
                    "status": {"phase": "Running"},
                },
                save={"dropname": "metadata.name", "rv": "metadata.resourceVersion"},
            ),
            patch(
                f"{WIDGETS}/{{dropname}}/status",
                {"metadata": {"resourceVersion": "{rv}"}, "status": {"phase": "Pending"}},
                save={"rv2": "metadata.resourceVersion"},
            ),
            patch(
                f"{WIDGETS}/{{dropname}}/status",
                {"metadata": {"resourceVersion": "{rv}"}, "status": {"phase": "Running"}},
            ),
            patch(
                f"{WIDGETS}/{{dropname}}/status",
                {"status": {"phase": "Pending"}},
            ),
            patch(f"{WIDGETS}/{{dropname}}", {"spec": {"size": 1}}),
            delete(f"{WIDGETS}/{{dropname}}", {"propagationPolicy": "Background"}),
            patch(
                f"{WIDGETS}/{{dropname}}/status",
                {"status": {"phase": "Failed"}},
            ),
            patch(
                f"{WIDGETS}/{{dropname}}",
                [
                    {"op": "test", "path": "/metadata/finalizers/0", "value": "a.example.com/f"},
                    {"op": "remove", "path": "/metadata/finalizers/0"},
                ],
                JSON_PATCH,
            ),
            patch(f"{WIDGETS}/{{dropname}}", {"metadata": {"finalizers": []}}),
            get(f"{WIDGETS}/{{dropname}}"),
        ),
    ),
    Case(
        "replace_of_a_custom_object",
        (
            post(
                WIDGETS, widget("w"), save={"rv": "metadata.resourceVersion", "uid": "metadata.uid"}
            ),
            Step(
                "PUT",
                f"{WIDGETS}/w",
                {**widget("w", {"size": 2}, resourceVersion="{rv}"), "status": {"phase": "no"}},
                save={"rv2": "metadata.resourceVersion"},
            ),
            Step(
                "PUT",
                f"{WIDGETS}/w/status",
                {
                    **widget("w", {"size": 9}, resourceVersion="{rv2}", labels={"no": "no"}),
                    "status": {"phase": "Up"},
                },
                save={"rv3": "metadata.resourceVersion"},
            ),
            Step(
                "PUT",
                f"{WIDGETS}/w",
                widget("w", {"size": 2}, resourceVersion="{rv3}", uid="{uid}", generation=77),
            ),
            Step("PUT", f"{WIDGETS}/none", widget("none", resourceVersion="1")),
        ),
    ),
    Case(
        "owned_pod_and_secret",
        (
            post(WIDGETS, widget("w"), save={"uid": "metadata.uid"}),
            post(
                SECRETS,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "w", "ownerReferences": [owner()]},
                    "data": {"jitToken": "YQ=="},
                },
            ),
            post(
                PODS,
                {
                    **pod("w"),
                    "metadata": {
                        "name": "w",
                        "ownerReferences": [owner()],
                        "labels": {"actions-ephemeral-runner": "True"},
                    },
                },
                save={"puid": "metadata.uid", "prv": "metadata.resourceVersion"},
            ),
            delete(
                f"{PODS}/w",
                {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}},
            ),
            delete(
                f"{PODS}/w",
                {"gracePeriodSeconds": 0, "preconditions": {"uid": "{puid}"}},
            ),
            delete(f"{PODS}/w", {"gracePeriodSeconds": 0}),
        ),
    ),
    Case(
        "pod_of_an_agent",
        (
            post(
                PODS,
                pod("p", nodeName="n1", restartPolicy="Never"),
                save={"rv": "metadata.resourceVersion"},
            ),
            patch(
                f"{PODS}/p/status",
                {
                    "status": {
                        "phase": "Running",
                        "startTime": "2026-01-02T03:04:05Z",
                        "containerStatuses": [
                            {
                                "name": "main",
                                "image": "busybox:1",
                                "imageID": "",
                                "ready": True,
                                "restartCount": 0,
                                "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
                            }
                        ],
                        "conditions": [
                            {
                                "type": "Ready",
                                "status": "True",
                                "lastTransitionTime": "2026-01-02T03:04:05Z",
                            }
                        ],
                    }
                },
                MERGE,
            ),
            get(f"{PODS}/p", accept=TABLE),
            delete(f"{PODS}/p"),
            get(f"{PODS}/p", accept=TABLE),
            patch(f"{PODS}/p/status", {"status": {"phase": "Failed"}}),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}),
            get(f"{PODS}/p"),
        ),
    ),
    Case(
        "pods_deleted_as_a_collection",
        (
            post(PODS, pod("a", nodeName="n1")),
            post(PODS, pod("b")),
            delete(PODS, {"gracePeriodSeconds": 3}),
            get(
                PODS,
            ),
            delete(PODS, {"gracePeriodSeconds": 0}),
            get(PODS),
        ),
    ),
    Case(
        "finalizer_on_a_pod",
        (
            post(
                PODS,
                {**pod("p"), "metadata": {"name": "p", "finalizers": ["example.com/hold"]}},
            ),
            delete(
                f"{PODS}/p",
                {"gracePeriodSeconds": 0},
            ),
            get(f"{PODS}/p"),
            patch(f"{PODS}/p", {"metadata": {"finalizers": None}}),
            get(f"{PODS}/p"),
        ),
    ),
    Case(
        "eviction",
        (
            post(PODS, pod("p", nodeName="n1")),
            post(
                f"{PODS}/p/eviction",
                {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": "p"},
                    "deleteOptions": {"gracePeriodSeconds": 2},
                },
            ),
            get(f"{PODS}/p"),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}),
        ),
    ),
)

OTHERS = (
    Case(
        "service_account",
        (
            post(
                SA,
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}},
                save={"rv": "metadata.resourceVersion"},
            ),
            Step(
                "PUT",
                f"{SA}/s",
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {
                        "name": "s",
                        "resourceVersion": "{rv}",
                        "labels": {"a": "b"},
                    },
                },
            ),
            Step(
                "PUT",
                f"{SA}/s",
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": "s", "resourceVersion": "{rv}"},
                },
            ),
            delete(f"{SA}/s"),
        ),
    ),
    Case(
        "what_a_client_may_not_set_on_create",
        (
            post(
                CM,
                {
                    **config_map("a"),
                    "metadata": {
                        "name": "a",
                        "uid": "11111111-2222-3333-4444-555555555555",
                        "creationTimestamp": "2001-01-01T00:00:00Z",
                        "deletionTimestamp": "2001-01-01T00:00:00Z",
                        "deletionGracePeriodSeconds": 5,
                        "generation": 7,
                        "selfLink": "/x",
                    },
                },
                save={"uid": "metadata.uid"},
            ),
            post(WIDGETS, widget("w", generation=7, deletionGracePeriodSeconds=5)),
            patch(
                f"{WIDGETS}/w",
                {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}},
            ),
            patch(
                f"{WIDGETS}/w",
                {"metadata": {"generation": 99, "creationTimestamp": "2001-01-01T00:00:00Z"}},
            ),
            patch(f"{WIDGETS}/w", {"metadata": {"namespace": "other"}}),
            patch(f"{WIDGETS}/w", {"metadata": None}),
            patch(f"{WIDGETS}/w", {"kind": "Gadget"}),
            patch(f"{WIDGETS}/w", {"apiVersion": "x/v1"}),
            patch(f"{WIDGETS}/w", [1]),
        ),
    ),
    Case(
        "deletes_answer",
        (
            post(CM, config_map("a")),
            delete(f"{CM}/a", query={"propagationPolicy": "Background"}),
            post(CM, config_map("b")),
            delete(f"{CM}/b", {"orphanDependents": False}),
            post(CM, config_map("c")),
            delete(f"{CM}/c", query={"dryRun": "All", "gracePeriodSeconds": "0"}),
            get(f"{CM}/c"),
            post(WIDGETS, widget("w")),
            delete(f"{WIDGETS}/w"),
            delete(f"{CM}/c", {"kind": "DeleteOptions", "apiVersion": "v1"}),
            delete(f"{CM}/c", "not json"),
        ),
    ),
    Case(
        "an_event_is_counted_up",
        (
            post(
                EVENTS,
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"generateName": "e."},
                    "involvedObject": {
                        "apiVersion": "conformance.runnerscale.dev/v1",
                        "kind": "Widget",
                        "name": "w",
                        "namespace": "{ns}",
                    },
                    "count": 1,
                    "firstTimestamp": "2026-01-02T03:04:05Z",
                    "lastTimestamp": "2026-01-02T03:04:05Z",
                    "source": {"component": "us"},
                    "type": "Normal",
                    "reason": "R",
                    "message": "m",
                },
                save={"dropname": "metadata.name"},
            ),
            patch(f"{EVENTS}/{{dropname}}", {"count": 2}, MERGE),
            patch(f"{EVENTS}/{{dropname}}", {"count": 3}, STRATEGIC),
            get(
                EVENTS,
                accept=TABLE,
            ),
        ),
    ),
    Case(
        "a_node_reports",
        (
            post(
                NODES,
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "{ns}", "labels": {"kubernetes.io/os": "linux"}},
                },
            ),
            patch(
                f"{NODES}/{{ns}}/status",
                {
                    "status": {
                        "conditions": [{"type": "Ready", "status": "True"}],
                        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                        "capacity": {"cpu": 2, "memory": "4Gi"},
                    }
                },
                MERGE,
            ),
            get(f"{NODES}/{{ns}}", accept=TABLE),
            delete(f"{NODES}/{{ns}}"),
        ),
    ),
    Case(
        "bindings_take_defaults",
        (
            post(
                f"{RBAC}/namespaces/{{ns}}/rolebindings",
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "RoleBinding",
                    "metadata": {"name": "b"},
                    "roleRef": {"kind": "Role", "name": "none"},
                    "subjects": [
                        {"kind": "ServiceAccount", "name": "s", "namespace": "{ns}"},
                        {"kind": "Group", "name": "g"},
                    ],
                },
            ),
            post(
                f"{RBAC}/namespaces/{{ns}}/rolebindings",
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "RoleBinding",
                    "metadata": {"name": "c"},
                    "roleRef": {"kind": "Robot", "name": "none"},
                    "subjects": [{"kind": "ServiceAccount", "name": "s"}],
                },
            ),
            post(
                f"{RBAC}/namespaces/{{ns}}/roles",
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "Role",
                    "metadata": {"name": "Has:Colons"},
                    "rules": [],
                },
            ),
            post(
                f"{RBAC}/namespaces/{{ns}}/roles",
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "Role",
                    "metadata": {"name": "a/b"},
                    "rules": [],
                },
            ),
        ),
    ),
    Case(
        "claims_and_classes",
        (
            post(
                "/api/v1/namespaces/{ns}/persistentvolumeclaims",
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": "c"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                        "storageClassName": "x",
                    },
                },
            ),
            post(
                "/api/v1/namespaces/{ns}/persistentvolumeclaims",
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": "d"},
                    "spec": {},
                },
            ),
            post(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": "{ns}"},
                    "value": 7,
                },
            ),
            post(
                PODS,
                pod("p", priorityClassName="{ns}"),
            ),
            delete("/apis/scheduling.k8s.io/v1/priorityclasses/{ns}"),
        ),
    ),
    Case(
        "namespaces",
        (
            get("/api/v1/namespaces/{ns}"),
            patch(
                "/api/v1/namespaces/{ns}",
                {"metadata": {"labels": {"a": "b"}}},
            ),
            patch("/api/v1/namespaces/{ns}", {"spec": {"finalizers": []}}),
            post(
                "/api/v1/namespaces",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}"}},
            ),
            post("/api/v1/configmaps", config_map("x")),
            get("/api/v1/namespaces/none-such/configmaps"),
            get("/api/v1/namespaces/none-such/configmaps/x"),
        ),
    ),
)

CASES = (*RUNNER, *OTHERS)
