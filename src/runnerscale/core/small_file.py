"""Reading the files that we are given: regular ones, of bounded size, without ever waiting.

A pipe in the place of a file (or a terminal, or another device) would hold a process for ever: it
would neither start nor obey a signal. A file without end would fill its memory. Both are errors of
the operating system here, so that whoever reads a file needs to know of no other.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

SMALL_BYTES_MAX = 1024 * 1024  # keys, tokens, certificates, records
KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class UnfitFile(OSError):
    """What is there cannot be read as a file of ours; `strerror` says why, `filename` where."""


def open_regular(path: Path | str) -> BinaryIO:
    """The file, opened for reading; at once, whatever is there.

    Raises:
        OSError: it cannot be opened. `UnfitFile`: it is no regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            what = next((name for test, name in KINDS if test(mode)), "something else")
            raise UnfitFile(errno.EINVAL, f"it is {what}, not a file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:  # broad: whatever it was, the handle is closed again
        os.close(handle)
        raise


def read_small(path: Path | str, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
    """All that is in it.

    Raises:
        OSError: it cannot be read. `UnfitFile`: it is no regular file, or larger than that.
    """
    with open_regular(path) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise UnfitFile(errno.EFBIG, f"it is larger than {bytes_max} bytes", str(path))
    return content


def read_small_text(
    path: Path | str, *, encoding: str = "utf-8", bytes_max: int = SMALL_BYTES_MAX
) -> str:
    """The same as text.

    Raises:
        OSError: as `read_small`.
        UnicodeDecodeError: it is none.
    """
    return read_small(path, bytes_max).decode(encoding)
