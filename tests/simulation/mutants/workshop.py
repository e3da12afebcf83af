"""A copy of the product with one defect in it, and a hunt in a process that imports that copy."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src"
PACKAGE = "runnerscale"
SEED_CPU_MAX_S = 120.0  # a seed costs one or two; what is past this stands still
HUNT_MAX_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Found:
    """How a hunt ended. `seed` None: nothing was noticed in any of the seeds."""

    seed: int | None
    rule: str = ""
    detail: str = ""
    seeds: int = 0
    cpu_s: float = 0.0


class HuntFailed(Exception):
    """The hunt itself did not work; says nothing about the defect."""


def text_of(mutant: Mutant) -> str:
    """The file of today."""
    return (SOURCE / PACKAGE / mutant.file).read_text()


def changed(mutant: Mutant, text: str) -> str:
    """The file with the defect in it.

    Raises:
        ValueError: the place is not there, or not the only one.
    """
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {text.count(mutant.old)} places in {mutant.file}, not 1")
    return text.replace(mutant.old, mutant.new)


@contextmanager
def planted(mutant: Mutant | None) -> Iterator[Path]:
    """A folder for the import path: the product, with the defect. None: as it is."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder) / PACKAGE
        shutil.copytree(SOURCE / PACKAGE, copy)  # compiled files too: their times stay
        if mutant is not None:
            path = copy / mutant.file
            path.write_text(changed(mutant, text_of(mutant)))
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
                compiled.unlink()
        yield Path(folder)


def hunt(
    mutant: Mutant | None,
    *,
    first: int,
    end: int,
    plays_max: int | None = None,
    skip: Sequence[int] = (),
) -> Found:
    """Play the seeds until something is noticed, those first in which it can be.

    Raises:
        HuntFailed: the process ended without an answer, or imported another product.
    """
    with planted(mutant) as folder:
        command = [sys.executable, "-W", "ignore", "-m", "tests.simulation.mutants.hunt"]
        command += ["--copy", str(folder), "--seeds", str(first), str(end)]
        command += ["--plays", str(plays_max or end - first)]
        command += ["--skip", *(str(seed) for seed in skip)]
        if mutant is not None:
            command += ["--file", mutant.file, "--needs", *mutant.needs]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
                "PYTHONHASHSEED": "0",
            },
            capture_output=True,
            text=True,
            timeout=HUNT_MAX_S,
            check=False,
        )
    if done.returncode != 0 or not done.stdout.strip():
        raise HuntFailed(
            f"exit code {done.returncode}: {(done.stdout + done.stderr).strip()[-500:]}"
        )
    return Found(**json.loads(done.stdout.splitlines()[-1]))
