"""How a pod ended and how long the next one waits."""

import pytest

from runnerscale.api import labels as keys
from runnerscale.controllers.autoscaling_listener.restarts import DELAY, end_of, is_running
from runnerscale.core.clock import format_time, parse_time
from runnerscale.kube.builtin import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodStatus,
)
from runnerscale.kube.objects import ObjectMeta

NOW_S = 1_800_000_000.0


def ended_pod(*, code: int = 1, ran_s: float = 1.0, restarts: int = 0) -> Pod:
    terminated = ContainerStateTerminated(
        exit_code=code,
        reason="Error",
        started_at=format_time(NOW_S - ran_s),
        finished_at=format_time(NOW_S),
    )
    status = ContainerStatus("listener", state=ContainerState(terminated=terminated))
    annotations = {keys.LISTENER_RESTARTS: str(restarts)}
    return Pod(
        metadata=ObjectMeta(annotations=annotations),
        status=PodStatus(phase="Failed", container_statuses=[status]),
    )


def test_a_pod_that_runs_has_not_ended() -> None:
    running = ContainerState(running=ContainerStateRunning(format_time(NOW_S)))
    status = PodStatus(phase="Running", container_statuses=[ContainerStatus("listener", running)])
    pod = Pod(status=status)
    assert end_of(pod) is None
    assert is_running(pod)


def test_a_sidecar_that_ended_does_not_count() -> None:
    terminated = ContainerState(terminated=ContainerStateTerminated())
    status = PodStatus(phase="Running", container_statuses=[ContainerStatus("side", terminated)])
    assert end_of(Pod(status=status)) is None


@pytest.mark.behaviour("C1 T90")
def test_quick_ends_in_a_row_wait_longer_each_time_up_to_five_minutes() -> None:
    waits = []
    for restarts in range(10):
        end = end_of(ended_pod(restarts=restarts))
        assert end is not None
        assert end.ended.restarts == restarts + 1
        waits.append(end.ready_s - NOW_S)
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    # At most ten starts in the first ten minutes, the first included.
    assert sum(waits[:9]) > 600


def test_a_listener_that_lived_ten_minutes_begins_a_new_row_and_is_restarted_at_once() -> None:
    end = end_of(ended_pod(ran_s=600, restarts=7))
    assert end is not None
    assert (end.ended.restarts, end.ready_s) == (0, 0.0)


@pytest.mark.parametrize("code", [137, 143])
def test_a_listener_killed_from_outside_is_counted_but_waits_at_most_five_seconds(
    code: int,
) -> None:
    end = end_of(ended_pod(code=code, restarts=7))
    assert end is not None
    assert (end.ended.restarts, end.ready_s - NOW_S) == (8, 5.0)


def test_a_listener_out_of_memory_slows_down_like_any_crash() -> None:
    pod = ended_pod(code=137, restarts=5)
    assert pod.status is not None
    assert pod.status.container_statuses is not None
    state = pod.status.container_statuses[0].state
    assert state is not None
    assert state.terminated is not None
    state.terminated.reason = "OOMKilled"
    end = end_of(pod)
    assert end is not None
    assert end.ready_s - NOW_S == 64.0


def test_an_end_by_the_node_is_no_crash() -> None:
    pod = ended_pod(restarts=3)
    assert pod.status is not None
    pod.status.reason = "Evicted"
    pod.status.message = "The node was low on memory"
    end = end_of(pod)
    assert end is not None
    assert (end.ended.restarts, end.ready_s) == (3, 0.0)
    assert "low on memory" in end.ended.termination


def test_times_that_are_missing_or_unreadable_mean_no_wait() -> None:
    pod = ended_pod()
    assert pod.status and pod.status.container_statuses
    state = pod.status.container_statuses[0].state
    assert state is not None and state.terminated is not None
    state.terminated.finished_at = "nonsense"
    end = end_of(pod)
    assert end is not None
    assert end.ready_s == 0.0


def test_the_text_says_when_how_and_with_which_code() -> None:
    end = end_of(ended_pod(code=137))
    assert end is not None
    assert end.ended.termination == f"{format_time(NOW_S)}, exit code 137, Error"
    assert parse_time(end.ended.termination.split(",")[0]) == NOW_S


def test_the_delay_needs_no_chance() -> None:
    # Pods of different listeners end at different times; a rule stays pure.
    assert DELAY.delay_s(3) == DELAY.delay_s(3)
