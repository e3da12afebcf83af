"""Which of the listener's metrics are published, with which labels and buckets.

What every metric is called and means is the table below; the values are kept in
`metrics.py`. A setting that cannot be used is dropped with a word about it and never stops
the listener (weakness W32); a label nobody can fill is refused rather than left blank (W27).

Pure. Contract: github-service-and-listener 7.1-7.3.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

DEFAULT_BUCKETS = (
    *(0.01, 0.05, 0.1, 0.5),
    *(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 15.0, 18.0, 20.0, 25.0, 30.0),
    *(40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 110.0, 120.0, 150.0, 180.0, 210.0, 240.0),
    *(300.0, 360.0, 420.0, 480.0, 540.0, 600.0, 900.0, 1200.0, 1800.0, 2400.0, 3000.0, 3600.0),
)
BUCKETS_MAX = 200

SET_LABELS = ("enterprise", "organization", "repository", "name", "namespace")
JOB_LABELS = ("enterprise", "organization", "repository", "job_name", "event_name")
RESULT_LABELS = (*JOB_LABELS, "job_result")
WORKFLOW_LABELS = ("job_workflow_ref", "job_workflow_name", "job_workflow_target")
# What a job metric can be asked to carry, and what a gauge can.
KNOWN_JOB_LABELS = frozenset((*SET_LABELS, *RESULT_LABELS, *WORKFLOW_LABELS))
KNOWN_SET_LABELS = frozenset(SET_LABELS)


class Kind(StrEnum):
    """The three sections of the setting."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Known:
    """A metric we can publish."""

    kind: Kind
    labels: tuple[str, ...]
    help: str


KNOWN: Mapping[str, Known] = {
    "gha_assigned_jobs": Known(Kind.GAUGE, SET_LABELS, "Jobs that this scale set was given."),
    "gha_running_jobs": Known(Kind.GAUGE, SET_LABELS, "Of those, running or about to run."),
    "gha_registered_runners": Known(Kind.GAUGE, SET_LABELS, "Runners registered by the set."),
    "gha_busy_runners": Known(Kind.GAUGE, SET_LABELS, "Registered runners that have a job."),
    "gha_idle_runners": Known(Kind.GAUGE, SET_LABELS, "Registered runners without a job."),
    "gha_min_runners": Known(Kind.GAUGE, SET_LABELS, "Idle runners kept on top of demand."),
    "gha_max_runners": Known(Kind.GAUGE, SET_LABELS, "Most runners that may exist."),
    "gha_desired_runners": Known(Kind.GAUGE, SET_LABELS, "Runners last asked for."),
    "gha_started_jobs_total": Known(
        Kind.COUNTER, JOB_LABELS, "Jobs that began on runners of this set."
    ),
    "gha_completed_jobs_total": Known(
        Kind.COUNTER, RESULT_LABELS, "Jobs that ended on runners of this set."
    ),
    "gha_job_startup_duration_seconds": Known(
        Kind.HISTOGRAM, JOB_LABELS, "Seconds from a job's assignment to the set to its runner."
    ),
    "gha_job_execution_duration_seconds": Known(
        Kind.HISTOGRAM, RESULT_LABELS, "Seconds from a job's assignment to its runner to its end."
    ),
}


class _Entry(msgspec.Struct):
    labels: list[str] | None = None
    buckets: list[float] | None = None


class MetricsFile(msgspec.Struct):
    """The `metrics` object of the file. Entries stay raw: one bad entry costs only itself."""

    counters: dict[str, Any] | None = None
    gauges: dict[str, Any] | None = None
    histograms: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """One metric to publish."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something in the setting that is not followed, and why."""

    name: str
    kind: Kind
    why: str


def chosen(file: MetricsFile | None) -> tuple[list[Setting], list[Complaint]]:
    """What to publish. No setting: everything; a setting, even an empty one: exactly that."""
    if file is None:
        return [_default(name, known) for name, known in KNOWN.items()], []
    settings: list[Setting] = []
    complaints: list[Complaint] = []
    sections = (
        (Kind.COUNTER, file.counters),
        (Kind.GAUGE, file.gauges),
        (Kind.HISTOGRAM, file.histograms),
    )
    for kind, section in sections:
        for name, raw in (section or {}).items():
            setting, why = _read(name, kind, raw)
            if setting is not None:
                settings.append(setting)
            complaints += [Complaint(name, kind, text) for text in why]
    return settings, complaints


def _default(name: str, known: Known) -> Setting:
    buckets = DEFAULT_BUCKETS if known.kind is Kind.HISTOGRAM else ()
    return Setting(name, known.kind, known.labels, buckets)


def _read(name: str, kind: Kind, raw: Any) -> tuple[Setting | None, list[str]]:
    known = KNOWN.get(name)
    if known is None or known.kind is not kind:
        return None, ["unknown metric name"]
    if raw is None:
        return None, ["the entry is null; give it labels"]
    try:
        entry = msgspec.convert(raw, _Entry)
    except msgspec.ValidationError as error:
        return None, [f"the entry cannot be read: {error}"]
    labels, why = _labels(entry.labels or [], kind)
    buckets: tuple[float, ...] = ()
    if kind is Kind.HISTOGRAM:
        buckets, refused = _buckets(entry.buckets or [])
        why += refused
    return Setting(name, kind, labels, buckets), why


def _labels(given: list[str], kind: Kind) -> tuple[tuple[str, ...], list[str]]:
    can_be = KNOWN_SET_LABELS if kind is Kind.GAUGE else KNOWN_JOB_LABELS
    labels: list[str] = []
    why: list[str] = []
    for label in given:
        if label in labels:
            why.append(f"label {label!r} is listed twice")
        elif label not in can_be:
            why.append(f"label {label!r} is unknown; known are {', '.join(sorted(can_be))}")
        else:
            labels.append(label)
    return tuple(labels), why


def _buckets(given: list[float]) -> tuple[tuple[float, ...], list[str]]:
    if not given:
        return DEFAULT_BUCKETS, []
    if len(given) > BUCKETS_MAX:
        return DEFAULT_BUCKETS, [f"more than {BUCKETS_MAX} buckets; the default ones are used"]
    if any(upper <= lower for lower, upper in itertools.pairwise(given)):
        return DEFAULT_BUCKETS, ["the buckets do not grow; the default ones are used"]
    return tuple(given), []
