"""What the demo sums up, and when it calls itself well."""

import io
from dataclasses import replace

import pytest

from runnerscale.app.demo_state import (
    DemoState,
    JobRow,
    Leftovers,
    RunnerRow,
    Summary,
    percentile,
    summary_lines,
)
from runnerscale.cli.demo_view import PlainView, counts, runner_cells

JOB = JobRow(id="1", name="build", state="succeeded", queued_s=10, started_s=12, ended_s=15)
WELL = Summary(
    jobs=(JOB, replace(JOB, id="2", started_s=14)),
    wall_s=20,
    ready_s=3,
    first_job_s=1,
    peak_runners=2,
    leftovers=Leftovers(),
)


def test_a_demo_with_all_jobs_right_and_nothing_left_went_well() -> None:
    assert WELL.went_well


@pytest.mark.parametrize(
    "change",
    [
        {"jobs": ()},
        {"jobs": (replace(JOB, state="failed"),)},
        {"jobs": (replace(JOB, state="queued"),)},
        {"jobs": (replace(JOB, starts=2),)},
        {"leftovers": Leftovers(runners=1)},
        {"leftovers": Leftovers(pods=1)},
        {"leftovers": Leftovers(secrets=1)},
        {"leftovers": Leftovers(registrations=1)},
        {"violations": ("JIT config of a-1 used twice",)},
    ],
)
def test_each_thing_that_is_wrong_alone_makes_it_not_well(change: dict[str, object]) -> None:
    assert not replace(WELL, **change).went_well  # type: ignore[arg-type]


def test_a_skipped_job_is_neither_a_success_nor_a_failure() -> None:
    summary = replace(WELL, jobs=(JOB, replace(JOB, id="2", state="skipped", started_s=0)))
    assert (summary.succeeded, summary.failed, summary.skipped) == (1, 0, 1)
    assert summary.went_well


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [
        ([], 0.95, 0),
        ([7.0], 0.5, 7),
        ([float(n) for n in range(1, 21)], 0.95, 19),  # nearest rank: the 19th of 20
        ([float(n) for n in range(1, 21)], 0.5, 10),
        ([1.0, 2.0], 1.0, 2),
    ],
)
def test_a_percentile_is_the_nearest_rank(
    values: list[float], part: float, expected: float
) -> None:
    assert percentile(values, part) == expected


def test_the_summary_has_the_lines_that_ci_looks_for() -> None:
    lines = summary_lines(WELL)
    names = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in lines}
    assert names["jobs"] == "2"
    assert names["succeeded"] == "2"
    assert names["failed"] == "0"
    assert names["runners left"] == "0"
    assert names["queue to start, p95"] == "4.00 s"


def test_the_plain_view_says_each_trouble_once_and_not_more_than_a_line_a_second() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    runner = RunnerRow("r1", "Pending", 2.0)
    state = DemoState(1.0, (JOB,), (runner,), ("GitHubUnavailable: no answer",))
    view.show(state)
    view.show(replace(state, elapsed_s=1.2, runners=()))  # changed, but within the second
    view.show(replace(state, elapsed_s=2.5, runners=()))
    lines = stream.getvalue().splitlines()
    assert [line for line in lines if line.startswith("trouble")] == [
        "trouble  GitHubUnavailable: no answer"
    ]
    assert len(lines) == 3


def test_a_runner_that_is_finished_or_going_does_not_count() -> None:
    rows = (
        RunnerRow("a", "Pending", 1),
        RunnerRow("b", "Running", 1),
        RunnerRow("c", "Running", 1, deleting=True),
        RunnerRow("d", "Failed", 1, reason="Evicted"),
    )
    assert [row.alive for row in rows] == [True, True, False, False]
    assert "1 Pending, 1 Running" in counts(DemoState(0, (), rows))
    assert runner_cells(rows[2])[1] == "deleting"


def test_a_skipped_job_is_not_counted_among_those_that_failed() -> None:
    jobs = (JOB, replace(JOB, state="skipped"))
    assert "1 succeeded, 0 failed, 1 skipped |" in counts(DemoState(0, jobs))
    assert "1 succeeded, 1 failed |" in counts(DemoState(0, (JOB, replace(JOB, state="cancelled"))))
