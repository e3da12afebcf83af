"""Connections of the floor: bytes out, bytes in, and as little in between as Python can do.

No header is made into text and no body is decoded here; what is looked at is the status, and
where the answer ends. It understands what the two API servers and the pretended GitHub send to
well-formed requests, and nothing else: anything odd ends the round.
"""

import asyncio
import re
import ssl

from runnerscale.core.http_connection import HttpConnection
from runnerscale.core.http_dial import Address, tcp_dial

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_END_OF_CHUNKS = b"\r\n0\r\n\r\n"
BODILESS = (204, 304)
BODY_BYTES_MAX = 1 << 20


class WireBroke(Exception):
    """No whole answer."""


class Wire(asyncio.Protocol):
    """One connection; one exchange at a time."""

    def __init__(self) -> None:
        self.is_lost = False
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self._came = b""

    def ask(self, raw: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Send it; status and body of the answer."""
        assert self._transport is not None
        self._waiter = asyncio.get_running_loop().create_future()
        self._came = b""
        self._transport.write(raw)
        return self._waiter

    def close(self) -> None:
        """At once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready."""
        self._transport = transport  # type: ignore[assignment] # uvloop's is one in all but name

    def data_received(self, data: bytes) -> None:
        """A part of the answer, most often all of it."""
        waiter = self._waiter
        if waiter is None:
            self.close()
            return
        came = self._came = self._came + data if self._came else data
        answer = whole_answer(came)
        if answer is not None and not waiter.done():
            self._waiter = None
            waiter.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever waits gets nothing."""
        self.is_lost = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(WireBroke(f"the connection was cut ({error})"))


def whole_answer(came: bytes) -> tuple[int, bytes] | None:
    """Status and body; None: there is more to come.

    Raises:
        WireBroke: the answer says neither how long it is nor that it comes in chunks.
    """
    head = came.find(b"\r\n\r\n")
    if head < 0:
        return None
    status = int(came[9:12])
    found = _LENGTH.search(came, 0, head)
    if found is not None:
        end = head + 4 + int(found[1])
        return (status, came[head + 4 : end]) if len(came) >= end else None
    if _CHUNKED.search(came, 0, head):
        body = came[head + 2 :]  # with the line end before the first chunk
        return (status, without_chunks(body)) if body.endswith(_END_OF_CHUNKS) else None
    if status in BODILESS:
        return status, b""
    raise WireBroke("an answer without an end")


def without_chunks(body: bytes) -> bytes:
    """What is in the chunks; each begins with a line end and its length."""
    parts: list[bytes] = []
    at = 2
    while True:
        line = body.index(b"\r\n", at)
        size = int(body[at:line].partition(b";")[0], 16)
        if not size:
            return b"".join(parts)
        parts.append(body[line + 2 : line + 2 + size])
        at = line + 2 + size + 2


class OwnWire:
    """The same over the connection that our controller and listener have."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    @property
    def is_lost(self) -> bool:
        """Whether no further request can be sent."""
        return not self._connection.is_open

    async def ask(self, raw: bytes) -> tuple[int, bytes]:
        """Send it; status and body of the answer."""
        body = await self._connection.request(raw)
        return self._connection.status, body

    def close(self) -> None:
        """At once."""
        self._connection.abort()


class Wires:
    """As many connections to one server as are needed at once, kept open."""

    def __init__(
        self, host: str, port: int, tls: ssl.SSLContext | None, most: int, *, own: bool
    ) -> None:
        """`most`: at once; further requests wait until one is free. `own`: see `OwnWire`."""
        self._host, self._port, self._tls = host, port, tls
        self._idle: list[Wire | OwnWire] = []
        self._room = asyncio.Semaphore(most)
        self._own = own

    async def ask(self, raw: bytes) -> tuple[int, bytes]:
        """One request, one answer."""
        async with self._room:
            return await self._ask(raw)

    async def _ask(self, raw: bytes) -> tuple[int, bytes]:
        while self._idle:
            wire = self._idle.pop()
            if not wire.is_lost:
                break
        else:
            wire = await self._connect()
        answer = await wire.ask(raw)
        self._idle.append(wire)
        return answer

    async def _connect(self) -> Wire | OwnWire:
        if self._own:
            address = Address(self._host, self._port, self._tls, self._host)
            made = await tcp_dial(address, lambda: HttpConnection(body_bytes_max=BODY_BYTES_MAX))
            return OwnWire(made)
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(Wire, self._host, self._port, ssl=self._tls)
        return wire

    def close(self) -> None:
        """All that are idle."""
        for wire in self._idle:
            wire.close()
