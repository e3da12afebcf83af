"""Who says nothing gives its connection back; who works, watches or was let in keeps it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from runnerscale.apiserver.certificates import ensure_certificates
from runnerscale.core import patience
from runnerscale.core.clock import SystemClock
from runnerscale.core.patience import Patience, PatientSite, let_in

HEAD_S = 0.15
GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass
class World:
    port: int
    doors: Patience
    go_on: asyncio.Event
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, *, first: bytes = b"") -> "Peer":
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(first)
        while first == b"" and writer.get_extra_info("sockname")[1] not in self.known():  # noqa: ASYNC110
            await asyncio.sleep(0)
        return Peer(reader, writer)

    def known(self) -> set[int]:
        return {c.peername[1] for c in self.doors._server.connections if c.peername}


@dataclass
class Peer:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\nok")

    async def end(self) -> bytes:
        """What comes until the server hangs up."""
        async with asyncio.timeout(5):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    def is_open(self) -> bool:
        return not self.reader.at_eof() and self.reader.exception() is None


@asynccontextmanager
async def world(**options: object) -> AsyncIterator[World]:
    go_on = asyncio.Event()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/known":
            let_in(request)
        if request.path == "/watch":
            await go_on.wait()
        if request.method == "POST":
            await request.read()
        return web.Response(text="ok")

    server = web.Server(handle)
    asked = {"keepalive_s": 30.0, "head_s": HEAD_S, **options}
    doors = Patience(server, **asked)  # type: ignore[arg-type]
    listening = await asyncio.get_running_loop().create_server(doors, "127.0.0.1", 0)
    at = World(listening.sockets[0].getsockname()[1], doors, go_on)
    try:
        yield at
    finally:
        for writer in at.writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        listening.close()
        await server.shutdown(1.0)


@pytest.mark.parametrize("begun", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
async def test_silence_and_half_a_head_end_in_time(begun: bytes) -> None:
    async with world() as at:
        peer = await at.connect(first=begun)
        assert await peer.end() == b""
        assert not at.doors.strangers


async def test_a_head_that_drips_in_has_one_deadline() -> None:
    async with world() as at:
        peer = await at.connect(first=b"GET / HTTP/1.1\r\n")

        async def drip() -> None:
            while True:
                peer.writer.write(b"X: y\r\n")
                await asyncio.sleep(HEAD_S / 10)

        dripping = asyncio.create_task(drip())
        assert await peer.end() == b""
        dripping.cancel()


async def test_the_head_of_a_later_request_has_the_deadline_and_silence_before_it_has_not() -> None:
    async with world() as at:
        silent, half = await at.connect(first=GET % b""), await at.connect(first=GET % b"known")
        await silent.answer()
        await half.answer()
        half.writer.write(b"GET /")
        assert await half.end() == b""
        assert silent.is_open()
        silent.writer.write(GET % b"")
        assert await silent.answer()


async def test_whoever_waits_for_an_answer_or_sends_a_slow_body_is_not_cut() -> None:
    async with world() as at:
        watcher = await at.connect(first=GET % b"watch")
        sender = await at.connect(first=b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\na")
        silent = await at.connect()
        await silent.end()  # the deadline has passed
        sender.writer.write(b"b")
        at.go_on.set()
        assert await watcher.answer()
        sender.writer.write(b"cd")
        assert await sender.answer()


async def test_of_too_many_strangers_the_oldest_that_waits_makes_room() -> None:
    async with world(strangers_max=2, head_s=30.0) as at:
        watcher = await at.connect(first=GET % b"watch")
        friend = await at.connect(first=GET % b"known")
        await friend.answer()
        silent = await at.connect()
        asked = await at.connect(first=GET % b"")
        assert await silent.end() == b""
        await asked.answer()
        newest = await at.connect()
        assert await asked.end() == b""
        assert friend.is_open() and newest.is_open()
        at.go_on.set()
        assert await watcher.answer()


def test_strangers_hold_a_part_of_the_descriptors_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in ((20, 16), (128, 32), (1024, 256), (65_536, 1024), (-1, 1024)):
        monkeypatch.setattr(patience.resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert patience.most_strangers() == most


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
def test_the_place_is_given_back_on_the_loops_and_lines_that_we_run_on(
    make_loop: Callable[[], asyncio.AbstractEventLoop], sent: bytes, tmp_path: Path
) -> None:
    certificates = ensure_certificates(tmp_path, now_s=SystemClock().now_s())
    client = ssl.create_default_context(cadata=certificates.ca_pem)

    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="ok")

    async def work() -> None:
        runner = web.ServerRunner(web.Server(handle))
        await runner.setup()
        tls = certificates.server_context()
        site = PatientSite(runner, "127.0.0.1", 0, ssl_context=tls, keepalive_s=30.0)
        await site.start()
        port = runner.addresses[0][1]
        peers = []
        try:
            for _ in range(4):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
                writer.write(sent)
                peers.append((reader, writer))
            for reader, _ in peers[:2]:  # two may wait, the others made room
                async with asyncio.timeout(5):
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b""
            assert not peers[3][0].at_eof()
            peers[3][1].write(b"y\r\n\r\n" if sent else GET % b"")
            assert await peers[3][0].readuntil(b"\r\n\r\nok")
        finally:
            for _, writer in peers:
                writer.transport.abort()
            await runner.cleanup()

    kept = patience.most_strangers
    patience.most_strangers = lambda: 2  # type: ignore[assignment]
    try:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(work())
    finally:
        patience.most_strangers = kept
