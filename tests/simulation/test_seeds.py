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
@pytest.mark.parametrize("first", [0, 25])
def test_nothing_is_lost_killed_or_leaked(first: int) -> None:
    done = simulate("--seeds", str(first), str(first + 25), "--smaller")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["seeds"] == 25
    assert sum(summary["faults"].values()) > 50  # a run without faults proves nothing


@pytest.mark.timeout(TIMEOUT_S)
def test_one_seed_is_one_history_whatever_the_process_played_before() -> None:
    fresh, warm, forked = (
        simulate("--seeds", first, "5", "--verbose", *more)
        for first, more in (("4", ()), ("3", ()), ("4", ("--workers", "2")))
    )
    digests = [
        re.findall(r"^.* seed 4: .* ([0-9a-f]{16})$", d.stdout, re.M) for d in (fresh, warm, forked)
    ]
    assert len(digests[0]) == 1, fresh.stdout + fresh.stderr[-2000:]
    assert digests == [digests[0]] * 3
