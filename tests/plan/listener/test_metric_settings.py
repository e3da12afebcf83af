"""Which metrics are published: the contract's defaults and rules, and what is refused."""

from typing import Any

import msgspec
import pytest

from runnerscale.listener.metric_settings import (
    BUCKETS_MAX,
    DEFAULT_BUCKETS,
    JOB_LABELS,
    RESULT_LABELS,
    SET_LABELS,
    Kind,
    MetricsFile,
    Setting,
    chosen,
)


def read(members: dict[str, Any]) -> MetricsFile:
    return msgspec.convert(members, MetricsFile)


@pytest.mark.behaviour("C2 T178")
def test_without_a_setting_all_twelve_are_published_with_their_default_labels() -> None:
    settings, complaints = chosen(None)
    assert complaints == []
    by_kind = {kind: [s for s in settings if s.kind is kind] for kind in Kind}
    assert [len(by_kind[k]) for k in (Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM)] == [2, 8, 2]
    assert all(s.labels == SET_LABELS for s in by_kind[Kind.GAUGE])
    assert {s.name: s.labels for s in by_kind[Kind.COUNTER]} == {
        "gha_started_jobs_total": JOB_LABELS,
        "gha_completed_jobs_total": RESULT_LABELS,
    }
    assert all(s.buckets == DEFAULT_BUCKETS for s in by_kind[Kind.HISTOGRAM])


def test_the_default_buckets_are_the_contracts_forty_five() -> None:
    assert len(DEFAULT_BUCKETS) == 45
    assert (DEFAULT_BUCKETS[0], DEFAULT_BUCKETS[16], DEFAULT_BUCKETS[-1]) == (0.01, 18, 3600)
    assert list(DEFAULT_BUCKETS) == sorted(DEFAULT_BUCKETS)


@pytest.mark.behaviour("C2 T179")
def test_only_names_in_the_section_of_their_type_count() -> None:
    labels = {"labels": ["name"]}
    settings, complaints = chosen(
        read(
            {
                "counters": {
                    "gha_started_jobs_total": labels,
                    "gha_unknown_total": labels,
                    "gha_assigned_jobs": labels,
                    "gha_job_startup_duration_seconds": labels,
                },
                "gauges": {
                    "gha_assigned_jobs": labels,
                    "gha_unknown": labels,
                    "gha_started_jobs_total": labels,
                    "gha_job_startup_duration_seconds": labels,
                },
                "histograms": {
                    "gha_job_startup_duration_seconds": labels,
                    "gha_job_execution_duration_seconds": labels | {"buckets": [0.1, 1]},
                    "gha_unknown_seconds": labels,
                    "gha_started_jobs_total": labels,
                    "gha_assigned_jobs": labels,
                },
            }
        )
    )
    assert settings == [
        Setting("gha_started_jobs_total", Kind.COUNTER, ("name",)),
        Setting("gha_assigned_jobs", Kind.GAUGE, ("name",)),
        Setting("gha_job_startup_duration_seconds", Kind.HISTOGRAM, ("name",), DEFAULT_BUCKETS),
        Setting("gha_job_execution_duration_seconds", Kind.HISTOGRAM, ("name",), (0.1, 1.0)),
    ]
    assert len(complaints) == 9 and {c.why for c in complaints} == {"unknown metric name"}


@pytest.mark.behaviour("C2 T180")
def test_an_empty_setting_publishes_nothing() -> None:
    assert chosen(read({})) == ([], [])


@pytest.mark.behaviour("C2 T188")
def test_doubled_labels_and_null_entries_are_told_and_skipped() -> None:
    settings, complaints = chosen(
        read(
            {
                "counters": {"gha_started_jobs_total": None},
                "gauges": {"gha_assigned_jobs": {"labels": ["name", "name"]}},
            }
        )
    )
    assert settings == [Setting("gha_assigned_jobs", Kind.GAUGE, ("name",))]
    assert [(c.name, c.kind) for c in complaints] == [
        ("gha_started_jobs_total", Kind.COUNTER),
        ("gha_assigned_jobs", Kind.GAUGE),
    ]


def test_a_label_that_nobody_can_fill_is_refused_with_the_known_ones() -> None:
    settings, complaints = chosen(
        read({"gauges": {"gha_assigned_jobs": {"labels": ["pod", "job_name", "name"]}}})
    )
    assert settings[0].labels == ("name",)  # W27: not left blank
    assert "'pod' is unknown" in complaints[0].why and "namespace" in complaints[0].why
    assert "job_name" in complaints[1].why  # a gauge knows no job


def test_an_entry_of_the_wrong_shape_costs_only_itself() -> None:
    settings, complaints = chosen(
        read({"gauges": {"gha_idle_runners": [1], "gha_busy_runners": {"labels": []}}})
    )
    assert settings == [Setting("gha_busy_runners", Kind.GAUGE, ())]
    assert complaints[0].why.startswith("the entry cannot be read")


@pytest.mark.parametrize("buckets", [[1, 1], [2, 1], list(range(BUCKETS_MAX + 1))])
def test_buckets_that_cannot_be_used_fall_back_to_the_default(buckets: list[float]) -> None:
    entry = {"labels": [], "buckets": buckets}
    settings, complaints = chosen(read({"histograms": {"gha_job_startup_duration_seconds": entry}}))
    assert settings[0].buckets == DEFAULT_BUCKETS
    assert len(complaints) == 1
