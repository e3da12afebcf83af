"""The small process above each container: it outlives the agent and writes down how it ended.

One *spawner* per agent is a Python without site and packages; it forks a *shim* per container,
which costs a millisecond and little memory where a fresh interpreter costs thirty. The shim
claims its attempt (so that a late one never starts), forks the container, pumps its log, passes
signals on, ends what the container left behind, and stores the exit status.

Standard library only; no part of the agent is imported. The other side is `system_processes.py`,
the files are described in `attempt_files.py`. It is a process of its own on the machine: the one
place in the node that reads the machine's clock.
"""

# pathlib would double the memory and the start-up time of every shim.
# ruff: noqa: PTH105, PTH108, PTH123, PTH208

import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from runnerscale.node import shim_mounts
from runnerscale.node.shim_logs import LogFile

MESSAGE_MAX_BYTES = 64 * 1024
OUTPUT_MAX_BYTES = 10 * 1024
RESERVED_BYTES = 4096  # a block
CHUNK_BYTES = 64 * 1024
CLEANUP_S = 5.0  # to end what a container left behind
DRAIN_S = 1.0  # for the last lines of its log
NOT_STARTED = 128
# All of them: what the agent was started with ignored (`nohup`) is not for containers.
SIGNALS_RESET = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}

Json = dict[str, Any]


def main(handle: int) -> None:
    """The spawner: a request is one packet and one file with the details; ends with the agent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # shims are reaped by the kernel
    agent = socket.socket(fileno=handle)
    agent.set_inheritable(False)
    gc.freeze()
    while True:
        packet, files, _, _ = socket.recv_fds(agent, MESSAGE_MAX_BYTES, 1)
        if not packet:
            return
        request = json.loads(packet)
        try:
            pid = os.fork()
        except OSError as error:
            say(agent, {"id": request["id"], "error": f"fork: {error.strerror}"})
            pid = -1
        if pid == 0:
            serve(agent, request, files)
        for file in files:
            os.close(file)


def serve(agent: socket.socket, request: Json, files: list[int]) -> None:
    """In the forked process: one request, then the end of it."""
    code = 0
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        with os.fdopen(files[0], "rb") as details:
            details.seek(0)
            spec: Json = json.load(details)
        if request["op"] == "start":
            run_container(agent, request["id"], spec)
        elif request["op"] == "run":
            run_command(agent, request["id"], spec)
        else:
            said = shim_mounts.probe(spec["folder"])
            say(agent, {"id": request["id"], "said": said})
    except BaseException as error:  # noqa: BLE001 - nothing may climb into the spawner's loop
        say(agent, {"id": request["id"], "error": f"shim: {type(error).__name__}: {error}"})
        code = 1
    finally:
        os._exit(code)


def say(agent: socket.socket, answer: Json) -> None:
    """Answer, if the agent is still there."""
    with contextlib.suppress(OSError):
        agent.send(json.dumps(answer).encode())


# --- a container -------------------------------------------------------------------------------


def run_container(agent: socket.socket, request_id: int, spec: Json) -> None:
    """The shim of one container attempt, from its claim to its exit status."""
    folder = spec["folder"]
    reserve(folder)
    if not claim(folder):
        say(agent, {"id": request_id, "error": "this attempt is taken"})
        return
    shim_mounts.adopt_orphans()
    container = Container(folder, int(spec["log_max_bytes"]))
    problem = container.start(spec)
    spec.clear()
    if problem:
        write_record(folder, "exit", problem | {"finished_s": time.time()})
        say(agent, {"id": request_id, "error": problem["message"], "stage": problem["stage"]})
        return
    running = {"pid": container.pid, "started_s": container.started_s}
    with contextlib.suppress(OSError):  # a full disk is no reason to end what has begun
        write_record(folder, "running", running)
    say(agent, {"id": request_id, "shim_pid": os.getpid(), **running})
    agent.close()
    container.watch()
    write_record(folder, "exit", container.ending())


def reserve(folder: str) -> None:
    """Room for the exit status: once it runs, a full disk must not make it be forgotten."""
    file = os.open(f"{folder}/exit.new", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.write(file, b" " * RESERVED_BYTES) < RESERVED_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(file)


def claim(folder: str) -> bool:
    """Whether this attempt is ours to start: exactly one of shim and agent gets it, for ever."""
    temporary = f"{folder}/claimed.{os.getpid()}"
    record = {"shim_pid": os.getpid(), "ticks": start_ticks(), "at_s": time.time()}
    try:
        write_file(temporary, record)
        os.link(temporary, f"{folder}/claimed")
    except OSError:
        return False
    with contextlib.suppress(OSError):
        os.unlink(temporary)
    return True


def start_ticks() -> int:
    """When this process started, in ticks since boot: tells it from a later one with its id."""
    with open("/proc/self/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def write_record(folder: str, name: str, record: Json) -> None:
    """One file, whole or not at all."""
    temporary = f"{folder}/{name}.new"
    write_file(temporary, record)
    os.replace(temporary, f"{folder}/{name}.json")


def write_file(path: str, record: Json) -> None:
    # Not emptied first: what was reserved would be given away.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(file, os.write(file, json.dumps(record).encode()))
    finally:
        os.close(file)


class Container:
    """A forked container and what the shim knows of it."""

    def __init__(self, folder: str, log_max_bytes: int) -> None:
        self.pid = 0
        self.started_s = 0.0
        self._status: int | None = None  # of waitpid, once it has ended
        self._kill_asked = False
        self._streams: dict[int, str] = {}
        self._log = LogFile(folder, log_max_bytes)
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._pass_on(signal.SIGTERM))
        signal.signal(signal.SIGUSR1, lambda *_: self._pass_on(signal.SIGKILL))

    def start(self, spec: Json) -> Json | None:
        """Fork and exec. The answer is None, or the record of a failure."""
        pipes = {name: os.pipe() for name in ("stdout", "stderr")}
        self.pid, failed = fork_into(spec, pipes["stdout"][1], pipes["stderr"][1])
        for name, (reading, writing) in pipes.items():
            os.close(writing)
            os.set_blocking(reading, False)
            self._streams[reading] = name
        silence()
        if failed:
            os.waitpid(self.pid, 0)
            return {"code": NOT_STARTED, "reason": "StartError", **failed}
        self.started_s = time.time()
        return None

    def watch(self) -> None:
        """Until it has ended, its left-overs are gone and its log is stored."""
        poll = select.poll()
        for handle in (*self._streams, self._wake_in):
            poll.register(handle, select.POLLIN)
        while self._status is None:
            for handle, _ in poll.poll():
                if handle == self._wake_in:
                    self._drain_wakeups()
                elif not self._pump(handle):
                    poll.unregister(handle)
            self._reap()
        end_descendants(self.pid)
        self._drain()
        self._log.close()

    def ending(self) -> Json:
        """The exit record."""
        status = self._status or 0
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = 128 + killed if killed else os.WEXITSTATUS(status)
        record: Json = {"code": code, "started_s": self.started_s, "finished_s": time.time()}
        if killed:
            record["signal"] = killed
        return record

    def _pass_on(self, number: int) -> None:
        if self._status is not None or not self.pid:
            return
        try:
            os.killpg(self.pid, number)
        except OSError:
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self._status = status

    def _pump(self, handle: int) -> bool:
        """Take one chunk; False at the end of the stream."""
        try:
            chunk = os.read(handle, CHUNK_BYTES)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        self._log.write(self._streams[handle], chunk)
        return True

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_in, 4096)

    def _drain(self) -> None:
        until_s = time.monotonic() + DRAIN_S
        waiting = set(self._streams)
        while waiting and time.monotonic() < until_s:
            readable, _, _ = select.select(list(waiting), [], [], 0)
            if not readable:
                return  # someone outside still holds the pipe; nothing more is coming
            waiting -= {handle for handle in readable if not self._pump(handle)}


# --- between fork and exec ---------------------------------------------------------------------


def fork_into(spec: Json, stdout: int, stderr: int) -> tuple[int, Json]:
    """The pid of the container, and what kept it from starting (empty: it runs)."""
    reading, writing = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        become(spec, parent, stdout, stderr, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    return pid, json.loads(said) if said else {}


def become(spec: Json, parent: int, stdout: int, stderr: int, report: int) -> None:
    """In the forked process: namespace, mounts, folder, exec. Never returns."""
    stage = "prepare"
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in SIGNALS_RESET:
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((nothing, 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        if spec["steps"] is not None:
            shim_mounts.enter_namespace()
            shim_mounts.apply(spec["steps"], spec["stage"])
        os.umask(0o022)
        stage = "exec"
        os.chdir(spec["cwd"])
        shim_mounts.die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606 - what pods are for
    except BaseException as error:  # noqa: BLE001 - all that is left to do is to say it
        what = error.strerror if isinstance(error, OSError) else str(error)
        about = getattr(error, "filename", None) or (spec["argv"][0] if stage == "exec" else "")
        about = os.fsdecode(about) if isinstance(about, bytes) else about
        message = f"{about}: {what}" if about else f"{what}"
        os.write(report, json.dumps({"stage": stage, "message": message}).encode())
    finally:
        os._exit(NOT_STARTED - 1)


def silence() -> None:
    """The shim itself speaks to nobody: its terminal may be gone long before it is."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(nothing, target)
    os.close(nothing)


def end_descendants(group: int) -> None:
    """SIGKILL for everything the container left: its group, and orphans that came to us."""
    until_s = time.monotonic() + CLEANUP_S
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    while time.monotonic() < until_s:
        for pid in own_children():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.005)


def own_children() -> list[int]:
    """Process ids whose parent is this process."""
    me = os.getpid()
    with contextlib.suppress(OSError), open(f"/proc/self/task/{me}/children", "rb") as file:
        return [int(pid) for pid in file.read().split()]
    # A kernel without that file: look at everybody.
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent_of(name) == me]


def parent_of(pid: str) -> int:
    """The parent of a process; 0 when it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])
    return 0


# --- a command beside a container --------------------------------------------------------------


def run_command(agent: socket.socket, request_id: int, spec: Json) -> None:
    """Run to the end or to the deadline; answer with exit code and output."""
    shim_mounts.adopt_orphans()
    reading, writing = os.pipe()
    pid, failed = fork_into(spec, writing, writing)
    os.close(writing)
    if failed:
        say(agent, {"id": request_id, "error": failed["message"]})
        return
    until_s = time.monotonic() + float(spec["timeout_s"])
    output = read_until_end(reading, until_s)
    status = wait_until(pid, until_s)
    end_descendants(pid)
    if status is None:
        say(agent, {"id": request_id, "error": f"no end within {spec['timeout_s']} s"})
        return
    code = os.waitstatus_to_exitcode(status)
    said = output.decode(errors="replace")
    say(agent, {"id": request_id, "code": code if code >= 0 else 128 - code, "said": said})


def read_until_end(handle: int, until_s: float) -> bytes:
    """The head of what comes out; the rest is read and dropped."""
    output = b""
    while (left_s := until_s - time.monotonic()) > 0:
        if not select.select([handle], [], [], left_s)[0]:
            break
        chunk = os.read(handle, CHUNK_BYTES)
        if not chunk:
            break
        output = (output + chunk)[:OUTPUT_MAX_BYTES]
    return output


def wait_until(pid: int, until_s: float) -> int | None:
    """The status of waitpid; None at the deadline."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        if time.monotonic() >= until_s:
            return None
        time.sleep(0.002)


if __name__ == "__main__":
    main(int(sys.argv[1]))
