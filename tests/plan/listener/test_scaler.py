"""The wanted number and its patch ids: every row of the contract's table, and ours beyond it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.listener.scaler import (
    SEQUENCE_MAX,
    UNLIMITED,
    Bounds,
    ScalerState,
    WantedPatch,
    assigned_jobs,
    decide,
    disturbed,
    failed,
    grows,
    patch_body,
    stored,
    target,
)
from runnerscale.scaleset.model import JobEvent, JobEventKind

FRESH = ScalerState()
Call = tuple[int, bool]  # assigned, dirty before


def run(calls: list[Call], bounds: Bounds) -> list[tuple[int, int, int]]:
    """(target, sequence, patch id) of each call, every patch succeeding."""
    state, seen = FRESH, []
    for assigned, dirty in calls:
        if dirty:
            state = disturbed(state)
        patch = decide(state, assigned=assigned, bounds=bounds)
        state = stored(patch)
        assert not state.dirty
        seen.append((patch.replicas, patch.sequence, patch.patch_id))
    return seen


C, D = False, True  # clean, dirty
TABLE = [
    ((0, UNLIMITED), [(0, C)], [(0, 0, 0)]),
    ((0, UNLIMITED), [(1, C)], [(1, 0, 0)]),
    ((0, UNLIMITED), [(1, C), (0, D)], [(1, 0, 0), (0, 1, 1)]),
    ((0, UNLIMITED), [(1, C), (1, C)], [(1, 0, 0), (1, 1, 1)]),
    ((0, UNLIMITED), [(1, D), (0, D)], [(1, 0, 0), (0, 1, 1)]),
    ((1, UNLIMITED), [(0, C)], [(1, 0, 0)]),
    ((1, UNLIMITED), [(2, C), (0, D)], [(3, 0, 0), (1, 1, 1)]),
    ((1, UNLIMITED), [(3, C), (0, D), (0, C)], [(4, 0, 0), (1, 1, 1), (1, 2, 0)]),
    ((0, 5), [(6, C)], [(5, 0, 0)]),
    ((0, 5), [(5, C)], [(5, 0, 0)]),
    ((0, 5), [(0, C)], [(0, 0, 0)]),
    ((0, 5), [(2, C), (0, D)], [(2, 0, 0), (0, 1, 1)]),
    ((0, 5), [(1, C), (6, D)], [(1, 0, 0), (5, 1, 1)]),
    ((0, 5), [(6, C), (0, D)], [(5, 0, 0), (0, 1, 1)]),
    ((0, 5), [(3, C), (0, D), (0, C)], [(3, 0, 0), (0, 1, 1), (0, 2, 0)]),
    ((1, 3), [(0, C)], [(1, 0, 0)]),
    ((1, 3), [(4, C)], [(3, 0, 0)]),
    ((1, 3), [(3, C)], [(3, 0, 0)]),
    ((1, 3), [(2, C), (0, D)], [(3, 0, 0), (1, 1, 1)]),
    ((1, 3), [(3, C), (0, D), (0, C)], [(3, 0, 0), (1, 1, 1), (1, 2, 0)]),
]


@pytest.mark.behaviour(
    "C2 T129",
    "C2 T130",
    "C2 T131",
    "C2 T132",
    "C2 T133",
    "C2 T134",
    "C2 T135",
    "C2 T136",
    "C2 T137",
    "C2 T138",
    "C2 T139",
    "C2 T140",
    "C2 T141",
    "C2 T142",
    "C2 T143",
    "C2 T144",
    "C2 T145",
)
@pytest.mark.parametrize(("limits", "calls", "expected"), TABLE)
def test_every_row_of_the_contracts_table(
    limits: tuple[int, int], calls: list[Call], expected: list[tuple[int, int, int]]
) -> None:
    assert run(calls, Bounds(*limits)) == expected


@pytest.mark.behaviour("C2 T146")
def test_the_sequence_begins_again_at_one_and_never_passes_an_int32() -> None:
    state = ScalerState(sequence=SEQUENCE_MAX, target=3, dirty=True)
    patch = decide(state, assigned=1, bounds=Bounds(0, 5))
    assert (patch.patch_id, patch.sequence) == (1, 1)  # 0 would mean "exactly", so 1


@pytest.mark.behaviour("C2 T148")
def test_a_message_that_changes_nothing_above_the_minimum_is_a_numbered_patch() -> None:
    state = ScalerState(sequence=4, target=3)
    assert decide(state, assigned=2, bounds=Bounds(1, 9)) == WantedPatch(3, 5, 5)


def test_an_empty_poll_with_the_target_unchanged_converges_exactly_at_any_level() -> None:
    # Design 3: surplus idle runners must not stay while some job runs.
    state = ScalerState(sequence=4, target=3)
    patch = decide(state, assigned=2, bounds=Bounds(1, 9), passed_empty=True)
    assert patch == WantedPatch(replicas=3, patch_id=0, sequence=5)


def test_an_empty_poll_is_not_exact_when_the_target_moved_or_a_job_did() -> None:
    state = ScalerState(sequence=4, target=3)
    moved = decide(state, assigned=5, bounds=Bounds(1, 9), passed_empty=True)
    assert moved.patch_id == 5
    after_job = decide(disturbed(state), assigned=2, bounds=Bounds(1, 9), passed_empty=True)
    assert after_job.patch_id == 5


@pytest.mark.behaviour("C2 T150")
def test_a_patch_that_failed_is_sent_again_with_its_id_and_stays_dirty() -> None:
    state = disturbed(ScalerState(sequence=4, target=3))
    first = decide(state, assigned=1, bounds=Bounds(0, 9))
    state = failed(state, first)
    assert state.dirty and state.target == 3
    assert decide(state, assigned=1, bounds=Bounds(0, 9)) == first


def test_another_number_after_a_failed_patch_gets_another_id() -> None:
    # The failed one may have been stored all the same: its id is old news to a reader then.
    state = ScalerState(sequence=4, target=3, dirty=True)
    state = failed(state, decide(state, assigned=1, bounds=Bounds(0, 9)))
    assert decide(state, assigned=2, bounds=Bounds(0, 9)) == WantedPatch(2, 6, 6)


def test_the_first_number_that_is_stored_is_exact_whatever_failed_before_it() -> None:
    # Contract 5.5: the first patch after a restart is 0. A predecessor's ids begin at 1, too.
    state = failed(FRESH, decide(FRESH, assigned=1, bounds=Bounds(0, 9)))
    assert decide(state, assigned=2, bounds=Bounds(0, 9)) == WantedPatch(2, 0, 1)


def test_what_was_stored_forgets_the_attempt_before() -> None:
    state = ScalerState(sequence=4, target=3, dirty=True)
    patch = decide(state, assigned=1, bounds=Bounds(0, 9))
    state = stored(patch)
    assert state == ScalerState(sequence=5, target=1)
    assert failed(state, patch).attempted == patch


@pytest.mark.behaviour("C2 T147")
def test_the_body_says_zero_as_zero() -> None:
    assert patch_body(WantedPatch(3, 5, 5)) == {"spec": {"patchID": 5, "replicas": 3}}
    assert patch_body(WantedPatch(0, 0, 7)) == {"spec": {"patchID": 0, "replicas": 0}}  # W38


def test_the_body_names_the_settled_runners_only_when_there_are_any() -> None:
    assert patch_body(WantedPatch(3, 5, 5), ["set-runner-a"]) == {
        "spec": {"patchID": 5, "replicas": 3, "settledRunners": ["set-runner-a"]}
    }


def test_growing_is_against_what_the_set_was_last_told() -> None:
    assert grows(FRESH, 0)  # nothing was told yet: the first number waits for nothing
    assert grows(ScalerState(target=2), 3)
    assert not grows(ScalerState(target=2), 2)


STARTED = JobEvent(kind=JobEventKind.STARTED, index=0, job_id="a", runner_name="r")
ASSIGNED = replace(STARTED, kind=JobEventKind.ASSIGNED)
COMPLETED = replace(STARTED, kind=JobEventKind.COMPLETED)


def test_the_statistics_count_where_they_say_more_than_the_body() -> None:
    assert assigned_jobs(7, [ASSIGNED]) == 7  # the body is cut at 50, the statistics are not


def test_a_body_with_assigned_jobs_beats_statistics_that_say_none() -> None:
    other = replace(ASSIGNED, job_id="b")
    assert assigned_jobs(0, [ASSIGNED, other, STARTED]) == 2  # one of them started: still two


def test_a_job_that_the_same_body_ends_is_not_counted() -> None:
    # A cancelled assignment: JobAssigned and JobCompleted in one message (contract 4.3).
    assert assigned_jobs(0, [ASSIGNED, COMPLETED]) == 0


def test_jobs_without_an_id_are_told_apart_by_their_request() -> None:
    first = replace(ASSIGNED, job_id="", request_id=1)
    assert assigned_jobs(0, [first, replace(first, request_id=2)]) == 2


@given(st.integers(0, 10_000), st.integers(0, 50), st.integers(0, 500))
def test_wanted_is_the_headroom_on_top_of_the_jobs_and_never_above_the_maximum(
    assigned: int, minimum: int, room: int
) -> None:
    bounds = Bounds(minimum, minimum + room)
    assert target(assigned, bounds) == min(minimum + room, minimum + assigned)


def test_a_negative_count_of_jobs_is_none() -> None:
    assert target(-3, Bounds(1, 5)) == 1


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.booleans(), st.booleans(), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_an_exact_patch_never_follows_a_job_event_unless_another_patch_came_between(
    calls: list[tuple[int, bool, bool, bool]],
) -> None:
    state = FRESH
    for number, (assigned, dirty, empty, fails) in enumerate(calls):
        if dirty:
            state = disturbed(state)
        patch = decide(state, assigned=assigned, bounds=Bounds(1, 6), passed_empty=empty)
        if state.dirty and number > 0 and state.sequence >= 0:
            assert patch.patch_id > 0
        state = failed(state, patch) if fails else stored(patch)
