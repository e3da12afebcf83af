"""The files between a step and its runner: written anew for each step, read as a stranger's.

A step may put anything in their place: a link to a device, a pipe, a gigabyte. So nothing is
opened that could block, only plain files are read, and no more than a bound; what cannot be used
is said in one sentence, which fails the step (`demo_runner_job.py`). Standard library only,
except for `core/tree_removal.py`, which is so itself.
"""

from __future__ import annotations

import errno
import os
import stat

from runnerscale.core.tree_removal import remove_tree

FILE_MAX = 1 << 20  # bytes
ENV, PATH = "GITHUB_ENV", "GITHUB_PATH"
NAMES = (ENV, PATH, "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")  # the last two are not read


class BadFile(Exception):
    """What a step left in one of its files cannot be used; the text says why."""


def write_fresh(path: str, text: str = "") -> None:
    """A new file, whatever was there before.

    Raises:
        OSError: that cannot go, or there is no room.
    """
    if not remove_tree(path):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def read_env(path: str) -> list[tuple[str, str]]:
    """`name=value` lines and `name<<END` blocks, as in GITHUB_ENV.

    Raises:
        BadFile: it is not that.
    """
    pairs: list[tuple[str, str]] = []
    lines = enumerate(_lines(path, ENV), start=1)
    for number, line in lines:
        if not line.strip():
            continue
        name, mark, end = line.partition("<<")
        if not mark or "=" in name:
            name, mark, value = line.partition("=")
        else:
            inner: list[str] = []
            for _, text in lines:
                if text == end:
                    break
                inner.append(text)
            else:
                raise BadFile(
                    f"{ENV} has no line {end[:80]!r} that ends the value of line {number}"
                )
            value = "\n".join(inner)
        if not mark or not name:
            raise BadFile(f"{ENV} has neither name=value nor name<<END in line {number}")
        pairs.append((name, value))
    return pairs


def read_path(path: str) -> list[str]:
    """The folders in GITHUB_PATH.

    Raises:
        BadFile: it is not that.
    """
    return [line for line in _lines(path, PATH) if line.strip()]


def _lines(path: str, name: str) -> list[str]:
    data = _read(path, name)
    if len(data) > FILE_MAX:
        raise BadFile(f"{name} is larger than {FILE_MAX >> 10} KiB")
    lines = data.decode(errors="replace").replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise BadFile(f"{name} has a NUL character in line {number}")
    return lines


def _read(path: str, name: str) -> bytes:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        return b""
    except OSError as problem:
        what = "is a link" if problem.errno == errno.ELOOP else problem.strerror
        raise BadFile(f"{name} cannot be read: {what}") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise BadFile(f"{name} cannot be read: it is not a plain file any more")
        found = b""
        while len(found) <= FILE_MAX and (data := os.read(handle, FILE_MAX)):
            found += data
        return found
    except OSError as problem:
        raise BadFile(f"{name} cannot be read: {problem.strerror}") from None
    finally:
        os.close(handle)
