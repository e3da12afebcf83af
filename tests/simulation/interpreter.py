"""Which Python plays the seeds: a distribution's own, built with optimisation, is a fifth faster.

`SIMULATION_PYTHON` in the environment names it (the Makefile does, where there is one). It must be
of the version that runs, so that the installed packages fit; a history does not depend on it.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

CHOSEN = "SIMULATION_PYTHON"
ASK_S = 10.0
_QUESTION = "import sys; print(*sys.version_info[:2], sys.implementation.name)"


def interpreter(environ: Mapping[str, str]) -> str:
    """The one that is asked for, if it fits; else the one that runs."""
    asked_for = environ.get(CHOSEN, "")
    return asked_for if asked_for and _fits(asked_for) else sys.executable


def _fits(python: str) -> bool:
    try:
        done = subprocess.run(
            [python, "-I", "-c", _QUESTION],
            capture_output=True,
            text=True,
            timeout=ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    ours = (*sys.version_info[:2], sys.implementation.name)
    return done.stdout.split() == [str(each) for each in ours]


def import_path(entries: Iterable[str]) -> str:
    """What another interpreter needs of ours to find the same packages: not the language's own."""
    language = str(Path(os.__file__).parent)
    kept = (each for each in entries if each and not each.endswith(".zip"))
    return os.pathsep.join(each for each in kept if not each.startswith(language))
