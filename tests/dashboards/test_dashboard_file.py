"""The dashboard as a file: what Grafana's import needs, and what it must show and say."""

import itertools
import re

import pytest

from tests.dashboards.dashboard_file import dashboard, panels, queries

# Panels of the dashboard that users of ARC know, by row (contract: charts-and-operations 7).
KNOWN = {
    "Runner Performance": {
        "Startup Duration": "heatmap",
        "Job Execution": "heatmap",
        "Assigned Jobs": "gauge",
        "Desired Runners": "gauge",
        "Idle Runners": "gauge",
        "Running Jobs": "gauge",
        "Failed Runners": "gauge",
        "Listeners": "stat",
        "Pending Runners": "gauge",
        "Registered Runners": "gauge",
        "Active Runners": "gauge",
        "Out of Memory": "stat",
        "Peak Container Memory": "gauge",
        "Container I/O": "timeseries",
        "Container Pod Status": "bargauge",
    },
    "Controller Performance": {
        "Reconcile Time": "timeseries",
        "Workqueue Queue Duration": "timeseries",
        "Reconciliation Errors": "timeseries",
        "Queue Depth": "stat",
        "Active Workers": "stat",
        "API Calls": "timeseries",
    },
    "Metrics": {"Scrape Duration": "timeseries"},
}
OURS = "Trouble and Flow"


def rows() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for panel in dashboard()["panels"]:
        if panel["type"] == "row":
            here = found.setdefault(panel["title"], {})
        else:
            here[panel["title"]] = panel["type"]
    return found


def test_every_panel_that_users_of_arc_know_is_there_in_its_row() -> None:
    found = rows()
    assert found.pop(OURS)
    assert found == KNOWN
    head = dashboard()
    assert head["title"] == "ARC Autoscaling Runner Set Monitoring"
    assert (head["refresh"], head["time"]) == ("5s", {"from": "now-15m", "to": "now"})


def test_it_can_be_imported() -> None:
    head = dashboard()
    assert head["schemaVersion"] == 40
    assert head["id"] is None
    (source,) = head["__inputs"]
    assert (source["name"], source["type"], source["pluginId"]) == (
        "DS_PROMETHEUS",
        "datasource",
        "prometheus",
    )
    wanted = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    required = {each["id"] for each in head["__requires"]}
    assert {panel["type"] for panel in panels()} <= required
    for panel in panels():
        assert panel["datasource"] == wanted
        assert all(target["datasource"] == wanted for target in panel["targets"])
    assert all(v["datasource"] == wanted for v in head["templating"]["list"])


def test_ids_are_unique_and_no_panel_lies_on_another() -> None:
    all_panels = dashboard()["panels"]
    ids = [panel["id"] for panel in all_panels]
    assert len(ids) == len(set(ids))
    taken: dict[tuple[int, int], str] = {}
    for panel in all_panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        columns = range(place["x"], place["x"] + place["w"])
        lines = range(place["y"], place["y"] + place["h"])
        for cell in itertools.product(columns, lines):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_and_its_queries_are_complete(panel: dict) -> None:  # type: ignore[type-arg]
    assert panel["description"].endswith(".")
    names = [target["refId"] for target in panel["targets"]]
    assert names
    assert len(names) == len(set(names))
    for target in panel["targets"]:
        assert target["expr"]
        assert target["instant"] is not target["range"]
    for change in panel.get("transformations", []):
        if change["id"] == "configFromData":
            config = change["options"]["configRefId"]
            (limit,) = (t for t in panel["targets"] if t["refId"] == config)
            assert [limit["legendFormat"]] == [
                mapping["fieldName"] for mapping in change["options"]["mappings"]
            ]


@pytest.mark.behaviour("C2 T192")
def test_words_speak_of_assigned_jobs_and_never_of_running_pods() -> None:
    text = {panel["title"]: panel["description"].lower() for panel in panels()}
    assert "no job is assigned" in text["Pending Runners"]
    assert "never becomes 0" in text["Pending Runners"]
    assert "job assigned" in text["Active Runners"]
    assert not [t for t, words in text.items() if re.search(r"pods? (that )?(is|are) ?run", words)]


def test_variables_are_the_three_that_are_known_and_take_several_values() -> None:
    found = {each["name"]: each for each in dashboard()["templating"]["list"]}
    assert list(found) == ["SystemNamespace", "Scaleset", "RunnerNamespace"]
    for each in found.values():
        assert (each["multi"], each["includeAll"], each["type"]) == (True, True, "query")
    assert "$Scaleset" in found["RunnerNamespace"]["query"]["query"]


def test_every_query_asks_for_the_selected_scope_with_a_pattern() -> None:
    # Weaknesses of ARC's (contract 10.4): `=` with a variable of several values, panels without
    # a filter, a maximum where a sum is meant, thresholds with names of somebody's system.
    known = {"SystemNamespace", "Scaleset", "RunnerNamespace", "__rate_interval", "__range"}
    for asked in queries():
        assert set(re.findall(r"\$(\w+)", asked.expr)) <= known, asked
        assert not re.search(r'[^=!]="[^"]*\$', asked.expr), asked
        selectors = re.findall(r"\{([^}]*)\}", asked.expr)
        assert selectors, asked
        assert all("$" in selector for selector in selectors), asked
    (active,) = (q.expr for q in queries() if q.panel == "Active Runners" and q.ref_id == "A")
    assert active.startswith("sum(")
    for panel in panels():
        assert "$" not in str(panel["fieldConfig"]), panel["title"]
