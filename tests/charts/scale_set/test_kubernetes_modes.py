"""Container modes kubernetes and kubernetes-novolume: a pod for each job."""

from typing import Any

import pytest

from .chart import (
    CLAIM,
    DEFAULT_IMAGE,
    DEFAULT_RUNNER,
    KUBERNETES,
    NOVOLUME,
    pod,
    refusal,
    runner,
    template,
)
from .test_runner_pod import OTHER, THREE_VOLUMES

POD_NAME = {
    "name": "ACTIONS_RUNNER_POD_NAME",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
}
REQUIRE = {"name": "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER", "value": "true"}
IMAGE = {"name": "ACTIONS_RUNNER_IMAGE", "value": DEFAULT_IMAGE}
WORK_MOUNT = {"name": "work", "mountPath": "/home/runner/_work"}
CUSTOM = {"name": "custom-volume", "emptyDir": {}}
CUSTOM_MOUNT = {"name": "custom-volume", "mountPath": "/mnt/custom"}


def hooks(path: str) -> dict[str, Any]:
    return {"name": "ACTIONS_RUNNER_CONTAINER_HOOKS", "value": path}


@pytest.mark.behaviour("C3 T61")
def test_runner_and_job_share_a_volume() -> None:
    found = pod({"containerMode": KUBERNETES})
    assert found["containers"] == [
        {
            **DEFAULT_RUNNER,
            "env": [hooks("/home/runner/k8s/index.js"), POD_NAME, REQUIRE],
            "volumeMounts": [WORK_MOUNT],
        }
    ]
    assert found["volumes"] == [
        {"name": "work", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}
    ]
    assert "initContainers" not in found


@pytest.mark.behaviour("C3 T62")
def test_without_a_volume_there_are_empty_lists() -> None:
    found = pod({"containerMode": NOVOLUME})
    env = [hooks("/home/runner/k8s-novolume/index.js"), POD_NAME, REQUIRE, IMAGE]
    assert found["containers"] == [{**DEFAULT_RUNNER, "env": env, "volumeMounts": []}]
    assert found["volumes"] == []


def test_the_job_s_helper_has_the_runner_s_image() -> None:
    mine = {"name": "runner", "image": "own:1"}
    found = runner({"containerMode": NOVOLUME, **template(containers=[mine])})
    assert found["env"][-1] == {**IMAGE, "value": "own:1"}


@pytest.mark.behaviour("C3 T59")
def test_a_work_volume_of_ones_own_takes_the_place_of_the_claim() -> None:
    foo, bar, work = THREE_VOLUMES
    for mode in (KUBERNETES, {"type": "kubernetes"}):  # then no claim is needed
        found = pod({"containerMode": mode, **template(volumes=THREE_VOLUMES)})
        assert found["volumes"] == [work, foo, bar]


@pytest.mark.behaviour("C3 T63")
def test_a_volume_of_ones_own_is_the_only_one_without_a_volume() -> None:
    assert pod({"containerMode": NOVOLUME, **template(volumes=[CUSTOM])})["volumes"] == [CUSTOM]


@pytest.mark.behaviour("C3 T64")
def test_a_mount_of_ones_own_is_the_only_one_without_a_volume() -> None:
    mine = {**DEFAULT_RUNNER, "volumeMounts": [CUSTOM_MOUNT]}
    given = template(containers=[mine], volumes=[CUSTOM])
    found = pod({"containerMode": NOVOLUME, **given})
    assert found["containers"][0]["volumeMounts"] == [CUSTOM_MOUNT]
    assert found["volumes"] == [CUSTOM]


@pytest.mark.behaviour("C3 T82")
def test_ones_own_variables_and_mounts_come_first_and_win() -> None:
    env = [
        hooks("/k8s/index.js"),
        {"name": "MY_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    mounts = [{"name": "work", "mountPath": "/work"}, {"name": "others", "mountPath": "/others"}]
    mine = {"name": "runner", "image": "i", "env": env, "volumeMounts": mounts}
    found = runner({"containerMode": KUBERNETES, **template(containers=[mine])})
    assert found == {**mine, "env": [*env, POD_NAME, REQUIRE]}


@pytest.mark.behaviour("C3 T201")
def test_a_mount_of_the_work_volume_elsewhere_suppresses_the_generated_one() -> None:
    mine = {**DEFAULT_RUNNER, "volumeMounts": [{"name": "work", "mountPath": "/work"}]}
    found = runner({"containerMode": KUBERNETES, **template(containers=[mine])})
    assert found["volumeMounts"] == [{"name": "work", "mountPath": "/work"}]


@pytest.mark.parametrize("mode", [KUBERNETES, NOVOLUME])
def test_the_runner_comes_first_and_its_neighbours_keep_their_order(mode: dict[str, Any]) -> None:
    second = {"name": "second", "image": "i"}
    given = template(containers=[OTHER, DEFAULT_RUNNER, second])
    found = pod({"containerMode": mode, **given})["containers"]
    assert [c["name"] for c in found] == ["runner", "other", "second"]
    assert found[1:] == [OTHER, second]


@pytest.mark.parametrize("claim", [None, {}])
def test_mode_kubernetes_without_a_claim_is_refused(claim: object) -> None:
    # W-S12: a null spec was rendered, which the API server refuses.
    mode = {"type": "kubernetes", "kubernetesModeWorkVolumeClaim": claim}
    text = refusal({"containerMode": mode})
    assert "containerMode.kubernetesModeWorkVolumeClaim is not set" in text
    assert "volume named work" in text and "kubernetes-novolume" in text
