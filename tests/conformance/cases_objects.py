"""What happens to objects: create, read, replace, patch, delete. Written against HTTP only."""

from typing import Any

from tests.conformance.transcript import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Case,
    Step,
)

Json = dict[str, Any]

CM = "/api/v1/namespaces/{ns}/configmaps"
SECRETS = "/api/v1/namespaces/{ns}/secrets"
PODS = "/api/v1/namespaces/{ns}/pods"
WIDGETS = "/apis/conformance.runnerscale.dev/v1/namespaces/{ns}/widgets"


def config_map(name: str, **data: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": data,
    }


def widget(name: str, spec: Json | None = None, **meta: Any) -> Json:
    return {
        "apiVersion": "conformance.runnerscale.dev/v1",
        "kind": "Widget",
        "metadata": {"name": name, **meta},
        "spec": spec if spec is not None else {"size": 1},
    }


def pod(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "busybox:1"}],
            **spec,
        },
    }


def post(path: str, body: Any, **more: Any) -> Step:
    return Step("POST", path, body, **more)


def get(path: str, **more: Any) -> Step:
    return Step("GET", path, **more)


def patch(path: str, body: Any, content_type: str = MERGE, **more: Any) -> Step:
    return Step("PATCH", path, body, content_type=content_type, **more)


def delete(path: str, body: Any = None, **more: Any) -> Step:
    return Step("DELETE", path, body, **more)


CASES = (
    Case(
        "create_read_and_delete",
        (
            post(CM, config_map("a", x="1")),
            get(f"{CM}/a"),
            post(CM, config_map("a", x="1")),
            get(f"{CM}/missing"),
            delete(f"{CM}/a"),
            delete(f"{CM}/a"),
            get(CM, query={"fieldSelector": "metadata.name=a"}),
        ),
    ),
    Case(
        "bad_names_and_bodies",
        (
            post(CM, config_map("Bad_Name")),
            post(CM, config_map("")),
            post(CM, {"apiVersion": "v1", "kind": "ConfigMap"}),
            post(CM, config_map("x" * 254)),
            post(CM, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
            post(CM, {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}),
            post(CM, {**config_map("a"), "metadata": {"name": "a", "namespace": "other"}}),
            post(CM, {**config_map("a"), "metadata": {"name": "a", "labels": {"a b": "c d"}}}),
            post(CM, {**config_map("a"), "metadata": {"name": "a", "annotations": {"a b": "c"}}}),
            post(CM, {**config_map("a"), "metadata": {"name": "a", "finalizers": ["no slash"]}}),
            post(CM, {**config_map("a"), "data": {"bad key": "x"}}),
            post(
                CM,
                {
                    **config_map("a"),
                    "metadata": {
                        "name": "a",
                        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod"}],
                    },
                },
            ),
            post(CM, {**config_map("a"), "metadata": {"name": "a", "resourceVersion": "5"}}),
            post("/api/v1/namespaces/none-such/configmaps", config_map("a")),
            post(WIDGETS, widget("Bad_Name")),
            post(WIDGETS, {**widget("a"), "kind": "Gadget"}),
            post(WIDGETS, {**widget("a"), "apiVersion": "conformance.runnerscale.dev/v2"}),
            post(WIDGETS, '{"metadata":{"name":"a"}}'),
            post(
                "/api/v1/namespaces",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a.b"}},
            ),
        ),
    ),
    Case(
        "generated_names",
        (
            post(
                CM,
                {**config_map("x"), "metadata": {"generateName": "gen-"}},
                save={"dropname": "metadata.name"},
            ),
            get(f"{CM}/{{dropname}}"),
            post(
                CM,
                {**config_map("x"), "metadata": {"generateName": "Bad_"}},
                save={"dropbad": "details.name"},
            ),
        ),
    ),
    Case(
        "replace",
        (
            post(CM, config_map("a", x="1"), save={"rv": "metadata.resourceVersion"}),
            Step("PUT", f"{CM}/a", config_map("a", x="2")),
            Step(
                "PUT",
                f"{CM}/a",
                {**config_map("a", x="3"), "metadata": {"name": "a", "resourceVersion": "{rv}"}},
            ),
            Step("PUT", f"{CM}/a", config_map("b", x="2")),
            Step("PUT", f"{CM}/none", config_map("none", x="2")),
            Step(
                "PUT",
                f"{CM}/a",
                {
                    **config_map("a", x="3"),
                    "metadata": {"name": "a", "uid": "11111111-2222-3333-4444-555555555555"},
                },
            ),
            post(WIDGETS, widget("w")),
            Step("PUT", f"{WIDGETS}/w", widget("w", {"size": 2})),
            Step(
                "PUT",
                f"{WIDGETS}/w",
                widget("w", {"size": 2}, resourceVersion="1"),
            ),
        ),
    ),
    Case(
        "merge_and_json_patch",
        (
            post(CM, config_map("a", x="1", y="2"), save={"rv": "metadata.resourceVersion"}),
            patch(f"{CM}/a", {"data": {"x": None, "z": "3"}}),
            patch(f"{CM}/a", {"metadata": {"labels": {"l": "v"}}}),
            patch(f"{CM}/a", {"metadata": {"resourceVersion": "{rv}"}, "data": {"q": "1"}}),
            patch(f"{CM}/a", [{"op": "test", "path": "/data/z", "value": "3"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "test", "path": "/data/z", "value": "4"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "remove", "path": "/data/none"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "add", "path": "/data/n", "value": "1"}], JSON_PATCH),
            patch(f"{CM}/a", {"op": "add"}, JSON_PATCH),
            patch(f"{CM}/a", "not json", MERGE),
            patch(f"{CM}/none", {"data": {"x": "1"}}),
            patch(f"{CM}/a", {"metadata": {"name": "b"}}),
            patch(f"{CM}/a", {}, "application/unknown"),
            patch(f"{WIDGETS}/none", {}, STRATEGIC),
        ),
    ),
    Case(
        "merge_patch_of_a_custom_object",
        (
            post(WIDGETS, widget("w", {"size": 1, "color": "red"})),
            patch(f"{WIDGETS}/w", {"spec": {"color": None}}),
            patch(f"{WIDGETS}/w", {"spec": {"size": 3}}),
            patch(f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}}),
            patch(f"{WIDGETS}/w", {"metadata": {"resourceVersion": "1"}, "spec": {"size": 4}}),
            patch(f"{WIDGETS}/w", {"status": {"phase": "ignored"}}),
            patch(f"{WIDGETS}/w/status", {"status": {"phase": "Up"}, "spec": {"size": 9}}),
            patch(f"{WIDGETS}/w/status", {"metadata": {"labels": {"not": "taken"}}}),
            get(f"{WIDGETS}/w"),
            get(f"{WIDGETS}/w/status"),
        ),
    ),
    Case(
        "strategic_patch",
        (
            post(
                PODS,
                pod(
                    "p",
                    containers=[
                        {
                            "name": "main",
                            "image": "busybox:1",
                            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        },
                        {"name": "side", "image": "busybox:1"},
                    ],
                ),
            ),
            patch(
                f"{PODS}/p",
                {"spec": {"containers": [{"name": "side", "image": "busybox:2"}]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/p/status",
                {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/p/status",
                {"status": {"conditions": [{"type": "Other", "status": "False"}]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/p/status",
                {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/p",
                {"metadata": {"finalizers": ["example.com/a"]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/p",
                {"metadata": {"finalizers": ["example.com/b"]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/p",
                {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/p",
                {"spec": {"containers": [{"name": "main", "command": ["x"]}]}},
                STRATEGIC,
            ),
            patch(f"{PODS}/p", {"metadata": {"finalizers": None}}),
        ),
    ),
    Case(
        "finalizers_hold_and_let_go",
        (
            post(WIDGETS, widget("w", finalizers=["example.com/hold"])),
            delete(f"{WIDGETS}/w"),
            get(f"{WIDGETS}/w"),
            delete(f"{WIDGETS}/w"),
            patch(f"{WIDGETS}/w", {"metadata": {"finalizers": ["example.com/hold", "a.b/c"]}}),
            patch(f"{WIDGETS}/w", {"spec": {"size": 2}}),
            patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}}),
            get(f"{WIDGETS}/w"),
        ),
    ),
    Case(
        "delete_preconditions",
        (
            post(WIDGETS, widget("w"), save={"uid": "metadata.uid"}),
            delete(
                f"{WIDGETS}/w",
                {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}},
            ),
            delete(f"{WIDGETS}/w", {"preconditions": {"resourceVersion": "1"}}),
            delete(f"{WIDGETS}/w", {"preconditions": {"uid": "{uid}"}}),
            delete(f"{WIDGETS}/w", {"propagationPolicy": "Sideways"}),
        ),
    ),
    Case(
        "dry_run_changes_nothing",
        (
            post(CM, config_map("a", x="1"), query={"dryRun": "All"}),
            get(f"{CM}/a"),
            post(CM, config_map("a", x="1")),
            patch(f"{CM}/a", {"data": {"x": "2"}}, query={"dryRun": "All"}),
            get(f"{CM}/a"),
            delete(f"{CM}/a", query={"dryRun": "All"}),
            get(f"{CM}/a"),
            post(CM, config_map("a", x="1"), query={"dryRun": "Some"}),
            post(PODS, pod("p"), query={"dryRun": "All"}),
            post(PODS, pod("p", containers=[]), query={"dryRun": "All"}),
        ),
    ),
    Case(
        "delete_a_collection",
        (
            post(CM, {**config_map("a"), "metadata": {"name": "a", "labels": {"k": "1"}}}),
            post(CM, {**config_map("b"), "metadata": {"name": "b", "labels": {"k": "1"}}}),
            post(CM, {**config_map("c"), "metadata": {"name": "c", "labels": {"k": "2"}}}),
            delete(CM, query={"labelSelector": "k=1"}),
            get(CM, query={"labelSelector": "k"}),
        ),
    ),
    Case(
        "field_validation",
        (
            post(CM, {**config_map("a"), "oops": 1}, query={"fieldValidation": "Strict"}),
            post(CM, {**config_map("a"), "oops": 1}, query={"fieldValidation": "Ignore"}),
            post(CM, {**config_map("b"), "data": {"x": 1}}),
            post(
                WIDGETS,
                widget("w", {"size": 1, "oops": {"deep": 1}}),
                query={"fieldValidation": "Strict"},
            ),
            post(WIDGETS, widget("w", {"size": 1, "oops": {"deep": 1}})),
            patch(
                f"{WIDGETS}/w",
                {"spec": {"oops": 1}},
                query={"fieldValidation": "Strict"},
            ),
            post(CM, config_map("c"), query={"fieldValidation": "Maybe"}),
        ),
    ),
    Case(
        "secrets",
        (
            post(
                SECRETS,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "s"},
                    "stringData": {"a": "b"},
                },
            ),
            patch(f"{SECRETS}/s", {"type": "other"}),
            patch(f"{SECRETS}/s", {"data": {"a": "Yw=="}}),
            patch(f"{SECRETS}/s", {"data": {"a": "***"}}),
            get(SECRETS, query={"fieldSelector": "type=Opaque"}),
        ),
    ),
)
