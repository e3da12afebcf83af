"""Writes the files of a volume so that a reader sees all of the old or all of the new.

kubelet's layout, because programs watch for it: the files live in a folder with a name of its
own, `..data` is a link to that folder, and each visible name is a link through `..data`. An
update makes a new folder and swaps the one link.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from runnerscale.core.tree_removal import remove_tree
from runnerscale.node.processes import VolumeFile

DATA = "..data"
VERSION = "..version_"
DIGITS_MAX = 9


def write_volume(folder: Path, files: Mapping[str, VolumeFile] | None) -> bool:
    """Bring the folder to `files`; None: it only has to exist. True if something changed."""
    if files is None:
        if folder.is_dir():
            return False
        folder.mkdir(parents=True, mode=0o777)
        folder.chmod(0o777)
        return True
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    current = _current(folder)
    if current is not None and _same(current, files):
        return False
    fresh = folder / _next_name(current)
    _clear(fresh)  # left by an agent that was killed before the swap
    _write(fresh, files)
    _swap(folder, fresh.name)
    _link_names(folder, files)
    if current is not None:
        remove_tree(current)
    return True


def _current(folder: Path) -> Path | None:
    try:
        name = str((folder / DATA).readlink())
    except OSError:
        return None
    # What else the link says was not written here. It is not followed: what it leads to would
    # be removed.
    current = folder / name
    return current if _number(name) and current.is_dir() and not current.is_symlink() else None


def _number(name: str) -> int:
    number = name.removeprefix(VERSION)
    plain = number.isascii() and number.isdigit() and len(number) <= DIGITS_MAX
    return int(number) if name.startswith(VERSION) and plain else 0


def _next_name(current: Path | None) -> str:
    return f"{VERSION}{_number(current.name) + 1 if current else 1}"


def _clear(path: Path) -> None:
    """Nothing is there any more; a link goes itself, never what it leads to."""
    if not remove_tree(path):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))


def _same(current: Path, files: Mapping[str, VolumeFile]) -> bool:
    there = {path.relative_to(current).as_posix() for path in current.rglob("*") if path.is_file()}
    if there != {os.path.normpath(name) for name in files}:
        return False
    return all((current / name).read_bytes() == file.content for name, file in files.items())


def _write(fresh: Path, files: Mapping[str, VolumeFile]) -> None:
    fresh.mkdir(mode=0o755)
    for name, file in files.items():
        path = fresh / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode & 0o777)


def _swap(folder: Path, target: str) -> None:
    link = folder / "..data_new"
    _clear(link)
    link.symlink_to(target)
    if not (folder / DATA).is_symlink():
        _clear(folder / DATA)
    link.replace(folder / DATA)


def _link_names(folder: Path, files: Mapping[str, VolumeFile]) -> None:
    wanted = {os.path.normpath(name).split("/")[0] for name in files}
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in wanted:
            _clear(entry)
    for name in wanted:
        link = folder / name
        if not link.is_symlink() or str(link.readlink()) != f"{DATA}/{name}":
            _clear(link)
            link.symlink_to(f"{DATA}/{name}")
