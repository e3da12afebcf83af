"""Our node agent as the kubelet of a test cluster: a process with the rights of a node.

Which images there are, and which command each stands for, is said here; pods are then processes
of this machine. Logs are kept after their pods are gone, for the failing test to show.
"""

import json
import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Any

import yaml

from runnerscale.app.manifests import node_rules
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import Child, Deadline

Json = dict[str, Any]
READY_WITHIN_S = 60.0
USER = "runnerscale-node"
MANAGER_IMAGE = "ghcr.io/runnerscale/runnerscale"
RUNNER_IMAGE = "ghcr.io/actions/actions-runner"
ROOT = Path(__file__).resolve().parents[2]
RBAC = "rbac.authorization.k8s.io"

# What a container engine would bring: `docker info` answers while `dind` runs.
DIND = '#!/bin/sh\ntrap "rm -f /var/run/docker.sock; exit 0" TERM\n: > /var/run/docker.sock\n'
DIND += "while :; do sleep 1 & wait $!; done\n"
DOCKER = "#!/bin/sh\n[ -e /var/run/docker.sock ]\n"
COPY_EXTERNALS = '#!/bin/sh\nfor last; do :; done\necho externals > "$last/node"\n'


class Node:
    """One node agent and what it wrote down."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._cluster = cluster
        self._folder = folder
        self._data = folder / "data"
        self.logs = folder / "pod-logs"
        self.logs.mkdir()
        self._grant()
        self._config = folder / "node.yaml"
        self._config.write_text(yaml.safe_dump(self._images()))
        self._token = folder / "token"
        self._token.write_text(secrets.token_hex(16))
        self._child = self._start()

    def _start(self) -> Child:
        words = ("--data", self._data, "--kubeconfig", self._cluster.kubeconfig(USER))
        words += ("--token-file", self._token, "--config", self._config, "--stop-pods")
        argv = [sys.executable, "-m", "runnerscale.cli.main", "node", *map(str, words)]
        log = self._folder / "node.log"
        # A test may be run in an environment with proxies or tokens: none of it is for pods.
        child = Child("node", argv, log=log, env={**os.environ, "TMPDIR": str(self._scratch())})
        deadline = Deadline(READY_WITHIN_S)
        path = "/api/v1/nodes/single-machine"
        while self._cluster.api("GET", path)[0] != 200:
            if deadline.passed() or not child.running():
                raise AssertionError(f"the node agent did not start:\n{child.tail()}")
            deadline.pause()
        return child

    def _scratch(self) -> Path:
        scratch = self._folder / "tmp"
        scratch.mkdir(exist_ok=True)
        return scratch

    def stop(self) -> None:
        """End it, and every pod with it."""
        self._child.stop(timeout_s=60)

    def tail(self) -> str:
        """The last lines of its log."""
        return self._child.tail()

    # -- what it may and what it has ---------------------------------------------------------

    def _grant(self) -> None:
        role = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": USER},
            "rules": node_rules(),
        }
        binding = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": USER},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": USER},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": USER}],
        }
        text = yaml.safe_dump_all([role, binding])
        self._cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text)

    def _images(self) -> Json:
        tools = self._folder / "tools"
        tools.mkdir()
        for name, text in (("dind", DIND), ("docker", DOCKER), ("copy-externals", COPY_EXTERNALS)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        runner = [sys.executable, "-I", "-S", "-c"]
        runner += [f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); "
                   "from runnerscale.fake_github.demo_runner import main; main()"]  # fmt: skip
        commands = {"/home/runner/run.sh": runner, "cp": [str(tools / "copy-externals")]}
        with_docker = {"PATH": f"{tools}:{os.environ['PATH']}"}
        return {
            "images": [
                {"pattern": f"{MANAGER_IMAGE}:*"},
                {"pattern": f"{RUNNER_IMAGE}:*", "entrypoint": runner, "commands": commands},
                {"pattern": "docker:dind", "entrypoint": [str(tools / "dind")], "env": with_docker},
            ],
            "visible": [str(ROOT), str(tools)],
            "starts_max": 8,
        }

    # -- logs of pods ------------------------------------------------------------------------

    def keep_logs(self) -> None:
        """Give every log that is there a second name, so that it outlives its pod."""
        for log in self._data.glob("pods/*/containers/*/*/log"):
            attempt, container, uid = log.parts[-2], log.parts[-3], log.parts[-5]
            pod = self._name_of(uid)
            kept = self.logs / f"{pod}.{container}.{attempt}.{uid[:8]}.log"
            if not kept.exists():
                try:
                    os.link(log, kept)
                except OSError:
                    continue  # the pod went in this very moment

    def _name_of(self, uid: str) -> str:
        try:
            record = json.loads((self._data / "pods" / uid / "pod.json").read_text())
            return f"{record['namespace']}.{record['name']}"
        except (OSError, ValueError):
            return uid

    def log_of(self, pod: str, *, container: str = "") -> str:
        """All that the pod's containers said so far, gone or not."""
        self.keep_logs()
        kept = sorted(self.logs.glob(f"*.{pod}.{container or '*'}.*.log"))
        return "".join(path.read_text(errors="replace") for path in kept)

    def kill(self, pod: Json, container: str) -> None:
        """SIGKILL for a container's process, as a crash."""
        attempts = self._data / "pods" / pod["metadata"]["uid"] / "containers" / container
        newest = max(attempts.iterdir(), key=lambda path: int(path.name))
        os.kill(int(json.loads((newest / "running.json").read_text())["pid"]), signal.SIGKILL)
