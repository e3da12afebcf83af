"""What the API server is told: kubelet's phases, conditions, states and words."""

from dataclasses import replace
from typing import Any

import pytest

from runnerscale.core.clock import format_time
from runnerscale.kube.builtin import PodCondition
from runnerscale.node.pod_status import build_status, phase_of, refused_status
from runnerscale.node.pod_view import PodOver, PodView, Waiting
from tests.unit.node.pods import FRESH, INIT, NOW_S, POD, RUNNING, SIDECAR, ended

DONE = replace(FRESH, attempts=1, exit=ended(0))
FAILED = replace(FRESH, attempts=1, exit=ended(2))


def status(view: PodView, existing: Any = ()) -> dict[str, Any]:
    return build_status(view, existing)


def state(view: PodView, place: int = 0) -> Any:
    return status(view)["containerStatuses"][place]["state"]


def condition(view: PodView, kind: str, existing: Any = ()) -> Any:
    return next(c for c in status(view, existing)["conditions"] if c["type"] == kind)


@pytest.mark.parametrize(
    ("containers", "policy", "expected"),
    [
        ((FRESH,), "Never", "Pending"),
        ((RUNNING,), "Never", "Running"),
        ((INIT, FRESH), "Never", "Pending"),
        ((DONE,), "Never", "Succeeded"),
        ((FAILED,), "Never", "Failed"),
        ((DONE, replace(FAILED, name="b")), "Never", "Failed"),
        ((DONE, replace(RUNNING, name="b")), "Never", "Running"),
        ((DONE,), "OnFailure", "Succeeded"),
        ((FAILED,), "OnFailure", "Running"),  # it comes back
        ((DONE,), "Always", "Running"),
        ((replace(INIT, attempts=1, exit=ended(1)), FRESH), "Never", "Failed"),
        ((replace(INIT, attempts=1, exit=ended(1)), FRESH), "Always", "Pending"),
        # A sidecar still ending keeps the pod from being over.
        ((replace(RUNNING, name="s", kind=SIDECAR.kind), DONE), "Never", "Running"),
        ((replace(SIDECAR, attempts=1, exit=ended(1)), DONE), "Never", "Succeeded"),
        ((RUNNING, replace(FRESH, name="b")), "Never", "Running"),
    ],
)
def test_the_phase_is_kubelets(containers: Any, policy: str, expected: str) -> None:
    assert phase_of(replace(POD, containers=containers, restart_policy=policy)) == expected


def test_a_deleted_pod_that_never_ran_stays_pending_and_one_that_ran_tells_how() -> None:
    assert phase_of(replace(POD, deleting=True)) == "Pending"
    assert phase_of(replace(POD, containers=(DONE,), deleting=True)) == "Succeeded"
    killed = replace(FRESH, attempts=1, exit=ended(137))
    assert phase_of(replace(POD, containers=(killed,), deleting=True)) == "Failed"


def test_a_container_waits_for_what_it_waits_for() -> None:
    assert state(POD) == {"waiting": {"reason": "ContainerCreating"}}
    assert state(replace(POD, containers=(INIT, FRESH))) == {
        "waiting": {"reason": "PodInitializing"}
    }
    unpullable = replace(FRESH, trouble=Waiting("ErrImagePull", "no rule"))
    assert state(replace(POD, containers=(unpullable,))) == {
        "waiting": {"reason": "ErrImagePull", "message": "no rule"}
    }


def test_a_running_container_says_since_when() -> None:
    seen = replace(POD, containers=(RUNNING,))
    assert state(seen) == {"running": {"startedAt": format_time(NOW_S - 5)}}
    told = status(seen)["containerStatuses"][0]
    assert (told["ready"], told["started"], told["restartCount"]) == (True, True, 0)


def test_an_end_has_code_reason_signal_times_and_message() -> None:
    exit_ = replace(ended(137, ran_s=3), signal=9, reason="OOMKilled", message="last words")
    told = state(replace(POD, containers=(replace(FRESH, attempts=1, exit=exit_),)))
    assert told == {
        "terminated": {
            "exitCode": 137,
            "signal": 9,
            "reason": "OOMKilled",
            "message": "last words",
            "startedAt": format_time(NOW_S - 3),
            "finishedAt": format_time(NOW_S),
            "containerID": "process://uid-1/runner/0",
        }
    }


@pytest.mark.parametrize(("code", "reason"), [(0, "Completed"), (1, "Error"), (143, "Error")])
def test_an_ordinary_end_is_completed_or_error(code: int, reason: str) -> None:
    over = replace(FRESH, attempts=1, exit=ended(code))
    assert state(replace(POD, containers=(over,)))["terminated"]["reason"] == reason


def test_a_crash_loop_is_waiting_and_its_last_end_is_kept() -> None:
    crashed = replace(FRESH, attempts=3, exit=ended(5))
    seen = replace(POD, containers=(crashed,), restart_policy="Always")
    told = status(seen)["containerStatuses"][0]
    assert told["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert "back-off 20s restarting failed container=runner" in told["state"]["waiting"]["message"]
    assert told["lastState"]["terminated"]["exitCode"] == 5
    assert told["restartCount"] == 2


def test_a_running_restart_keeps_the_end_before_it() -> None:
    again = replace(RUNNING, attempts=2, previous=ended(5))
    told = status(replace(POD, containers=(again,), restart_policy="Always"))
    assert told["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 5


def test_an_evicted_pod_says_so_once_its_processes_are_gone() -> None:
    over = PodOver("Evicted", "The node was low on resource", grace_s=0, disrupted=True)
    dying = replace(POD, containers=(RUNNING,), over=over)
    assert status(dying)["phase"] == "Running"
    gone = replace(POD, containers=(replace(FRESH, attempts=1, exit=ended(137)),), over=over)
    told = status(gone)
    assert (told["phase"], told["reason"]) == ("Failed", "Evicted")
    disruption = condition(gone, "DisruptionTarget")
    assert (disruption["status"], disruption["reason"]) == ("True", "TerminationByKubelet")


def test_a_pod_that_is_not_admitted_has_no_containers() -> None:
    over = PodOver("OutOfpods", "no room", grace_s=0)
    told = refused_status(replace(POD, over=over), ())
    assert (told["phase"], told["reason"]) == ("Failed", "OutOfpods")
    assert "containerStatuses" not in told


# --- conditions ---------------------------------------------------------------------------------


def test_readiness_names_who_is_not_ready() -> None:
    assert condition(replace(POD, containers=(RUNNING,)), "Ready")["status"] == "True"
    slow = replace(RUNNING, name="slow", ready=False)
    told = condition(replace(POD, containers=(RUNNING, slow)), "Ready")
    assert (told["status"], told["reason"]) == ("False", "ContainersNotReady")
    assert told["message"] == "containers with unready status: [slow]"


def test_a_pod_that_is_over_is_not_ready() -> None:
    assert condition(replace(POD, containers=(DONE,)), "Ready")["reason"] == "PodCompleted"
    assert condition(replace(POD, containers=(FAILED,)), "Ready")["reason"] == "PodFailed"


def test_initialized_follows_the_init_containers() -> None:
    told = condition(replace(POD, containers=(INIT, FRESH)), "Initialized")
    assert (told["status"], told["reason"]) == ("False", "ContainersNotInitialized")
    done = replace(INIT, attempts=1, exit=ended(0))
    assert condition(replace(POD, containers=(done, FRESH)), "Initialized")["status"] == "True"


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    before = format_time(NOW_S - 100)
    existing = [
        PodCondition(type="Ready", status="True", last_transition_time=before),
        PodCondition(type="PodScheduled", status="True", last_transition_time=before),
    ]
    seen = replace(POD, containers=(RUNNING,))
    assert condition(seen, "Ready", existing)["lastTransitionTime"] == before
    over = replace(POD, containers=(DONE,))
    assert condition(over, "Ready", existing)["lastTransitionTime"] == format_time(NOW_S)
    assert condition(over, "PodScheduled", existing)["lastTransitionTime"] == before


def test_conditions_of_others_are_kept() -> None:
    existing = [PodCondition(type="my/gate", status="True", reason="R", message="m")]
    told = condition(POD, "my/gate", existing)
    assert (told["status"], told["reason"], told["message"]) == ("True", "R", "m")


def test_the_same_pod_a_moment_later_reads_the_same() -> None:
    # Or else every look at a pod would be a write.
    first = status(replace(POD, containers=(RUNNING,)))
    told = [
        PodCondition(
            type=c["type"], status=c["status"], last_transition_time=c["lastTransitionTime"]
        )
        for c in first["conditions"]
    ]
    assert status(replace(POD, containers=(RUNNING,), now_s=NOW_S + 60), told) == first
