"""The real machine behind `processes.py`: folders, volumes, and processes below a shim.

What waits for the disk (fsync, big volumes, removal) is done in threads, so that it does not hold
up the other pods; a few small files are not worth the way to a thread and back. What the files
mean after a crash is decided here: an attempt that may have started counts as started.
"""

import asyncio
import contextlib
import errno
import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from runnerscale.core.clock import Clock
from runnerscale.node import process_identity, volume_files
from runnerscale.node.attempt_files import (
    AttemptFolder,
    NodeFolder,
    PodRecord,
    StartingRecord,
    exit_status,
)
from runnerscale.node.config import MountMode, NodeConfig
from runnerscale.node.log_files import LogReader
from runnerscale.node.mounts import (
    Bind,
    There,
    kept_visible,
    plan_steps,
    rewrite,
    rewrite_argument,
    rewrite_environment,
)
from runnerscale.node.processes import (
    CommandResult,
    PodRef,
    Process,
    ProcessSpec,
    RecoveredContainer,
    RecoveredPod,
    StartFailed,
    VolumeFile,
)
from runnerscale.node.shim_process import ShimProcess
from runnerscale.node.spawner import Spawner, SpawnerLost

log = structlog.get_logger(__name__)

START_TIMEOUT_S = 60.0  # mounts on a slow filesystem; a start takes milliseconds
SMALL_BYTES = 64 * 1024
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
FREE_MIN = 24  # descriptors: a start needs a few for a moment, and the agent must still see


class SystemProcesses:
    """Implements `processes.ProcessStarter` on this machine."""

    def __init__(self, folder: Path, *, config: NodeConfig, clock: Clock) -> None:
        """`folder`: the node's data folder; made when needed."""
        self._folder = NodeFolder(folder)
        self._config = config
        self._clock = clock
        self._spawner = Spawner(clock)
        self._boot_id = process_identity.boot_id()
        self._namespaces: bool | None = None  # not asked yet
        self._watched: list[ShimProcess] = []

    async def recover(self) -> Sequence[RecoveredPod]:
        """See `processes.ProcessStarter`."""
        await asyncio.to_thread(self._folder.remove_leftovers)
        records = await asyncio.to_thread(self._folder.admitted)
        return [self._recovered(record) for record in records]

    async def recover_pod(self, pod: PodRef) -> RecoveredPod | None:
        """See `processes.ProcessStarter`."""
        record = self._folder.record(pod.uid)
        return None if record is None else self._recovered(record)

    async def admit(self, pod: PodRef, *, grace_s: int) -> None:
        """See `processes.ProcessStarter`."""
        with self._storing():
            self._folder.admit(pod, grace_s)

    async def write_volume(
        self, pod: PodRef, volume: str, files: Mapping[str, VolumeFile] | None
    ) -> None:
        """See `processes.ProcessStarter`."""
        folder = self._folder.volume(pod.uid, volume)
        with self._storing():
            if sum(len(file.content) for file in (files or {}).values()) <= SMALL_BYTES:
                volume_files.write_volume(folder, files)
            else:
                await asyncio.to_thread(volume_files.write_volume, folder, files)

    async def start(self, spec: ProcessSpec) -> Process:
        """See `processes.ProcessStarter`."""
        _check_free_files()
        details = await self._details(spec)
        with self._storing():
            attempt = await asyncio.to_thread(self._begin, spec)
        details |= {
            "folder": str(attempt.path),
            "stage": str(attempt.path / "root"),
            "log_max_bytes": self._config.log_file_max_bytes,
        }
        try:
            answer = await self._spawner.ask("start", details, timeout_s=START_TIMEOUT_S)
        except (SpawnerLost, OSError) as error:
            return await self._after_silence(attempt, str(error))
        if "error" in answer:
            return self._after_refusal(attempt, answer)
        return self._follow(attempt, started_s=float(answer["started_s"]))

    async def run_beside(
        self, spec: ProcessSpec, argv: Sequence[str], *, timeout_s: float
    ) -> CommandResult:
        """See `processes.ProcessStarter`."""
        details = await self._details(replace(spec, argv=tuple(argv)))
        stage = self._folder.pod(spec.pod.uid) / "stage"
        stage.mkdir(exist_ok=True)
        details |= {"stage": str(stage), "timeout_s": timeout_s}
        try:
            answer = await self._spawner.ask("run", details, timeout_s=timeout_s + 10)
        except (SpawnerLost, OSError) as error:
            raise StartFailed("ExecFailed", str(error)) from error
        if "error" in answer:
            raise StartFailed("ExecFailed", answer["error"])
        return CommandResult(int(answer["code"]), answer["said"])

    def log_tail(self, pod: PodRef, container: str, *, lines: int, max_bytes: int) -> str:
        """See `processes.ProcessStarter`."""
        attempts = self._folder.attempts(pod.uid, container)
        if not attempts:
            return ""
        return LogReader(attempts[-1].path).tail(lines=lines, max_bytes=max_bytes)

    async def remove(self, pod: PodRef) -> None:
        """See `processes.ProcessStarter`."""
        await asyncio.to_thread(self._folder.remove, pod.uid)

    async def close(self) -> None:
        """See `processes.ProcessStarter`."""
        for process in self._watched:
            process.release()
        self._watched.clear()
        self._spawner.close()

    async def mount_problem(self) -> str:
        """Empty if containers can have mount namespaces here, else why not."""
        scratch = self._folder.path / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        try:
            answer = await self._spawner.ask("probe", {"folder": str(scratch)}, timeout_s=10)
        except (SpawnerLost, OSError) as error:
            return str(error)
        return str(answer.get("said", answer.get("error", "")))

    # --- starting --------------------------------------------------------------------------

    @contextlib.contextmanager
    def _storing(self) -> Iterator[None]:
        """What the disk does not take keeps one container from starting, and no more than that."""
        try:
            yield
        except OSError as error:
            said = f"{error.filename or self._folder.path}: {error.strerror or error}"
            if error.errno in FULL:
                said = f"{said}. Free some of the node's disk; it is tried again"
            raise StartFailed("CreateContainerError", said) from error

    def _begin(self, spec: ProcessSpec) -> AttemptFolder:
        attempt = self._folder.new_attempt(spec.pod.uid, spec.container)
        pod = self._folder.record(spec.pod.uid) or PodRecord(
            spec.pod.namespace, spec.pod.name, spec.pod.uid
        )
        now_s = self._clock.now_s()
        attempt.begin(StartingRecord(self._boot_id, now_s, pod, earlier=spec.earlier))
        (attempt.path / "root").mkdir()
        self._folder.prune(spec.pod.uid, spec.container)
        return attempt

    async def _details(self, spec: ProcessSpec) -> dict[str, Any]:
        namespaced = await self._uses_namespaces()
        with self._storing():
            return self._details_now(spec, namespaced)

    def _details_now(self, spec: ProcessSpec, namespaced: bool) -> dict[str, Any]:
        binds = self._binds(spec)
        own = self._folder.work(spec.pod.uid, spec.container)
        own.mkdir(parents=True, exist_ok=True)
        cwd = spec.working_dir or str(own)
        if not Path(rewrite(cwd, binds)).exists():
            binds = [*binds, Bind(str(own), cwd)]  # an image would have this folder
        if not binds or namespaced:
            steps = plan_steps(binds, lookup=_lookup, resolve=os.path.realpath) if binds else None
            return {
                "argv": list(spec.argv),
                "env": dict(spec.env),
                "cwd": cwd,
                "steps": steps and [[step.do, step.path, step.source] for step in steps],
            }
        return {
            "argv": [rewrite_argument(argument, binds) for argument in spec.argv],
            "env": rewrite_environment(spec.env, binds),
            "cwd": rewrite(cwd, binds),
            "steps": None,
        }

    def _binds(self, spec: ProcessSpec) -> list[Bind]:
        binds = []
        for mount in spec.mounts:
            if mount.host_path:
                source = Path(mount.host_path)
            else:
                source = self._folder.volume(spec.pod.uid, mount.volume)
            if mount.sub_path:
                volume, source = source.resolve(), (source / mount.sub_path).resolve()
                if not source.is_relative_to(volume):
                    # A container that ran before may have left a link there.
                    raise StartFailed(
                        "CreateContainerConfigError",
                        f'subPath {mount.sub_path!r} leads out of volume "{mount.volume}"',
                    )
                if not source.exists() and not mount.read_only:
                    source.mkdir(parents=True)
            if not source.exists():
                raise StartFailed(
                    "CreateContainerConfigError",
                    f'volume "{mount.volume}" has no {mount.sub_path or mount.host_path!r}',
                )
            binds.append(Bind(str(source), mount.path, read_only=mount.read_only))
        return [*binds, *kept_visible(binds, self._config.visible)]

    async def _uses_namespaces(self) -> bool:
        if self._config.mounts is MountMode.REWRITE:
            return False
        if self._namespaces is None:
            problem = await self.mount_problem()
            self._namespaces = not problem
            if problem:
                log.info("containers get no mount namespace", problem=problem)
        if not self._namespaces and self._config.mounts is MountMode.NAMESPACE:
            raise StartFailed(
                "CreateContainerError",
                "this machine allows no mount namespace; set mounts to auto or rewrite",
            )
        return self._namespaces

    def _after_refusal(self, attempt: AttemptFolder, answer: dict[str, Any]) -> Process:
        if answer.get("stage") == "exec":
            # As with a container runtime: an attempt that ended at once, with StartError.
            process = ShimProcess(attempt, started_s=self._clock.now_s(), clock=self._clock)
            process.settle()
            return process
        attempt.take(self._clock.now_s())
        raise StartFailed("CreateContainerError", str(answer["error"]))

    async def _after_silence(self, attempt: AttemptFolder, why: str) -> Process:
        now_s = self._clock.now_s()
        if await asyncio.to_thread(attempt.take, now_s):
            raise StartFailed("CreateContainerError", f"the spawner is gone: {why}")
        return self._follow(attempt, started_s=now_s)

    def _follow(self, attempt: AttemptFolder, *, started_s: float) -> Process:
        process = ShimProcess(attempt, started_s=started_s, clock=self._clock)
        process.follow()
        self._watched = [other for other in self._watched if other.exit is None]
        self._watched.append(process)
        return process

    # --- after a restart -------------------------------------------------------------------

    def _recovered(self, record: PodRecord) -> RecoveredPod:
        pod = PodRef(record.namespace, record.name, record.uid)
        names = self._folder.containers(pod.uid)
        containers = {name: self._recover_container(pod, name) for name in names}
        return RecoveredPod(pod, record.grace_s, containers)

    def _recover_container(self, pod: PodRef, container: str) -> RecoveredContainer:
        attempts = self._folder.attempts(pod.uid, container)
        started = [attempt for attempt in attempts if self._may_have_started(attempt)]
        if not started:
            return RecoveredContainer(attempts=0, latest=None)
        newest = started[-1]
        begun = newest.starting()
        before = started[-2].ended() if len(started) > 1 else None
        return RecoveredContainer(
            attempts=(begun.earlier if begun else 0) + 1,
            latest=self._recover_attempt(newest),
            previous=exit_status(before, started[-2].kill_reason()) if before else None,
        )

    def _may_have_started(self, attempt: AttemptFolder) -> bool:
        ended = attempt.ended()
        if ended is not None:
            return ended.stage != "prepare"
        claimed = attempt.claimed()
        if claimed is not None:
            return claimed.shim_pid != 0
        begun = attempt.starting()
        if begun is None:
            return False  # not even announced: the shim was never asked
        # Taking it keeps a late shim out. After a reboot the claim itself may have been lost.
        return not attempt.take(self._clock.now_s()) or begun.boot_id != self._boot_id

    def _recover_attempt(self, attempt: AttemptFolder) -> Process:
        claimed, running, begun = attempt.claimed(), attempt.running(), attempt.starting()
        started_s = running.started_s if running else claimed.at_s if claimed else 0.0
        process = ShimProcess(attempt, started_s=started_s, clock=self._clock)
        same_boot = begun is not None and begun.boot_id == self._boot_id
        if attempt.ended() is None and claimed and same_boot:
            process.follow()
        else:
            process.settle()
        self._watched.append(process)
        return process


def _check_free_files() -> None:
    """No container is begun that could then not be followed."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        used = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough
    except OSError as error:
        used = limit if error.errno in process_identity.OUT_OF_FILES else 0
    if limit != resource.RLIM_INFINITY and limit - used < FREE_MIN:
        raise StartFailed(
            "CreateContainerError",
            f"the node agent has {used} of {limit} file descriptors in use. Raise its limit"
            " (ulimit -n, LimitNOFILE=); it is tried again when others have ended",
        )


def _lookup(path: str) -> There:
    real = Path(path)
    if not real.exists():
        return There.NOTHING
    return There.FOLDER if real.is_dir() else There.FILE
