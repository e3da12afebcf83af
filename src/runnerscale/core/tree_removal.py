"""Removes a folder with all that is in it, however deep and whatever its modes.

`shutil.rmtree` and `os.walk` call themselves once a level, and give up below a thousand: what a
job has left must go even where it was made so as to stay. Here one folder is open at a time;
nothing that a link leads to is touched. Standard library only, and little of it: it is also
loaded by every demo runner. Who may remove what is up to the caller.
"""

from __future__ import annotations

import os

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str | os.PathLike[str]) -> bool:
    """Remove what is at that path, a link itself and not what it leads to.

    The answer is whether nothing is left. What cannot be removed is passed over.
    """
    parent, name = os.path.split(os.path.abspath(os.fspath(path)))  # noqa: PTH100 - see above
    try:
        here = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return not os.path.lexists(path)
    try:
        if not _unlink(here, name):
            below = _enter(here, name)
            if below is not None:
                here = _empty(here, name, below)
    finally:
        os.close(here)
    return not os.path.lexists(path)


def _empty(here: int, name: str, below: int) -> int:
    """From `name` in `here`, which is open as `below`, down and up again; where it ends is open."""
    ways: list[
        tuple[str, tuple[int, int], list[str]]
    ] = []  # into it from where, what else is there
    names: list[str] = []
    while True:
        if below >= 0:  # one level down
            ways.append((name, _identity(here), names))
            os.close(here)
            here, below = below, -1
            names = _names(here)
        while names:
            name = names.pop()
            if _unlink(here, name):
                continue
            entered = _enter(here, name)
            if entered is not None:
                below = entered
                break
            _rmdir(here, name)  # that needs no right to look into it, only that it is empty
        if below >= 0:
            continue
        name, identity, names = ways.pop()
        try:
            above = os.open("..", _FOLDER, dir_fd=here)
        except OSError:
            return here
        os.close(here)
        here = above
        if _identity(here) != identity:  # somebody has moved it meanwhile: this is not ours
            return here
        _rmdir(here, name)
        if not ways:
            return here


def _unlink(here: int, name: str) -> bool:
    """Whether it was no folder, or is gone anyway."""
    try:
        os.unlink(name, dir_fd=here)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _rmdir(here: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=here)
    except OSError:
        pass  # the caller looks what is left


def _enter(here: int, name: str) -> int | None:
    """Open a folder and take the right to change it; None: it is none, or that is refused."""
    try:
        try:
            entered = os.open(name, _FOLDER, dir_fd=here)
        except PermissionError:
            _take_right(here, name)
            entered = os.open(name, _FOLDER, dir_fd=here)
    except OSError:
        return None
    try:
        os.fchmod(entered, 0o700)
    except OSError:
        pass  # somebody else's: what can be removed from it is removed
    return entered


def _take_right(here: int, name: str) -> None:
    """By a handle that needs no right to the folder, so that no link can be put in its place."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 - see above
    finally:
        os.close(handle)


def _names(here: int) -> list[str]:
    try:
        return os.listdir(here)
    except OSError:
        return []


def _identity(handle: int) -> tuple[int, int]:
    entry = os.fstat(handle)
    return entry.st_dev, entry.st_ino
