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

REFUSED = ("code", "reason", "message", "details")
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
                keep=REFUSED,
            ),
            patch(
                f"{WIDGETS}/{{dropname}}/status",
                {"status": {"phase": "Pending"}},
                keep=("status", "metadata.generation"),
            ),
            patch(f"{WIDGETS}/{{dropname}}", {"spec": {"size": 1}}, keep=("metadata.generation",)),
            delete(f"{WIDGETS}/{{dropname}}", {"propagationPolicy": "Background"}, keep=("kind",)),
            patch(
                f"{WIDGETS}/{{dropname}}/status",
                {"status": {"phase": "Failed"}},
                keep=("status", "metadata.generation"),
            ),
            patch(
                f"{WIDGETS}/{{dropname}}",
                [
                    {"op": "test", "path": "/metadata/finalizers/0", "value": "a.example.com/f"},
                    {"op": "remove", "path": "/metadata/finalizers/0"},
                ],
                JSON_PATCH,
                keep=("metadata.finalizers",),
            ),
            patch(
                f"{WIDGETS}/{{dropname}}", {"metadata": {"finalizers": []}}, keep=("kind", "code")
            ),
            get(f"{WIDGETS}/{{dropname}}", keep=("code",)),
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
            Step("PUT", f"{WIDGETS}/none", widget("none", resourceVersion="1"), keep=REFUSED),
        ),
    ),
    Case(
        "owned_pod_and_secret",
        (
            post(WIDGETS, widget("w"), save={"uid": "metadata.uid"}, quiet=True),
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
                keep=("metadata.ownerReferences", "metadata.labels", "status"),
            ),
            delete(
                f"{PODS}/w",
                {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}},
                keep=REFUSED,
            ),
            delete(
                f"{PODS}/w",
                {"gracePeriodSeconds": 0, "preconditions": {"uid": "{puid}"}},
                keep=("kind", "metadata.name"),
            ),
            delete(f"{PODS}/w", {"gracePeriodSeconds": 0}, keep=REFUSED),
        ),
    ),
    Case(
        "pod_of_an_agent",
        (
            post(
                PODS,
                pod("p", nodeName="n1", restartPolicy="Never"),
                save={"rv": "metadata.resourceVersion"},
                quiet=True,
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
                keep=("status", "metadata.generation"),
            ),
            get(f"{PODS}/p", accept=TABLE, keep=("rows.0.cells",)),
            delete(f"{PODS}/p", keep=("metadata.deletionGracePeriodSeconds",)),
            get(f"{PODS}/p", accept=TABLE, keep=("rows.0.cells.2",)),
            patch(f"{PODS}/p/status", {"status": {"phase": "Failed"}}, keep=("status.phase",)),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}, keep=("kind", "status.phase")),
            get(f"{PODS}/p", keep=("code",)),
        ),
    ),
    Case(
        "pods_deleted_as_a_collection",
        (
            post(PODS, pod("a", nodeName="n1"), quiet=True),
            post(PODS, pod("b"), quiet=True),
            delete(PODS, {"gracePeriodSeconds": 3}, keep=("kind",)),
            get(
                PODS,
                keep=(
                    "items.0.metadata.name",
                    "items.1.metadata.name",
                    "items.0.metadata.deletionGracePeriodSeconds",
                ),
            ),
            delete(PODS, {"gracePeriodSeconds": 0}, quiet=True),
            get(PODS, keep=("items.0.metadata.name",)),
        ),
    ),
    Case(
        "finalizer_on_a_pod",
        (
            post(
                PODS,
                {**pod("p"), "metadata": {"name": "p", "finalizers": ["example.com/hold"]}},
                quiet=True,
            ),
            delete(
                f"{PODS}/p",
                {"gracePeriodSeconds": 0},
                keep=(
                    "kind",
                    "metadata.deletionGracePeriodSeconds",
                    "metadata.finalizers",
                    "metadata.generation",
                ),
            ),
            get(f"{PODS}/p", keep=("metadata.deletionGracePeriodSeconds",)),
            patch(f"{PODS}/p", {"metadata": {"finalizers": None}}, keep=("kind",)),
            get(f"{PODS}/p", keep=("code",)),
        ),
    ),
    Case(
        "eviction",
        (
            post(PODS, pod("p", nodeName="n1"), quiet=True),
            post(
                f"{PODS}/p/eviction",
                {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": "p"},
                    "deleteOptions": {"gracePeriodSeconds": 2},
                },
            ),
            get(f"{PODS}/p", keep=("metadata.deletionGracePeriodSeconds",)),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}, quiet=True),
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
                keep=REFUSED,
            ),
            delete(f"{SA}/s", keep=("kind",)),
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
                keep=("code", "reason"),
            ),
            patch(
                f"{WIDGETS}/w",
                {"metadata": {"generation": 99, "creationTimestamp": "2001-01-01T00:00:00Z"}},
                keep=("metadata.generation",),
            ),
            patch(f"{WIDGETS}/w", {"metadata": {"namespace": "other"}}, keep=("code", "reason")),
            patch(f"{WIDGETS}/w", {"metadata": None}, keep=("code", "reason")),
            patch(f"{WIDGETS}/w", {"kind": "Gadget"}, keep=("code", "reason")),
            patch(f"{WIDGETS}/w", {"apiVersion": "x/v1"}, keep=("code", "reason")),
            patch(f"{WIDGETS}/w", [1], keep=("code", "reason")),
        ),
    ),
    Case(
        "deletes_answer",
        (
            post(CM, config_map("a"), quiet=True),
            delete(f"{CM}/a", query={"propagationPolicy": "Background"}),
            post(CM, config_map("b"), quiet=True),
            delete(f"{CM}/b", {"orphanDependents": False}),
            post(CM, config_map("c"), quiet=True),
            delete(f"{CM}/c", query={"dryRun": "All", "gracePeriodSeconds": "0"}),
            get(f"{CM}/c", keep=("kind",)),
            post(WIDGETS, widget("w"), quiet=True),
            delete(f"{WIDGETS}/w"),
            delete(f"{CM}/c", {"kind": "DeleteOptions", "apiVersion": "v1"}),
            delete(f"{CM}/c", "not json", keep=("code", "reason")),
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
            patch(f"{EVENTS}/{{dropname}}", {"count": 2}, MERGE, keep=("count",)),
            patch(f"{EVENTS}/{{dropname}}", {"count": 3}, STRATEGIC, keep=("count",)),
            get(
                EVENTS,
                accept=TABLE,
                keep=(
                    "rows.0.cells.1",
                    "rows.0.cells.2",
                    "rows.0.cells.3",
                    "columnDefinitions.0.name",
                ),
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
                keep=("kind", "metadata.labels"),
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
                keep=("status.conditions", "status.addresses", "status.capacity"),
            ),
            get(f"{NODES}/{{ns}}", accept=TABLE, keep=("rows.0.cells.1",)),
            delete(f"{NODES}/{{ns}}", keep=("status",)),
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
                keep=REFUSED,
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
                keep=REFUSED,
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
                keep=("spec", "status"),
            ),
            post(
                "/api/v1/namespaces/{ns}/persistentvolumeclaims",
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": "d"},
                    "spec": {},
                },
                keep=("code", "reason", "details"),
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
                keep=("spec.priority", "spec.preemptionPolicy", "spec.priorityClassName"),
            ),
            delete("/apis/scheduling.k8s.io/v1/priorityclasses/{ns}", quiet=True),
        ),
    ),
    Case(
        "namespaces",
        (
            get("/api/v1/namespaces/{ns}", keep=("spec", "status", "metadata.labels")),
            patch(
                "/api/v1/namespaces/{ns}",
                {"metadata": {"labels": {"a": "b"}}},
                keep=("metadata.labels.a",),
            ),
            patch("/api/v1/namespaces/{ns}", {"spec": {"finalizers": []}}, keep=("spec",)),
            post(
                "/api/v1/namespaces",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}"}},
                keep=REFUSED,
            ),
            post("/api/v1/configmaps", config_map("x"), keep=("code", "reason")),
            get("/api/v1/namespaces/none-such/configmaps", keep=("kind", "items")),
            get("/api/v1/namespaces/none-such/configmaps/x", keep=REFUSED),
        ),
    ),
)

CASES = (*RUNNER, *OTHERS)
