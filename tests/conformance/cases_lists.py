"""Collections and watches: selectors, pages, versions, events, bookmarks, 410, tables."""

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
from tests.conformance.transcript import MERGE, PARTIAL, PARTIAL_LIST, TABLE, Case, Step

LABELLED = tuple(
    post(
        CM,
        {**config_map(name), "metadata": {"name": name, "labels": labels}},
        quiet=True,
    )
    for name, labels in (
        ("a", {"app": "x", "tier": "1"}),
        ("b", {"app": "y", "tier": "2"}),
        ("c", {"app": "x"}),
        ("d", {}),
    )
)


def names(selector: str) -> Step:
    keep = tuple(f"items.{i}.metadata.name" for i in range(4))
    return get(CM, query={"labelSelector": selector}, keep=("code", "reason", *keep))


def events(path: str, count: int, keep: tuple[str, ...], **query: str) -> Step:
    return Step(
        "GET", path, query={"watch": "1", "timeoutSeconds": "15", **query}, watch=count, keep=keep
    )


SEEN = ("type", "object.kind", "object.metadata.name", "object.data", "object.spec.size")
NO_KUBE_ROOT = "metadata.name!=kube-root-ca.crt"

CASES = (
    Case(
        "label_selectors",
        (
            *LABELLED,
            names("app=x"),
            names("app==x,tier"),
            names("app!=x,app"),
            names("app in (x, y),!tier"),
            names("app notin (x),app"),
            names("tier>1"),
            names("tier,tier<2"),
            names("a b"),
            names("app in x"),
        ),
    ),
    Case(
        "field_selectors",
        (
            *LABELLED,
            get(CM, query={"fieldSelector": "metadata.name=a"}, keep=("items.0.metadata.name",)),
            get(
                CM,
                query={"fieldSelector": "metadata.name!=a,metadata.name!=kube-root-ca.crt"},
                keep=("items.0.metadata.name", "items.2.metadata.name", "items.3.metadata.name"),
            ),
            get(CM, query={"fieldSelector": "data.x=1"}),
            get(CM, query={"fieldSelector": "nonsense"}, keep=("code", "reason")),
            post(PODS, pod("p1", nodeName="n1"), quiet=True),
            post(PODS, pod("p2"), quiet=True),
            get(
                PODS,
                query={"fieldSelector": "spec.nodeName=n1"},
                keep=("items.0.metadata.name", "items.1.metadata.name"),
            ),
            get(
                PODS,
                query={"fieldSelector": "spec.nodeName=,status.phase=Pending"},
                keep=("items.0.metadata.name", "items.1.metadata.name"),
            ),
            get(PODS, query={"fieldSelector": "spec.none=1"}),
            post(WIDGETS, widget("w1", {"size": 1, "color": "red"}), quiet=True),
            post(WIDGETS, widget("w2", {"size": 1}), quiet=True),
            get(
                WIDGETS,
                query={"fieldSelector": "spec.color=red"},
                keep=("items.0.metadata.name", "items.1.metadata.name"),
            ),
            get(WIDGETS, query={"fieldSelector": "spec.size=1"}),
            delete(f"{PODS}/p1", {"gracePeriodSeconds": 0}, quiet=True),
        ),
    ),
    Case(
        "pages",
        (
            *LABELLED,
            get(
                CM,
                query={"limit": "2", "fieldSelector": NO_KUBE_ROOT},
                save={"token": "metadata.continue"},
                keep=("items.0.metadata.name", "items.1.metadata.name", "items.2.metadata.name"),
            ),
            delete(f"{CM}/c", quiet=True),
            get(
                CM,
                query={"limit": "2", "continue": "{token}", "fieldSelector": NO_KUBE_ROOT},
                keep=(
                    "items.0.metadata.name",
                    "items.1.metadata.name",
                    "items.2.metadata.name",
                ),
            ),
            get(CM, query={"continue": "nonsense"}, keep=("code", "reason")),
            get(
                CM,
                query={"limit": "1", "continue": "{token}", "resourceVersion": "5"},
                keep=("code", "reason"),
            ),
        ),
    ),
    Case(
        "versions_of_lists",
        (
            post(CM, config_map("a"), save={"rv": "metadata.resourceVersion"}),
            get(CM, query={"resourceVersion": "0"}, keep=("kind",)),
            get(CM, query={"resourceVersion": "{rv}"}, keep=("kind",)),
            get(
                CM,
                query={"resourceVersion": "{rv}", "resourceVersionMatch": "NotOlderThan"},
                keep=("kind",),
            ),
            get(CM, query={"resourceVersionMatch": "Exact"}),
            get(CM, query={"resourceVersion": "{rv}", "resourceVersionMatch": "Odd"}),
            get(CM, query={"resourceVersion": "word"}, keep=("code", "reason")),
            get(CM, query={"resourceVersion": "99999999999"}, keep=("code", "reason", "details")),
        ),
    ),
    Case(
        "tables_and_metadata",
        (
            post(WIDGETS, widget("w", {"size": 5, "color": "red"}), quiet=True),
            get(f"{WIDGETS}/w", accept=TABLE, keep=("kind", "rows.0.cells", "rows.0.object.kind")),
            get(
                WIDGETS,
                accept=TABLE,
                keep=(
                    "kind",
                    "apiVersion",
                    "rows.0.cells",
                    "columnDefinitions.0.name",
                    "columnDefinitions.1",
                    "columnDefinitions.2",
                    "columnDefinitions.4.name",
                ),
            ),
            get(
                f"{WIDGETS}/w",
                accept=TABLE,
                query={"includeObject": "Object"},
                keep=("rows.0.object.kind", "rows.0.object.spec.size"),
            ),
            get(
                f"{WIDGETS}/w",
                accept=TABLE,
                query={"includeObject": "None"},
                keep=("rows.0.object",),
            ),
            get(f"{WIDGETS}/w", accept=PARTIAL),
            get(WIDGETS, accept=PARTIAL, keep=("code", "reason")),
            get(
                WIDGETS, accept=PARTIAL_LIST, keep=("kind", "items.0.metadata.name", "items.0.spec")
            ),
            get(f"{WIDGETS}/w", accept="text/html", keep=("code", "reason")),
            post(PODS, pod("p"), quiet=True),
            get(
                f"{PODS}/p",
                accept=TABLE,
                keep=(
                    "rows.0.cells",
                    *(f"columnDefinitions.{i}.name" for i in range(9)),
                    *(f"columnDefinitions.{i}.priority" for i in range(9)),
                ),
            ),
            get(
                f"{CM}",
                accept=TABLE,
                query={"fieldSelector": "metadata.name=none"},
                keep=("kind", "columnDefinitions.0.name", "columnDefinitions.1.name"),
            ),
        ),
    ),
    Case(
        "watch_from_a_version",
        (
            post(CM, config_map("a", x="1"), save={"rv": "metadata.resourceVersion"}),
            patch(f"{CM}/a", {"data": {"x": "2"}}, quiet=True),
            post(CM, config_map("b", y="1"), quiet=True),
            delete(f"{CM}/a", quiet=True),
            events(CM, 3, SEEN, resourceVersion="{rv}"),
            events(CM, 1, SEEN, fieldSelector=NO_KUBE_ROOT),
            events(CM, 1, SEEN, resourceVersion="0", fieldSelector=NO_KUBE_ROOT),
        ),
    ),
    Case(
        "watch_with_a_selector_that_is_left_and_entered",
        (
            post(
                CM,
                {**config_map("a", x="1"), "metadata": {"name": "a", "labels": {"k": "in"}}},
                save={"rv": "metadata.resourceVersion"},
            ),
            patch(f"{CM}/a", {"data": {"x": "2"}}, quiet=True),
            patch(
                f"{CM}/a", {"metadata": {"labels": {"k": "out"}}, "data": {"x": "3"}}, quiet=True
            ),
            patch(f"{CM}/a", {"data": {"x": "4"}}, quiet=True),
            patch(f"{CM}/a", {"metadata": {"labels": {"k": "in"}}}, quiet=True),
            delete(f"{CM}/a", quiet=True),
            events(
                CM,
                4,
                (*SEEN, "object.metadata.labels"),
                resourceVersion="{rv}",
                labelSelector="k=in",
            ),
        ),
    ),
    Case(
        "watch_of_one_custom_kind",
        (
            post(
                WIDGETS,
                widget("w", finalizers=["example.com/hold"]),
                save={"rv": "metadata.resourceVersion"},
            ),
            patch(f"{WIDGETS}/w/status", {"status": {"phase": "Up"}}, quiet=True),
            delete(f"{WIDGETS}/w", quiet=True),
            patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}}, MERGE, quiet=True),
            events(
                WIDGETS,
                3,
                (
                    *SEEN,
                    "object.status",
                    "object.metadata.finalizers",
                    "object.metadata.deletionGracePeriodSeconds",
                    "object.metadata.generation",
                ),
                resourceVersion="{rv}",
            ),
        ),
    ),
    Case(
        "watch_from_too_old_a_version",
        (
            events(
                WIDGETS,
                1,
                ("type", "object.kind", "object.code", "object.reason"),
                resourceVersion="1",
            ),
        ),
    ),
    Case(
        "pod_deleted_on_a_node_is_seen_in_steps",
        (
            post(
                PODS, pod("p", nodeName="n1"), save={"rv": "metadata.resourceVersion"}, quiet=True
            ),
            delete(
                f"{PODS}/p",
                keep=("kind", "metadata.deletionGracePeriodSeconds", "metadata.generation"),
            ),
            get(f"{PODS}/p", keep=("metadata.deletionGracePeriodSeconds",)),
            delete(
                f"{PODS}/p",
                {"gracePeriodSeconds": 40},
                keep=("metadata.deletionGracePeriodSeconds",),
            ),
            delete(
                f"{PODS}/p",
                {"gracePeriodSeconds": 5},
                keep=("metadata.deletionGracePeriodSeconds",),
            ),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}, keep=("kind", "metadata.name")),
            get(f"{PODS}/p", keep=("code",)),
            events(
                PODS,
                4,
                ("type", "object.metadata.deletionGracePeriodSeconds"),
                resourceVersion="{rv}",
            ),
        ),
    ),
)
