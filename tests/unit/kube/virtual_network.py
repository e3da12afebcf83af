"""Direct connections on a network that does not exist: those of the loop's own clock.

And who may be at their other end.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from runnerscale.core.http_connection import HttpConnection
from runnerscale.core.http_dial import Address
from tests.unit.core.test_http_connection import WHOLE, Wire


async def virtual_dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
    """Connects through the loop, which is a virtual one in these tests."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(make, address.host, address.port)
    return connection


async def lost_dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
    """A connection that its peer closed before anything could be written."""
    made, wire = make(), Wire()
    made.connection_made(wire)  # type: ignore[arg-type]
    wire.close()
    made.connection_lost(None)
    return made


class Peers:
    """Servers that answer as told, and keep what they were asked."""

    def __init__(self, *, requests_each: int = 1000, answer: bytes = WHOLE) -> None:
        self.requests: list[bytes] = []
        self.servers: list[Any] = []
        self.open: list[Any] = []
        self.connections = 0
        self.closed = 0
        self.requests_each = requests_each
        self.answer = answer

    async def start(self, *hosts: str) -> None:
        loop = asyncio.get_running_loop()
        for host in hosts:
            self.servers.append(await loop.create_server(lambda: _Peer(self), host, 80))

    async def stop(self) -> None:
        for server in self.servers:
            server.close()
        self.hang_up()
        await asyncio.sleep(1)

    def hang_up(self) -> None:
        for transport in self.open:
            transport.close()


class _Peer(asyncio.Protocol):
    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._served = 0

    def connection_made(self, transport: Any) -> None:
        self._peers.connections += 1
        self._peers.open.append(transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._peers.requests.append(data)
        self._served += 1
        if self._served > self._peers.requests_each:
            self._transport.close()  # it took the request, and nobody knows what it did
        else:
            self._transport.write(self._peers.answer)

    def connection_lost(self, error: Exception | None) -> None:
        self._peers.closed += 1
