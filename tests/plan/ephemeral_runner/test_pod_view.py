"""What a pod says, reduced to the facts that the stages decide on."""

from typing import Any

import msgspec
import pytest

from runnerscale.controllers.ephemeral_runner.pod_view import PodView, pod_view
from runnerscale.core.clock import format_time
from runnerscale.kube.builtin import Pod
from tests.plan.ephemeral_runner.values import NOW_S

NOW = format_time(NOW_S)


def view(status: dict[str, Any], *, meta: dict[str, Any] | None = None, **spec: Any) -> PodView:
    body = {
        "metadata": {"uid": "pod-1", "creationTimestamp": NOW, **(meta or {})},
        "spec": {"nodeName": "n", "containers": [{"name": "runner"}], **spec},
        "status": status,
    }
    return pod_view(msgspec.json.decode(msgspec.json.encode(body), type=Pod))


def container(name: str = "runner", **state: Any) -> dict[str, Any]:
    return {"name": name, "image": "img:1", "state": state}


RUNS = container(running={"startedAt": NOW})


def ended(code: int, name: str = "runner", **more: Any) -> dict[str, Any]:
    return container(name, terminated={"exitCode": code, "startedAt": NOW, **more})


def test_a_pod_that_nobody_has_looked_at() -> None:
    bare = pod_view(Pod())
    assert (bare.phase, bare.placed_s, bare.started_s, bare.exit) == ("Pending", None, None, None)
    assert not bare.ended
    assert not bare.all_ended


def test_a_running_pod() -> None:
    seen = view({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [RUNS]})
    assert (seen.uid, seen.created_s, seen.placed_s, seen.started_s) == (
        "pod-1",
        NOW_S,
        NOW_S,
        NOW_S,
    )
    assert (seen.reported, seen.has_address, seen.ended) == (True, True, False)


def test_an_exit_with_all_that_is_known_of_it() -> None:
    status = ended(137, reason="OOMKilled", message="last words", finishedAt=NOW)
    seen = view({"phase": "Failed", "containerStatuses": [status]})
    assert seen.exit is not None
    assert (seen.exit.code, seen.exit.reason, seen.exit.message, seen.exit.at_s) == (
        137,
        "OOMKilled",
        "last words",
        NOW_S,
    )
    assert seen.ended
    assert seen.all_ended


def test_a_container_that_the_kubelet_started_again_has_ended() -> None:
    # Without restartPolicy Never: its JIT config was spent by the first start (issue log 2).
    again = RUNS | {
        "restartCount": 1,
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    }
    seen = view({"phase": "Running", "containerStatuses": [again]})
    assert seen.exit is not None
    assert seen.exit.reason == "OOMKilled"
    crashing = container(waiting={"reason": "CrashLoopBackOff"}) | {"restartCount": 3}
    assert view({"phase": "Running", "containerStatuses": [crashing]}).started_s == NOW_S


@pytest.mark.behaviour("C1 T150")
@pytest.mark.parametrize("runner", [RUNS, ended(0)])
def test_a_sidecar_that_is_an_init_container_never_counts_as_failed(
    runner: dict[str, Any],
) -> None:
    status = {
        "phase": "Running",
        "containerStatuses": [runner],
        "initContainerStatuses": [ended(137, "dind")],
    }
    inits = [{"name": "dind", "restartPolicy": "Always"}]
    assert view(status, initContainers=inits).failed is None


def test_an_init_container_that_must_succeed_and_did_not() -> None:
    status = {"phase": "Pending", "initContainerStatuses": [ended(1, "init")]}
    failed = view(status, initContainers=[{"name": "init"}]).failed
    assert failed is not None
    assert (failed.container, failed.code) == ("init", 1)
    fine = {"phase": "Pending", "initContainerStatuses": [ended(0, "init")]}
    assert view(fine, initContainers=[{"name": "init"}]).failed is None


def test_a_container_beside_the_runner_that_failed() -> None:
    both = [{"name": "runner"}, {"name": "dind"}]
    seen = view(
        {"phase": "Running", "containerStatuses": [RUNS, ended(1, "dind")]}, containers=both
    )
    assert seen.failed is not None
    assert not seen.all_ended
    one_left = view(
        {"phase": "Running", "containerStatuses": [ended(0), container("dind", running={})]},
        containers=both,
    )
    assert (one_left.ended, one_left.all_ended) == (True, False)


def test_what_it_waits_for_of_all_containers() -> None:
    status = {
        "phase": "Pending",
        "containerStatuses": [container(waiting={"reason": "PodInitializing"})],
        "initContainerStatuses": [
            container("init", waiting={"reason": "ErrImagePull", "message": "no"})
        ],
    }
    seen = view(status)
    assert [(w.container, w.reason, w.message) for w in seen.waiting] == [
        ("runner", "PodInitializing", ""),
        ("init", "ErrImagePull", "no"),
    ]
    assert view({"containerStatuses": [container(waiting={})]}).waiting == ()


@pytest.mark.behaviour("C1 T165")
def test_readiness_is_that_of_the_newest_condition() -> None:
    def ready(*words: tuple[str, str]) -> bool:
        conditions = [
            {"type": "Ready", "status": status, "lastTransitionTime": at} for status, at in words
        ]
        return view({"conditions": conditions}).ready

    older, newer = "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"
    assert ready(("True", older))
    assert not ready(("True", older), ("False", newer))
    assert ready(("False", older), ("True", newer))
    assert not ready()


def test_the_schedulers_words_and_when_a_node_was_found() -> None:
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    seen = view({"conditions": [waits]}, nodeName=None)
    assert (seen.placed_s, seen.unplaced) == (None, "no")
    later = format_time(NOW_S + 60)
    found = {"type": "PodScheduled", "status": "True", "lastTransitionTime": later}
    placed = view({"conditions": [found]})
    assert (placed.placed_s, placed.unplaced) == (NOW_S + 60, "")
    assert view({"phase": "Succeeded", "conditions": [found]}).changed_s == NOW_S + 60


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Failed", "reason": "OutOfcpu"}, True),
        ({"phase": "Failed", "reason": "OutOfpods", "containerStatuses": [container()]}, True),
        ({"phase": "Failed", "reason": "NodeAffinity"}, True),
        ({"phase": "Failed", "reason": "Evicted"}, False),  # it may have run
        ({"phase": "Failed", "reason": "OutOfcpu", "podIP": "10.0.0.1"}, False),
        ({"phase": "Failed", "reason": "OutOfcpu", "containerStatuses": [ended(1)]}, False),
        ({"phase": "Running", "reason": "OutOfcpu"}, False),
    ],
)
def test_only_what_certainly_started_nothing_was_refused_by_its_node(
    status: dict[str, Any], expected: bool
) -> None:
    assert view(status).refused_by_node is expected


def test_who_takes_it_away_and_when_its_grace_ends() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    seen = view({"conditions": [target]}, meta={"deletionTimestamp": format_time(NOW_S + 30)})
    assert (seen.disruption, seen.going_s) == ("PreemptionByScheduler", NOW_S + 30)
    spared = target | {"status": "False"}
    assert view({"conditions": [spared]}).disruption == ""


def test_nonsense_in_a_hostile_pod_is_nothing() -> None:
    seen = view(
        {"containerStatuses": [container(running={"startedAt": "yesterday"})]},
        meta={"creationTimestamp": "long ago", "deletionTimestamp": "soon"},
    )
    assert (seen.created_s, seen.going_s, seen.started_s) == (0.0, None, 0.0)
