"""Pins the dependencies: `make lock`. Hashes yes, index address no.

Two locks, so that `make demo` on a bare machine installs only what runs; a third, with the same
pins, for the image of controller and listener, which does without the commands for people.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILE = [
    *("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
    *("--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate"),
]


# In the resolution, but nothing that we import imports them.
UNUSED = {"pydantic", "pydantic-core", "annotated-types", "typing-inspection", "colorama"}


def compile_lock(source: str, target: str, *, without: set[str], constraint: str = "") -> set[str]:
    """Write `target` from `source`; leave out packages named in `without`; return its names."""
    command = [str(Path(sys.executable).parent / COMPILE[0]), *COMPILE[1:], source]
    if constraint:
        command += ["--constraint", constraint]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    blocks: list[str] = []
    names: set[str] = set()
    for block in text.replace("\\\n", "\\\0").splitlines():
        name = block.split("==")[0].strip()
        if name in without:
            continue
        names.add(name)
        blocks.append(block.replace("\0", "\n"))
    head = f"# Made by `make lock` from {source}; do not edit. Hashes, no index address.\n"
    (ROOT / target).write_text(head + "\n".join(blocks) + "\n")
    return names


def main() -> None:
    """All three locks."""
    runtime = compile_lock("requirements.in", "requirements.lock", without=UNUSED)
    compile_lock(
        "requirements-dev.in",
        "requirements-dev.lock",
        without=runtime | UNUSED,
        constraint="requirements.lock",
    )
    compile_lock(
        "image/requirements.in",
        "image/requirements.lock",
        without=UNUSED,
        constraint="requirements.lock",
    )


if __name__ == "__main__":
    main()
