"""A small part of the sweeps, and that they find what is wrong. All of it: `make sweeps`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.sweeps.points import Point, Points, Sort
from tests.simulation.sweeps.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 600
SMALL = ("--scenario", "pod-deleted", "--jobs", "1")


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def of_all(output: str) -> str:
    """The table's line for all scenarios."""
    (line,) = [line for line in output.splitlines() if line.startswith("all ")]
    return line


def counts(output: str) -> dict[Sort, tuple[int, int]]:
    """What held of how many points, by sort; a sort that was not asked for has a dash."""
    cells = of_all(output).split()[1 : len(Sort) + 1]
    assert len(cells) == len(Sort)
    found = [(0, 0) if cell == "-" else tuple(map(int, cell.split("/"))) for cell in cells]
    return {sort: (held, played) for sort, (held, played) in zip(Sort, found, strict=True)}


@pytest.mark.timeout(TIMEOUT_S)
def test_no_crash_and_no_lost_event_changes_the_end() -> None:
    done = run("tests.simulation.sweeps", *SMALL, "--before", "--after", "--github-after", "--gap")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    swept = counts(done.stdout)
    for sort in (Sort.BEFORE, Sort.AFTER, Sort.GITHUB_AFTER, Sort.GAP):
        held, played = swept[sort]
        assert held == played > 0
    assert " of " not in of_all(done.stdout)  # all points, not a sample
    assert " 0 failed" in done.stdout
    assert swept[Sort.BEFORE] == swept[Sort.AFTER]


@pytest.mark.timeout(TIMEOUT_S)
def test_a_fault_that_only_a_crash_shows_is_found_and_can_be_repeated() -> None:
    done = run("tests.simulation.sweeps.planted", *SMALL, "--github-after")
    assert done.returncode == 1, done.stdout + done.stderr[-2000:]
    assert "has no runner object" in done.stdout
    repeat = re.search(r"repeat: make sweeps ARGS=\"(.*)\"", done.stdout)
    assert repeat is not None
    again = run("tests.simulation.sweeps.planted", *repeat.group(1).split())
    assert again.returncode == 1, again.stdout
    assert "has no runner object" in again.stdout


def test_there_are_enough_scenarios_and_each_says_what_it_is() -> None:
    assert len(SCENARIOS) >= 12
    assert all(each.script.__doc__ for each in SCENARIOS)
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS)


def test_a_world_is_disturbed_once() -> None:
    points = Points(only=Point(Sort.AFTER, 2))
    points.arm()
    assert not points.here(Point(Sort.AFTER, 1))
    assert not points.here(Point(Sort.BEFORE, 2))
    assert points.here(Point(Sort.AFTER, 2))
    points.arm()  # a script that begins its main part later
    assert not points.here(Point(Sort.AFTER, 2))
