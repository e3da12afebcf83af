"""What a long run has shown so far, on disk: it can be stopped and goes on where it was.

One file for each state of the code, because a seed means the same history only there.
"""

import hashlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.simulation.workers import Chunk

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "soak"
CODE = ("src", "tests/simulation", "tests/unit/node", "requirements.lock")  # of a history


def state_of_the_code() -> str:
    """Of that what a history is made of: its trees in the commit, and what is changed since.

    Not the commit itself: one that changes a page of the documentation changes no history.
    """
    trees = _git("rev-parse", *(f"HEAD:{part}" for part in CODE))
    commit = hashlib.sha256(trees).hexdigest()[:12]
    changed = _git("diff", "HEAD", "--", *CODE)
    changed += _git("ls-files", "--others", "--exclude-standard", "--", *CODE)
    mark = hashlib.sha256(changed).hexdigest()[:8]
    return f"{commit}-{mark}" if changed else commit


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


class _Result(msgspec.Struct):
    """Those parts of a seed's result that are added up."""

    seed: int
    failed: str
    struck: list[str] = []
    steps: int = 0
    virtual_s: float = 0.0
    settled_s: float = 0.0
    cpu_s: float = 0.0
    died: bool = False  # its process: then it is played again


class _Line(msgspec.Struct):
    wall_s: float
    results: list[_Result]


class Progress:
    """The results so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[int, Json] = {}
        self.wall_s = 0.0
        self.unreadable = 0  # lines: it was stopped in the middle of them, or somebody wrote there
        text = path.read_bytes() if path.exists() else b""
        self._ends_in_a_line = bool(text) and not text.endswith(b"\n")
        for line in text.splitlines():
            try:
                msgspec.json.decode(line, type=_Line)
                told = json.loads(line)
            except (ValueError, RecursionError):
                self.unreadable += 1
                continue
            self._take([r for r in told["results"] if not r.get("died")], told["wall_s"])

    def _take(self, results: Sequence[Json], wall_s: float) -> None:
        self.wall_s += wall_s
        self.results.update({result["seed"]: result for result in results})

    def add(self, results: Sequence[Json], wall_s: float) -> None:
        """Some more; `wall_s` went by since the last ones."""
        self._take(results, wall_s)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            if self._ends_in_a_line:  # what follows is not to be lost with it
                file.write("\n")
                self._ends_in_a_line = False
            file.write(json.dumps({"wall_s": round(wall_s, 2), "results": results}) + "\n")

    def todo(self, first: int, end: int, size: int) -> list[Chunk]:
        """The seeds that are left, in pieces."""
        pieces: list[Chunk] = []
        for seed in range(first, end):
            if seed in self.results:
                continue
            if pieces and pieces[-1][1] == seed and seed - pieces[-1][0] < size:
                pieces[-1] = (pieces[-1][0], seed + 1)
            else:
                pieces.append((seed, seed + 1))
        return pieces
