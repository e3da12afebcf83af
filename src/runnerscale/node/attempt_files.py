"""What the node keeps on disk about its pods, so that a killed agent loses nothing.

Files outlive processes without further ado; only `starting.json` must outlive a power failure
too, because what it announces may be good for one use.

    pods/<uid>/pod.json                         whose folder this is, and its grace period
    pods/<uid>/volumes/<volume>/                what the containers see at their mount paths
    pods/<uid>/work/<container>/                the working folder, kept between attempts
    pods/<uid>/containers/<container>/<n>/      one attempt to start it, n = 0, 1, ...
        starting.json   by the agent, stored before the shim is asked; boot id and time
        claimed         by whoever is first: the shim (it will start) or an agent after a restart
                        (it never will); made by link(2), so there is exactly one
        running.json    by the shim, after the exec
        kill_reason     by the agent, before it kills for a reason of its own (OOMKilled)
        exit.json       by the shim, when it is over
        log, log.1      see `shim_logs.py`

Only files here; what they mean for a pod is `system_processes.py`.
"""

import contextlib
import errno
import os
from pathlib import Path
from typing import TypeVar

import msgspec

from runnerscale.core.private_folder import make_private
from runnerscale.core.tree_removal import remove_tree
from runnerscale.node.process_identity import OUT_OF_FILES
from runnerscale.node.processes import ExitStatus, PodRef

T = TypeVar("T")


class PodRecord(msgspec.Struct, frozen=True):
    """`pod.json`."""

    namespace: str
    name: str
    uid: str
    grace_s: int = 30


class StartingRecord(msgspec.Struct, frozen=True):
    """`starting.json`: enough to know after a power failure whose attempt this was."""

    boot_id: str
    at_s: float
    pod: PodRecord
    earlier: int = 0  # how often the container was started before


class ClaimedRecord(msgspec.Struct, frozen=True):
    """`claimed`. `shim_pid` 0: an agent took it, it will never start."""

    shim_pid: int
    ticks: int
    at_s: float


class RunningRecord(msgspec.Struct, frozen=True):
    """`running.json`."""

    pid: int
    started_s: float


class ExitRecord(msgspec.Struct, frozen=True):
    """`exit.json`. `stage` "prepare": it ended before anything of it could run."""

    code: int
    signal: int | None = None
    reason: str = ""
    message: str = ""
    stage: str = ""
    started_s: float = 0.0
    finished_s: float = 0.0


class AttemptFolder:
    """One attempt."""

    def __init__(self, path: Path) -> None:
        """`path`: `pods/<uid>/containers/<container>/<n>`."""
        self.path = path

    @property
    def number(self) -> int:
        """n."""
        return int(self.path.name)

    def begin(self, record: StartingRecord) -> None:
        """Make it, durably: from here on it may have started."""
        self.path.mkdir(parents=True, mode=0o700)
        write_record(self.path / "starting.json", record, durably=True)
        # Up to `pods/`: the first costs a write to the disk, the others mostly nothing.
        for folder in (self.path, *list(self.path.parents)[:4]):
            sync_folder(folder)

    def take(self, at_s: float) -> bool:
        """Make sure that it never starts; False: a shim has it."""
        mine = self.path / "claimed.agent"
        try:
            write_record(mine, ClaimedRecord(0, 0, at_s))
            os.link(mine, self.path / "claimed")
        except FileExistsError:
            pass
        except OSError:  # a full disk; a shim that comes later finds no folder to claim
            if self.claimed() is None:
                remove_tree(self.path)
                return True
        finally:
            with contextlib.suppress(OSError):
                mine.unlink(missing_ok=True)
        claimed = self.claimed()
        return claimed is not None and claimed.shim_pid == 0

    def starting(self) -> StartingRecord | None:
        """`starting.json`."""
        return read_record(self.path / "starting.json", StartingRecord)

    def claimed(self) -> ClaimedRecord | None:
        """`claimed`."""
        return read_record(self.path / "claimed", ClaimedRecord)

    def running(self) -> RunningRecord | None:
        """`running.json`."""
        return read_record(self.path / "running.json", RunningRecord)

    def ended(self) -> ExitRecord | None:
        """`exit.json`."""
        return read_record(self.path / "exit.json", ExitRecord)

    def kill_reason(self) -> str:
        """Why the agent killed it; empty if it did not, or for no reason of its own."""
        try:
            return (self.path / "kill_reason").read_text()
        except OSError:
            return ""

    def note_kill_reason(self, reason: str) -> None:
        """Before the kill."""
        with contextlib.suppress(OSError):
            (self.path / "kill_reason").write_text(reason)

    def note_lost(self, record: ExitRecord) -> None:
        """Nobody was there to see how it ended: from now on this is how."""
        write_record(self.path / "exit.json", record)


class NodeFolder:
    """The data folder of one node agent."""

    def __init__(self, path: Path) -> None:
        """`path` need not exist."""
        self.path = path

    @property
    def pods(self) -> Path:
        """`pods/`."""
        return self.path / "pods"

    def pod(self, uid: str) -> Path:
        """`pods/<uid>`."""
        return self.pods / uid

    def volume(self, uid: str, volume: str) -> Path:
        """Where a volume's content is."""
        return self.pod(uid) / "volumes" / volume

    def work(self, uid: str, container: str) -> Path:
        """The working folder of a container that asks for no other."""
        return self.pod(uid) / "work" / container

    def attempts(self, uid: str, container: str) -> list[AttemptFolder]:
        """All attempts, oldest first."""
        folder = self.pod(uid) / "containers" / container
        numbered = [path for path in entries(folder) if path.name.isdigit()]
        return [AttemptFolder(path) for path in sorted(numbered, key=lambda path: int(path.name))]

    def prune(self, uid: str, container: str) -> None:
        """Forget all but the newest attempt and the one before it."""
        for attempt in self.attempts(uid, container)[:-2]:
            remove_tree(attempt.path)

    def new_attempt(self, uid: str, container: str) -> AttemptFolder:
        """The next number; nothing is made yet."""
        attempts = self.attempts(uid, container)
        number = attempts[-1].number + 1 if attempts else 0
        return AttemptFolder(self.pod(uid) / "containers" / container / str(number))

    def containers(self, uid: str) -> list[str]:
        """The containers with an attempt."""
        return sorted(path.name for path in entries(self.pod(uid) / "containers"))

    def admit(self, pod: PodRef, grace_s: int) -> None:
        """Make the pod's folder."""
        folder = self.pod(pod.uid)
        make_private(folder)
        record = PodRecord(pod.namespace, pod.name, pod.uid, grace_s=grace_s)
        write_record(folder / "pod.json", record)

    def record(self, uid: str) -> PodRecord | None:
        """Whose folder this is; None: not a pod's."""
        record = read_record(self.pod(uid) / "pod.json", PodRecord)
        if record is not None:
            return record
        # The power failed before that file was on the disk; what was started is.
        for container in self.containers(uid):
            for attempt in self.attempts(uid, container):
                begun = attempt.starting()
                if begun is not None:
                    return begun.pod
        return None

    def admitted(self) -> list[PodRecord]:
        """Every pod with a folder."""
        records = (self.record(path.name) for path in entries(self.pods))
        return [record for record in records if record is not None]

    def remove(self, uid: str) -> None:
        """Remove the pod's folder, with whatever its containers left in it."""
        # Renamed first: a half removed folder must not look like a pod after a crash.
        folder = self.pod(uid)
        doomed = self.path / "removed" / uid
        try:
            make_private(doomed.parent)
            folder.rename(doomed)
        except FileNotFoundError:
            pass
        except OSError:  # not even room for a name: then what says whose it is goes first
            (folder / "pod.json").unlink(missing_ok=True)
            remove_tree(folder / "containers")
            remove_tree(folder)
        remove_tree(doomed)

    def remove_leftovers(self) -> None:
        """What an earlier agent had begun to remove."""
        remove_tree(self.path / "removed")


def write_record(path: Path, record: msgspec.Struct, *, durably: bool = False) -> None:
    """One file, whole or not at all; `durably`: on the disk when this returns."""
    temporary = path.with_name(path.name + ".new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        text = msgspec.json.encode(record)
        if os.write(handle, text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if durably:
            os.fsync(handle)
    finally:
        os.close(handle)
    temporary.replace(path)


def sync_folder(path: Path) -> None:
    """The names in it are on the disk when this returns."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_record(path: Path, kind: type[T]) -> T | None:
    """The record in a file; None if there is none that can be read.

    Raises:
        OSError: there is no descriptor free to look.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        if error.errno in OUT_OF_FILES:
            raise
        return None
    except msgspec.DecodeError:
        return None


def exit_status(record: ExitRecord, kill_reason: str) -> ExitStatus:
    """What the agent tells of it. A reason of its own counts only if the kill is what ended it."""
    killed = record.signal == 9
    return ExitStatus(
        code=record.code,
        signal=record.signal,
        reason=kill_reason if killed and kill_reason else record.reason,
        message=record.message,
        started_s=record.started_s,
        finished_s=record.finished_s,
    )


def entries(folder: Path) -> list[Path]:
    """What is in a folder; nothing if there is no such folder.

    Raises:
        OSError: there is no descriptor free to look.
    """
    try:
        return list(folder.iterdir())
    except OSError as error:
        if error.errno in OUT_OF_FILES:
            raise
        return []
