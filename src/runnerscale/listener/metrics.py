"""The numbers the listener publishes: ARC's metrics under ARC's names, and a few of our own.

Kept by hand instead of with the library's metric types, because the number of series must
have a bound (job names are other people's texts: past the bound they share one series, W26),
the set of metrics changes while the process runs, and no `_created` series belong into the
output. Which metrics with which labels: `metric_settings.py`. Who serves them: `server.py`.

Contract: github-service-and-listener 7. Fixes W26-W30 and W33.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from runnerscale.api.reasons import Reason
from runnerscale.listener import workflow_ref
from runnerscale.listener.metric_settings import KNOWN, Kind, MetricsFile, Setting, chosen
from runnerscale.listener.scaler import Bounds
from runnerscale.scaleset.model import JobEvent, Statistics

log = structlog.get_logger(__name__)

SERIES_MAX = 100  # label combinations of one metric; a histogram has 48 lines for each
LABEL_LENGTH_MAX = 200
OTHER = "other"  # the value of a message's labels in the series that takes the rest
# These a message cannot make many of.
FIXED_LABELS = frozenset({"enterprise", "name", "namespace"})
RESULTS = frozenset({"succeeded", "failed", "canceled", "cancelled", "skipped", "abandoned"})


class Place(Protocol):
    """What the config URL names (`scaleset.config_url.ConfigUrl`)."""

    @property
    def enterprise(self) -> str: ...
    @property
    def organization(self) -> str: ...
    @property
    def repository(self) -> str: ...


@dataclass(slots=True)
class _Histogram:
    counts: list[int]  # one for each bucket and one past the last
    total: float = 0.0


@dataclass(slots=True)
class _Series:
    """One metric: its setting and a value for each combination of labels."""

    setting: Setting
    numbers: dict[tuple[str, ...], float] = field(default_factory=dict)
    histograms: dict[tuple[str, ...], _Histogram] = field(default_factory=dict)

    def key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        taken = self.histograms if self.setting.kind is Kind.HISTOGRAM else self.numbers
        key = tuple(labels.get(name, "")[:LABEL_LENGTH_MAX] for name in self.setting.labels)
        if key in taken or len(taken) < SERIES_MAX:
            return key
        return tuple(_overflow(name, labels) for name in self.setting.labels)

    def observe(self, labels: Mapping[str, str], value: float) -> None:
        key = self.key(labels)
        buckets = self.setting.buckets
        found = self.histograms.get(key)
        if found is None:
            found = self.histograms[key] = _Histogram([0] * (len(buckets) + 1))
        found.counts[bisect_left(buckets, value)] += 1
        found.total += value

    def family(self, text: str) -> Metric:
        name, labels = self.setting.name, self.setting.labels
        if self.setting.kind is Kind.HISTOGRAM:
            histogram = HistogramMetricFamily(name, text, labels=labels)
            for key, value in self.histograms.items():
                histogram.add_metric(key, _cumulative(self.setting.buckets, value), value.total)
            return histogram
        if self.setting.kind is Kind.COUNTER:
            counter = CounterMetricFamily(name.removesuffix("_total"), text, labels=labels)
            for key, number in self.numbers.items():
                counter.add_metric(key, number)
            return counter
        gauge = GaugeMetricFamily(name, text, labels=labels)
        for key, number in self.numbers.items():
            gauge.add_metric(key, number)
        return gauge


def _overflow(name: str, labels: Mapping[str, str]) -> str:
    value = labels.get(name, "")
    bounded = name in FIXED_LABELS or (name == "job_result" and value in RESULTS)
    return value if bounded else OTHER


def _cumulative(buckets: Iterable[float], value: _Histogram) -> list[tuple[str, float]]:
    lines: list[tuple[str, float]] = []
    seen = 0
    for upper, count in zip((*buckets, float("inf")), value.counts, strict=True):
        seen += count
        lines.append((floatToGoString(upper), seen))  # type: ignore[no-untyped-call]
    return lines


class ListenerMetrics(Collector):
    """All of the listener's numbers; one instance per process."""

    def __init__(
        self,
        file: MetricsFile | None,
        *,
        place: Place,
        set_name: str,
        namespace: str,
        registry: CollectorRegistry,
    ) -> None:
        """`file`: the `metrics` object of the configuration; None publishes everything."""
        self._set_labels = {
            "enterprise": place.enterprise,
            "organization": place.organization,
            "repository": place.repository,
            "name": set_name,
            "namespace": namespace,
        }
        self._series: dict[str, _Series] = {}
        self._gauges: dict[str, float] = {}  # last values, for a gauge that is added later
        self._state = ("starting", "")
        self._own: Counter[tuple[str, str]] = Counter()
        self._unstored = 0
        self._last_poll_s = 0.0
        self.apply(file)
        registry.register(self)

    def apply(self, file: MetricsFile | None) -> None:
        """Follow a setting from now on; what stays as it is keeps its values."""
        settings, complaints = chosen(file)
        for complaint in complaints:
            log.error(
                complaint.why,
                component="metrics exporter",
                name=complaint.name,
                kind=complaint.kind.value,
            )
        before = self._series
        self._series = {}
        for setting in settings:
            known = before.get(setting.name)
            kept = known if known is not None and known.setting == setting else _Series(setting)
            self._series[setting.name] = kept
        for name, value in self._gauges.items():
            self._set(name, value)

    # -- ARC's metrics ---------------------------------------------------------------------

    def record_statistics(self, statistics: Statistics) -> None:
        """The truth about the set, as GitHub told it just now."""
        self._set("gha_assigned_jobs", statistics.assigned_jobs)
        self._set("gha_running_jobs", statistics.running_jobs)
        self._set("gha_registered_runners", statistics.registered_runners)
        self._set("gha_busy_runners", statistics.busy_runners)
        self._set("gha_idle_runners", statistics.idle_runners)

    def record_bounds(self, bounds: Bounds) -> None:
        """The configured limits."""
        self._set("gha_min_runners", bounds.min_runners)
        self._set("gha_max_runners", bounds.max_runners)

    def record_desired(self, replicas: int) -> None:
        """What was just stored as wanted, for whatever reason it was sent (W30)."""
        self._set("gha_desired_runners", replicas)

    def job_started(self, event: JobEvent) -> None:
        """A job began; to be called once for an event, after it was dealt with."""
        labels = self._job_labels(event)
        self._count("gha_started_jobs_total", labels)
        if event.runner_assign_time_s > 0 and event.scale_set_assign_time_s > 0:
            waited_s = int(event.runner_assign_time_s) - int(event.scale_set_assign_time_s)
            self._observe("gha_job_startup_duration_seconds", labels, waited_s)

    def job_completed(self, event: JobEvent) -> None:
        """A job ended; an assignment that no runner ever took is none."""
        if event.runner_assign_time_s <= 0:
            return
        labels = self._job_labels(event) | {"job_result": event.result}
        self._count("gha_completed_jobs_total", labels)
        if event.finish_time_s > 0:
            took_s = int(event.finish_time_s) - int(event.runner_assign_time_s)
            self._observe("gha_job_execution_duration_seconds", labels, took_s)

    # -- our own ---------------------------------------------------------------------------

    def record_state(self, state: str, reason: str) -> None:
        """What the listener does and, if it waits, why."""
        self._state = (state, reason)

    def record_poll(self, now_s: float) -> None:
        """A poll came back in order."""
        self._last_poll_s = now_s

    def record_unstored(self, waiting: int) -> None:
        """How many job events wait to be repaired."""
        self._unstored = waiting

    def trouble(self, reason: Reason) -> None:
        """Something went wrong, and was told with this reason."""
        self.count("runnerscale_listener_troubles_total", str(reason))

    def count(self, name: str, what: str = "", by: int = 1) -> None:
        """Raise one of the counters of `OWN_COUNTERS`; `what`: its one label, if it has one."""
        assert name in OWN_COUNTERS, f"no such counter: {name}"
        self._own[name, what] += by

    # -- for the registry ------------------------------------------------------------------

    def describe(self) -> Iterable[Metric]:
        """Nothing is fixed before it is collected: settings change while we run."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All families, ARC's first."""
        for name, series in self._series.items():
            yield series.family(KNOWN[name].help)
        yield from self.collect_own()

    def collect_own(self) -> Iterable[Metric]:
        """Ours alone: what has no series for each job."""
        state = GaugeMetricFamily(
            "runnerscale_listener_state",
            "1 for what the listener does now; reason as in docs/troubleshooting.md.",
            labels=("state", "reason"),
        )
        state.add_metric(self._state, 1)
        yield state
        yield GaugeMetricFamily(
            "runnerscale_listener_last_poll_timestamp_seconds",
            "When a poll last came back in order; 0 before the first.",
            value=self._last_poll_s,
        )
        yield GaugeMetricFamily(
            "runnerscale_listener_unstored_job_events",
            "Job events that could not be stored in time and are tried again.",
            value=self._unstored,
        )
        for name, (text, label) in OWN_COUNTERS.items():
            counter = CounterMetricFamily(
                name.removesuffix("_total"), text, labels=(label,) if label else ()
            )
            for (counted, what), number in sorted(self._own.items()):
                if counted == name:
                    counter.add_metric((what,) if label else (), number)
            yield counter

    # -- inside ----------------------------------------------------------------------------

    def _job_labels(self, event: JobEvent) -> dict[str, str]:
        workflow = workflow_ref.parse(event.job_workflow_ref)
        return self._set_labels | {
            "organization": event.owner_name,
            "repository": event.repository_name,
            "job_name": event.job_display_name,
            "event_name": event.event_name,
            "job_workflow_ref": event.job_workflow_ref,
            "job_workflow_name": workflow.name,
            "job_workflow_target": workflow.target,
        }

    def _set(self, name: str, value: float) -> None:
        self._gauges[name] = value
        series = self._series.get(name)
        if series is not None:
            series.numbers[series.key(self._set_labels)] = value

    def _count(self, name: str, labels: Mapping[str, str]) -> None:
        series = self._series.get(name)
        if series is not None:
            key = series.key(labels)
            series.numbers[key] = series.numbers.get(key, 0) + 1

    def _observe(self, name: str, labels: Mapping[str, str], value_s: float) -> None:
        series = self._series.get(name)
        if series is not None:
            series.observe(labels, max(0.0, value_s))  # clocks differ; time does not run back


# name: help, label
OWN_COUNTERS: Mapping[str, tuple[str, str]] = {
    "runnerscale_listener_messages_total": ("Messages that were handled.", ""),
    "runnerscale_listener_quarantined_total": (
        "Messages, or elements of one, that could not be understood and were set aside.",
        "what",
    ),
    "runnerscale_listener_unstored_job_events_total": (
        "Job events that could not be stored within their bound.",
        "",
    ),
    "runnerscale_listener_lost_job_events_total": (
        "Job events given up: refused for good, too old, or too many at once.",
        "",
    ),
    "runnerscale_listener_kubernetes_failures_total": (
        "Failed writes to the Kubernetes API, by what was written.",
        "what",
    ),
    "runnerscale_listener_troubles_total": (
        "What went wrong, by reason as in docs/troubleshooting.md.",
        "reason",
    ),
    "runnerscale_listener_config_reloads_total": (
        "Changed configuration files, by what became of them.",
        "result",
    ),
}
