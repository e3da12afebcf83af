"""The one seam to the network: bytes out, bytes in.

`Transport` is all that the client needs; a test hands in a class of a few lines, a faster HTTP
stack can take its place later. `AiohttpTransport` is today's. Every error of aiohttp, ssl and
the sockets below becomes an error of `errors.py` here and nowhere else. Status codes are not
looked at: an answer is an answer. Repeats, deadlines and tokens are `client.py`.

Traffic to the API server never follows `https_proxy` of the environment (contract C2 W54): a
proxy is used only where the kubeconfig names one.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import yarl
from multidict import CIMultiDictProxy

from runnerscale.core.plain_text import one_line
from runnerscale.kube.errors import BadAnswer, ConfigError, Unreachable

CONNECTIONS_MAX = 100  # calls at once; more wait in line within their deadline
SAID_MAX = 200  # characters of a library's own words in a message of ours
CONNECT_TIMEOUT_S = 10.0  # a host that does not answer a SYN for so long is down
IDLE_CONNECTION_S = 30.0  # closed by us before a server or balancer does it under a request
LINE_BYTES_MAX = 16 * 1024 * 1024  # ten times the largest object that etcd stores
CHUNK_BYTES = 256 * 1024
# A page of 500 objects is a few MiB; only one of the largest Secrets would come near this.
BODY_BYTES_MAX = 256 * 1024 * 1024
# A peer that vanished without a word (node lost, half-open connection) is noticed after
# KEEPALIVE_IDLE_S + KEEPALIVE_TRIES * KEEPALIVE_EVERY_S, also on a quiet watch.
KEEPALIVE_IDLE_S = 30
KEEPALIVE_EVERY_S = 10
KEEPALIVE_TRIES = 3

NO_HEADERS: Mapping[str, str] = {}
_SKIPPED_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer whose body comes line by line."""

    @property
    def status(self) -> int:
        """The HTTP code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    def lines(self) -> AsyncGenerator[bytes, None]:
        """The lines without their ends; ends when the server ends the answer in order."""
        ...

    async def read(self) -> bytes:
        """The whole body instead: for an answer that says no."""
        ...


class Transport(Protocol):
    """What reaches the API server. Raises only `Unreachable`, `BadAnswer`, `ConfigError`."""

    @property
    def host(self) -> str:
        """`host:port`, for metrics and messages."""
        ...

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_HEADERS,
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes | None = None,
    ) -> Answer:
        """One request, one answer; the caller bounds the time."""
        ...

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] = NO_HEADERS,
        headers: Mapping[str, str] = NO_HEADERS,
        silence_max_s: float,
    ) -> AbstractAsyncContextManager[Stream]:
        """A GET whose answer goes on and on; `silence_max_s` without a byte is `Unreachable`."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API server is and how its connection is made.

    `tls` None with an `https` server: the machine's own roots. `server_name`: the name the
    certificate is checked against, where it is not the host of `server`.
    """

    server: str
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    proxy_url: str = ""


ConnectorFactory = Callable[[int], aiohttp.BaseConnector]


def tcp_connector(connections_max: int) -> aiohttp.BaseConnector:
    """Real sockets; 0: without bound."""
    return aiohttp.TCPConnector(
        limit=connections_max,
        keepalive_timeout=IDLE_CONNECTION_S,
        socket_factory=_watched_socket,
    )


def _watched_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_EVERY_S),
        ("TCP_KEEPCNT", KEEPALIVE_TRIES),
    ):
        if hasattr(socket, name):  # not on every system
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


class AiohttpTransport:
    """The transport on aiohttp. Sessions are made at first use, inside the running loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connector_factory: ConnectorFactory = tcp_connector,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        """`connector_factory` gets the bound of its pool: virtual networks give their own."""
        base = yarl.URL(endpoint.server)
        self._origin = str(base.origin())
        self._prefix = base.path.rstrip("/")
        self.host = f"{base.host}:{base.port}"
        self._tls: ssl.SSLContext | bool = endpoint.tls if endpoint.tls is not None else True
        self._server_name = endpoint.server_name or None
        self._proxy = endpoint.proxy_url or None
        self._connector_factory = connector_factory
        self._connections_max = connections_max
        self._calls: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """New connections use this from now on (a client certificate was renewed)."""
        self._tls = tls

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
        if self._calls is None:
            self._calls = self._session(self._connections_max)
        with _mapped_errors(self.host):
            async with self._calls.request(
                method,
                self._url(path, query),
                headers=headers,
                data=body,
                allow_redirects=False,
                ssl=self._tls,
                server_hostname=self._server_name,
                proxy=self._proxy,
            ) as response:
                whole = await _body(response, self.host)
                return Answer(response.status, _lower(response.headers), whole)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] = NO_HEADERS,
        headers: Mapping[str, str] = NO_HEADERS,
        silence_max_s: float,
    ) -> AsyncGenerator[Stream, None]:
        """See `Transport`."""
        if self._streams is None:
            # A pool of its own without a bound: a watch must never wait behind calls, and how
            # many there are is decided by whoever starts informers.
            self._streams = self._session(0)
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_max_s
        )
        with _mapped_errors(self.host):
            response = await self._streams.get(
                self._url(path, query),
                headers=headers,
                allow_redirects=False,
                timeout=timeout,
                ssl=self._tls,
                server_hostname=self._server_name,
                proxy=self._proxy,
            )
        try:
            yield _AiohttpStream(response, self.host)
        finally:
            response.close()

    async def close(self) -> None:
        """See `Transport`."""
        for session in (self._calls, self._streams):
            if session is not None:
                await session.close()
        self._calls = self._streams = None

    def _session(self, connections_max: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=self._connector_factory(connections_max),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            skip_auto_headers=_SKIPPED_HEADERS,
            auto_decompress=False,
            trust_env=False,
        )

    def _url(self, path: str, query: Mapping[str, str]) -> yarl.URL:
        url = yarl.URL(f"{self._origin}{self._prefix}{path}")
        return url.with_query(query) if query else url


class _AiohttpStream:
    def __init__(self, response: aiohttp.ClientResponse, host: str) -> None:
        self._response = response
        self._host = host
        self.status = response.status
        self.headers = _lower(response.headers)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        splitter = LineSplitter()
        while True:
            with _mapped_errors(self._host):
                chunk = await self._response.content.readany()
            if not chunk:
                break
            for line in splitter.feed(chunk):
                yield line
        if splitter.rest:
            raise Unreachable(f"{self._host} ended the answer in the middle of a line")

    async def read(self) -> bytes:
        with _mapped_errors(self._host):
            return await _body(self._response, self._host)


class LineSplitter:
    """Cuts chunks of a stream into whole lines. Pure but for the unfinished rest it keeps."""

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        """`line_bytes_max`: a line longer than this is not one that we asked for."""
        self._parts: list[bytes] = []
        self._bytes = 0
        self._line_bytes_max = line_bytes_max

    @property
    def rest(self) -> bytes:
        """What came after the last line end."""
        return b"".join(self._parts)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, empty ones left out.

        Raises:
            BadAnswer: a line is longer than the bound.
        """
        *whole, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        if whole:
            self._parts.append(whole[0])
            lines = [b"".join(self._parts), *whole[1:]]
            self._parts = []
            self._bytes = 0
        if rest:
            self._parts.append(rest)
            self._bytes += len(rest)
            if self._bytes > self._line_bytes_max:
                raise BadAnswer(f"a line of a watch is longer than {self._line_bytes_max} bytes")
        return [line for line in lines if line]


async def _body(response: aiohttp.ClientResponse, host: str) -> bytes:
    """The whole body, as long as it has an end in sight."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            response.close()
            raise BadAnswer(f"{host}: the answer is larger than {BODY_BYTES_MAX} bytes")
    return bytes(body)


def _lower(headers: CIMultiDictProxy[str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@contextmanager
def _mapped_errors(host: str) -> "Any":
    """Errors of the libraries below become ours: the only place that knows theirs."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        # Waiting does not heal it: whoever set the authority or the name has to.
        raise ConfigError(
            f"{host}: its certificate is not trusted: {error.certificate_error}"
        ) from error
    except (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError) as error:
        # Its own text shows the address of an object, another one in each process.
        why = error.strerror or str(error.os_error)
        raise Unreachable(f"{host}: no connection: {why}", sent=False) from error
    except aiohttp.ConnectionTimeoutError as error:
        raise Unreachable(
            f"{host}: no connection within {CONNECT_TIMEOUT_S:.0f} s", sent=False
        ) from error
    except aiohttp.ClientHttpProxyError as error:
        raise Unreachable(f"{host}: the proxy refused: {error.status}", sent=False) from error
    except (aiohttp.ServerTimeoutError, TimeoutError) as error:
        raise Unreachable(f"{host}: no byte came for too long") from error
    except (aiohttp.InvalidURL, aiohttp.ClientPayloadError) as error:
        raise Unreachable(f"{host}: the answer was cut: {error}") from error
    except aiohttp.ClientResponseError as error:
        # Its text repeats what came, which may be kilobytes of anything.
        said = one_line(error.message, SAID_MAX)
        raise BadAnswer(f"{host}: not an HTTP answer: {said}") from error
    except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
        kind = type(error).__name__
        raise Unreachable(f"{host}: the connection broke ({kind}: {error})") from error
    except asyncio.IncompleteReadError as error:
        raise Unreachable(f"{host}: the answer was cut") from error
