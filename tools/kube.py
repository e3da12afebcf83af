"""Build the real Kubernetes that the tests run against, once, outside the clone.

`build` makes what is missing and says how long it took; `bin-dir` prints where the binaries
are. The sources are the Go modules under `tests/kube/`, whose `go.mod` and `go.sum` pin every
version: their contents name the folder, so a changed version is a new folder and a second clone
finds what the first one built. How the binaries are run is `tests/kubernetes/cluster.py`.
"""

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = ROOT / "tests" / "kube"
GO_NEEDED = (1, 26)
BUILD_TIMEOUT_S = 3600


@dataclass(frozen=True, slots=True)
class Program:
    """One binary, and the module and package that it is built from."""

    name: str
    module: str  # folder below tests/kube
    package: str
    version_of: str  # the required module whose version is the program's own
    version_flags: tuple[str, ...]  # {version}, {major}, {minor} of that module

    def version(self) -> str:
        """As `go.mod` pins it."""
        return required_version(self.module, self.version_of)

    def linker_flags(self) -> str:
        """Without symbols, and with the version that a release has set."""
        version = self.version()
        major, minor, *_ = version.removeprefix("v").split(".")
        filled = (f.format(version=version, major=major, minor=minor) for f in self.version_flags)
        return " ".join(("-s", "-w", *(f"-X {flag}" for flag in filled)))


KUBERNETES = (
    "k8s.io/component-base/version.gitVersion={version}",
    "k8s.io/component-base/version.gitMajor={major}",
    "k8s.io/component-base/version.gitMinor={minor}",
    "k8s.io/component-base/version.gitTreeState=clean",
)
HELM = (
    "helm.sh/helm/v3/internal/version.version={version}",
    "helm.sh/helm/v3/internal/version.gitTreeState=clean",
)
# Small ones first: what is broken about a toolchain shows within seconds.
PROGRAMS = (
    Program("etcd", "etcd", ".", "go.etcd.io/etcd/server/v3", ()),
    Program("helm", "helm", "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3", HELM),
    Program("kube-apiserver", "k8s", "./kube-apiserver", "k8s.io/kubernetes", KUBERNETES),
    Program(
        "kube-controller-manager",
        "k8s",
        "./kube-controller-manager",
        "k8s.io/kubernetes",
        KUBERNETES,
    ),
)


def required_version(module: str, path: str) -> str:
    """The version of a module that one of ours requires."""
    text = (MODULES / module / "go.mod").read_text()
    found = re.search(rf"^(?:require)?\s*{re.escape(path)} (v\S+)", text, re.MULTILINE)
    if found is None:
        sys.exit(f"tests/kube/{module}/go.mod does not require {path}")
    return found[1]


def sources() -> list[Path]:
    """The files that decide how the binaries turn out."""
    found = []
    for module in sorted({program.module for program in PROGRAMS}):
        folder = MODULES / module
        found += [folder / "go.mod", folder / "go.sum", *sorted(folder.rglob("*.go"))]
    return found


def key() -> str:
    """The name of one set of sources."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for program in PROGRAMS:
        digest.update(f"{program.package} {program.linker_flags()}\0".encode())
    return digest.hexdigest()[:12]


def folder() -> Path:
    """Where this set is, or will be: outside the clone, so that the next one finds it."""
    named = os.environ.get("RUNNERSCALE_KUBE_DIR")
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "runnerscale" / f"kube-{key()}"


def bin_dir() -> Path:
    """The folder of the binaries."""
    return folder() / "bin"


def missing() -> list[Program]:
    """What is still to be built."""
    return [program for program in PROGRAMS if not (bin_dir() / program.name).is_file()]


def no_toolchain() -> str:
    """Why nothing can be built here; empty when it can."""
    needed = ".".join(map(str, GO_NEEDED))
    go = shutil.which("go")
    if go is None:
        return f"no `go` on PATH: install Go {needed} or newer (https://go.dev/dl)"
    found = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    version = re.match(r"go(\d+)\.(\d+)", found.stdout)
    if version is None:
        return f"{go} does not say its version: {(found.stderr or found.stdout).strip()}"
    if (int(version[1]), int(version[2])) < GO_NEEDED:
        return f"{go} is {found.stdout.strip()}: Go {needed} or newer is needed"
    return ""


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Two builds at once would do everything twice."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build() -> None:
    """Build what is missing."""
    began_s = time.monotonic()
    if missing():
        trouble = no_toolchain()
        if trouble:
            names = ", ".join(program.name for program in missing())
            sys.exit(f"make kube cannot build {names}: {trouble}")
    with alone(folder()):
        waiting = missing()
        for program in PROGRAMS:
            if program in waiting:
                build_one(program)
            else:
                say(f"{program.name} {program.version()}: already built")
    say(f"{bin_dir()}: complete after {time.monotonic() - began_s:.0f} s")


def build_one(program: Program) -> None:
    """One binary; it appears under its name only when it is whole."""
    began_s = time.monotonic()
    say(f"{program.name} {program.version()}: building ...")
    target = bin_dir() / program.name
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    flags = ["-trimpath", "-buildvcs=false", "-ldflags", program.linker_flags()]
    done = subprocess.run(
        ["go", "build", *flags, "-o", str(unfinished), program.package],
        cwd=MODULES / program.module,
        env={**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=readonly"},
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"make kube: {program.name} was not built; Go's own words are above")
    unfinished.replace(target)
    say(f"{program.name} {program.version()}: built in {time.monotonic() - began_s:.0f} s")


def say(line: str) -> None:
    """At once, also into a pipe: a build is long."""
    print(line, flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build what is missing")
    commands.add_parser("bin-dir", help="print where the binaries are")
    if parser.parse_args().command == "build":
        build()
    else:
        say(str(bin_dir()))


if __name__ == "__main__":
    main()
