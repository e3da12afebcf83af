"""What a supervisor started does not outlive it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from runnerscale.app.supervised import SUPERVISOR

PART = """
import os, sys, time
from runnerscale.app.supervised import SUPERVISOR, end_with_supervisor
end_with_supervisor()
assert SUPERVISOR not in os.environ
print(os.getpid(), flush=True)
time.sleep(60)
"""
KILLED = f"""
import os, signal, subprocess, sys
part = subprocess.Popen(
    [sys.executable, "-c", {PART!r}],
    env={{**os.environ, {SUPERVISOR!r}: str(os.getpid())}},
    stdout=subprocess.PIPE,
    start_new_session=True,
)
print(part.stdout.readline().decode(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_part_ends_when_its_supervisor_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    part = int(done.stdout)
    deadline_s = time.monotonic() + 20
    while is_there(part) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not is_there(part)


def part_of(supervisor: str) -> subprocess.CompletedProcess[bytes]:
    short = PART.replace("time.sleep(60)", "")
    environ = {**os.environ, SUPERVISOR: supervisor}
    return subprocess.run(
        [sys.executable, "-c", short], env=environ, capture_output=True, timeout=60
    )


def test_a_part_whose_supervisor_was_gone_before_it_asked_ends_at_once() -> None:
    assert part_of("1").returncode == -signal.SIGTERM


def test_nobodys_part_is_not_concerned() -> None:
    assert part_of("").returncode == 0
    assert part_of("nobody").returncode == 0
