"""The agent's end of the spawner: requests out, answers in, a new spawner when one has died.

The spawner itself, and what it forks, is `shim.py`. When it dies between request and answer,
nobody here knows whether the request was carried out: `SpawnerLost` says so, and the files of
the attempt decide (`system_processes.py`).
"""

import array
import asyncio
import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import structlog

import runnerscale
from runnerscale.core.clock import Clock

log = structlog.get_logger(__name__)

PACKET_MAX_BYTES = 64 * 1024
SEND_TRIES_MAX = 100
SEND_WAIT_S = 0.02
BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from runnerscale.node.shim import main; main(int(sys.argv[2]))"
)


class SpawnerLost(Exception):
    """No answer: the request may or may not have been carried out."""


class Spawner:
    """One child process, started when first needed and again when it is gone."""

    def __init__(self, clock: Clock) -> None:
        """Nothing is started yet."""
        self._clock = clock
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def ask(self, op: str, details: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Send a request, wait for its answer.

        Raises:
            SpawnerLost: the spawner died or did not answer in time.
            OSError: it cannot be started.
        """
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._send(json.dumps({"op": op, "id": number}).encode(), details)
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise SpawnerLost(f"no answer within {timeout_s:.0f} s") from None
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """Let it end; what it has forked goes on."""
        self._drop("closed")

    async def _send(self, packet: bytes, details: dict[str, Any]) -> None:
        # The details hold secrets and may be large: a file without a name, never the disk.
        handle = os.memfd_create("runnerscale-start", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(handle), "wb") as file:
                file.write(json.dumps(details).encode())
            for _ in range(SEND_TRIES_MAX):
                with contextlib.suppress(BlockingIOError):
                    self._send_now(packet, handle)
                    return
                await self._clock.sleep(SEND_WAIT_S)
            raise SpawnerLost("it does not take requests")
        finally:
            os.close(handle)

    def _send_now(self, packet: bytes, handle: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [handle]))]
        try:
            self._connected().sendmsg([packet], rights)
        except (BrokenPipeError, ConnectionResetError):
            self._drop("died")
            self._connected().sendmsg([packet], rights)

    def _connected(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        source = str(Path(runnerscale.__file__).resolve().parents[1])
        argv = [sys.executable, "-I", "-S", "-c", BOOT, source, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and file
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
            )
        ours.setblocking(False)
        self._socket = ours
        asyncio.get_running_loop().add_reader(ours, self._receive)
        log.debug("spawner started", pid=self._process.pid)
        return ours

    def _receive(self) -> None:
        if self._socket is None:
            return
        try:
            packet = self._socket.recv(PACKET_MAX_BYTES)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            log.warning("spawner ended, the next start makes a new one")
            self._drop("died")
            return
        answer = json.loads(packet)
        waiting = self._waiting.pop(answer["id"], None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _drop(self, why: str) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1)
            self._process = None
        lost, self._waiting = self._waiting, {}
        for waiting in lost.values():
            if not waiting.done():
                waiting.set_exception(SpawnerLost(why))
