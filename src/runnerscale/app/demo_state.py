"""What the demo shows while it runs and sums up at its end: plain values, and how they are made.

Pure. Who draws them is `cli/demo_view.py`; where they come from is `demo.py`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

BAD_JOBS_MAX = 10  # named in the summary
DONE = frozenset({"succeeded", "failed", "skipped", "cancelled"})


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job as GitHub tells it. Times: seconds since the epoch, 0: not yet."""

    id: str
    name: str
    state: str  # queued, assigned, running, or one of DONE
    queued_s: float = 0.0
    started_s: float = 0.0
    ended_s: float = 0.0
    starts: int = 0


@dataclass(frozen=True, slots=True)
class RunnerRow:
    """One EphemeralRunner as kubectl would show it."""

    name: str
    phase: str
    age_s: float
    reason: str = ""
    job: str = ""
    deleting: bool = False

    @property
    def alive(self) -> bool:
        """Counts towards the maximum: neither finished nor being deleted."""
        return not self.deleting and self.phase not in {"Succeeded", "Failed", "Outdated"}


@dataclass(frozen=True, slots=True)
class DemoState:
    """One look at everything."""

    elapsed_s: float
    jobs: tuple[JobRow, ...] = ()
    runners: tuple[RunnerRow, ...] = ()
    troubles: tuple[str, ...] = ()

    def count(self, *states: str) -> int:
        """How many jobs are in one of these states."""
        return sum(job.state in states for job in self.jobs)

    @property
    def done(self) -> int:
        """How many jobs have ended."""
        return sum(job.state in DONE for job in self.jobs)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What must be gone when all jobs are done and the set is deleted."""

    runners: int = 0
    pods: int = 0
    secrets: int = 0
    registrations: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.runners + self.pods + self.secrets + self.registrations


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a demo."""

    jobs: tuple[JobRow, ...]
    wall_s: float
    ready_s: float  # from the start until all parts were up
    first_job_s: float  # from then until the first job started
    peak_runners: int
    leftovers: Leftovers
    violations: tuple[str, ...] = ()
    kubernetes_writes: float = 0.0  # per job
    kubernetes_reads: float = 0.0  # by the listener, per job
    github_calls: float = 0.0  # of the controller, per job
    rss_mib: Mapping[str, float] = field(default_factory=dict)  # peak, by process
    notes: tuple[str, ...] = ()
    shown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # reason: where

    @property
    def succeeded(self) -> int:
        """Jobs with that result."""
        return sum(job.state == "succeeded" for job in self.jobs)

    @property
    def failed(self) -> int:
        """Jobs that ended otherwise, or not at all; skipped ones are neither."""
        return sum(job.state not in {"succeeded", "skipped"} for job in self.jobs)

    @property
    def skipped(self) -> int:
        """Jobs whose condition was not met."""
        return sum(job.state == "skipped" for job in self.jobs)

    @property
    def went_well(self) -> bool:
        """All jobs right, nothing left, nothing done twice."""
        started_twice = any(job.starts > 1 for job in self.jobs)
        clean = self.leftovers.total == 0 and not self.violations and not started_twice
        return bool(self.jobs) and self.failed == 0 and clean

    def waits_s(self) -> list[float]:
        """Queue to start, of each job that started, in order."""
        return sorted(job.started_s - job.queued_s for job in self.jobs if job.started_s)


class DemoView(Protocol):
    """Who shows it: a live table on a terminal, plain lines elsewhere."""

    def say(self, text: str) -> None:
        """One line for the reader."""
        ...

    def show(self, state: DemoState) -> None:
        """The state now."""
        ...

    def close(self) -> None:
        """Give the terminal back."""
        ...


def percentile(values: Sequence[float], part: float) -> float:
    """The value at or below which `part` (0 to 1) of the sorted `values` lie; 0 if none."""
    if not values:
        return 0.0
    return values[max(0, math.ceil(part * len(values)) - 1)]


def summary_lines(summary: Summary) -> list[str]:
    """The summary, a fact a line: name, two spaces or more, value."""
    waits = summary.waits_s()
    left = summary.leftovers
    rows: list[tuple[str, str]] = [
        ("jobs", str(len(summary.jobs))),
        ("succeeded", str(summary.succeeded)),
        ("failed", str(summary.failed)),
    ]
    if summary.skipped:
        rows.append(("skipped", str(summary.skipped)))
    rows += [
        ("queue to start, p50", f"{percentile(waits, 0.5):.2f} s"),
        ("queue to start, p95", f"{percentile(waits, 0.95):.2f} s"),
        ("parts up after", f"{summary.ready_s:.1f} s"),
        ("first job started", f"{summary.first_job_s:.1f} s later"),
        ("all done after", f"{summary.wall_s:.1f} s"),
        ("peak runners", str(summary.peak_runners)),
        ("runners left", str(left.runners)),
        ("pods, secrets, registrations left", f"{left.pods}, {left.secrets}, {left.registrations}"),
        ("Kubernetes writes per job", f"{summary.kubernetes_writes:.1f}"),
        ("listener reads per job", f"{summary.kubernetes_reads:.1f}"),
        ("GitHub calls per job", f"{summary.github_calls:.1f}"),
    ]
    rows += [(f"peak RSS, {name}", f"{mib:.0f} MiB") for name, mib in summary.rss_mib.items()]
    rows += [(f"shown: {reason}", ", ".join(where)) for reason, where in summary.shown.items()]
    bad = [job for job in summary.jobs if job.state not in {"succeeded", "skipped"}]
    rows += [("did not succeed", f"{job.name} ({job.state})") for job in bad[:BAD_JOBS_MAX]]
    rows += [("violation", text) for text in summary.violations]
    rows += [("note", text) for text in summary.notes]
    width = max(len(name) for name, _ in rows) + 2
    return [f"{name:<{width}}{value}" for name, value in rows]
