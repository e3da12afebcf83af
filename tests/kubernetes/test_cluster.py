"""The cluster that the other tests stand on: rights, audit, restarts, and no process left over."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.cluster import Cluster, CommandFailed
from tests.kubernetes.processes import Deadline, free_ports, listening

ROOT = Path(__file__).resolve().parents[2]
ORPHANED = """
import os, sys
from pathlib import Path
from tests.kubernetes.processes import Child
child = Child("sleeper", ["sleep", "600"], log=Path(sys.argv[1]))
print(child.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_an_account_may_do_nothing_until_it_is_given_a_right(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    kubeconfig = cluster.kubeconfig_for_service_account(namespace, "default")
    mark = cluster.audit_mark()
    with pytest.raises(CommandFailed, match=r"cannot list resource \"secrets\""):
        cluster.kubectl("get", "secrets", "-n", namespace, kubeconfig=kubeconfig)
    user = f"system:serviceaccount:{namespace}:default"
    asked = [e for e in cluster.audit(since=mark) if e.user == user and e.resource == "secrets"]
    assert [(e.verb, e.namespace, e.code, e.forbidden) for e in asked] == [
        ("list", namespace, 403, True)
    ]


def test_what_was_written_outlives_the_api_server(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    cluster.kubectl("create", "configmap", "kept", "-n", namespace, "--from-literal=a=b")
    url = cluster.url
    cluster.kill_api()
    assert not listening(int(url.rpartition(":")[2]))
    cluster.start_api()
    assert cluster.url == url
    kept = cluster.kubectl("get", "cm", "kept", "-n", namespace, "-o", "jsonpath={.data.a}")
    assert kept.stdout == "b"


def test_deployments_become_pods(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    cluster.kubectl("create", "deployment", "d", "--image=x", "--replicas=2", "-n", namespace)
    created = ("wait", "--for=jsonpath={.status.replicas}=2", "--timeout=60s")
    cluster.kubectl(*created, "deployment/d", "-n", namespace)
    pods = cluster.kubectl("get", "pods", "-l", "app=d", "-o", "name", "-n", namespace)
    assert len(pods.stdout.split()) == 2


def test_the_binaries_say_their_versions(cluster: Cluster) -> None:
    code, version = cluster.api("GET", "/version")
    assert (code, version["gitVersion"]) == (200, "v1.36.3")
    assert cluster.helm("version", "--short").stdout.startswith("v3.22.0")


def test_a_child_ends_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORPHANED, str(tmp_path / "log")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    assert done.returncode == -9
    stat = Path("/proc") / done.stdout.decode().strip() / "stat"
    deadline = Deadline(20)
    while stat.exists() and stat.read_text().split()[2] != "Z" and not deadline.passed():
        deadline.pause()
    assert not deadline.passed()


def test_free_ports_are_different_ones() -> None:
    assert len(set(free_ports(8))) == 8
