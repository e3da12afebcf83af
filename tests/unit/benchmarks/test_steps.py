"""Which cases a run has."""

from benchmarks.budget import CLEAN_UP_S
from benchmarks.steps import CASES, EMBEDDED, FULL, REAL, SECONDS, SHORT, SIZES, steps

BOTH = (EMBEDDED, REAL)


def test_the_short_run_fits_into_ten_minutes() -> None:
    todo = steps(SHORT, [REAL], is_full=False)
    assert sum(step.round_s * step.rounds for step in todo) < 600 - CLEAN_UP_S
    assert {(step.case, step.size) for step in todo if step.case == "burst"} == {
        ("burst", 100),
        ("burst", 500),
    }


def test_a_full_run_has_every_case_at_every_size_on_both_servers() -> None:
    todo = steps(CASES, BOTH, is_full=True)
    for case in FULL:
        for server in BOTH:
            found = [step.size for step in todo if (step.case, step.server) == (case, server)]
            assert found == ([5000] if case == "scale" else list(SIZES[case][True]))


def test_what_has_one_server_is_done_once() -> None:
    todo = steps(["embedded", "github"], [REAL, EMBEDDED], is_full=False)
    assert [(step.case, step.server) for step in todo] == [("embedded", EMBEDDED), ("github", REAL)]


def test_one_case_can_be_repeated_at_another_size() -> None:
    [step] = steps(["burst"], [EMBEDDED], is_full=False, sizes=[40], rounds=7)
    assert (step.size, step.rounds) == (40, 7)


def test_every_case_has_its_sizes_and_its_time() -> None:
    assert set(CASES) == set(SIZES) == set(SECONDS)
