"""A TCP relay of a test: it can fall silent without closing, cut, and change its certificate.

Silent means: whoever is connected keeps the connection, bytes are taken and go nowhere, as when
a machine in between has lost its state. New connections are relayed, unless they are held too.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

CHUNK_BYTES = 64 * 1024


class Relay:
    """Relays to a port of this machine."""

    def __init__(
        self,
        onward_port: int,
        *,
        tls: ssl.SSLContext | None = None,
        onward_tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls`: what connections are asked with; it may be exchanged."""
        self.onward_port = onward_port
        self.tls = tls
        self.port = 0
        self.taken = 0
        self.holds_new = False
        self.swallowed = 0  # pieces that came on silent connections
        self._onward_tls = onward_tls
        self._server: asyncio.Server | None = None
        self._silent: set[asyncio.StreamWriter] = set()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["Relay"]:
        """Listening for the length of the block."""
        await self.listen()
        try:
            yield self
        finally:
            await self.close()

    async def listen(self) -> None:
        """On the port it had before, if it had one."""
        assert self._server is None
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def use_tls(self, tls: ssl.SSLContext) -> None:
        """From now on with this certificate; who is connected is cut."""
        await self.close()
        self.tls = tls
        await self.listen()

    async def close(self) -> None:
        """Nobody is connected any more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def fall_silent(self, *, new_too: bool = False) -> int:
        """Whoever is connected now gets nothing through any more; how many that are."""
        self._silent |= self._open
        self.holds_new = new_too
        return len(self._open)

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()
        self._silent.clear()

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # asyncio would report it as an error
            await self._relay(reader, writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        self._open.add(writer)
        if self.holds_new:
            self._silent.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            there, onward = await asyncio.open_connection(
                "127.0.0.1", self.onward_port, ssl=self._onward_tls
            )
        except OSError:
            writer.transport.abort()
            self._open.discard(writer)
            return
        try:
            pumps = [
                asyncio.create_task(self._pump(reader, onward, writer)),
                asyncio.create_task(self._pump(there, writer, writer)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)
        finally:
            onward.transport.abort()
            if writer not in self._silent:
                writer.transport.abort()
                self._open.discard(writer)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, whose: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            while chunk := await source.read(CHUNK_BYTES):
                if whose in self._silent:
                    self.swallowed += 1
                    continue
                sink.write(chunk)
                await sink.drain()
        if whose in self._silent:
            await asyncio.Event().wait()
