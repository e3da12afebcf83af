"""The mount namespace of one container, made without root: carries out the steps of `mounts.py`.

Runs inside the shim, between fork and exec, with nothing but the standard library. The user
keeps their own uid (no pretended root): the rights to mount vanish with the exec. Whether the
kernel allows it is found out by `probe`.
"""

# pathlib would double the memory and the start-up time of every shim.
# ruff: noqa: PTH102, PTH103, PTH115, PTH208, PTH211

import contextlib
import ctypes
import os
import stat
from collections.abc import Sequence

CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND = 1, 2, 4, 32, 4096
MS_REC, MS_SLAVE, MS_RELATIME = 16384, 1 << 19, 1 << 21
ST_RELATIME = 4096  # statvfs has its own number for this one; the lower bits are the same
KEPT_FLAGS = 2 | 4 | 8 | 1024 | 2048  # nosuid nodev noexec noatime nodiratime
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PIVOT_ROOT = {
    "x86_64": 155,
    "aarch64": 41,
    "armv7l": 218,
    "riscv64": 41,
    "ppc64le": 203,
    "s390x": 217,
}
ENTRIES_MAX = 4096  # a folder with more names than this is not rebuilt

_libc = ctypes.CDLL(None, use_errno=True)


def enter_namespace() -> None:
    """Move this process into a mount namespace of its own.

    Raises:
        OSError: the kernel, or a sandbox around us, does not allow it.
    """
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0 and _unshare(CLONE_NEWNS):
        _mount("", "/", MS_REC | MS_SLAVE)
        return
    if not _unshare(CLONE_NEWUSER | CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "no user and mount namespace")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")
    _mount("", "/", MS_REC | MS_SLAVE)


def apply(steps: Sequence[Sequence[str]], stage: str) -> None:
    """Carry out the steps. `stage`: an empty folder, for the case that / itself is rebuilt.

    Sources are opened before anything is mounted: a pod that mounts over /tmp must not hide the
    other volumes, where the node keeps its files there.

    Raises:
        OSError: with the path that could not be made.
    """
    opened = _open_sources(steps)
    for do, path, source in steps:
        if do == "rebuild":
            rebuild(path, stage)
            if path == "/":  # what was opened belongs to the old root, which is gone
                _close(opened)
                opened = _open_sources(steps)
        elif do == "mkdir":
            os.makedirs(path, exist_ok=True)
        elif do == "touch":
            _touch(path)
        elif do == "bind":
            _mount(f"/proc/self/fd/{opened[source]}", path, MS_BIND | MS_REC)
        elif do == "read_only":
            _mount("", path, MS_REMOUNT | MS_BIND | MS_RDONLY | _locked_flags(path))
    _close(opened)


def _open_sources(steps: Sequence[Sequence[str]]) -> dict[str, int]:
    sources = {source for do, _, source in steps if do == "bind"}
    return {source: os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources}


def _close(opened: dict[str, int]) -> None:
    for handle in opened.values():
        os.close(handle)


def rebuild(folder: str, stage: str) -> None:
    """Put a memory filesystem in the folder's place with all its old entries bound back."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        names = os.listdir(handle)
        if len(names) > ENTRIES_MAX:
            raise OSError(7, f"over {ENTRIES_MAX} entries, cannot make room for a mount", folder)
        target = stage if folder == "/" else folder
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        _mount("tmpfs", target, MS_NOSUID | MS_NODEV, kind="tmpfs", data=f"mode={mode:o}")
        for name in names:
            _bind_back(f"/proc/self/fd/{handle}/{name}", f"{target.rstrip('/')}/{name}")
    finally:
        os.close(handle)
    if folder == "/":
        _pivot(stage)


def die_with_parent() -> None:
    """SIGKILL for this process when the one above it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)


def adopt_orphans() -> None:
    """Processes below this one whose parents end become its own children."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def probe(folder: str) -> str:
    """Empty if mount namespaces work here, else why not. Forks; `folder` is a scratch folder."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            enter_namespace()
            rebuild(folder, folder)
            os.makedirs(f"{folder}/probe/inside")
        except OSError as error:
            said = f"{error.strerror or error} ({error.filename or 'namespace'})"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def _bind_back(source: str, target: str) -> None:
    entry = os.lstat(source)
    if stat.S_ISLNK(entry.st_mode):
        os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(entry.st_mode):
        os.mkdir(target)
    else:
        _touch(target)
    # An entry that cannot be bound (no right to enter it) could not be used before either.
    with contextlib.suppress(OSError):
        _mount(source, target, MS_BIND | MS_REC)


def _pivot(stage: str) -> None:
    os.chdir(stage)
    number = PIVOT_ROOT.get(os.uname().machine)
    if number is None or _libc.syscall(number, b".", b".") != 0:
        raise OSError(ctypes.get_errno(), "cannot change the root folder", "/")
    _libc.umount2(b".", MNT_DETACH)
    os.chdir("/")


def _locked_flags(path: str) -> int:
    flags = os.statvfs(path).f_flag
    return (flags & KEPT_FLAGS) | (MS_RELATIME if flags & ST_RELATIME else 0)


def _unshare(flags: int) -> bool:
    return int(_libc.unshare(flags)) == 0


def _mount(source: str, target: str, flags: int, *, kind: str = "", data: str = "") -> None:
    done = _libc.mount(
        os.fsencode(source) or None,
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o644))


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
