"""What the values of a snapshot mean."""

import pytest
from msgspec.structs import replace

from runnerscale.controllers.ephemeral_runner.pod_view import PodView
from runnerscale.controllers.ephemeral_runner.snapshot import (
    Hand,
    PodPast,
    Removal,
    Where,
    where,
)
from tests.plan.ephemeral_runner.values import (
    BUSY,
    FAILED,
    IDLE,
    JIT,
    MADE,
    NEW,
    NOW_S,
    PENDING,
    PLACED,
    RUNNING,
    WAITING,
    exited,
    removed,
    seen,
)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (WAITING, Where.UNPLACED),
        (PLACED, Where.STARTING),
        (RUNNING, Where.RUNNING),
        (exited(0), Where.GOING),
        (replace(RUNNING, going_s=NOW_S), Where.GOING),
        (replace(WAITING, going_s=NOW_S), Where.GOING),
        (replace(PLACED, phase="Failed", reason="OutOfpods"), Where.REFUSED),
        (replace(RUNNING, phase="Failed", reason="Evicted"), Where.GOING),
        (replace(RUNNING, gone=True), Where.LOST),
        (None, Where.LOST),
    ],
)
def test_where_the_pod_is(pod: PodView | None, expected: Where) -> None:
    assert where(seen(PENDING, pod)) is expected


def test_without_a_pod_memory_or_the_missing_id_says_that_there_was_none() -> None:
    never = Hand(pod=PodPast.NEVER)
    assert where(seen(PENDING, None, never)) is Where.NOT_MADE
    assert where(seen(PENDING, None, Hand(pod=PodPast.RETURNED))) is Where.NOT_MADE
    # After a restart: the id is stored before the pod is made, so none means no pod.
    assert where(seen(NEW, None, Hand())) is Where.NOT_MADE
    assert where(seen(PENDING, None, Hand())) is Where.LOST
    # GitHub may give a job to a runner whose pod is still to come.
    assert where(seen(BUSY, None, never)) is Where.NOT_MADE


def test_busy_is_a_fact_or_githubs_fresh_word() -> None:
    assert seen(BUSY).busy
    assert not seen(IDLE).busy
    fresh = removed(Removal.BUSY, at_s=NOW_S)
    assert seen(IDLE, hand=fresh).busy
    assert not seen(IDLE, hand=fresh, after_s=301).busy
    assert seen(IDLE, hand=fresh, after_s=301).had_job


def test_the_id_is_known_from_wherever_it_is_known() -> None:
    assert seen(PENDING).registered_id == 7
    assert seen(NEW, hand=Hand(jit=JIT)).registered_id == 7
    assert seen(NEW, hand=Hand(adopted_id=9)).registered_id == 9
    assert seen(NEW).registered_id == 0


def test_alive_and_there_are_two_things() -> None:
    assert (seen(pod=RUNNING).pod_alive, seen(pod=RUNNING).pod_there) == (True, True)
    assert (seen(pod=exited(0)).pod_alive, seen(pod=exited(0)).pod_there) == (False, True)
    gone = replace(exited(0), gone=True)
    assert (seen(pod=gone).pod_alive, seen(pod=gone).pod_there) == (False, False)
    assert seen(hand=MADE).pod_there is False


def test_retired_and_deleting() -> None:
    assert seen(FAILED).retired
    assert not seen(IDLE).retired
    assert seen(replace(IDLE, deleted_s=NOW_S)).deleting
    assert seen(IDLE).about == "EphemeralRunner ns/runner-a"
