"""Connections that are open and idle: which one serves next, and when they are let go.

For one server (and one set of TLS settings at a time). How many are busy at once is the
transports' affair.
"""

import asyncio
from collections import deque

from runnerscale.core.http_connection import HttpConnection

SWEEP_EVERY_S = 1.0  # those that are due within so long are closed with those that are due now


class IdleConnections:
    """The newest first. Used inside one running loop."""

    def __init__(self, *, idle_s: float, most: int) -> None:
        """Empty.

        Args:
            idle_s: seconds after which an unused connection is closed.
            most: so many are kept; one more, and the oldest goes.
        """
        self._idle_s = idle_s
        self._most = most
        self._idle: deque[tuple[float, HttpConnection]] = deque()
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, made_for: object = None) -> HttpConnection | None:
        """One that is open and was made for this; others that are met are closed."""
        # The one that was used last: the others may grow old and be closed.
        while self._idle:
            _, connection = self._idle.pop()
            if connection.made_for is made_for and connection.is_open:
                return connection
            connection.close()
        return None

    def put_back(self, connection: HttpConnection) -> None:
        """Keep it for the next request, or close it where it can serve none."""
        if not (connection.may_be_used_again and connection.is_open):
            connection.close()
            return
        loop = asyncio.get_running_loop()
        self._idle.append((loop.time(), connection))
        if len(self._idle) > self._most:
            self._idle.popleft()[1].close()
        if self._sweep is None:
            self._sweep = loop.call_later(self._idle_s, self._close_old)

    def empty(self) -> list[HttpConnection]:
        """All of them, still open: whoever asks closes them."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        connections = [connection for _, connection in self._idle]
        self._idle.clear()
        return connections

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        while self._idle and self._idle[0][0] + self._idle_s <= loop.time() + SWEEP_EVERY_S:
            self._idle.popleft()[1].close()
        self._sweep = None
        if self._idle:
            wait_s = self._idle[0][0] + self._idle_s - loop.time()
            self._sweep = loop.call_later(wait_s, self._close_old)
