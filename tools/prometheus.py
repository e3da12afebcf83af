"""Where Prometheus and promtool are, fetched once: `tools/prometheus.py` prints the folder.

Only tests need them. They are Debian's, unpacked below the user's cache, outside the clone, so
that no service is installed and a fresh clone finds them again. `RUNNERSCALE_PROMETHEUS_DIR`
names a folder with both programs instead.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = ("prometheus", "promtool")
PACKAGE = "prometheus"
FETCH_WITHIN_S = 120


class Missing(Exception):
    """It is not there and cannot be fetched; one sentence."""


def folder() -> Path:
    """The folder that holds both programs.

    Raises:
        Missing: not there, and this is no Debian with a package source.
    """
    given = os.environ.get("RUNNERSCALE_PROMETHEUS_DIR", "")
    if given:
        return checked(Path(given))
    cache = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
    target = cache / "runnerscale" / "prometheus" / "bin"
    if not all((target / name).exists() for name in PROGRAMS):
        fetch(target)
    return checked(target)


def checked(place: Path) -> Path:
    """The folder, if both programs are in it."""
    absent = [name for name in PROGRAMS if not (place / name).exists()]
    if absent:
        raise Missing(f"{place} has no {' and no '.join(absent)}")
    return place


def fetch(target: Path) -> None:
    """Download Debian's package and keep its two programs."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise Missing("Prometheus is not there, and without apt-get and dpkg it is not fetched")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        work = Path(name)
        if run("apt-get", "download", PACKAGE, folder=work):
            # The list of packages may be missing or old.
            run("apt-get", "update", folder=work)
            why = run("apt-get", "download", PACKAGE, folder=work)
            if why:
                raise Missing(f"apt-get download {PACKAGE} failed: {why}")
        packages = list(work.glob("*.deb"))
        why = run("dpkg", "-x", packages[0].name, "unpacked", folder=work)
        if why:
            raise Missing(f"dpkg -x failed: {why}")
        target.mkdir(exist_ok=True)
        for program in PROGRAMS:
            # Renamed into place: another process may be doing the same.
            (work / "unpacked" / "usr" / "bin" / program).rename(target / program)


def run(*argv: str, folder: Path) -> str:
    """Run to the end; empty when it went well, else its last words."""
    try:
        ended = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, timeout=FETCH_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {FETCH_WITHIN_S} s"
    lines = ended.stderr.strip().splitlines() or ["no output"]
    return "" if ended.returncode == 0 else lines[-1]


if __name__ == "__main__":
    try:
        print(folder())
    except Missing as error:
        sys.exit(str(error))
