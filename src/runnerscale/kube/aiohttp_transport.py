"""The transport on aiohttp, for API servers behind a proxy of the kubeconfig.

Every error of aiohttp, ssl and the sockets below becomes an error of `errors.py` here.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import yarl
from multidict import CIMultiDictProxy

from runnerscale.core.http_connection import SAID_MAX
from runnerscale.core.http_dial import keep_watch
from runnerscale.core.plain_text import one_line
from runnerscale.kube.errors import BadAnswer, ConfigError, Unreachable
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

_SKIPPED_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")

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
    keep_watch(made)
    return made


class AiohttpTransport:
    """The transport on aiohttp. Sessions are made at first use, inside the running loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connector_factory: ConnectorFactory = tcp_connector,
        connections_max: int = CONNECTIONS_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
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
        self._body_bytes_max = body_bytes_max
        self._calls: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self.on_untrusted: Callable[[], bool] | None = None  # True: there is a new authority

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
        with _mapped_errors(self.host, self.on_untrusted):
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
                whole = await _body(response, self.host, self._body_bytes_max)
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
        with _mapped_errors(self.host, self.on_untrusted):
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
            yield _AiohttpStream(response, self.host, self._body_bytes_max)
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
    def __init__(self, response: aiohttp.ClientResponse, host: str, bytes_max: int) -> None:
        self._response = response
        self._bytes_max = bytes_max
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
            return await _body(self._response, self._host, self._bytes_max)


async def _body(response: aiohttp.ClientResponse, host: str, bytes_max: int) -> bytes:
    """The whole body, as long as it has an end in sight."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > bytes_max:
            response.close()
            raise BadAnswer(f"{host}: the answer is larger than {bytes_max} bytes")
    return bytes(body)


def _lower(headers: CIMultiDictProxy[str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@contextmanager
def _mapped_errors(host: str, on_untrusted: Callable[[], bool] | None = None) -> "Any":
    """Errors of the libraries below become ours: the only place that knows theirs."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        # Waiting does not heal it: whoever set the authority or the name has to, or has.
        if on_untrusted is not None and on_untrusted():
            raise Unreachable(f"{host}: it has a new authority", sent=False) from error
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
    except UnicodeError as error:  # "a..b", a label of 64 letters: no resolver is asked
        raise ConfigError(f"{host} holds no name of a host") from error
