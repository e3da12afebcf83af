"""Which process is meant: an id alone may have been given to another one meanwhile.

A process is known by its id and its start time in ticks since boot. Signals go through a pidfd
that was opened and compared first, so that a stranger is never hit.
"""

import errno
import os
import signal
from pathlib import Path

# "Cannot look" is not "is gone".
OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def boot_id() -> str:
    """Changes with every start of the machine; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def start_ticks(pid: int) -> int | None:
    """When the process started; None if there is none, or only its unburied remains.

    Raises:
        OSError: there is no descriptor free to look.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError as error:
        if error.errno in OUT_OF_FILES:
            raise
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19])


def open_process(pid: int, ticks: int) -> int | None:
    """A pidfd of exactly that process; None when it is gone. The caller closes it.

    Raises:
        OSError: there is no descriptor free to look.
    """
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        if error.errno in OUT_OF_FILES:
            raise
        return None
    try:
        same = start_ticks(pid) == ticks
    except OSError:
        os.close(handle)
        raise
    if not same:
        os.close(handle)
        return None
    return handle


def send(handle: int, number: signal.Signals) -> None:
    """A signal through a pidfd; nothing when the process is gone."""
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
