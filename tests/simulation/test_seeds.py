"""Seeds of the whole system: each is one history, and nothing in it may break a promise.

In processes of their own, with a pinned hash seed, as `make simulate` runs them.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 900


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation.run", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("first", [0, 10])
def test_nothing_is_lost_killed_or_leaked(first: int) -> None:
    done = simulate("--seeds", str(first), str(first + 10))
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["seeds"] == 10
    assert sum(summary["faults"].values()) > 10  # a run without faults proves nothing


@pytest.mark.timeout(TIMEOUT_S)
def test_one_seed_is_one_history() -> None:
    digests = []
    for _ in range(2):
        done = simulate("--seeds", "3", "6", "--verbose")
        digests.append(re.findall(r", ([0-9a-f]{16})$", done.stdout, re.MULTILINE))
    assert len(digests[0]) == 3
    assert digests[0] == digests[1]
