"""What the node does next about a pod: the order of its life and of its end."""

from dataclasses import replace

from runnerscale.node.pod_plan import Kill, PodPlan, Start, Terminate, plan, verdict
from runnerscale.node.pod_view import PodOver
from tests.unit.node.pods import FRESH, INIT, NOW_S, POD, RUNNING, SIDECAR, ended

SIDE_RUNS = replace(RUNNING, name="side", kind=SIDECAR.kind)
INIT_DONE = replace(INIT, attempts=1, exit=ended(0))


def test_a_fresh_pod_starts_its_containers_together() -> None:
    other = replace(FRESH, name="other")
    seen = replace(POD, containers=(FRESH, other))
    assert plan(seen).actions == (Start("runner"), Start("other"))


def test_a_container_that_is_being_started_is_not_started_again() -> None:
    seen = replace(POD, containers=(replace(FRESH, starting=True),))
    assert plan(seen) == PodPlan()


# --- init containers and sidecars ---------------------------------------------------------------


def test_init_containers_run_one_after_the_other() -> None:
    second = replace(INIT, name="second")
    seen = replace(POD, containers=(INIT, second, FRESH))
    assert plan(seen).actions == (Start("init"),)
    seen = replace(POD, containers=(INIT_DONE, second, FRESH))
    assert plan(seen).actions == (Start("second"),)


def test_main_containers_wait_until_the_last_init_container_has_ended_well() -> None:
    runs = replace(INIT, attempts=1, running_since_s=NOW_S)
    assert plan(replace(POD, containers=(runs, FRESH))).actions == ()
    assert plan(replace(POD, containers=(INIT_DONE, FRESH))).actions == (Start("runner"),)


def test_a_sidecar_only_has_to_be_started_before_the_next() -> None:
    assert plan(replace(POD, containers=(SIDECAR, FRESH))).actions == (Start("side"),)
    not_yet = replace(SIDE_RUNS, started=False, ready=False)
    assert plan(replace(POD, containers=(not_yet, FRESH))).actions == ()
    assert plan(replace(POD, containers=(SIDE_RUNS, FRESH))).actions == (Start("runner"),)


def test_a_failed_init_container_fails_the_pod_when_nothing_is_restarted() -> None:
    failed = replace(INIT, attempts=1, exit=ended(3))
    seen = replace(POD, containers=(failed, FRESH))
    assert verdict(seen) == "Failed"
    assert plan(seen) == PodPlan(stopping=True, finished=True)


def test_a_failed_init_container_is_tried_again_otherwise() -> None:
    failed = replace(INIT, attempts=1, exit=ended(3))
    seen = replace(POD, containers=(failed, FRESH), restart_policy="OnFailure")
    assert plan(seen).actions == (Start("init"),)


def test_init_containers_are_not_run_again_once_a_main_container_has_started() -> None:
    # After the agent's restart the init container's record may be gone.
    seen = replace(POD, containers=(INIT, RUNNING))
    assert plan(seen) == PodPlan()


def test_a_sidecar_comes_back_even_where_the_pod_restarts_nothing() -> None:
    fallen = replace(SIDECAR, attempts=1, exit=ended(1))
    seen = replace(POD, containers=(fallen, RUNNING))
    assert plan(seen).actions == (Start("side"),)


# --- restarts -----------------------------------------------------------------------------------


def test_a_container_that_may_start_only_once_is_never_started_again() -> None:
    over = replace(FRESH, attempts=1, exit=ended(1))
    seen = replace(POD, containers=(over,))
    assert plan(seen) == PodPlan(stopping=True, finished=True)


def test_a_crashing_container_waits_ten_seconds_before_its_second_restart() -> None:
    crashed = replace(FRESH, attempts=2, exit=ended(1, ended_s=NOW_S - 4))
    seen = replace(POD, containers=(crashed,), restart_policy="Always")
    assert plan(seen) == PodPlan(again_s=6.0)
    seen = replace(seen, now_s=NOW_S + 6)
    assert plan(seen).actions == (Start("runner"),)


def test_a_failed_try_waits_for_its_time() -> None:
    tried = replace(FRESH, try_again_s=NOW_S + 3)
    assert plan(replace(POD, containers=(tried,))) == PodPlan(again_s=3.0)
    never = replace(FRESH, try_again_s=float("inf"))
    assert plan(replace(POD, containers=(never,))) == PodPlan()


def test_an_unhealthy_container_is_ended_and_then_killed() -> None:
    sick = replace(RUNNING, unhealthy=True)
    seen = replace(POD, containers=(sick,), grace_s=5)
    assert plan(seen) == PodPlan((Terminate("runner"),), again_s=5.0)
    asked = replace(sick, term_sent_s=NOW_S - 5)
    assert plan(replace(seen, containers=(asked,))).actions == (Kill("runner"),)


# --- the end ------------------------------------------------------------------------------------


def test_a_deleted_pod_is_asked_to_end_and_killed_after_its_grace() -> None:
    seen = replace(POD, containers=(RUNNING,), deleting=True, grace_s=30)
    assert plan(seen) == PodPlan((Terminate("runner"),), again_s=30.0, stopping=True)
    asked = replace(RUNNING, term_sent_s=NOW_S - 10)
    waiting = replace(seen, containers=(asked,), stopping_since_s=NOW_S - 10)
    assert plan(waiting) == PodPlan(again_s=20.0, stopping=True)
    late = replace(waiting, now_s=NOW_S + 20)
    assert plan(late).actions == (Kill("runner"),)


def test_a_shorter_grace_asked_for_later_counts() -> None:
    asked = replace(RUNNING, term_sent_s=NOW_S - 10)
    seen = replace(POD, containers=(asked,), deleting=True, grace_s=0, stopping_since_s=NOW_S - 10)
    assert plan(seen).actions == (Kill("runner"),)


def test_no_grace_kills_at_once_sidecars_too() -> None:
    seen = replace(POD, containers=(SIDE_RUNS, RUNNING), deleting=True, grace_s=0)
    assert set(plan(seen).actions) == {Kill("runner"), Kill("side")}


def test_nothing_is_killed_twice() -> None:
    killed = replace(RUNNING, kill_sent=True)
    seen = replace(POD, containers=(killed,), deleting=True, grace_s=0)
    assert plan(seen) == PodPlan(stopping=True)


def test_a_pod_whose_start_is_under_way_is_not_over_yet() -> None:
    seen = replace(POD, containers=(replace(FRESH, starting=True),), deleting=True)
    assert plan(seen) == PodPlan(stopping=True)


def test_sidecars_end_after_the_main_containers() -> None:
    seen = replace(POD, containers=(SIDE_RUNS, RUNNING), deleting=True)
    assert plan(seen).actions == (Terminate("runner"),)
    over = replace(FRESH, attempts=1, exit=ended(0))
    seen = replace(seen, containers=(SIDE_RUNS, over), stopping_since_s=NOW_S - 1)
    assert plan(seen).actions == (Terminate("side"),)


def test_a_sidecar_gets_two_seconds_even_when_the_grace_is_used_up() -> None:
    over = replace(FRESH, attempts=1, exit=ended(0))
    seen = replace(
        POD,
        containers=(SIDE_RUNS, over),
        deleting=True,
        grace_s=30,
        stopping_since_s=NOW_S - 30,
    )
    assert plan(seen) == PodPlan((Terminate("side"),), again_s=2.0, stopping=True)


def test_when_the_main_containers_are_through_the_sidecars_end_and_do_not_come_back() -> None:
    over = replace(FRESH, attempts=1, exit=ended(0))
    seen = replace(POD, containers=(SIDE_RUNS, over))
    assert plan(seen).actions == (Terminate("side"),)
    fallen = replace(SIDECAR, attempts=1, exit=ended(143))
    assert plan(replace(POD, containers=(fallen, over))) == PodPlan(stopping=True, finished=True)


def test_nothing_is_started_while_a_pod_is_being_deleted() -> None:
    assert plan(replace(POD, deleting=True)) == PodPlan(stopping=True, finished=True)


def test_a_pod_over_its_deadline_is_ended_with_its_grace() -> None:
    seen = replace(POD, containers=(RUNNING,), deadline_s=30, started_s=NOW_S - 10)
    assert plan(seen) == PodPlan(again_s=20.0)
    late = plan(replace(seen, now_s=NOW_S + 20))
    assert late.actions == (Terminate("runner"),)
    assert late.over is not None
    assert late.over.reason == "DeadlineExceeded"


def test_an_evicted_pod_is_killed_and_nothing_is_started_any_more() -> None:
    over = PodOver("Evicted", "low on resource", grace_s=0)
    seen = replace(POD, containers=(RUNNING, replace(FRESH, name="late")), over=over)
    found = plan(seen)
    assert found.actions == (Kill("runner"),)
    assert found.over == over
