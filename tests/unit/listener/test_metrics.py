"""The listener's metrics: names, labels, values, and the bounds of what others can cause."""

from dataclasses import replace

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from runnerscale.listener.metric_settings import MetricsFile
from runnerscale.listener.metrics import OTHER, SERIES_MAX, ListenerMetrics
from runnerscale.listener.scaler import Bounds
from runnerscale.scaleset.config_url import parse_config_url
from runnerscale.scaleset.model import JobEvent, JobEventKind, Statistics
from tests.unit.listener.conftest import value

NOW = 1_800_000_000.0
STARTED = JobEvent(
    kind=JobEventKind.STARTED,
    index=0,
    owner_name="owner",
    repository_name="repo",
    job_display_name="build",
    event_name="push",
    job_workflow_ref="owner/repo/.github/workflows/build.yml@refs/heads/main",
    scale_set_assign_time_s=NOW,
    runner_assign_time_s=NOW + 5,
)
COMPLETED = replace(
    STARTED, kind=JobEventKind.COMPLETED, result="succeeded", finish_time_s=NOW + 35
)
JOB = {
    "enterprise": "test-enterprise",
    "organization": "owner",
    "repository": "repo",
    "job_name": "build",
    "event_name": "push",
}
G = {
    "enterprise": "test-enterprise",
    "organization": "",
    "repository": "",
    "name": "set",
    "namespace": "runners",
}


def made(file: MetricsFile | None = None) -> ListenerMetrics:
    return ListenerMetrics(
        file,
        place=parse_config_url("https://github.com/enterprises/test-enterprise"),
        set_name="set",
        namespace="runners",
        registry=CollectorRegistry(),
    )


def setting(text: str) -> MetricsFile:
    return msgspec.json.decode(text, type=MetricsFile)


@pytest.mark.behaviour("C2 T181")
def test_the_limits_are_two_gauges() -> None:
    metrics = made()
    metrics.record_bounds(Bounds(1, 5))
    assert value(metrics, "gha_min_runners", **G) == 1
    assert value(metrics, "gha_max_runners", **G) == 5


@pytest.mark.behaviour("C2 T182")
def test_the_statistics_are_five_gauges() -> None:
    metrics = made()
    metrics.record_statistics(
        Statistics(
            assigned_jobs=3, running_jobs=2, registered_runners=4, busy_runners=2, idle_runners=2
        )
    )
    names = ("assigned_jobs", "running_jobs", "registered_runners", "busy_runners", "idle_runners")
    assert [value(metrics, f"gha_{name}", **G) for name in names] == [3, 2, 4, 2, 2]


@pytest.mark.behaviour("C2 T183")
def test_a_started_job_is_counted_and_its_wait_observed() -> None:
    metrics = made()
    metrics.job_started(STARTED)
    assert value(metrics, "gha_started_jobs_total", **JOB) == 1
    assert value(metrics, "gha_job_startup_duration_seconds_sum", **JOB) == 5
    at = lambda le: value(metrics, "gha_job_startup_duration_seconds_bucket", le=le)  # noqa: E731
    assert (at("4.0"), at("5.0"), at("+Inf")) == (0, 1, 1)


@pytest.mark.behaviour("C2 T183")
@pytest.mark.parametrize("zero", ["runner_assign_time_s", "scale_set_assign_time_s"])
def test_a_start_without_both_times_is_counted_but_not_observed(zero: str) -> None:
    metrics = made()
    metrics.job_started(replace(STARTED, **{zero: 0.0}))
    assert value(metrics, "gha_started_jobs_total") == 1
    assert value(metrics, "gha_job_startup_duration_seconds_count") is None


def test_a_wait_is_a_difference_of_whole_seconds_and_never_negative() -> None:
    metrics = made()
    metrics.job_started(replace(STARTED, scale_set_assign_time_s=NOW + 0.9))
    assert value(metrics, "gha_job_startup_duration_seconds_sum") == 5
    metrics.job_started(replace(STARTED, scale_set_assign_time_s=NOW + 60))
    assert value(metrics, "gha_job_startup_duration_seconds_sum") == 5


@pytest.mark.behaviour("C2 T184")
def test_a_completed_job_counts_only_if_a_runner_ever_had_it() -> None:
    metrics = made()
    metrics.job_completed(replace(COMPLETED, runner_assign_time_s=0.0))
    assert value(metrics, "gha_completed_jobs_total") is None
    metrics.job_completed(COMPLETED)
    labels = JOB | {"job_result": "succeeded"}
    assert value(metrics, "gha_completed_jobs_total", **labels) == 1
    assert value(metrics, "gha_job_execution_duration_seconds_sum", **labels) == 30


def test_a_completion_without_an_end_is_counted_but_not_observed() -> None:
    metrics = made()
    metrics.job_completed(replace(COMPLETED, finish_time_s=0.0))
    assert value(metrics, "gha_completed_jobs_total") == 1
    assert value(metrics, "gha_job_execution_duration_seconds_count") is None


@pytest.mark.behaviour("C2 T185")
@pytest.mark.parametrize(
    ("ref", "name", "target"),
    [
        ("build.yml@refs/heads/main", "build", "heads/main"),
        ("ci-cd-pipeline.yml@refs/heads/feature/x", "ci-cd-pipeline", "heads/feature/x"),
        ("pr-checks.yml@refs/pull/123/merge", "pr-checks", "pull/123"),
        ("release.yml@refs/tags/v1.2.3", "release", "tags/v1.2.3"),
    ],
)
def test_job_labels_come_from_the_message_and_the_workflow_from_its_ref(
    ref: str, name: str, target: str
) -> None:
    labels = '["enterprise","organization","repository","job_workflow_name","job_workflow_target"]'
    metrics = made(setting(f'{{"counters":{{"gha_started_jobs_total":{{"labels":{labels}}}}}}}'))
    metrics.job_started(replace(STARTED, job_workflow_ref=f"owner/repo/.github/workflows/{ref}"))
    expected = {
        "enterprise": "test-enterprise",
        "organization": "owner",
        "repository": "repo",
        "job_workflow_name": name,
        "job_workflow_target": target,
    }
    assert value(metrics, "gha_started_jobs_total", **expected) == 1


@pytest.mark.behaviour("C2 T187")
def test_a_job_metric_can_carry_the_sets_name() -> None:
    metrics = made(
        setting('{"counters":{"gha_started_jobs_total":{"labels":["name","namespace"]}}}')
    )
    metrics.job_started(STARTED)
    assert value(metrics, "gha_started_jobs_total", name="set", namespace="runners") == 1


@pytest.mark.behaviour("C2 T180")
def test_an_empty_setting_publishes_none_of_arcs_metrics_and_recording_is_harmless() -> None:
    # "Nothing but the handler's own" for ARC's names; the listener's state stays visible
    # (issue, section 6: a visible reason). The handler's own counter: test_server.
    metrics = made(setting("{}"))
    metrics.record_statistics(Statistics(assigned_jobs=1))
    metrics.job_started(STARTED)
    metrics.job_completed(COMPLETED)
    names = {sample.name for family in metrics.collect() for sample in family.samples}
    assert names and all(name.startswith("runnerscale_") for name in names)


def test_too_many_label_values_share_one_series() -> None:
    metrics = made()
    for number in range(SERIES_MAX + 50):
        metrics.job_completed(replace(COMPLETED, job_display_name=f"job {number}"))
    samples = [
        sample
        for family in metrics.collect()
        for sample in family.samples
        if sample.name == "gha_completed_jobs_total"
    ]
    assert len(samples) == SERIES_MAX + 1
    rest = value(metrics, "gha_completed_jobs_total", job_name=OTHER)
    assert rest == 50
    assert samples[-1].labels["enterprise"] == "test-enterprise"
    assert samples[-1].labels["job_result"] == "succeeded"  # of few values: worth keeping


def test_a_result_nobody_knows_is_no_label_of_its_own_in_the_shared_series() -> None:
    metrics = made()
    for number in range(SERIES_MAX + 5):
        metrics.job_completed(replace(COMPLETED, job_display_name="j", result=f"r{number}"))
    assert value(metrics, "gha_completed_jobs_total", job_result=OTHER) == 5


def test_a_very_long_label_is_cut() -> None:
    metrics = made()
    metrics.job_started(replace(STARTED, job_display_name="x" * 10_000))
    assert value(metrics, "gha_started_jobs_total", job_name="x" * 200) == 1


def test_another_setting_keeps_what_stays_and_fills_gauges_at_once() -> None:
    metrics = made(setting('{"counters":{"gha_started_jobs_total":{"labels":[]}}}'))
    metrics.record_statistics(Statistics(assigned_jobs=3))
    metrics.job_started(STARTED)
    metrics.apply(
        setting(
            '{"counters":{"gha_started_jobs_total":{"labels":[]}},'
            '"gauges":{"gha_assigned_jobs":{"labels":[]}}}'
        )
    )
    assert value(metrics, "gha_started_jobs_total") == 1
    assert value(metrics, "gha_assigned_jobs") == 3


def test_the_state_is_one_series() -> None:
    metrics = made()
    metrics.record_state("waiting", "SessionLost")
    metrics.record_state("listening", "")
    found = [
        sample
        for family in metrics.collect()
        for sample in family.samples
        if sample.name == "runnerscale_listener_state"
    ]
    assert [sample.labels for sample in found] == [{"state": "listening", "reason": ""}]


def test_the_text_has_no_created_series_and_counters_keep_their_names() -> None:
    registry = CollectorRegistry()
    metrics = ListenerMetrics(
        None,
        place=parse_config_url("https://github.com/org"),
        set_name="set",
        namespace="runners",
        registry=registry,
    )
    metrics.job_started(STARTED)
    metrics.record_poll(NOW)
    metrics.count("runnerscale_listener_quarantined_total", "element")
    text = generate_latest(registry).decode()
    assert "_created" not in text
    assert "# TYPE gha_started_jobs_total counter" in text
    assert 'runnerscale_listener_quarantined_total{what="element"} 1.0' in text
    assert f"runnerscale_listener_last_poll_timestamp_seconds {NOW:.1e}".split("e")[0] in text
