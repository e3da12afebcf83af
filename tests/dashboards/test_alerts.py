"""The alert rules: understood by Prometheus, each fires when it should, and names what exists."""

import re
import subprocess
from pathlib import Path
from typing import Any

import metric_page  # tools/, on the path by conftest.py
import pytest
import yaml

from runnerscale.api import labels
from runnerscale.api.catalogue import Severity
from runnerscale.api.reasons import Reason
from tests.charts.render import CONTROLLER, render
from tests.dashboards.dashboard_file import queries

ROOT = Path(__file__).resolve().parents[2]
RULES = CONTROLLER / "files" / "alerts.yaml"
CASES = Path(__file__).with_name("alerts_test.yaml")
REPOSITORY = "https://github.com/runnerscale/runnerscale/blob/main/"
FIRST_WORDS = ("gha", "runnerscale", "workqueue", "controller_runtime", "rest_client")
FIRST_WORDS += ("leader_election", "process")
CONTROLLERS = {"autoscalingrunnerset", "autoscalinglistener", "ephemeralrunnerset"}
CONTROLLERS |= {"ephemeralrunner"}


LISTENER_POD = {labels.PART_OF: labels.PART_OF_VALUE, labels.COMPONENT: labels.COMPONENT_LISTENER}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def named(rule: dict[str, Any]) -> str:
    return str(rule["alert"])


def published() -> set[str]:
    """Every metric of ours, as Prometheus names its series."""
    names = set()
    for name, kind, *_ in [*metric_page.controller(), *metric_page.listener()]:
        histogram = {f"{name}_{part}" for part in ("bucket", "sum", "count")}
        names |= histogram if kind == "histogram" else {name}
    return names


def metrics_in(expr: str) -> set[str]:
    plain = re.sub(r'"[^"]*"|\{[^}]*\}|by \([^)]*\)|on \([^)]*\)', " ", expr)
    return set(re.findall(rf"\b(?:{'|'.join(FIRST_WORDS)})_[a-z_]+\b", plain))


def test_prometheus_understands_the_rules(prometheus_folder: Path) -> None:
    check = [str(prometheus_folder / "promtool"), "check", "rules", str(RULES)]
    ended = subprocess.run(check, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{len(rules())} rules found" in ended.stdout


def test_each_alert_fires_when_it_should_and_not_otherwise(prometheus_folder: Path) -> None:
    test = [str(prometheus_folder / "promtool"), "test", "rules", str(CASES)]
    ended = subprocess.run(test, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_alert_is_in_a_scenario_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    scenarios = yaml.safe_load(CASES.read_text())["tests"]
    fires = [
        {
            name
            for asked in scenario["promql_expr_test"]
            for sample in asked["exp_samples"]
            for name in re.findall(r'alertname="(\w+)"', sample["labels"])
        }
        for scenario in scenarios
    ]
    assert set.union(*fires) == {named(rule) for rule in rules()}
    assert fires[0] == set()  # all is well: its series give every rule something to look at
    looked_at = " ".join(each["series"] for each in scenarios[0]["input_series"])
    for rule in rules():
        assert any(metric in looked_at for metric in metrics_in(rule["expr"])), named(rule)


@pytest.mark.parametrize("rule", rules(), ids=named)
def test_an_alert_says_what_to_do_and_its_link_leads_somewhere(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    assert len(notes["summary"]) < 200
    page, _, anchor = notes["runbook_url"].removeprefix(REPOSITORY).partition("#")
    text = (ROOT / page).read_text()
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    if "$labels.reason" in anchor:  # every reason has a heading
        assert {reason.lower() for reason in Reason} <= anchors
    else:
        assert anchor in anchors


@pytest.mark.parametrize("rule", rules(), ids=named)
def test_what_an_alert_names_exists_in_the_code(rule: dict[str, Any]) -> None:
    found = metrics_in(rule["expr"])
    assert found
    assert sorted(found - published()) == []
    for label, _, text in re.findall(r'(reason|controller)(=~|!~|=)"([^"]+)"', rule["expr"]):
        words = set(text.split("|"))
        known = {str(reason) for reason in Reason} if label == "reason" else CONTROLLERS
        assert words <= known


def test_reasons_that_pass_by_themselves_wake_nobody() -> None:
    (blocked,) = (r for r in rules() if named(r) == "RunnerscaleScaleSetBlocked")
    passes = {str(reason) for reason in Reason if reason.severity is Severity.INFO}
    apart = set(re.findall(r'reason!~"([^"]+)"', blocked["expr"])[0].split("|"))
    # The last two are about runners, which this alert does not look at.
    assert passes - {"JitConfigExpired", "RunnerNameTaken"} <= apart


def test_every_metric_of_the_dashboard_exists_in_the_code() -> None:
    for asked in queries():
        if not asked.external:
            found = metrics_in(asked.expr) - {"scrape_duration_seconds"}
            assert sorted(found - published()) == [], asked


def test_the_chart_makes_a_rule_object_of_the_same_rules() -> None:
    values = {
        "metrics": {"controllerManagerAddr": ":8080"},
        "prometheusRule": {"enabled": True},
    }
    (rule,) = render(CONTROLLER, values, release="arc", show=["prometheus_rule.yaml"])
    assert rule["spec"] == yaml.safe_load(RULES.read_text())


def test_pod_monitors_make_the_labels_that_the_scrape_file_makes() -> None:
    file = yaml.safe_load((ROOT / "dashboards" / "prometheus-scrape.yaml").read_text())
    (job,) = file["scrape_configs"]
    (copied,) = (r["regex"] for r in job["relabel_configs"] if r["action"] == "labelmap")
    metrics = {
        "controllerManagerAddr": ":8080",
        "listenerAddr": ":8080",
        "listenerEndpoint": "/metrics",
    }
    values = {"metrics": metrics, "podMonitor": {"enabled": True}}
    monitors = render(CONTROLLER, values, release="arc", show=["pod_monitor.yaml"])
    (deployment,) = render(CONTROLLER, values, release="arc", show=["deployment.yaml"])
    pods = [deployment["spec"]["template"]["metadata"]["labels"], LISTENER_POD]
    chosen = next(r for r in job["relabel_configs"] if r["action"] == "keep")["regex"]
    for monitor in monitors:
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert (endpoint["port"], endpoint["path"]) == (
            "metrics",
            job.get("metrics_path", "/metrics"),
        )
        assert endpoint["honorLabels"] is job["honor_labels"] is True
        wanted = monitor["spec"]["selector"]["matchLabels"]
        (pod,) = (pod for pod in pods if wanted.items() <= pod.items())
        part, component = (pod[f"app.kubernetes.io/{key}"] for key in ("part-of", "component"))
        assert re.fullmatch(chosen, f"{part};{component}")
        for label in monitor["spec"].get("podTargetLabels", []):
            sanitized = re.sub(r"\W", "_", label.replace("-", "_"))
            assert re.fullmatch(copied, f"__meta_kubernetes_pod_label_{sanitized}")
    assert len(monitors) == 2
    assert len(monitors[1]["spec"]["podTargetLabels"]) == 2
