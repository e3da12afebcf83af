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
    )
    for name, labels in (
        ("a", {"app": "x", "tier": "1"}),
        ("b", {"app": "y", "tier": "2"}),
        ("c", {"app": "x"}),
        ("d", {}),
    )
)


def names(selector: str) -> Step:
    return get(CM, query={"labelSelector": selector})


def events(path: str, count: int, **query: str) -> Step:
    return Step("GET", path, query={"watch": "1", "timeoutSeconds": "15", **query}, watch=count)


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
            get(CM, query={"fieldSelector": "metadata.name=a"}),
            get(
                CM,
                query={"fieldSelector": "metadata.name!=a,metadata.name!=kube-root-ca.crt"},
            ),
            get(CM, query={"fieldSelector": "data.x=1"}),
            get(CM, query={"fieldSelector": "nonsense"}),
            post(PODS, pod("p1", nodeName="n1")),
            post(PODS, pod("p2")),
            get(
                PODS,
                query={"fieldSelector": "spec.nodeName=n1"},
            ),
            get(
                PODS,
                query={"fieldSelector": "spec.nodeName=,status.phase=Pending"},
            ),
            get(PODS, query={"fieldSelector": "spec.none=1"}),
            post(WIDGETS, widget("w1", {"size": 1, "color": "red"})),
            post(WIDGETS, widget("w2", {"size": 1})),
            get(
                WIDGETS,
                query={"fieldSelector": "spec.color=red"},
            ),
            get(WIDGETS, query={"fieldSelector": "spec.size=1"}),
            delete(f"{PODS}/p1", {"gracePeriodSeconds": 0}),
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
            ),
            delete(f"{CM}/c"),
            get(
                CM,
                query={"limit": "2", "continue": "{token}", "fieldSelector": NO_KUBE_ROOT},
            ),
            get(CM, query={"continue": "nonsense"}),
            get(
                CM,
                query={"limit": "1", "continue": "{token}", "resourceVersion": "5"},
            ),
        ),
    ),
    Case(
        "versions_of_lists",
        (
            post(CM, config_map("a"), save={"rv": "metadata.resourceVersion"}),
            get(CM, query={"resourceVersion": "0"}),
            get(CM, query={"resourceVersion": "{rv}"}),
            get(
                CM,
                query={"resourceVersion": "{rv}", "resourceVersionMatch": "NotOlderThan"},
            ),
            get(CM, query={"resourceVersionMatch": "Exact"}),
            get(CM, query={"resourceVersion": "{rv}", "resourceVersionMatch": "Odd"}),
            get(CM, query={"resourceVersion": "word"}),
            get(CM, query={"resourceVersion": "99999999999"}),
        ),
    ),
    Case(
        "tables_and_metadata",
        (
            post(WIDGETS, widget("w", {"size": 5, "color": "red"})),
            get(f"{WIDGETS}/w", accept=TABLE),
            get(
                WIDGETS,
                accept=TABLE,
            ),
            get(
                f"{WIDGETS}/w",
                accept=TABLE,
                query={"includeObject": "Object"},
            ),
            get(
                f"{WIDGETS}/w",
                accept=TABLE,
                query={"includeObject": "None"},
            ),
            get(f"{WIDGETS}/w", accept=PARTIAL),
            get(WIDGETS, accept=PARTIAL),
            get(WIDGETS, accept=PARTIAL_LIST),
            get(f"{WIDGETS}/w", accept="text/html"),
            post(PODS, pod("p")),
            get(
                f"{PODS}/p",
                accept=TABLE,
            ),
            get(
                f"{CM}",
                accept=TABLE,
                query={"fieldSelector": "metadata.name=none"},
            ),
        ),
    ),
    Case(
        "watch_from_a_version",
        (
            post(CM, config_map("a", x="1"), save={"rv": "metadata.resourceVersion"}),
            patch(f"{CM}/a", {"data": {"x": "2"}}),
            post(CM, config_map("b", y="1")),
            delete(f"{CM}/a"),
            events(CM, 3, resourceVersion="{rv}"),
            events(CM, 1, fieldSelector=NO_KUBE_ROOT),
            events(CM, 1, resourceVersion="0", fieldSelector=NO_KUBE_ROOT),
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
            patch(f"{CM}/a", {"data": {"x": "2"}}),
            patch(f"{CM}/a", {"metadata": {"labels": {"k": "out"}}, "data": {"x": "3"}}),
            patch(f"{CM}/a", {"data": {"x": "4"}}),
            patch(f"{CM}/a", {"metadata": {"labels": {"k": "in"}}}),
            delete(f"{CM}/a"),
            events(
                CM,
                4,
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
            patch(f"{WIDGETS}/w/status", {"status": {"phase": "Up"}}),
            delete(f"{WIDGETS}/w"),
            patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}}, MERGE),
            events(
                WIDGETS,
                3,
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
                resourceVersion="1",
            ),
        ),
    ),
    Case(
        "pod_deleted_on_a_node_is_seen_in_steps",
        (
            post(PODS, pod("p", nodeName="n1"), save={"rv": "metadata.resourceVersion"}),
            delete(
                f"{PODS}/p",
            ),
            get(f"{PODS}/p"),
            delete(
                f"{PODS}/p",
                {"gracePeriodSeconds": 40},
            ),
            delete(
                f"{PODS}/p",
                {"gracePeriodSeconds": 5},
            ),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}),
            get(f"{PODS}/p"),
            events(
                PODS,
                4,
                resourceVersion="{rv}",
            ),
        ),
    ),
)
