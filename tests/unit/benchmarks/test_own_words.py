"""Stalls from logs, passes from metrics."""

import math

from benchmarks.own_words import pass_percentile, percentile_of_buckets, stall_lines, stalls_in

STALL = '{"message": "the event loop stood still", "ms": %d, "cpu_ms": %d, "culprit": "%s"}'
LOG = "\n".join(
    [
        '{"severity": "info", "message": "runner created", "ms": 900}',
        STALL % (300, 4, "unknown"),
        STALL % (80, 70, "plan (controllers/x.py:3)"),
        STALL % (60, 20, "f (a.py:1)"),
    ]
)
METRICS = """\
# HELP controller_runtime_reconcile_time_seconds How long a pass takes.
controller_runtime_reconcile_time_seconds_bucket{controller="a",le="0.1"} 50.0
controller_runtime_reconcile_time_seconds_bucket{controller="a",le="0.2"} 90.0
controller_runtime_reconcile_time_seconds_bucket{controller="a",le="+Inf"} 100.0
controller_runtime_reconcile_time_seconds_bucket{controller="b",le="0.1"} 100.0
controller_runtime_reconcile_time_seconds_bucket{controller="b",le="0.2"} 100.0
controller_runtime_reconcile_time_seconds_bucket{controller="b",le="+Inf"} 100.0
"""


def test_a_stall_counts_as_worked_only_where_the_thread_ran_for_so_long() -> None:
    found = stalls_in(stall_lines(LOG), 50)
    assert (found.count, found.worked) == (3, 1)
    assert (found.longest_ms, found.longest_worked_ms) == (300.0, 70.0)
    assert found.culprit == "plan (controllers/x.py:3)"


def test_without_stalls_there_are_none() -> None:
    found = stalls_in([], 50)
    assert (found.count, found.longest_ms, found.culprit) == (0, 0.0, "")


def test_a_percentile_of_passes_is_reckoned_within_its_bucket() -> None:
    # Of 100 passes the 70th is in the middle of the 40 between 0.1 and 0.2 s.
    assert math.isclose(pass_percentile(METRICS, 0.7, "a"), 0.15)
    # Of both together, 200: the 150th is the last of those below 0.1 s.
    assert math.isclose(pass_percentile(METRICS, 0.75), 0.1)


def test_beyond_the_last_bound_its_bound_is_said() -> None:
    assert pass_percentile(METRICS, 0.99, "a") == 0.2


def test_where_nothing_was_counted_there_is_no_percentile() -> None:
    assert math.isnan(percentile_of_buckets([], 0.99))
    assert math.isnan(pass_percentile(METRICS, 0.99, "nobody"))
