"""The transport without a library in between: llhttp's parser on asyncio's own connections.

A request costs a sixth of what it costs through aiohttp (ADR 16), and requests are most of what
the controller does. It serves the common case, an API server that is reached
directly; through a proxy `AiohttpTransport` does (`cluster.py` chooses). What it promises is
`transport.py`'s `Transport`, and both pass the same tests.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote, urlencode

import yarl

from runnerscale.core.http_connection import (
    HttpConnection,
    HttpFault,
    NotHttp,
    StaleConnection,
)
from runnerscale.core.http_dial import Address, Dial, tcp_dial
from runnerscale.core.http_pool import IdleConnections
from runnerscale.core.http_request import UnsafeHeader, request_bytes
from runnerscale.kube.errors import BadAnswer, ConfigError, KubeError, Unreachable
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
)

_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~:-]*")


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
        self._host_header = base.host_port_subcomponent or ""
        self._dial = dial
        self._body_bytes_max = body_bytes_max
        self._room = asyncio.Semaphore(connections_max)
        self._idle = IdleConnections(idle_s=IDLE_CONNECTION_S, most=connections_max)
        self._streams: set[HttpConnection] = set()
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
            connection = self._idle.take(self._address) or await self._connect()
            try:
                got = await connection.request(raw)
            except StaleConnection as error:
                if error.sent and method != "GET":
                    # The server may have taken it and died: for the caller to find out.
                    raise _error_of(self.host, error) from None
                connection = await self._connect()
                try:
                    got = await connection.request(raw)
                except HttpFault as again:  # or a new one, closed before it could be used
                    raise _error_of(self.host, again) from None
            except HttpFault as error:
                raise _error_of(self.host, error) from None
            answer = Answer(connection.status, connection.headers, got)
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
            except HttpFault as error:
                raise _error_of(self.host, error) from None
            yield _HttptoolsStream(self.host, connection, silence_max_s, self._body_bytes_max)
        finally:
            self._streams.discard(connection)
            connection.abort()

    async def close(self) -> None:
        """See `Transport`."""
        self._is_closed = True
        for connection in [*self._idle.empty(), *self._streams]:
            await connection.gone()

    # -- connections ---------------------------------------------------------------------------

    async def _connect(self) -> HttpConnection:
        address = self._address

        def make() -> HttpConnection:
            return HttpConnection(made_for=address, body_bytes_max=self._body_bytes_max)

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

    def _put_back(self, connection: HttpConnection) -> None:
        if self._is_closed:
            connection.close()
        else:
            self._idle.put_back(connection)

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
        try:
            return request_bytes(method, self._prefix + target, self._host_header, headers, body)
        except UnsafeHeader as error:
            raise ConfigError(
                f"the header {error.name!r} for {self.host} holds a line end"
            ) from None


def _error_of(host: str, fault: HttpFault) -> KubeError:
    """The connection's faults become those of `errors.py`."""
    if isinstance(fault, NotHttp):
        return BadAnswer(f"{host}: {fault}")
    if isinstance(fault, StaleConnection):
        return Unreachable(f"{host} closed the connection", sent=fault.sent)
    return Unreachable(f"{host}: {fault}")


class _HttptoolsStream:
    def __init__(
        self, host: str, connection: HttpConnection, silence_max_s: float, bytes_max: int
    ) -> None:
        self._host = host
        self._connection = connection
        self._silence_max_s = silence_max_s
        self._bytes_max = bytes_max
        self.status = connection.status
        self.headers = connection.headers

    async def lines(self) -> AsyncGenerator[bytes, None]:
        splitter = LineSplitter()
        while chunk := await self._chunk():
            for line in splitter.feed(chunk):
                yield line
        if splitter.rest:
            raise Unreachable(f"{self._host} ended the answer in the middle of a line")

    async def read(self) -> bytes:
        body = bytearray()
        while chunk := await self._chunk():
            body += chunk
            if len(body) > self._bytes_max:
                raise BadAnswer(f"{self._host}: the answer is larger than {self._bytes_max} bytes")
        return bytes(body)

    async def _chunk(self) -> bytes:
        try:
            return await self._connection.chunk(self._silence_max_s)
        except HttpFault as error:
            raise _error_of(self._host, error) from None
