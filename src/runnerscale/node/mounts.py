"""How mount paths come to exist: a plan for a mount namespace, or rewritten text without one.

A mount path such as /etc/gha-listener does not exist on the machine, and an unprivileged agent
may not create it. In a mount namespace of the container's own, the folder above it is *rebuilt*:
a small memory filesystem takes its place and everything that was in it is bound back, so that
there is room for the new name. Where the kernel allows no namespace, the container is told the
real place instead: env values, arguments and the working folder that begin with a mount path.

Pure: `lookup` says what is there; `shim_mounts.py` carries the plan out.
"""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class There(Enum):
    """What a path is."""

    NOTHING, FOLDER, FILE = range(3)


@dataclass(frozen=True, slots=True)
class Bind:
    """`source`, a real place, shall be seen at `path`."""

    source: str
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the shim: `rebuild`, `mkdir`, `touch`, `bind` or `read_only` (its last)."""

    do: str
    path: str
    source: str = ""


Lookup = Callable[[str], There]


def plan_steps(
    binds: Sequence[Bind], *, lookup: Lookup, resolve: Callable[[str], str]
) -> list[Step]:
    """The steps that make every bind visible, outermost path first.

    `resolve` follows symbolic links of the machine (/var/run is /run on most). Names that are
    missing at the top come first of all: / is rebuilt while all sources can still be seen.
    """
    steps: list[Step] = []
    made: dict[str, There] = {}  # below our own mounts: what we put there
    rebuilt: set[str] = set()

    def place(bind: Bind) -> tuple[int, int]:
        path = resolve(bind.path)
        top = f"/{path.split('/')[1]}"
        return (0 if lookup(top) is There.NOTHING else 1, path.count("/"))

    for bind in sorted(binds, key=place):
        path = resolve(bind.path)
        kind = lookup(bind.source)
        steps += _room_for(path, kind, lookup, made, rebuilt)
        steps.append(Step("bind", path, bind.source))
        made[path] = kind
    closing = [Step("read_only", resolve(bind.path)) for bind in binds if bind.read_only]
    return [*steps, *closing]


def kept_visible(binds: Sequence[Bind], folders: Sequence[str]) -> list[Bind]:
    """Binds of the folders onto themselves, as far as one of `binds` would hide them."""
    own = {bind.path for bind in binds}
    hidden = (f for f in folders if f not in own and any(_covers(b.path, f) for b in binds))
    return [Bind(folder, folder) for folder in dict.fromkeys(hidden)]


def rewrite(text: str, binds: Sequence[Bind]) -> str:
    """`text` with the mount path at its beginning replaced by the real place; longest first."""
    for bind in sorted(binds, key=lambda bind: len(bind.path), reverse=True):
        if text == bind.path or text.startswith(bind.path + "/"):
            return bind.source + text[len(bind.path) :]
    return text


def rewrite_argument(text: str, binds: Sequence[Bind]) -> str:
    """As `rewrite`; of `--flag=/path` the part after the sign."""
    if text.startswith("-") and "=" in text:
        flag, _, value = text.partition("=")
        return f"{flag}={rewrite(value, binds)}"
    return rewrite(text, binds)


def rewrite_environment(env: Mapping[str, str], binds: Sequence[Bind]) -> dict[str, str]:
    """`rewrite` on each value."""
    return {name: rewrite(value, binds) for name, value in env.items()}


def _room_for(
    path: str, kind: There, lookup: Lookup, made: dict[str, There], rebuilt: set[str]
) -> list[Step]:
    """Make `path` exist, as the kind of thing that will be bound over it."""
    if _is_there(path, lookup, made):
        return []
    steps: list[Step] = []
    missing = [path]
    while not _is_there(parent := posixpath.dirname(missing[-1]), lookup, made):
        missing.append(parent)
    # Below one of our own mounts or in a rebuilt folder we may create; elsewhere rebuild first.
    ours = parent in rebuilt or any(_covers(mount, parent) for mount in made)
    if not ours:
        steps.append(Step("rebuild", parent))
        rebuilt.add(parent)
    for folder in reversed(missing[1:]):
        steps.append(Step("mkdir", folder))
        made[folder] = There.FOLDER
    steps.append(Step("touch" if kind is There.FILE else "mkdir", path))
    return steps


def _is_there(path: str, lookup: Lookup, made: Mapping[str, There]) -> bool:
    if path in made or path == "/":
        return True
    if any(_covers(mount, path) for mount in made):
        return False  # hidden by what we mount above it, or a new folder: empty as far as we know
    return lookup(path) is not There.NOTHING


def _covers(mount: str, path: str) -> bool:
    return path == mount or path.startswith(mount + "/")
