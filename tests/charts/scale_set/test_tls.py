"""A certificate that GitHub's server has and the runner image does not know."""

from typing import Any

import pytest

from .chart import DIND, MODES, container, pod, refusal, runner, spec, template
from .test_runner_pod import OTHER

SOURCE = {"configMapKeyRef": {"name": "certs-configmap", "key": "cert.pem"}}
PATH = "/runner/mount/path/cert.pem"
VOLUME = {
    "name": "github-server-tls-cert",
    "configMap": {
        "name": "certs-configmap",
        "items": [{"key": "cert.pem", "path": "cert.pem"}],
    },
}
MOUNT = {"name": "github-server-tls-cert", "mountPath": PATH, "subPath": "cert.pem"}
CA_CERTS = {"name": "NODE_EXTRA_CA_CERTS", "value": PATH}
UPDATE = {"name": "RUNNER_UPDATE_CA_CERTS", "value": "1"}


def tls(path: object = "/runner/mount/path", **reference: Any) -> dict[str, Any]:
    source = {"configMapKeyRef": {**SOURCE["configMapKeyRef"], **reference}}
    return {"githubServerTLS": {"certificateFrom": source, "runnerMountPath": path}}


@pytest.mark.behaviour("C3 T69")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "path", ["/runner/mount/path", "/runner/mount/path/", "//runner/mount//path//"]
)
def test_the_runner_gets_the_certificate_as_a_file(mode: str, path: str) -> None:
    given, plain = {**MODES[mode], **tls(path)}, MODES[mode]
    assert spec(given)["githubServerTLS"] == {"certificateFrom": SOURCE}
    assert pod(given)["volumes"] == [VOLUME, *pod(plain).get("volumes", [])]
    found, without = runner(given), runner(plain)
    assert found["env"] == [*without.get("env", []), CA_CERTS, UPDATE]
    assert found["volumeMounts"] == [*without.get("volumeMounts", []), MOUNT]


def test_what_the_user_says_is_kept() -> None:
    env = [{"name": "NODE_EXTRA_CA_CERTS", "value": "/mine"}]
    mounts = [{"name": "github-server-tls-cert", "mountPath": "/mine"}]
    mine = {"name": "runner", "image": "i", "env": env, "volumeMounts": mounts}
    found = runner({**tls(), **template(containers=[mine])})
    assert found == {**mine, "env": [*env, UPDATE]}


@pytest.mark.parametrize("mode", MODES)
def test_a_volume_of_ones_own_replaces_the_generated_one(mode: str) -> None:
    # W-S11: both were rendered, and the API server refuses two of one name.
    mine = {"name": "github-server-tls-cert", "secret": {"secretName": "certs"}}
    found = pod({**MODES[mode], **tls(), **template(volumes=[mine])})["volumes"]
    assert found[0] == mine
    assert [v["name"] for v in found].count(mine["name"]) == 1


def test_neighbours_and_init_containers_get_nothing() -> None:
    init = {"name": "ls", "image": "i"}
    given = {"containerMode": DIND, **template(containers=[OTHER], initContainers=[init])}
    given["template"]["spec"]["containers"].append({"name": "runner"})
    found = pod({**given, **tls()})
    assert container(found, "other") == OTHER
    assert container(found, "ls", among="initContainers") == init
    assert "github-server-tls-cert" not in str(found["initContainers"])


@pytest.mark.parametrize("path", ["/runner/mount/path", ""])
@pytest.mark.parametrize(
    ("broken", "missing"),
    [
        ({"certificateFrom": {"configMapKeyRef": {"name": "ca"}}}, "key"),
        ({"certificateFrom": {"configMapKeyRef": {"name": "ca", "key": ""}}}, "key"),
        ({"certificateFrom": {"configMapKeyRef": {"key": "ca.crt"}}}, "name"),
        ({"certificateFrom": {"configMapKeyRef": None}}, "name"),
        ({"certificateFrom": {}}, "name"),
        ({"certificateFrom": None}, "name"),
        ({}, "name"),
    ],
)
def test_a_certificate_from_nowhere_is_refused(
    path: str, broken: dict[str, Any], missing: str
) -> None:
    if not path and not broken:
        assert "githubServerTLS" not in spec({"githubServerTLS": broken})
        return
    text = refusal({"githubServerTLS": {**broken, "runnerMountPath": path}})
    assert f"githubServerTLS.certificateFrom.configMapKeyRef.{missing} is not" in text
    assert "<nil>" not in text
    if path:
        assert f'runnerMountPath is "{path}"' in text
