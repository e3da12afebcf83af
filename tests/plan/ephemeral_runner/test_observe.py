"""From the objects in the caches to a snapshot."""

from typing import Any

import msgspec

from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.controllers.ephemeral_runner.observe import is_its_pod, observed, ref_of
from runnerscale.controllers.ephemeral_runner.snapshot import Hand
from runnerscale.core.clock import format_time
from runnerscale.kube.builtin import Pod
from tests.plan.ephemeral_runner.values import NOW_S

NOW = format_time(NOW_S)
META = {
    "name": "runner-a",
    "namespace": "ns",
    "uid": "uid-a",
    "resourceVersion": "12",
    "creationTimestamp": NOW,
    "finalizers": ["x"],
    "generation": 3,
}
HOOKED = {
    "containers": [
        {"name": "runner", "env": [{"name": "ACTIONS_RUNNER_CONTAINER_HOOKS", "value": "x"}]}
    ]
}


def runner(status: dict[str, Any] | None = None, **meta: Any) -> EphemeralRunner:
    body = {
        "metadata": META | meta,
        "spec": {"githubConfigUrl": "u", "runnerScaleSetId": 3, "spec": HOOKED},
        "status": status or {},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=EphemeralRunner)


def pod(owner_uid: str = "uid-a") -> Pod:
    owner = {"kind": "EphemeralRunner", "name": "runner-a", "uid": owner_uid, "controller": True}
    body = {"metadata": {"uid": "pod-1", "ownerReferences": [owner]}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Pod)


def owner_set(*settled: str) -> EphemeralRunnerSet:
    body = {"spec": {"patchID": 0, "settledRunners": settled}}
    return msgspec.json.decode(msgspec.json.encode(body), type=EphemeralRunnerSet)


def seen(item: EphemeralRunner, its_pod: Pod | None = None, owner: Any = None) -> Any:
    return observed(item, its_pod, owner, hand=Hand(), now_s=NOW_S)


def test_all_that_is_read_of_a_runner() -> None:
    status = {
        "phase": "Pending",
        "runnerId": 7,
        "runnerName": "runner-a",
        "ready": True,
        "reason": "PodLost",
        "message": "gone",
        "failures": {"pod-0": NOW},
        "jobRequestId": 5,
        "conditions": [{"type": "Registered", "status": "True"}],
    }
    found = seen(runner(status)).runner
    assert found.ref == ref_of(runner())
    assert (found.resource_version, found.created_s, found.finalizers) == ("12", NOW_S, ("x",))
    assert (found.phase, found.runner_id, found.ready) == ("Pending", 7, True)
    assert (found.reason, found.message, found.failures) == ("PodLost", "gone", ("pod-0",))
    assert (found.has_job, found.scale_set_id, found.generation) == (True, 3, 3)
    assert [item.type for item in found.conditions] == ["Registered"]
    assert found.deleted_s is None


def test_the_template_is_opened_only_at_the_end_of_a_life() -> None:
    assert not seen(runner()).runner.uses_hooks
    assert seen(runner({"phase": "Failed"})).runner.uses_hooks
    assert seen(runner(deletionTimestamp=NOW)).runner.uses_hooks


def test_a_strangers_pod_of_the_same_name_is_no_pod_of_ours() -> None:
    assert seen(runner(), pod()).pod is not None
    assert seen(runner(), pod("uid-of-a-namesake")).pod is None
    assert not is_its_pod(runner(), Pod())


def test_a_job_that_the_listener_calls_complete_is_over() -> None:
    busy = runner({"jobId": "j"})
    assert seen(busy, owner=owner_set("runner-a")).runner.job_over
    assert not seen(busy, owner=owner_set("runner-b")).runner.job_over
    assert not seen(busy).runner.job_over
    # Not stored yet that it has a job: then it is not over either.
    assert not seen(runner(), owner=owner_set("runner-a")).runner.job_over


def test_times_that_nobody_can_read_are_now() -> None:
    odd = seen(runner(creationTimestamp="x", deletionTimestamp="y")).runner
    assert (odd.created_s, odd.deleted_s) == (NOW_S, NOW_S)
