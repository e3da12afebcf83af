"""The dashboard and the logs, held to what a running system really published and wrote.

The run (`observed.py`) takes about half a minute and is shared by all tests of this file.
"""

import itertools
import json
import re
from collections import Counter
from typing import Any

import pytest

from tests.dashboards.dashboard_file import Asked, dashboard, filled, panels, queries
from tests.dashboards.observed import MACHINES, Observed

pytestmark = pytest.mark.timeout(300)
ALL = {
    "SystemNamespace": ["runnerscale-system"],
    "Scaleset": ["linux", "windows"],
    "RunnerNamespace": ["team-a", "team-b"],
}
ONE = {**ALL, "Scaleset": ["linux"], "RunnerNamespace": ["team-a"]}
OTHER = {**ALL, "Scaleset": ["windows"], "RunnerNamespace": ["team-b"]}
OWN = [asked for asked in queries() if not asked.external]
FOREIGN = [asked for asked in queries() if asked.external]
# A token, a JIT configuration or a key, whatever its value: what GitHub and Kubernetes give out.
SECRET_SHAPES = re.compile(
    r"\b(?:queue|jit|ghs|gho|ghp|github_pat|AAAA)_?[0-9a-f]{24,}|ey[IJ][\w+/-]{16,}|PRIVATE KEY"
)
SHIM = re.compile(r"^\S+Z (?:stdout|stderr) [FP] ")


def name_of(asked: Asked) -> str:
    return f"{asked.panel} {asked.ref_id}"


def ask(seen: Observed, asked: Asked, chosen: dict[str, list[str]]) -> list[dict[str, Any]]:
    return seen.prometheus.query(filled(asked.expr, chosen), seen.at_s)


def value(seen: Observed, panel: str, chosen: dict[str, list[str]]) -> float:
    (first,) = (q for q in queries() if q.panel == panel and q.ref_id == "A")
    (series,) = ask(seen, first, chosen)
    return float(series["value"][1])


# --- the dashboard ----------------------------------------------------------------------------


def test_most_queries_are_on_our_own_metrics() -> None:
    assert len(OWN) > 35
    assert len(FOREIGN) < len(OWN) / 3


@pytest.mark.parametrize("asked", OWN, ids=name_of)
@pytest.mark.parametrize("chosen", [ALL, ONE], ids=["all", "one"])
def test_a_query_on_our_own_metrics_returns_data(
    observed: Observed, asked: Asked, chosen: dict[str, list[str]]
) -> None:
    found = ask(observed, asked, chosen)
    assert found, filled(asked.expr, chosen)
    assert all(series["value"][1] != "NaN" for series in found)


@pytest.mark.parametrize("asked", FOREIGN, ids=name_of)
def test_a_query_on_what_others_publish_is_understood(observed: Observed, asked: Asked) -> None:
    ask(observed, asked, ALL)  # an error of Prometheus is an AssertionError


def test_the_choices_at_the_top_are_filled(observed: Observed) -> None:
    for variable in dashboard()["templating"]["list"]:
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        assert found
        values = observed.prometheus.values(found[2], filled(found[1], ALL), observed.at_s)
        assert values == ALL[variable["name"]]


def test_a_choice_shows_its_own_scale_set_only(observed: Observed) -> None:
    assert value(observed, "Failed Runners", ALL) == 1
    assert value(observed, "Failed Runners", ONE) == 1
    assert value(observed, "Failed Runners", OTHER) == 0
    assert value(observed, "Registered Runners", OTHER) == 0
    assert value(observed, "Listeners", ALL) == 2


def test_what_is_stuck_is_shown_with_its_reason(observed: Observed) -> None:
    (asked,) = (q for q in queries() if q.panel == "What Is Stuck")
    found = {
        (m["kind"], m["namespace"], m["name"], m["reason"])
        for m in (series["metric"] for series in ask(observed, asked, ALL))
    }
    assert ("AutoscalingRunnerSet", "team-a", "locked-out", "CredentialsMissing") in found
    assert "OOMKilled" in {reason for *_, reason in found}


def test_the_table_of_panels(observed: Observed) -> None:
    """For people: `pytest -s` prints how many series each panel returned."""
    lines = [f"{'panel':<28}{'all':>8}{'one':>8}"]
    for panel in panels():
        own = [q for q in queries() if q.panel == panel["title"] and not q.external]
        counts = [sum(len(ask(observed, q, chosen)) for q in own) for chosen in (ALL, ONE)]
        shown = [str(count) for count in counts] if own else ["parsed", "parsed"]
        lines.append(f"{panel['title']:<28}{shown[0]:>8}{shown[1]:>8}")
    print("\n" + "\n".join(lines))
    assert len(lines) == len(panels()) + 1


# --- no secret --------------------------------------------------------------------------------


def visible(seen: Observed) -> dict[str, str]:
    """All that a person or a pipeline gets to see."""
    objects = {f"{machine} objects": json.dumps(found) for machine, found in seen.objects.items()}
    return {**seen.logs, **seen.scrape, **objects}


def test_there_were_secrets_to_find(observed: Observed) -> None:
    jit = [text for text in observed.secrets if SECRET_SHAPES.search(text)]
    assert len(jit) >= 8  # of as many runners
    assert any(text.startswith("github-token-of-machine-a") for text in observed.secrets)
    assert len(visible(observed)) >= 16


def test_no_secret_is_in_any_log_event_status_or_metric(observed: Observed) -> None:
    for place, text in visible(observed).items():
        for secret in observed.secrets:
            assert secret not in text, f"a secret of {len(secret)} characters is in {place}"
        shaped = SECRET_SHAPES.search(text)
        assert shaped is None, f"{shaped[0][:12]}... is in {place}"


# --- log lines --------------------------------------------------------------------------------


def of_listener(seen: Observed, machine: str) -> list[str]:
    (text,) = (t for place, t in seen.logs.items() if place.startswith(f"{machine} node/"))
    return [SHIM.sub("", line) for line in text.splitlines()]


def of_controller(seen: Observed, machine: str) -> list[str]:
    return seen.logs[f"{machine} logs/controller.log"].splitlines()


def read(line: str) -> dict[str, Any]:
    """A line of either format."""
    if line.startswith("{"):
        found: dict[str, Any] = json.loads(line)
        return found
    pair = re.compile(r'("(?:[^"\\]|\\.)*"|[^\s="]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?: |$)')
    assert pair.sub("", line) == "", line  # nothing between the pairs
    quoted = [(key, text) for key, text in pair.findall(line)]
    return {plain(key): plain(text) for key, text in quoted}


def plain(text: str) -> str:
    return json.loads(text) if text.startswith('"') else text


@pytest.mark.parametrize("machine", [name for name, *_ in MACHINES])
def test_every_line_is_in_the_format_that_was_asked_for(observed: Observed, machine: str) -> None:
    for line in of_controller(observed, machine):
        assert list(read(line))[:4] == ["severity", "ts", "logger", "message"], line
    for line in of_listener(observed, machine):
        assert list(read(line))[:4] == ["time", "level", "source", "msg"], line


def test_a_job_is_told_once_when_it_starts_and_once_when_it_ends(observed: Observed) -> None:
    for name, scale_set, *_ in MACHINES:
        lines = [read(line) for line in of_listener(observed, name)]
        started = Counter(line["jobId"] for line in lines if line["msg"] == "job started")
        completed = Counter(line["jobId"] for line in lines if line["msg"] == "job completed")
        ended = {str(job.id) for job in observed.jobs[name]}
        assert len(ended) == 5
        assert len(completed) == 5
        assert set(completed) <= set(started)
        assert set(started.values()) == set(completed.values()) == {1}
        first = next(line for line in lines if line["msg"] == "job started")
        keys = {"runnerName", "ownerName", "repoName", "workflowRef", "workflowRunId", "requestId"}
        assert keys | {"jobDisplayName", "component"} <= set(first)
        assert first["runnerName"].startswith(scale_set)


def test_the_target_is_told_when_it_changes_and_polls_are_not_told(observed: Observed) -> None:
    lines = [read(line) for line in of_listener(observed, "a")]  # at info
    targets = [line["replicas"] for line in lines if line["msg"] == "set scaled"]
    assert targets[0] == 0
    assert all(a != b for a, b in itertools.pairwise(targets))
    assert {"assigned job", "decision", "min", "max", "currentRunnerCount"} <= set(
        next(line for line in lines if line["msg"] == "set scaled")
    )
    assert "polling" not in {line["msg"] for line in lines}
    assert "polling" in {read(line)["msg"] for line in of_listener(observed, "b")}  # at debug


def test_a_runner_is_told_once_at_each_step_of_its_life(observed: Observed) -> None:
    steps = ("runner created", "runner registered", "runner pod made", "runner gone")
    for name, scale_set, *_ in MACHINES:
        told: Counter[tuple[str, str]] = Counter()
        for line in map(read, of_controller(observed, name)):
            if line["message"] in steps:
                told[line["runner"], line["message"]] += 1
        assert set(told.values()) == {1}
        runners = {runner for runner, _ in told}
        assert len(runners) >= 5
        assert all(runner.startswith(scale_set) for runner in runners)
        gone = [runner for runner, step in told if step == "runner gone"]
        assert len(gone) >= 5
        for runner in gone:
            assert all((runner, step) in told for step in steps)


def test_trouble_is_told_once_with_object_and_reason(observed: Observed) -> None:
    for name, _, namespace, *_ in MACHINES:
        lines = [read(line) for line in of_controller(observed, name)]
        told = Counter(
            (line["object"], line["reason"]) for line in lines if line["message"] == "trouble"
        )
        key = f"AutoscalingRunnerSet {namespace}/locked-out"
        assert told[key, "CredentialsMissing"] == 1
        assert set(told.values()) == {1}


def test_a_clean_job_costs_few_lines_at_info(observed: Observed) -> None:
    # Four of the controller (created, registered, pod made, gone), two of the listener (started,
    # completed), and the set's number at most twice; what starts the processes is told once.
    lines = [*of_controller(observed, "a"), *of_listener(observed, "a")]
    begin = {"caches filled", "client made", "tokens are refreshed", "scale set registered"}
    begin |= {"listener part created", "session held", "metrics are served", "trouble"}
    rest = [line for line in map(read, lines) if said(line) not in begin]
    assert len(rest) / 6 <= 8.5, Counter(said(line) for line in rest)


def said(line: dict[str, Any]) -> str:
    return str(line.get("message") or line.get("msg"))
