"""The demo as a person runs it: real processes and jobs; and what it says to slips."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "runnerscale.cli.main"]


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command to its end; all that it makes is below `folder`."""
    environ = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=110, check=False, env=environ
    )


def facts(output: str) -> dict[str, str]:
    """The summary's lines by name."""
    rows = (re.fullmatch(r"(\S.*?) {2,}(\S.*)", line) for line in output.splitlines())
    return {row[1]: row[2] for row in rows if row}


def strays(folder: Path) -> list[str]:
    """Processes that still have the demo's folder on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in command:
                found.append(command)
    return found


def test_a_workflow_runs_through_the_whole_system_and_nothing_is_left(tmp_path: Path) -> None:
    workflow = tmp_path / "ci.yml"
    workflow.write_text(
        "jobs:\n"
        "  build:\n"
        "    runs-on: anything\n"
        "    strategy: {matrix: {part: [a, b]}}\n"
        "    steps: [{run: 'echo ${{ matrix.part }}'}]\n"
        "  report:\n"
        "    runs-on: anything\n"
        "    needs: build\n"
        "    if: always()\n"
        "    steps: [{run: 'echo done'}]\n"
    )
    ended = run("demo", "--workflow", str(workflow), "--max", "2", folder=tmp_path)
    summary = facts(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (summary["jobs"], summary["succeeded"], summary["failed"]) == ("3", "3", "0")
    assert int(summary["peak runners"]) <= 2
    assert summary["runners left"] == "0"
    assert summary["pods, secrets, registrations left"] == "0, 0, 0"
    # One read a job (design, section 6), and one more where the controller wrote in between: the
    # conflict is answered by reading again (contract C2 5.4). Never none, never a poll.
    assert 1.0 <= float(summary["listener reads per job"]) <= 2.0
    assert strays(tmp_path) == []


def test_a_failing_job_makes_the_demo_end_with_1(tmp_path: Path) -> None:
    workflow = tmp_path / "red.yml"
    workflow.write_text("jobs: {red: {runs-on: x, steps: [{run: exit 3}]}}\n")
    ended = run("demo", "--workflow", str(workflow), folder=tmp_path)
    assert ended.returncode == 1
    assert facts(ended.stdout)["failed"] == "1"
    assert facts(ended.stdout)["did not succeed"] == "red (failed)"
    assert "completed with exit code 3" in ended.stdout  # the job's own log
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_workflow_that_cannot_run_here_is_told_before_anything_is_started(tmp_path: Path) -> None:
    workflow = tmp_path / "real.yml"
    workflow.write_text("on: push\npermissions: {contents: read}\njobs: {a: {runs-on: x}}\n")
    ended = run("demo", "--workflow", str(workflow), folder=tmp_path)
    assert ended.returncode == 1
    assert ended.stdout == ""  # not even the line with which the start begins
    assert f"{workflow}:2: the key 'permissions'" in ended.stderr


def test_a_demo_that_was_kept_is_gone_after_ctrl_c(tmp_path: Path) -> None:
    command = [*COMMAND, "demo", "--jobs", "1", "--job-seconds", "0", "--keep"]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdout=pipe, stderr=both, text=True, env=environ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("export KUBECONFIG="):
                assert Path(line.strip().partition("=")[2]).is_relative_to(tmp_path)
            if "until Ctrl-C" in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 0, rest
    assert facts(rest)["succeeded"] == "1"
    assert list(tmp_path.iterdir()) == []  # no database, certificates or kubeconfig stay behind


def test_ctrl_c_ends_everything_that_was_started(tmp_path: Path) -> None:
    command = [*COMMAND, "demo", "--jobs", "4", "--job-seconds", "30"]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdout=pipe, stderr=both, text=True, env=environ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "running" in line and " 0 running" not in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 130, rest
    assert "Traceback" not in rest
    deadline = time.monotonic() + 10
    while strays(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert strays(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "code", "texts"),
    [
        (["demo", "--workflow", "/nowhere/ci.yml"], 1, ["/nowhere/ci.yml", "No such file"]),
        (["demo", "--jobs", "many"], 2, ["--jobs", "many"]),
        (["demo", "--fault", "nonsense@1"], 2, ["nonsense", "--fault list"]),
        (["controller", "--log-levle=info"], 2, ["--log-levle", "--log-level"]),
        (["controller"], 1, ["CONTROLLER_MANAGER_POD_NAMESPACE"]),
        (["listener"], 2, ["LISTENER_CONFIG_PATH"]),
        (["fake-github", "--port", "99999"], 2, ["port"]),
        (["nonsense"], 2, ["nonsense"]),
    ],
)
def test_a_slip_is_one_sentence_and_the_right_code(
    words: list[str], code: int, texts: list[str]
) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("CONTROLLER_")}
    ended = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=60, check=False, env=environ
    )
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr
    assert all(text in ended.stderr for text in texts), ended.stderr


def test_a_workflow_with_an_unknown_key_is_told_with_its_line(tmp_path: Path) -> None:
    workflow = tmp_path / "uses.yml"
    workflow.write_text(
        "jobs:\n  build:\n    runs-on: x\n    steps:\n      - uses: actions/checkout@v4\n"
    )
    ended = run("demo", "--workflow", str(workflow), folder=tmp_path)
    assert ended.returncode == 1
    assert "uses.yml" in ended.stderr
    assert "5" in ended.stderr
    assert "uses" in ended.stderr
    assert "Traceback" not in ended.stderr
