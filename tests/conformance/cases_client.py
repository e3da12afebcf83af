"""How clients read, follow and lead: pages, resumed watches, leases, tokens, and who may ask."""

import base64
import json
from typing import Any

from tests.conformance.cases_flows import RBAC as RBAC_API
from tests.conformance.cases_lists import NO_KUBE_ROOT, events, names
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
from tests.conformance.cases_rules import binding, role, rule
from tests.conformance.transcript import JSON_PATCH, STRATEGIC, TABLE, Case, Step

Json = dict[str, Any]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
RBAC = f"{RBAC_API}/namespaces/{{ns}}"
ACCOUNTS = "/api/v1/namespaces/{ns}/serviceaccounts"
ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def lease(holder: str, *, transitions: int = 0, **meta: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader", **meta},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.123456Z",
            "renewTime": "2026-01-02T03:04:05.123456Z",
            "leaseTransitions": transitions,
        },
    }


def old_token(start: str) -> str:
    """A `continue` of a moment that no server remembers."""
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": f"{start}\u0000"})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def may_i(verb: str, resource: str, user: str = "bob", **more: str) -> Step:
    attributes = {"namespace": "{ns}", "verb": verb, "resource": resource, **more}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return post(ACCESS, body, user=user)


def token_request(**spec: Any) -> Json:
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, **spec},
    }


READING = (
    Case(
        "pages_of_our_client",
        (
            *(post(WIDGETS, widget(f"w{i}", {"size": i})) for i in range(5)),
            get(WIDGETS, query={"limit": "2"}, save={"token": "metadata.continue"}),
            get(
                WIDGETS,
                query={"limit": "2", "continue": "{token}"},
                save={"token": "metadata.continue"},
            ),
            post(WIDGETS, widget("w9")),
            get(WIDGETS, query={"limit": "2", "continue": "{token}"}),
            get(WIDGETS, query={"limit": "500"}),
            get(WIDGETS, query={"limit": "2", "labelSelector": "none=such"}),
            get(WIDGETS, query={"limit": "2"}, accept=TABLE),
            get(WIDGETS, query={"limit": "-1"}),
            get(WIDGETS, query={"limit": "many"}),
        ),
    ),
    Case(
        "a_continue_that_has_expired",
        (
            *(post(WIDGETS, widget(f"w{i}")) for i in range(4)),
            Step("COMPACT", ""),
            get(
                WIDGETS,
                query={"limit": "2", "continue": old_token("w1")},
                save={"token": "metadata.continue"},
            ),
            get(
                WIDGETS,
                query={"limit": "1", "continue": "{token}"},
                save={"token": "metadata.continue"},
            ),
            get(WIDGETS, query={"continue": "{token}"}),
        ),
    ),
    Case(
        "selectors_that_cannot_be_read",
        (
            *(
                names(selector)
                for selector in (
                    "=x",
                    "app=x,",
                    "app=x y",
                    "app in (x",
                    "app in ()",
                    "app notin (x,,y)",
                    "!app,tier",
                    "app=in",
                    "app>x",
                    "app=a/b",
                    "app in (a/b)",
                    "-app=x",
                    "a/b/c",
                    ",",
                    "app==",
                    "app!x",
                )
            ),
            get(CM, query={"fieldSelector": "metadata.name"}),
            get(CM, query={"fieldSelector": "metadata.name=a,spec.x=1"}),
            get(PODS, query={"fieldSelector": "spec.containers=1"}),
        ),
    ),
    Case(
        "watches_that_end_in_order",
        (
            post(CM, config_map("a"), save={"rv": "metadata.resourceVersion"}),
            Step(
                "GET",
                CM,
                query={"watch": "true", "resourceVersion": "{rv}", "timeoutSeconds": "2"},
                watch=1,
            ),
            # How many bookmarks a short watch gets is a matter of chance, but for this one.
            Step(
                "GET",
                CM,
                query={
                    "watch": "true",
                    "fieldSelector": NO_KUBE_ROOT,
                    "sendInitialEvents": "true",
                    "resourceVersionMatch": "NotOlderThan",
                    "allowWatchBookmarks": "true",
                    "timeoutSeconds": "10",
                },
                watch=2,
            ),
            Step("GET", f"{CM}/a", query={"watch": "true", "timeoutSeconds": "1"}, watch=1),
            Step("GET", CM, query={"watch": "true", "resourceVersion": "word"}, watch=1),
            Step("GET", CM, query={"watch": "true", "labelSelector": "a b"}, watch=1),
            Step("GET", CM, query={"watch": "true"}, user="bob", watch=1),
            Step(
                "GET",
                WIDGETS,
                query={"watch": "true", "resourceVersion": "1", "timeoutSeconds": "5"},
                watch=1,
            ),
        ),
    ),
    Case(
        "a_watch_is_resumed_where_it_ended",
        (
            post(WIDGETS, widget("w"), save={"rv": "metadata.resourceVersion"}),
            patch(f"{WIDGETS}/w", {"spec": {"size": 2}}),
            events(WIDGETS, 1, resourceVersion="{rv}"),
            patch(
                f"{WIDGETS}/w",
                {"spec": {"size": 3}},
                save={"rv": "metadata.resourceVersion"},
            ),
            patch(f"{WIDGETS}/w", {"spec": {"size": 4}}),
            patch(f"{WIDGETS}/w", {"spec": {"size": 4}}),  # changes nothing: nobody is told
            delete(f"{WIDGETS}/w"),
            events(WIDGETS, 2, resourceVersion="{rv}"),
        ),
    ),
    Case(
        "an_agent_watches_its_node",
        (
            post(PODS, pod("p"), save={"rv": "metadata.resourceVersion"}),
            post(
                f"{PODS}/p/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": "p", "uid": "11111111-2222-3333-4444-555555555555"},
                    "target": {"kind": "Node", "name": "n1"},
                },
            ),
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
                    "target": {},
                },
            ),
            post(PODS, pod("other", nodeName="n2")),
            events(PODS, 1, resourceVersion="{rv}", fieldSelector="spec.nodeName=n1"),
            get(f"{PODS}/p/log"),
            get(f"{PODS}/none/log"),
            get(f"{PODS}/p/log", query={"container": "none"}),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}),
            delete(f"{PODS}/other", {"gracePeriodSeconds": 0}),
        ),
    ),
)

WRITING = (
    Case(
        "a_lease_changes_hands",
        (
            post(LEASES, lease("one"), save={"rv": "metadata.resourceVersion"}),
            post(LEASES, lease("two")),
            Step(
                "PUT",
                f"{LEASES}/leader",
                lease("one", resourceVersion="{rv}"),
                save={"rv2": "metadata.resourceVersion"},
            ),
            Step(
                "PUT",
                f"{LEASES}/leader",
                {
                    **lease("", resourceVersion="{rv2}"),
                    "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
                },
                save={"rv3": "metadata.resourceVersion"},
            ),
            Step("PUT", f"{LEASES}/leader", lease("two", transitions=1, resourceVersion="{rv2}")),
            Step("PUT", f"{LEASES}/leader", lease("two", transitions=1, resourceVersion="{rv3}")),
            Step("PUT", f"{LEASES}/leader", lease("three")),
            patch(f"{LEASES}/leader", {"spec": {"leaseDurationSeconds": 0}}),
            get(f"{LEASES}/leader", accept=TABLE),
            delete(f"{LEASES}/leader"),
        ),
    ),
    Case(
        "bodies_that_cannot_be_read",
        (
            post(CM, "not json"),
            post(WIDGETS, "not json"),
            post(CM, ""),
            post(WIDGETS, ""),
            post(CM, "[1]"),
            post(CM, '{"kind":'),
            post(CM, config_map("a"), content_type="text/plain"),
            post(WIDGETS, widget("w"), content_type="text/plain"),
            post(
                CM,
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yam\ndata:\n  a: b\n",
                content_type="application/yaml",
            ),
            post(CM, {**config_map("a"), "metadata": "none"}),
            post(CM, {**config_map("a"), "data": "none"}),
            post(WIDGETS, {**widget("w"), "metadata": {"name": "w", "labels": {"a": 1}}}),
            post(WIDGETS, {**widget("w"), "spec": "none"}),
            Step("PUT", f"{CM}/yam", "not json"),
            Step("PUT", f"{WIDGETS}/w", "not json"),
            patch(f"{CM}/yam", {"kind": "Nonsense"}),
            patch(f"{CM}/yam", {"apiVersion": "v2"}),
            patch(f"{CM}/yam", {"metadata": None}),
            patch(f"{CM}/yam", {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}}),
            patch(f"{CM}/yam", {"data": {"a": 1}}),
            patch(f"{CM}/yam", [{"op": "odd", "path": "/data"}], JSON_PATCH),
            patch(f"{CM}/yam", [{"op": "replace", "path": "/data/none", "value": "x"}], JSON_PATCH),
            patch(f"{CM}/yam", {"data": {"$patch": "replace", "z": "1"}}, STRATEGIC),
            delete(f"{CM}/yam", {"gracePeriodSeconds": "long"}),
        ),
    ),
    Case(
        "a_secret_and_an_account_of_ours",
        (
            post(
                SECRETS,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "s", "labels": {"actions.github.com/x": "y"}},
                    "data": {"config.json": "e30="},
                },
                save={"rv": "metadata.resourceVersion"},
            ),
            patch(f"{SECRETS}/s", {"metadata": {"resourceVersion": "{rv}"}, "data": {"b": "Yg=="}}),
            patch(f"{SECRETS}/s", {"metadata": {"resourceVersion": "{rv}"}, "data": {"c": "Yw=="}}),
            patch(f"{SECRETS}/s", {"immutable": True}),
            patch(f"{SECRETS}/s", {"data": {"b": "Yw=="}}),
            get(f"{SECRETS}/s", accept=TABLE),
            post(
                ACCOUNTS,
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": "a"},
                    "imagePullSecrets": [{"name": "pull"}],
                },
            ),
            post(
                PODS,
                {
                    **pod("p", serviceAccountName="a", automountServiceAccountToken=True),
                    "metadata": {"name": "p"},
                },
                save={"dropvolume": "spec.volumes.0.name"},
            ),
            get(ACCOUNTS, accept=TABLE, query={"fieldSelector": "metadata.name=a"}),
        ),
    ),
    Case(
        "tables_of_the_kinds_people_look_at",
        (
            post(f"{RBAC}/roles", role("r", rule(["pods"], ["get"]))),
            post(f"{RBAC}/rolebindings", binding("b", "r", "bob")),
            post(
                "/api/v1/namespaces/{ns}/resourcequotas",
                {
                    "apiVersion": "v1",
                    "kind": "ResourceQuota",
                    "metadata": {"name": "q"},
                    "spec": {"hard": {"pods": "5", "limits.cpu": "2"}},
                },
            ),
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
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": "{ns}"},
                    "value": 7,
                },
            ),
            get(f"{RBAC}/roles/r", accept=TABLE),
            get(f"{RBAC}/rolebindings/b", accept=TABLE),
            get(
                "/api/v1/namespaces/{ns}/resourcequotas/q",
                until={"status.used.pods": "0"},
            ),
            get("/api/v1/namespaces/{ns}/resourcequotas/q", accept=TABLE),
            get("/api/v1/namespaces/{ns}/persistentvolumeclaims/c", accept=TABLE),
            get("/apis/scheduling.k8s.io/v1/priorityclasses/{ns}", accept=TABLE),
            get("/api/v1/namespaces/{ns}", accept=TABLE),
            get(f"{CM}/kube-root-ca.crt", accept=TABLE),
            get(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
                "widgets.conformance.runnerscale.dev",
                accept=TABLE,
            ),
            delete("/api/v1/namespaces/{ns}/persistentvolumeclaims/c"),
            get("/api/v1/namespaces/{ns}/persistentvolumeclaims/c", until_code=404),
            delete("/apis/scheduling.k8s.io/v1/priorityclasses/{ns}"),
        ),
    ),
)

ASKING = (
    Case(
        "may_i",
        (
            may_i("get", "pods"),
            may_i("get", "pods", user="admin"),
            post(f"{RBAC}/roles", role("r", rule(["pods", "pods/log"], ["get"]))),
            post(f"{RBAC}/rolebindings", binding("b", "r", "bob")),
            get(f"{PODS}/none", user="bob", until_code=404),
            may_i("get", "pods"),
            may_i("get", "pods", subresource="log"),
            may_i("list", "pods"),
            may_i("get", "pods", name="one"),
            may_i("get", "pods", group="x.example.com"),
            may_i("create", "ephemeralrunners", group="actions.github.com"),
            post(ACCESS, {"apiVersion": "authorization.k8s.io/v1", "spec": {}}),
        ),
    ),
    Case(
        "a_service_account_comes_in",
        (
            post(
                ACCOUNTS,
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}},
            ),
            post(PODS, pod("p", serviceAccountName="s"), save={"uid": "metadata.uid"}),
            post(
                f"{ACCOUNTS}/s/token",
                token_request(),
                save={"account": "status.token"},
            ),
            post(
                f"{ACCOUNTS}/s/token",
                token_request(
                    boundObjectRef={
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": "p",
                        "uid": "{uid}",
                    }
                ),
                save={"bound": "status.token"},
            ),
            post(
                f"{ACCOUNTS}/s/token",
                token_request(
                    boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "none", "uid": "x"}
                ),
            ),
            post(
                f"{ACCOUNTS}/s/token",
                token_request(audiences=["somebody-else"]),
                save={"foreign": "status.token"},
            ),
            *(
                post(
                    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                    {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
                    user=user,
                )
                for user in ("account", "bound", "foreign")
            ),
            get(CM, user="account"),
            post(
                f"{RBAC}/rolebindings",
                {
                    **binding("b", "r", ""),
                    "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "{ns}"}],
                },
            ),
            post(f"{RBAC}/roles", role("r", rule(["configmaps"], ["get", "list"]))),
            get(CM, user="account", until_code=200, query={"fieldSelector": "metadata.name=x"}),
            may_i("list", "configmaps", user="account"),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}),
            get(CM, user="bound", until_code=401),
            delete(f"{ACCOUNTS}/s"),
            get(CM, user="account", until_code=401),
        ),
    ),
    Case(
        "strangers",
        (
            get(CM, user="nobody"),
            get("/version", user="nobody"),
            get("/api", user="nobody"),
            get("/apis/conformance.runnerscale.dev", user="nobody"),
            get(CM, user="wrong"),
            get("/version", user="wrong"),
            get("/readyz", user="nobody"),
            get("/readyz"),
        ),
    ),
)

COLLECTED = (
    Case(
        "an_owner_that_never_was",
        (
            post(
                CM,
                {
                    **config_map("child"),
                    "metadata": {
                        "name": "child",
                        "ownerReferences": [
                            {
                                "apiVersion": "conformance.runnerscale.dev/v1",
                                "kind": "Widget",
                                "name": "ghost",
                                "uid": "11111111-2222-3333-4444-555555555555",
                            }
                        ],
                    },
                },
            ),
            get(f"{CM}/child", until_code=404),
        ),
    ),
    Case(
        "one_of_two_owners_goes",
        (
            post(WIDGETS, widget("one"), save={"uid1": "metadata.uid"}),
            post(WIDGETS, widget("two"), save={"uid2": "metadata.uid"}),
            post(
                CM,
                {
                    **config_map("child"),
                    "metadata": {
                        "name": "child",
                        "ownerReferences": [
                            {
                                "apiVersion": "conformance.runnerscale.dev/v1",
                                "kind": "Widget",
                                "name": name,
                                "uid": uid,
                            }
                            for name, uid in (("one", "{uid1}"), ("two", "{uid2}"))
                        ],
                    },
                },
            ),
            delete(f"{WIDGETS}/one", {"propagationPolicy": "Background"}),
            get(f"{CM}/child", until={"metadata.ownerReferences.1": None}),
            delete(f"{WIDGETS}/two", {"propagationPolicy": "Background"}),
            get(f"{CM}/child", until_code=404),
        ),
    ),
)

CASES = (*READING, *WRITING, *ASKING, *COLLECTED)
