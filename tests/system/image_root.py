"""The image without a container engine: the Dockerfile's steps, carried out on this machine.

The building stage runs in a chroot over this machine's own files (an overlay: nothing of it is
changed), which stand for its base. The final stage is an empty folder with the C library and the
interpreter of this machine bound into it, which stand for *its* base, and what is copied there. A
process of the image runs chrooted in it, as the image's user, with everything read-only.

Needs root, as any engine does. What is asked of the image is `test_image.py`.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.image import dockerfile
from tests.unit.image.dockerfile import ROOT, Stage

BUILD_TIMEOUT_S = 300
# What a distroless base has of a C library, and where it keeps the certificates.
LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
CERTIFICATES = "/etc/ssl/certs"


@dataclass
class Image:
    """What was built, and what the final stage says about running it."""

    root: Path
    user: str
    entrypoint: list[str]
    environment: dict[str, str]
    mounts: list[tuple[Path, str]] = field(default_factory=list)  # read-only, such as a Secret

    def command(self, argv: Sequence[str]) -> list[str]:
        """To run something in it; the process keeps the id of the one that is started."""
        binds = [(Path(path), path) for path in LIBRARIES if Path(path).exists()]
        binds += [*_interpreter(), (Path("/dev/null"), "/dev/null"), *self.mounts]
        if Path(CERTIFICATES).exists():
            binds.append((Path(CERTIFICATES), CERTIFICATES))
        lines = ["set -eu"]
        for source, target in binds:
            place = self.root / target.lstrip("/")
            if source.is_symlink():  # /lib on a machine that has it below /usr
                if not place.is_symlink():
                    place.symlink_to(source.readlink())
                continue
            _make_place(place, source)
            lines.append(f"mount --bind -o ro {source} {place}")
        root = self.root
        lines.append(f"mount --bind {root} {root} && mount -o remount,bind,ro {root}")
        # Binding a folder hides what was bound below it before: so all of it goes after that.
        lines = [lines[0], lines[-1], *lines[1:-1]]
        words = shlex.join(argv)
        lines.append(f"exec chroot --userspec={self.user} --groups= {root} {words}")
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)]

    def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start a process of the image, with the image's environment and no other."""
        out = log.open("wb") if log is not None else subprocess.PIPE
        try:
            return subprocess.Popen(
                self.command(argv),
                env={"PATH": os.environ["PATH"], **self.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT if log is not None else subprocess.PIPE,
            )
        finally:
            if log is not None:
                out.close()  # type: ignore[union-attr]  # a file then

    def run(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> "Ran":
        """Run one to its end."""
        began_s = time.monotonic()
        process = self.start(argv, environment)
        out, error = process.communicate(timeout=60)
        took_s = time.monotonic() - began_s
        return Ran(process.returncode, out.decode(), error.decode(), took_s)


@dataclass(frozen=True)
class Ran:
    """How a process of the image ended."""

    code: int
    out: str
    error: str
    took_s: float


def build(folder: Path, **build_args: str) -> Image:
    """Carry out the Dockerfile; `folder` is empty and stays as long as the image is used."""
    first, final = dockerfile.read((ROOT / "Dockerfile").read_text(), **build_args)
    outputs = {first.name: _built(first, folder)}
    root = folder / "root"
    root.mkdir(mode=0o755)
    for copy in final.all("COPY"):
        stage, source, target = copy.words
        _copy(outputs[stage.removeprefix("--from=")] / source.strip("/"), root / target.strip("/"))
    environment = dict(final.filled(item.rest).split("=", 1) for item in final.all("ENV"))
    (entrypoint,) = final.all("ENTRYPOINT")
    return Image(root, final.all("USER")[-1].rest, entrypoint.words, environment)


def _built(stage: Stage, folder: Path) -> Path:
    """Run a building stage; the folder that shows what it has written."""
    upper, work, merged = (folder / name for name in ("upper", "work", "merged"))
    for place in (upper, work, merged):
        place.mkdir(mode=0o755)
    context = folder / "context"
    _send_context(context)
    script = [
        "set -eu",
        f"mount -t overlay overlay -o lowerdir=/,upperdir={upper},workdir={work} {merged}",
    ]
    inside = "/"
    for item in stage.instructions:
        if item.name == "WORKDIR":
            inside = item.rest
            script.append(f"mkdir -p {merged}{inside}")
        elif item.name == "COPY":
            source, target = item.words
            place = f"{merged}{inside}/{target}"
            script.append(f"mkdir -p {place} && cp -R {context}/{source}/. {place}")
        elif item.name == "RUN":
            script.append(f"chroot {merged} sh -euc 'cd {inside} && {item.rest}'")
        else:
            raise ValueError(f"not for a building stage: {item}")
    # The python of the stage's base: the one that runs the tests, whose packages it is to see.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(script)],
        env={**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return upper


def _send_context(target: Path) -> None:
    """What the builder is given: the files that `.dockerignore` lets through."""
    rules = (ROOT / ".dockerignore").read_text()
    for top in ("image", "src"):
        for path in sorted((ROOT / top).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and dockerfile.in_context(name, rules):
                place = target / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)


def _make_place(place: Path, source: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        place.mkdir(exist_ok=True)
    else:
        place.touch()


def _interpreter() -> list[tuple[Path, str]]:
    """What stands for /usr/bin/python3 of the base: the system's, if it is the same version.

    Debian 12's is the very package that the base image is made of.
    """
    wanted = f"python{sys.version_info.major}.{sys.version_info.minor}"
    system = Path("/usr/bin") / wanted
    if system.exists() and not system.is_symlink():
        return [(system, "/usr/bin/python3")]
    own = Path(sys.base_prefix)
    return [(own / "bin" / wanted, "/usr/bin/python3"), (own / "lib", str(own / "lib"))]


def stands_for_the_base() -> bool:
    """Whether this machine's interpreter is of the version that the base image has."""
    return sys.version_info[:2] == (3, 11)
