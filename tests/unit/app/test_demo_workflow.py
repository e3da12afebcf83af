"""The file after `demo --workflow`: read up to a bound, and only what has an end."""

import os
import subprocess
from pathlib import Path

import pytest

from runnerscale.app.demo import DemoOptions, read_workflow
from runnerscale.app.problem import Problem
from runnerscale.fake_github.workflow_yaml import TEXT_MAX

WORKFLOW = "jobs: {a: {runs-on: x, steps: [{run: x}]}}"


def refusal(path: Path) -> str:
    with pytest.raises(Problem) as refused:
        read_workflow(DemoOptions(workflow=path))
    return str(refused.value)


def test_a_file_and_a_pipe_are_read(tmp_path: Path) -> None:
    file = tmp_path / "ci.yml"
    file.write_text(WORKFLOW)
    found = read_workflow(DemoOptions(workflow=file))
    assert found is not None
    assert (found.name, found.content) == (str(file), WORKFLOW)
    reading, writing = os.pipe()  # as in `--workflow <(make-it)`
    os.write(writing, WORKFLOW.encode())
    os.close(writing)
    found = read_workflow(DemoOptions(workflow=Path(f"/dev/fd/{reading}")))
    os.close(reading)
    assert found is not None
    assert found.content == WORKFLOW


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_a_device_is_refused(path: str) -> None:
    assert "neither a file nor a pipe" in refusal(Path(path))


def test_what_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.touch()
    os.truncate(file, 1 << 40)
    assert f"larger than {TEXT_MAX // 1024} KiB" in refusal(file)
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        said = refusal(Path(f"/dev/fd/{endless.stdout.fileno()}"))
        endless.kill()
    assert f"larger than {TEXT_MAX // 1024} KiB" in said


def test_a_folder_and_no_text_are_refused(tmp_path: Path) -> None:
    assert "Is a directory" in refusal(tmp_path)
    (tmp_path / "latin").write_bytes(b"\xe4")
    assert "is not UTF-8" in refusal(tmp_path / "latin")
