"""Real processes below real shims: how they start, end, are found again, and what they see.

No API server here; the agent around it is `test_node_agent.py`.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import runnerscale
from runnerscale.core.bounded import run_bounded
from runnerscale.core.clock import SystemClock
from runnerscale.node.attempt_files import NodeFolder, PodRecord, StartingRecord
from runnerscale.node.config import MountMode, NodeConfig
from runnerscale.node.process_identity import boot_id, open_process, start_ticks
from runnerscale.node.processes import (
    ExitStatus,
    MountRequest,
    PodRef,
    Process,
    ProcessSpec,
    StartFailed,
    VolumeFile,
)
from runnerscale.node.system_processes import ShimProcess, SystemProcesses

POD = PodRef("jobs", "one", "uid-1")
WHOSE = PodRecord("jobs", "one", "uid-1")
ENV = {"PATH": os.environ["PATH"]}
MODES = [MountMode.NAMESPACE, MountMode.REWRITE]

Make = Callable[..., SystemProcesses]


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes agents' machines on one data folder; ends whatever is left."""
    made: list[SystemProcesses] = []

    def make(
        mounts: MountMode = MountMode.AUTO,
        *,
        log_bytes: int = 1_000_000,
        visible: tuple[str, ...] = (),
    ) -> SystemProcesses:
        config = NodeConfig(mounts=mounts, log_file_max_bytes=log_bytes, visible=visible)
        made.append(SystemProcesses(tmp_path / "node", config=config, clock=SystemClock()))
        return made[-1]

    yield make
    for each in made:
        await each.close()
    last = make()
    for pod in await last.recover():
        for container in pod.containers.values():
            if container.latest and container.latest.exit is None:
                container.latest.kill()
                await end_of(container.latest)
    await last.close()


async def end_of(process: Process, within_s: float = 10.0) -> ExitStatus:
    """How it ends."""
    ended = asyncio.Event()
    process.on_exit(ended.set)
    async with asyncio.timeout(within_s):
        await ended.wait()
    assert process.exit is not None
    return process.exit


async def run(machine: SystemProcesses, script: str, **fields: object) -> tuple[ExitStatus, str]:
    """A shell script to its end; its exit and what it said."""
    process = await start(machine, script, **fields)
    status = await end_of(process)
    return status, machine.log_tail(POD, "runner", lines=1000, max_bytes=100_000)


async def start(machine: SystemProcesses, script: str, **fields: object) -> Process:
    await machine.admit(POD, grace_s=5)
    given: dict[str, object] = {"env": ENV, **fields}
    spec = ProcessSpec(POD, "runner", ("sh", "-c", script), **given)  # type: ignore[arg-type]
    return await machine.start(spec)


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def own_kib(pid: int) -> int:
    """Memory that nobody else has."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    lines = (line for line in rollup.splitlines() if line.startswith("Private_"))
    return sum(int(line.split()[1]) for line in lines)


def shim_of(process: Process) -> int:
    assert isinstance(process, ShimProcess)
    claimed = process._attempt.claimed()
    assert claimed is not None
    return claimed.shim_pid


async def until(true: Callable[[], object], within_s: float = 10.0) -> None:
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110 - other processes tell nobody
            await asyncio.sleep(0.01)


# --- how they end -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [
        ("exit 0", 0, None),
        ("exit 7", 7, None),
        ("kill -9 $$", 137, 9),
        ("kill -15 $$", 143, 15),
    ],
)
async def test_exit_codes_and_signals(
    machine: Make, script: str, code: int, number: int | None
) -> None:
    status, _ = await run(machine(), script)
    assert (status.code, status.signal) == (code, number)
    assert 0 < status.started_s <= status.finished_s


async def test_a_command_that_does_not_exist_ends_with_start_error(machine: Make) -> None:
    here = machine()
    await here.admit(POD, grace_s=5)
    process = await here.start(ProcessSpec(POD, "runner", ("/absent/command",), ENV))
    assert process.exit is not None
    assert (process.exit.code, process.exit.reason) == (128, "StartError")
    assert process.exit.message == "/absent/command: No such file or directory"


async def test_terminate_reaches_the_whole_group_and_kill_what_does_not_heed_it(
    machine: Make, tmp_path: Path
) -> None:
    here = machine()
    heard = tmp_path / "heard"
    script = (
        f"trap 'echo term > {heard}' TERM; (trap '' TERM; sleep 100) & while :; do sleep 0.05; done"
    )
    process = await start(here, script)
    await asyncio.sleep(0.2)
    process.terminate()
    await until(heard.exists)
    assert process.exit is None
    process.kill()
    assert (await end_of(process)).code == 137


async def test_what_a_container_leaves_behind_ends_with_it(machine: Make, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # A daemon in a session of its own, whose parent is gone.
    script = f"setsid sh -c 'sleep 100 & echo $! > {pids}; wait' & sleep 0.3; exit 0"
    status, _ = await run(machine(), script)
    assert status.code == 0
    assert start_ticks(int(pids.read_text())) is None


async def test_a_reason_of_the_agents_own_is_told_with_its_kill(machine: Make) -> None:
    here = machine()
    process = await start(here, "sleep 100")
    process.kill(reason="OOMKilled")
    status = await end_of(process)
    assert (status.code, status.reason) == (137, "OOMKilled")


async def test_a_killed_shim_takes_its_container_along_and_its_end_is_unknown(
    machine: Make, tmp_path: Path
) -> None:
    here = machine()
    pid = tmp_path / "pid"
    process = await start(here, f"echo $$ > {pid}; exec sleep 100")
    await until(lambda: pid.exists() and pid.read_text())
    os.kill(shim_of(process), signal.SIGKILL)
    status = await end_of(process)
    assert (status.code, status.reason) == (137, "ContainerStatusUnknown")
    await until(lambda: start_ticks(int(pid.read_text())) is None)


# --- the agent's own restart --------------------------------------------------------------------


async def test_a_running_container_is_found_again_and_its_end_is_heard_of(machine: Make) -> None:
    first = machine()
    process = await start(first, "sleep 0.6; exit 5")
    await first.close()
    second = machine()
    (pod,) = await second.recover()
    assert (pod.pod, pod.grace_s) == (POD, 5)
    found = pod.containers["runner"]
    assert found.attempts == 1
    assert found.latest is not None
    assert found.latest.exit is None
    assert found.latest.started_s == pytest.approx(process.started_s, abs=0.1)
    assert (await end_of(found.latest)).code == 5


async def test_an_end_that_nobody_saw_is_found(machine: Make) -> None:
    first = machine()
    process = await start(first, "exit 3")
    shim = shim_of(process)
    await first.close()
    await until(lambda: start_ticks(shim) is None)
    found = (await machine().recover())[0].containers["runner"]
    assert found.latest is not None
    assert found.latest.exit is not None
    assert found.latest.exit.code == 3


async def test_attempts_are_counted_over_restarts_and_the_one_before_is_remembered(
    machine: Make,
) -> None:
    first = machine()
    for earlier, code in enumerate((1, 2, 3)):
        status, _ = await run(first, f"exit {code}", earlier=earlier)
        assert status.code == code
    await first.close()
    found = (await machine().recover())[0].containers["runner"]
    assert found.attempts == 3
    assert found.previous is not None
    assert found.previous.code == 2


async def test_an_announced_start_that_no_shim_claimed_never_happens(
    machine: Make, tmp_path: Path
) -> None:
    # The agent was killed between its record and its request.
    here = machine()
    await here.admit(POD, grace_s=5)
    folder = NodeFolder(tmp_path / "node")
    attempt = folder.new_attempt(POD.uid, "runner")
    attempt.begin(StartingRecord(boot_id(), 1.0, WHOSE))
    found = (await here.recover())[0].containers["runner"]
    assert found.attempts == 0
    # A shim that comes late finds it taken and starts nothing.
    late = attempt.path / "late"
    late.write_text("{}")
    with pytest.raises(FileExistsError):
        os.link(late, attempt.path / "claimed")


async def test_a_start_before_a_reboot_counts_as_started(machine: Make, tmp_path: Path) -> None:
    # The claim may not have reached the disk before the power failed; the announcement had.
    here = machine()
    await here.admit(POD, grace_s=5)
    attempt = NodeFolder(tmp_path / "node").new_attempt(POD.uid, "runner")
    attempt.begin(StartingRecord("another boot", 1.0, WHOSE))
    found = (await here.recover())[0].containers["runner"]
    assert found.attempts == 1
    assert found.latest is not None
    assert found.latest.exit is not None
    assert found.latest.exit.reason == "ContainerStatusUnknown"


async def test_a_process_with_the_same_id_is_not_taken_for_ours() -> None:
    me = os.getpid()
    ticks = start_ticks(me)
    assert ticks is not None
    handle = open_process(me, ticks)
    assert handle is not None
    os.close(handle)
    assert open_process(me, ticks + 1) is None


async def test_a_dead_spawner_is_replaced(machine: Make) -> None:
    here = machine()
    (await start(here, "sleep 0.01")).terminate()
    spawner = here._spawner._process
    assert spawner is not None
    spawner.kill()
    spawner.wait()
    status, said = await run(here, "echo again", earlier=1)
    assert (status.code, said) == (0, "again\n")


async def test_containers_outlive_the_spawner_and_the_agent(machine: Make) -> None:
    here = machine()
    process = await start(here, "sleep 100")
    spawner = here._spawner._process
    assert spawner is not None
    spawner.kill()
    await asyncio.sleep(0.2)
    assert process.exit is None
    assert start_ticks(shim_of(process)) is not None
    process.kill()
    await end_of(process)


# --- what they see ------------------------------------------------------------------------------

SEE = "import json,os,sys; p=os.environ['SEEN']; print(open(p).read()); print(sys.argv[1])"


@pytest.mark.parametrize("mode", MODES)
async def test_a_python_process_reads_its_files_at_the_mount_path(
    machine: Make, mode: MountMode
) -> None:
    here = machine(mode)
    await here.admit(POD, grace_s=5)
    await here.write_volume(POD, "cfg", {"config.json": VolumeFile(b'{"a": 1}')})
    spec = ProcessSpec(
        POD,
        "listener",
        (sys.executable, "-I", "-c", SEE, "--config=/etc/gha-listener/config.json"),
        {**ENV, "SEEN": "/etc/gha-listener/config.json"},
        mounts=(MountRequest("cfg", "/etc/gha-listener", read_only=True),),
    )
    assert (await end_of(await here.start(spec))).code == 0
    seen, argument = here.log_tail(POD, "listener", lines=10, max_bytes=1000).splitlines()
    assert json.loads(seen) == {"a": 1}
    real = mode is MountMode.REWRITE
    assert argument.endswith(
        "/volumes/cfg/config.json" if real else "/etc/gha-listener/config.json"
    )
    assert "gha-listener" not in names("/etc")


@pytest.mark.parametrize("mode", MODES)
async def test_a_refreshed_secret_is_seen_by_a_running_process(
    machine: Make, mode: MountMode
) -> None:
    here = machine(mode)
    await here.admit(POD, grace_s=5)
    await here.write_volume(POD, "cfg", {"v": VolumeFile(b"old\n")})
    script = "cat $SEEN; until grep -q new $SEEN; do sleep 0.02; done; cat $SEEN"
    process = await start(
        here,
        script,
        env={**ENV, "SEEN": "/run/test-secret/v"},
        mounts=(MountRequest("cfg", "/run/test-secret", read_only=True),),
    )
    await until(lambda: here.log_tail(POD, "runner", lines=1, max_bytes=100) == "old\n")
    await here.write_volume(POD, "cfg", {"v": VolumeFile(b"new\n")})
    assert (await end_of(process)).code == 0
    assert here.log_tail(POD, "runner", lines=9, max_bytes=100) == "old\nnew\n"


async def test_in_a_namespace_every_kind_of_path_exists_and_the_machine_is_as_before(
    machine: Make,
) -> None:
    here = machine(MountMode.NAMESPACE)
    await here.admit(POD, grace_s=5)
    await here.write_volume(POD, "cfg", {"one.conf": VolumeFile(b"1\n"), "two": VolumeFile(b"2\n")})
    await here.write_volume(POD, "work", None)
    script = """
    cat /etc/rs-test/deep/two /etc/rs-one.conf
    echo kept > /rs-top/sub/out && cat /rs-top/sub/out
    echo inner > /rs-top/nested/x && cat /rs-top/nested/x
    (echo no > /etc/rs-test/deep/two) 2>/dev/null && echo writable
    ls /etc/passwd /usr/bin/env /proc/self/stat | wc -l
    pwd
    """
    mounts = (
        MountRequest("cfg", "/etc/rs-test/deep", read_only=True),
        MountRequest("cfg", "/etc/rs-one.conf", sub_path="one.conf", read_only=True),
        MountRequest("work", "/rs-top"),
        MountRequest("work", "/rs-top/nested", sub_path="part"),
    )
    before = names("/"), names("/etc")
    status, said = await run(
        here, "mkdir -p /rs-top/sub;" + script, mounts=mounts, working_dir="/rs-top/sub"
    )
    assert said.splitlines() == ["2", "1", "kept", "inner", "3", "/rs-top/sub"], status
    assert (names("/"), names("/etc")) == before


async def test_a_volume_over_the_nodes_own_files_hides_neither_volumes_nor_images(
    machine: Make, tmp_path: Path
) -> None:
    # A pod may mount an empty folder over /tmp while the node keeps its data below it.
    image, above = tmp_path / "image", str(tmp_path)
    image.mkdir()
    (image / "tool").write_text("tool\n")
    here = machine(MountMode.NAMESPACE, visible=(str(image),))
    await here.admit(POD, grace_s=5)
    await here.write_volume(POD, "over", None)
    await here.write_volume(POD, "cfg", {"f": VolumeFile(b"cfg\n")})
    mounts = (
        MountRequest("over", above),
        MountRequest("cfg", "/etc/rs-test/deep", read_only=True),
        MountRequest("cfg", "/rs-top", read_only=True),
        MountRequest("cfg", f"{above}/inside", read_only=True),
    )
    script = f"ls {above}; cat {image}/tool /etc/rs-test/deep/f /rs-top/f {above}/inside/f"
    status, said = await run(here, script, mounts=mounts, working_dir=f"{above}/w")
    assert said.split() == ["image", "inside", "w", "tool", "cfg", "cfg", "cfg"], status


async def test_without_mounts_a_container_has_a_fresh_folder_of_its_own(machine: Make) -> None:
    status, said = await run(machine(), "pwd; ls | wc -l; umask")
    assert status.code == 0
    folder, count, umask = said.splitlines()
    assert folder.endswith("/work/runner")
    assert (count, umask) == ("0", "0022")


async def test_the_signals_of_a_container_are_those_of_a_fresh_process(machine: Make) -> None:
    # Python ignores SIGPIPE, `nohup` SIGHUP; a shell pipeline in a job must not inherit that.
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        _, said = await run(machine(), "grep SigIgn /proc/self/status; yes | head -1")
    finally:
        signal.signal(signal.SIGHUP, before)
    ignored, line = said.splitlines()
    # 32 and 33 are the C library's own; who started the tests may have them ignored for good.
    reserved = (1 << 31) | (1 << 32)
    assert int(ignored.split()[1], 16) & ~reserved == 0
    assert line == "y"


async def test_only_the_given_variables_are_there_whatever_their_bytes(machine: Make) -> None:
    odd = b"\xff".decode("utf-8", "surrogateescape")
    _, said = await run(machine(), "env | sort | od -c | head -3", env={**ENV, "ODD": odd})
    assert "377" in said
    assert "HOME" not in said


async def test_a_missing_volume_part_is_a_configuration_error(machine: Make) -> None:
    here = machine()
    await here.admit(POD, grace_s=5)
    await here.write_volume(POD, "cfg", {})
    mounts = (MountRequest("cfg", "/etc/x", sub_path="absent", read_only=True),)
    with pytest.raises(StartFailed, match=r"CreateContainerConfigError: .*'absent'"):
        await start(here, "true", mounts=mounts)


async def test_a_mount_that_cannot_be_made_starts_nothing_and_may_be_tried_again(
    machine: Make,
) -> None:
    here = machine(MountMode.NAMESPACE)
    await here.admit(POD, grace_s=5)
    await here.write_volume(POD, "cfg", {"f": VolumeFile(b"1")})
    bad = (MountRequest("cfg", "/proc/rs-test", read_only=True),)
    with pytest.raises(StartFailed, match="CreateContainerError"):
        await start(here, "true", mounts=bad)
    found = (await here.recover())[0].containers["runner"]
    assert found.attempts == 0
    status, _ = await run(here, "exit 0")
    assert status.code == 0


UNPRIVILEGED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from runnerscale.node import shim_mounts
os.chdir("/")
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    shim_mounts._libc.prctl(4, 1, 0, 0, 0)  # as an exec would: its own /proc files are its own
try:
    shim_mounts.enter_namespace()
except OSError as error:
    print("no namespace:", error); sys.exit(77)
uid = os.getuid()
shim_mounts.apply([["rebuild", "/etc", ""], ["mkdir", "/etc/rs/a", ""],
    ["bind", "/etc/rs/a", sys.argv[2]], ["read_only", "/etc/rs/a", ""],
    ["rebuild", "/", ""], ["mkdir", "/rs-top", ""], ["bind", "/rs-top", sys.argv[2]]], sys.argv[3])
print(open("/etc/rs/a/file").read(), open("/rs-top/file").read(), os.path.exists("/etc/passwd"))
try:
    open("/etc/rs/a/other", "w")
except OSError as error:
    print(error.strerror)
print(os.getuid() == uid != 0)
"""


def test_mounts_need_no_root(tmp_path: Path) -> None:
    # As an ordinary user, whoever runs the test: that user keeps their own id inside.
    scratch = Path("/tmp") / f"rs-mounts-{os.getpid()}"  # entered by another user
    stage, source = scratch / "stage", scratch / "source"
    for folder in (scratch, stage, source):
        folder.mkdir(mode=0o755)
    (source / "file").write_text("seen")
    package = str(Path(runnerscale.__file__).parents[1])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", UNPRIVILEGED, package, str(source), str(stage)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    finally:
        (source / "file").unlink()
        for folder in (stage, source, scratch):
            folder.rmdir()
    if done.returncode == 77:
        pytest.skip(f"this machine allows no user namespaces: {done.stdout}")
    assert done.stdout.splitlines() == ["seen seen True", "Read-only file system", "True"], done


# --- beside, logs, cost -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_a_probe_command_sees_what_the_container_sees(machine: Make, mode: MountMode) -> None:
    here = machine(mode)
    await here.admit(POD, grace_s=5)
    await here.write_volume(POD, "cfg", {"ok": VolumeFile(b"fine")})
    mounts = (MountRequest("cfg", "/etc/rs-probe", read_only=True),)
    spec = ProcessSpec(POD, "runner", ("true",), ENV, mounts=mounts)
    good = await here.run_beside(spec, ["cat", "/etc/rs-probe/ok"], timeout_s=5)
    assert (good.code, good.output) == (0, "fine")
    bad = await here.run_beside(spec, ["sh", "-c", "exit 4"], timeout_s=5)
    assert bad.code == 4
    with pytest.raises(StartFailed, match="no end within"):
        await here.run_beside(spec, ["sleep", "100"], timeout_s=0.3)


async def test_a_talkative_container_is_bounded_and_loses_no_recent_line(machine: Make) -> None:
    here = machine(log_bytes=100_000)
    status, said = await run(here, "seq 1 50000")
    assert status.code == 0
    assert said.splitlines()[-3:] == ["49998", "49999", "50000"]
    folder = NodeFolder(here._folder.path).attempts(POD.uid, "runner")[-1].path
    assert sum(path.stat().st_size for path in folder.glob("log*")) < 300_000


async def test_removing_a_pod_removes_its_folder(machine: Make) -> None:
    here = machine()
    await run(here, "mkdir -p a/b; chmod 500 a; echo x > f")
    await here.remove(POD)
    assert not NodeFolder(here._folder.path).pod(POD.uid).exists()
    assert await here.recover() == []


async def test_many_containers_start_quickly_with_a_light_shim_each(machine: Make) -> None:
    here = machine()

    async def one(number: int) -> Process:
        pod = PodRef("jobs", f"p{number}", f"uid-{number}")
        await here.admit(pod, grace_s=1)
        return await here.start(ProcessSpec(pod, "runner", ("sleep", "100"), ENV))

    began_s = SystemClock().monotonic_s()
    processes = await run_bounded(range(40), one, limit=8)
    # 8 ms each on an idle core; the bound only catches a start that makes an interpreter.
    assert SystemClock().monotonic_s() - began_s < 10
    assert own_kib(shim_of(processes[0])) < 4096
    for process in processes:
        process.kill()
    for process in processes:
        await end_of(process)
