"""Third stage: a node for the pod."""

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    CreatePod,
    DeletePod,
    Done,
    How,
    Said,
)
from runnerscale.controllers.ephemeral_runner.placement import look
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.snapshot import PodPast, Snapshot
from tests.plan.ephemeral_runner.values import (
    BUSY,
    MADE,
    NOW_S,
    PENDING,
    PLACED,
    REF,
    RUNNING,
    WAITING,
    ending,
    patch,
    reasons,
    seen,
    told,
)

WORDS = "0/5 nodes are available: 5 Insufficient memory."
UNPLACED = replace(WAITING, unplaced=WORDS)
OUT_OF_CPU = replace(
    PLACED, phase="Failed", reason="OutOfcpu", message="node did not have enough resource"
)


def test_a_pod_that_just_came_is_not_news() -> None:
    step = look(seen(pod=UNPLACED))
    assert (step.troubles, step.again_s) == ((), 30)


def test_a_pod_that_waits_longer_is_told_in_the_schedulers_words() -> None:
    step = look(seen(pod=UNPLACED, after_s=30))
    assert reasons(step.troubles) == ["PodNotPlaced"]
    assert WORDS.rstrip(".") in step.troubles[0].happened
    assert step.again_s == 570


def test_a_pod_that_no_node_takes_in_ten_minutes_is_given_up_with_the_cause() -> None:
    decided = ending(look(seen(pod=UNPLACED, after_s=600)))
    assert decided.how is How.FAILED
    assert decided.trouble is not None
    assert decided.trouble.reason is Reason.POD_NOT_PLACED
    assert WORDS.rstrip(".") in decided.trouble.happened


def test_a_placed_pod_is_the_next_stages() -> None:
    assert look(seen(pod=PLACED)) == NOTHING
    assert look(seen(pod=RUNNING)) == NOTHING
    assert look(seen()) == NOTHING


@pytest.mark.behaviour("C1 T155")
def test_a_node_that_turns_the_pod_down_is_noted_once_by_the_pods_uid() -> None:
    first = seen(replace(PENDING, ready=True), OUT_OF_CPU)
    write = patch(plan(first).actions)
    assert (write.failed_pod, write.ready, write.reason) == ("pod-1", None, "PodRefusedByNode")
    noted = told(first, write, Done("12"))
    assert noted.runner.failures == ("pod-1",)
    # The same pod seen again: it goes, and is not counted again.
    assert plan(noted).actions == (DeletePod(REF, "pod-1", grace_s=0),)
    assert told(noted, write, Done("13")).runner.failures == ("pod-1",)


def test_it_is_made_again_with_the_same_config_because_nothing_started() -> None:
    noted = seen(replace(PENDING, failures=("pod-1",), reason="PodRefusedByNode"), OUT_OF_CPU)
    back = told(noted, DeletePod(REF, "pod-1", grace_s=0), Said.GONE)
    assert back.hand.pod is PodPast.RETURNED
    waits = plan(back)
    assert (waits.again_s, waits.actions) == (5, ())
    assert reasons(waits.troubles) == ["PodRefusedByNode"]
    later = replace(back, now_s=NOW_S + 5)
    (create,) = [a for a in plan(later).actions if isinstance(a, CreatePod)]
    made = told(later, create, Done("13", uid="pod-2"))
    assert made.pod is not None
    assert made.hand.pod is PodPast.MADE


def waits_s(failures: int) -> float:
    noted = seen(replace(PENDING, failures=("pod-1", *map(str, range(failures - 1)))), OUT_OF_CPU)
    back = told(noted, DeletePod(REF, "pod-1", grace_s=0), Said.GONE)
    return back.hand.pod_not_before_s - NOW_S


def test_each_time_it_waits_longer_five_times_at_most() -> None:
    assert [waits_s(n) for n in (1, 2, 3, 4, 5)] == [5, 10, 20, 40, 80]
    often = seen(replace(PENDING, failures=("1", "2", "3", "4", "5")), OUT_OF_CPU)
    assert ending(look(often)).how is How.DISTURBED


def refused_with(**change: object) -> Snapshot:
    return seen(PENDING, OUT_OF_CPU, replace(MADE, **change))  # type: ignore[arg-type]


def test_without_the_whole_story_the_runner_is_replaced_instead() -> None:
    # After a restart, or once the config is old, nobody can say that nothing ever started.
    assert ending(look(refused_with(issued_s=None))).how is How.DISTURBED
    assert ending(look(refused_with(issued_s=NOW_S - 600))).how is How.DISTURBED
    busy = ending(look(seen(BUSY, OUT_OF_CPU)))
    assert busy.trouble is not None
    assert busy.trouble.reason is Reason.POD_REFUSED_BY_NODE


def test_a_pod_that_may_have_started_is_not_made_again() -> None:
    ran = replace(OUT_OF_CPU, has_address=True)
    assert look(seen(pod=ran)) == NOTHING  # `pod_ended.py` judges it
