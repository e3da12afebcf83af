"""How long a server waits for a request, and for how many at once: aiohttp has one limit for all.

Whoever connects and says nothing, or half a head, holds a file descriptor; a hundred of them and
nobody else is let in. So a head has a deadline, from its first byte or from the connection; and of
those whom the server has not let in (`let_in`) only so many may wait at once: the one that waits
for longest goes. Nobody goes in the middle of a request: watches and slow bodies have bounds of
their own, and who was let in may be silent for as long as `keepalive_timeout` says.
"""

import asyncio
import resource
from typing import Any

from aiohttp import web

HEAD_S = 10.0  # a head takes milliseconds
SHUTDOWN_S = 5.0  # for the other side's last word in TLS; the default is half a minute
STRANGERS_MIN = 16
STRANGERS_MAX = 1024
STRANGERS_SHARE = 4  # one descriptor of so many may be held by strangers


class Patience:
    """A protocol factory for `loop.create_server`, in the place of aiohttp's own."""

    def __init__(
        self,
        server: web.Server,
        *,
        keepalive_s: float,
        head_s: float = HEAD_S,
        strangers_max: int | None = None,
    ) -> None:
        """`server` is set up; its connections are made here and closed by it."""
        self._server = server
        self._options: dict[str, Any] = {
            **server._kwargs,
            "keepalive_timeout": keepalive_s,
        }
        self.head_s = head_s
        self._strangers_max = strangers_max or most_strangers()
        self.strangers: dict[_Connection, None] = {}  # the oldest first

    def __call__(self) -> asyncio.BaseProtocol:
        """A new connection."""
        loop = asyncio.get_running_loop()
        return _Connection(self, self._server, loop=loop, **self._options)

    def met(self, connection: "_Connection") -> None:
        """Somebody nobody knows yet; one of those who only wait makes room."""
        self.strangers[connection] = None
        if len(self.strangers) > self._strangers_max:
            for each in self.strangers:
                if each.waits() and each is not connection:
                    each.cut()
                    return


class _Connection(web.RequestHandler):
    """aiohttp's connection, with an eye on the clock while a head is not complete."""

    __slots__ = ("_heads", "_patience", "_timer")

    def __init__(self, patience: Patience, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience = patience
        self._timer: asyncio.TimerHandle | None = None
        self._heads = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await_head()
        self._patience.met(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._request_count != self._heads:
            self._heads = self._request_count
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None and self.waits():
            self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.let_in()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().connection_lost(exc)

    def let_in(self) -> None:
        """No stranger any more."""
        self._patience.strangers.pop(self, None)

    def waits(self) -> bool:
        """Whether it has no request under way."""
        if self._waiter is None:
            return not self._request_count  # made, and not begun to wait
        return not self._waiter.done()

    def cut(self) -> None:
        """Now, without a last word: whoever is silent does not say it either."""
        self.let_in()
        if self.transport is not None:  # uvloop's transports are of no class of asyncio
            self.transport.abort()

    def _await_head(self) -> None:
        self._timer = self._loop.call_later(self._patience.head_s, self._too_late)

    def _too_late(self) -> None:
        self._timer = None
        if self.waits():
            self.cut()


def let_in(request: web.BaseRequest) -> None:
    """Whoever sent it showed that it belongs here: it may keep its connection."""
    if isinstance(request.protocol, _Connection):
        request.protocol.let_in()


def most_strangers() -> int:
    """A part of the descriptors that this process may have."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return STRANGERS_MAX
    return max(STRANGERS_MIN, min(STRANGERS_MAX, soft // STRANGERS_SHARE))


class PatientSite(web.TCPSite):
    """A site whose connections are made by `Patience`."""

    def __init__(
        self, *args: Any, keepalive_s: float, handshake_s: float = HEAD_S, **options: Any
    ) -> None:
        """As aiohttp's; `handshake_s` is for who connects and does not speak TLS."""
        super().__init__(*args, **options)
        self._keepalive_s = keepalive_s
        self._handshake_s = handshake_s

    async def start(self) -> None:
        """Listen."""
        await web.BaseSite.start(self)
        assert self._runner.server is not None
        tls: dict[str, Any] = {}
        if self._ssl_context is not None:
            tls = {
                "ssl": self._ssl_context,
                "ssl_handshake_timeout": self._handshake_s,
                "ssl_shutdown_timeout": SHUTDOWN_S,
            }
        self._server = await asyncio.get_running_loop().create_server(
            Patience(self._runner.server, keepalive_s=self._keepalive_s),
            self._host,
            self._port,
            backlog=self._backlog,
            reuse_address=self._reuse_address,
            reuse_port=self._reuse_port,
            **tls,
        )
