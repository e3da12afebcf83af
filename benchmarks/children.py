"""Processes that a benchmark starts and ends by their ids, each with a log of its own.

Should the benchmark itself be killed, a guard ends what it left (`tests/kubernetes/processes.py`).
They do not hear Ctrl-C: whoever started them ends them in order.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kubernetes.processes import GUARDS

ROOT = Path(__file__).resolve().parents[1]
STOP_TIMEOUT_S = 15.0
TAIL_BYTES = 3_000


class Child:
    """One process, ended by its id."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        """Its id."""
        return self.process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self.process.returncode is not None

    def tail(self) -> str:
        """What it said last."""
        return self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")

    async def stop(self) -> None:
        """In order, or at last by force."""
        if self.has_ended:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            await self.kill()
        GUARDS.ended(self.pid)

    async def kill(self) -> None:
        """At once."""
        if not self.has_ended:
            self.process.kill()
            await self.process.wait()
        GUARDS.ended(self.pid)


async def start(
    name: str,
    words: Sequence[str],
    log: Path,
    environ: Mapping[str, str] | None = None,
    *,
    module: str = "runnerscale.cli.main",
    is_ordered: bool = False,
) -> Child:
    """`runnerscale WORDS...` as a process, or another module; `is_ordered`: on its stdin."""
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *words,
            cwd=ROOT,
            env={**os.environ, **(environ or {})},
            stdin=asyncio.subprocess.PIPE if is_ordered else asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    GUARDS.started(process.pid)
    return Child(name, process, log)
