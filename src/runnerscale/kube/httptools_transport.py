"""The transport without a library in between: llhttp's parser on asyncio's own connections.

A request costs a sixth of what it costs through aiohttp (docs/performance.md), and requests are
most of what the controller does. It serves the common case, an API server that is reached
directly; through a proxy `AiohttpTransport` does (`cluster.py` chooses). What it promises is
`transport.py`'s `Transport`, and both pass the same tests.
"""

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import yarl

from runnerscale.kube.errors import BadAnswer, ConfigError, Unreachable
from runnerscale.kube.http_connection import HttpConnection, StaleConnection
from runnerscale.kube.transport import (
    BODY_BYTES_MAX,
    CONNECT_TIMEOUT_S,
    CONNECTIONS_MAX,
    IDLE_CONNECTION_S,
    NO_HEADERS,
    Answer,
    Endpoint,
    LineSplitter,
    Stream,
    keep_watch,
)

SWEEP_EVERY_S = 1.0  # those that are due within so long are closed with those that are due now
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~:-]*")
_UNSAFE = re.compile(r"[\r\n\0]")


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


class HttptoolsTransport:
    """See `Transport`. Connections are made when they are needed, inside the running loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        dial: Dial = tcp_dial,
        connections_max: int = CONNECTIONS_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        """`dial` makes connections: virtual networks give their own.

        Raises:
            ConfigError: `endpoint.server` is no URL of a server, or names a proxy.
        """
        if endpoint.proxy_url:
            raise ConfigError(f"{endpoint.server} is reached through a proxy, not directly")
        base = yarl.URL(endpoint.server)
        if base.scheme not in ("http", "https") or not base.host or not base.port:
            raise ConfigError(f"{endpoint.server!r} is not the URL of a server")
        self._prefix = base.raw_path.rstrip("/")
        self.host = f"{base.host}:{base.port}"
        tls = endpoint.tls
        if tls is None and base.scheme == "https":
            tls = ssl.create_default_context()
        name = endpoint.server_name or base.host
        self._address = Address(base.host, base.port, tls, name)
        self._host_line = f"Host: {base.host_port_subcomponent}\r\n"
        self._dial = dial
        self._body_bytes_max = body_bytes_max
        self._room = asyncio.Semaphore(connections_max)
        self._idle: deque[tuple[float, HttpConnection]] = deque()
        self._streams: set[HttpConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.on_untrusted: Callable[[], bool] | None = None  # True: there is a new authority

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """New connections use this from now on, and the old ones serve no further request."""
        old = self._address
        self._address = Address(old.host, old.port, tls, old.server_name)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_HEADERS,
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes | None = None,
    ) -> Answer:
        """See `Transport`."""
        raw = self._raw(method, path, query, headers, body)
        async with self._room:
            connection = self._idle_connection() or await self._connect()
            try:
                answer = await connection.request(raw)
            except StaleConnection as error:
                if error.sent and method != "GET":
                    # The server may have taken it and died: for the caller to find out.
                    raise _broken(error) from None
                connection = await self._connect()
                try:
                    answer = await connection.request(raw)
                except StaleConnection as again:  # a new one, closed before it could be used
                    raise _broken(again) from None
            self._put_back(connection)
            return answer

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] = NO_HEADERS,
        headers: Mapping[str, str] = NO_HEADERS,
        silence_max_s: float,
    ) -> AsyncGenerator[Stream, None]:
        """See `Transport`. On a connection of its own: a watch never waits behind calls."""
        raw = self._raw("GET", path, query, headers, None)
        connection = await self._connect()
        self._streams.add(connection)
        try:
            try:
                await connection.stream(raw, silence_max_s=silence_max_s)
            except StaleConnection as error:  # closed before it could be used
                raise _broken(error) from None
            yield _HttptoolsStream(connection, silence_max_s, self._body_bytes_max)
        finally:
            self._streams.discard(connection)
            connection.abort()

    async def close(self) -> None:
        """See `Transport`."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        connections = [connection for _, connection in self._idle] + list(self._streams)
        self._idle.clear()
        for connection in connections:
            await connection.gone()

    # -- connections ---------------------------------------------------------------------------

    async def _connect(self) -> HttpConnection:
        address = self._address

        def make() -> HttpConnection:
            return HttpConnection(self.host, made_for=address, body_bytes_max=self._body_bytes_max)

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await self._dial(address, make)
        except TimeoutError as error:
            raise Unreachable(
                f"{self.host}: no connection within {CONNECT_TIMEOUT_S:.0f} s", sent=False
            ) from error
        except ssl.SSLCertVerificationError as error:
            # Waiting does not heal it: whoever set the authority or the name has to, or has.
            if self.on_untrusted is not None and self.on_untrusted():
                raise Unreachable(f"{self.host}: it has a new authority", sent=False) from error
            raise ConfigError(f"{self.host}: its certificate is not trusted: {error}") from error
        except OSError as error:
            why = error.strerror or str(error)
            raise Unreachable(f"{self.host}: no connection: {why}", sent=False) from error
        except UnicodeError as error:  # "a..b", a label of 64 letters: no resolver is asked
            raise ConfigError(f"{self.host} holds no name of a host") from error

    def _idle_connection(self) -> HttpConnection | None:
        """The one that was used last: the others may grow old and be closed."""
        while self._idle:
            _, connection = self._idle.pop()
            if connection.made_for is self._address and connection.is_open:
                return connection
            connection.close()
        return None

    def _put_back(self, connection: HttpConnection) -> None:
        if self._is_closed or not (connection.may_be_used_again and connection.is_open):
            connection.close()
            return
        loop = asyncio.get_running_loop()
        self._idle.append((loop.time(), connection))
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_CONNECTION_S, self._close_old)

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        while self._idle and self._idle[0][0] + IDLE_CONNECTION_S <= loop.time() + SWEEP_EVERY_S:
            self._idle.popleft()[1].close()
        self._sweep = None
        if self._idle:
            wait_s = self._idle[0][0] + IDLE_CONNECTION_S - loop.time()
            self._sweep = loop.call_later(wait_s, self._close_old)

    # -- bytes ---------------------------------------------------------------------------------

    def _raw(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> bytes:
        target = path if _PLAIN_PATH.fullmatch(path) else quote(path, safe="/%:@!$&'()*+,;=~")
        if query:
            target = f"{target}?{urlencode(query, quote_via=quote)}"
        head = [f"{method} {self._prefix}{target} HTTP/1.1\r\n", self._host_line]
        for name, value in headers.items():
            if _UNSAFE.search(value) or _UNSAFE.search(name):
                raise ConfigError(f"the header {name!r} for {self.host} holds a line end")
            head.append(f"{name}: {value}\r\n")
        if body is not None:
            head.append(f"Content-Length: {len(body)}\r\n")
        elif method not in ("GET", "HEAD"):
            head.append("Content-Length: 0\r\n")
        head.append("\r\n")
        start = "".join(head).encode("utf-8")
        return start + body if body else start


def _broken(error: StaleConnection) -> Unreachable:
    return Unreachable(str(error), sent=error.sent)


class _HttptoolsStream:
    def __init__(self, connection: HttpConnection, silence_max_s: float, bytes_max: int) -> None:
        self._connection = connection
        self._silence_max_s = silence_max_s
        self._bytes_max = bytes_max
        self.status = connection.status
        self.headers = connection.headers

    async def lines(self) -> AsyncGenerator[bytes, None]:
        splitter = LineSplitter()
        while chunk := await self._connection.chunk(self._silence_max_s):
            for line in splitter.feed(chunk):
                yield line
        if splitter.rest:
            raise Unreachable(f"{self._connection.host} ended the answer in the middle of a line")

    async def read(self) -> bytes:
        body = bytearray()
        while chunk := await self._connection.chunk(self._silence_max_s):
            body += chunk
            if len(body) > self._bytes_max:
                raise BadAnswer(
                    f"{self._connection.host}: the answer is larger than {self._bytes_max} bytes"
                )
        return bytes(body)
