"""Where a connection leads, and how one is made: the seam under both direct transports.

A virtual network gives a dial of its own. What a failed dial means is the transports' to say;
which names are asked for, and in which order their addresses are tried, is the dial's.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from runnerscale.core.http_connection import HttpConnection

# A peer that vanished without a word (node lost, half-open connection) is noticed after
# KEEPALIVE_IDLE_S + KEEPALIVE_TRIES * KEEPALIVE_EVERY_S, also on a quiet watch.
KEEPALIVE_IDLE_S = 30
KEEPALIVE_EVERY_S = 10
KEEPALIVE_TRIES = 3


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect to. `tls` None: plain TCP."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    server_name: str


Dial = Callable[[Address, Callable[[], HttpConnection]], Awaitable[HttpConnection]]


async def tcp_dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
    """A connection over real sockets.

    Raises:
        OSError: nobody there, no such name, or the TLS handshake failed.
        UnicodeError: the host is a name that no resolver is asked for.
    """
    transport, connection = await asyncio.get_running_loop().create_connection(
        make,
        address.host,
        address.port,
        ssl=address.tls,
        server_hostname=address.server_name if address.tls is not None else None,
    )
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is not None:
        keep_watch(sock)
    return connection


def keep_watch(connected: socket.socket) -> None:
    """Let the system notice that the peer of this socket is gone."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_EVERY_S),
        ("TCP_KEEPCNT", KEEPALIVE_TRIES),
    ):
        if hasattr(socket, name):  # not on every system
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
