"""A bound on the open connections of a small HTTP server: metrics, probes, profiles.

Whoever can reach such a port could open connections and say nothing until the process has no file
descriptor left for its real work. A new one therefore pushes the oldest out: the kubelet and
Prometheus are through in a moment, whoever only holds on is who has to go. No timers.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

CONNECTIONS_MAX = 64


class Connection(Protocol):
    """What is asked of a connection."""

    @property
    def transport(self) -> asyncio.BaseTransport | None:
        """None once it is gone."""


class Server(Protocol):
    """What is asked of aiohttp's server: it makes the connections and knows the open ones."""

    @property
    def connections(self) -> Sequence[Connection]:
        """The oldest first."""

    def __call__(self) -> asyncio.BaseProtocol:
        """A new one."""


class FewConnections:
    """A protocol factory for `loop.create_server`."""

    def __init__(self, server: Server, most: int = CONNECTIONS_MAX) -> None:
        self._server = server
        self._most = most

    def __call__(self) -> asyncio.BaseProtocol:
        """A new connection, after the oldest have made room."""
        found = self._server.connections
        for connection in found[: max(0, len(found) - self._most + 1)]:
            if isinstance(connection.transport, asyncio.WriteTransport):
                connection.transport.abort()  # not close: its reader may never read the rest
        return self._server()
