"""Container mode dind: a Docker daemon beside the runner."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.charts.render import SCALE_SET, render_one

from .chart import (
    DEFAULT_IMAGE,
    DEFAULT_RUNNER,
    DIND,
    RELEASE,
    container,
    pod,
    runner,
    template,
    values,
)
from .test_runner_pod import LIMITS, OTHER, THREE_VOLUMES

EMPTY: dict[str, Any] = {}
SOCK = {"name": "dind-sock", "emptyDir": EMPTY}
EXTERNALS = {"name": "dind-externals", "emptyDir": EMPTY}
WORK = {"name": "work", "emptyDir": EMPTY}
WORK_MOUNT = {"name": "work", "mountPath": "/home/runner/_work"}
SOCK_MOUNT = {"name": "dind-sock", "mountPath": "/var/run"}
DOCKER_HOST = {"name": "DOCKER_HOST", "value": "unix:///var/run/docker.sock"}
WAIT = {"name": "RUNNER_WAIT_FOR_DOCKER_IN_SECONDS", "value": "120"}
INIT = {
    "name": "init-dind-externals",
    "image": DEFAULT_IMAGE,
    "command": ["cp"],
    "args": ["-r", "/home/runner/externals/.", "/home/runner/tmpDir/"],
    "volumeMounts": [{"name": "dind-externals", "mountPath": "/home/runner/tmpDir"}],
}
PLAIN = {
    "name": "dind",
    "image": "docker:dind",
    "args": [
        "dockerd",
        "--host=unix:///var/run/docker.sock",
        "--group=$(DOCKER_GROUP_GID)",
    ],
    "env": [{"name": "DOCKER_GROUP_GID", "value": "123"}],
    "securityContext": {"privileged": True},
    "volumeMounts": [
        WORK_MOUNT,
        SOCK_MOUNT,
        {"name": "dind-externals", "mountPath": "/home/runner/externals"},
    ],
}
SIDECAR = {
    **PLAIN,
    "restartPolicy": "Always",
    "startupProbe": {
        "exec": {"command": ["docker", "info"]},
        "initialDelaySeconds": 0,
        "failureThreshold": 24,
        "periodSeconds": 5,
    },
}
MODE = {"containerMode": DIND}


@pytest.mark.behaviour("C3 T60")
def test_the_pod_has_a_daemon_and_the_means_to_reach_it() -> None:
    found = pod(MODE)
    assert found["initContainers"] == [INIT, SIDECAR]
    assert found["containers"] == [
        {**DEFAULT_RUNNER, "env": [DOCKER_HOST, WAIT], "volumeMounts": [WORK_MOUNT, SOCK_MOUNT]}
    ]
    assert found["volumes"] == [SOCK, EXTERNALS, WORK]


@pytest.mark.behaviour("C3 T57")
def test_ones_own_init_containers_follow() -> None:
    mine = [
        {
            "name": "kube-init",
            "image": "runner-image:latest",
            "command": ["sudo", "chown"],
            "volumeMounts": [WORK_MOUNT],
        },
        {"name": "ls", "image": "ubuntu:latest", "command": ["ls"]},
    ]
    found = pod({**MODE, **template(initContainers=mine)})
    assert found["initContainers"] == [INIT, SIDECAR, *mine]


@pytest.mark.behaviour("C3 T58")
def test_a_work_volume_of_ones_own_takes_the_place_of_the_generated_one() -> None:
    foo, bar, work = THREE_VOLUMES
    found = pod({**MODE, **template(volumes=THREE_VOLUMES)})
    assert found["volumes"] == [SOCK, EXTERNALS, work, foo, bar]


@pytest.mark.behaviour("C3 T81")
def test_ones_own_variables_and_mounts_come_first_and_win() -> None:
    env = [
        {"name": "DOCKER_HOST", "value": "tcp://localhost:9999"},
        {"name": "MY_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    mounts = [{"name": "work", "mountPath": "/work"}, {"name": "others", "mountPath": "/others"}]
    mine = {"name": "runner", "image": "i", "env": env, "volumeMounts": mounts, "resources": LIMITS}
    found = runner({**MODE, **template(containers=[mine])})
    assert found == {**mine, "env": [*env, WAIT], "volumeMounts": [*mounts, SOCK_MOUNT]}


@pytest.mark.behaviour("C3 T201")
def test_a_mount_of_the_work_volume_elsewhere_suppresses_the_generated_one() -> None:
    mounts = [{"name": "work", "mountPath": "/work"}]
    mine = {**DEFAULT_RUNNER, "volumeMounts": mounts}
    found = runner({**MODE, **template(containers=[mine])})
    assert found["volumeMounts"] == [*mounts, SOCK_MOUNT]


@pytest.mark.behaviour("C3 T200")
@pytest.mark.parametrize("version", ["1.28.0", "1.28.9-eks-1", "1.28+", "1.9.0"])
def test_before_kubernetes_1_29_the_daemon_is_a_container_after_the_runner(version: str) -> None:
    found = pod({**MODE, **template(containers=[OTHER, DEFAULT_RUNNER])}, kube_version=version)
    assert [c["name"] for c in found["containers"]] == ["runner", "dind", "other"]
    assert container(found, "dind") == PLAIN
    assert found["initContainers"] == [INIT]


@pytest.mark.behaviour("C3 T200")
@pytest.mark.parametrize("version", ["1.29.0", "1.29+", "1.29.3-gke.100", "1.31.0", "2.0.0"])
def test_from_kubernetes_1_29_on_the_daemon_is_a_sidecar(version: str) -> None:
    found = pod(MODE, kube_version=version)
    assert found["initContainers"] == [INIT, SIDECAR]
    assert [c["name"] for c in found["containers"]] == ["runner"]


@pytest.mark.behaviour("C3 T200")
@pytest.mark.parametrize(
    ("major", "minor", "sidecar"),
    [
        ("1", "28+", False),
        ("1", "29+", True),
        ("1", "30+gke.1", True),
        ("2", "0", True),
        ("1", "", True),  # not told: every Kubernetes that is still maintained has sidecars
    ],
)
def test_a_managed_cluster_s_own_way_to_tell_its_version_is_understood(
    major: str, minor: str, sidecar: bool, tmp_path: Path
) -> None:
    # W-S2. The engine reads --kube-version as numbers, so the server's words are written into a
    # copy of the chart; tests/kubernetes asks a server that really says `29+`.
    chart = tmp_path / "chart"
    shutil.copytree(SCALE_SET, chart)
    file = chart / "templates" / "_dind.tpl"
    text = file.read_text()
    for part, told in (("Major", major), ("Minor", minor)):
        assert f".Capabilities.KubeVersion.{part}" in text
        text = text.replace(f".Capabilities.KubeVersion.{part}", f'"{told}"')
    file.write_text(text)
    found = render_one(chart, "AutoscalingRunnerSet", values(MODE), release=RELEASE)
    among = "initContainers" if sidecar else "containers"
    expected = SIDECAR if sidecar else PLAIN
    assert container(found["spec"]["template"]["spec"], "dind", among=among) == expected


def test_the_externals_come_from_the_runner_s_image() -> None:
    mine = {"name": "runner", "image": "own:1", "command": ["run"]}
    found = pod({**MODE, **template(containers=[mine])})
    assert found["initContainers"][0] == {**INIT, "image": "own:1"}


@pytest.mark.parametrize("place", ["containers", "initContainers"])
@pytest.mark.parametrize(("version", "default"), [("1.28.0", PLAIN), ("1.31.0", SIDECAR)])
def test_ones_own_container_dind_is_laid_over_the_daemon(
    place: str, version: str, default: dict[str, Any]
) -> None:
    # W-S3: it was thrown away, and nothing of the daemon could be changed.
    mine = {
        "name": "dind",
        "image": "docker:27-dind",
        "args": ["dockerd", "--mtu=1400"],
        "resources": LIMITS,
        "env": [{"name": "HTTPS_PROXY", "value": "http://p"}],
        "volumeMounts": [{"name": "certs", "mountPath": "/etc/ssl/certs"}],
        "securityContext": {"privileged": True, "seccompProfile": {"type": "Unconfined"}},
    }
    given = {place: [mine], "volumes": [{"name": "certs", "emptyDir": {}}]}
    found = pod({**MODE, **template(**given)}, kube_version=version)
    among = "containers" if version == "1.28.0" else "initContainers"
    assert container(found, "dind", among=among) == {
        **default,
        **mine,
        "env": [*mine["env"], *default["env"]],
        "volumeMounts": [*mine["volumeMounts"], *default["volumeMounts"]],
    }
    everyone = [*found["containers"], *found["initContainers"]]
    assert sorted(c["name"] for c in everyone) == ["dind", "init-dind-externals", "runner"]
    assert runner({**MODE, **template(**given)})["image"] == DEFAULT_IMAGE


def test_ones_own_variables_and_mounts_of_the_daemon_replace_those_of_the_same_name() -> None:
    gid = {"name": "DOCKER_GROUP_GID", "value": "1001"}
    elsewhere = {"name": "work", "mountPath": "/work"}
    mine = {"name": "dind", "env": [gid], "volumeMounts": [elsewhere]}
    found = pod({**MODE, **template(containers=[DEFAULT_RUNNER, mine])})
    dind = container(found, "dind", among="initContainers")
    assert dind["env"] == [gid]
    assert dind["volumeMounts"] == [elsewhere, *SIDECAR["volumeMounts"][1:]]
    assert dind["image"] == "docker:dind"


def test_a_field_of_the_daemon_can_be_taken_away_with_null() -> None:
    # A null that stays is no object for a CRD that knows the field, as ARC's does.
    mine = {"name": "dind", "startupProbe": None, "args": None}
    found = pod({**MODE, **template(containers=[DEFAULT_RUNNER, mine])})
    dind = container(found, "dind", among="initContainers")
    assert dind.keys() == SIDECAR.keys() - {"startupProbe", "args"}


def test_the_copying_init_container_can_be_changed_too() -> None:
    # A namespace with a quota asks every container for its resources.
    mine = {"name": "init-dind-externals", "resources": LIMITS}
    found = pod({**MODE, **template(initContainers=[{"name": "ls", "image": "i"}, mine])})
    assert found["initContainers"] == [{**INIT, **mine}, SIDECAR, {"name": "ls", "image": "i"}]


@pytest.mark.parametrize("name", ["dind-sock", "dind-externals"])
def test_a_volume_of_ones_own_replaces_the_generated_one(name: str) -> None:
    # W-S11: both were rendered, and the API server refuses two of one name.
    mine = {"name": name, "emptyDir": {"medium": "Memory"}}
    found = pod({**MODE, **template(volumes=[mine])})
    expected = {"dind-sock": SOCK, "dind-externals": EXTERNALS, "work": WORK, name: mine}
    assert found["volumes"] == list(expected.values())
