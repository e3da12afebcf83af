"""The network behind the `Transport` seam by way of aiohttp, for what a proxy has to carry.

The only file of `scaleset/` that knows that library; its exceptions end here. Nobody imports it
but `route.py`, when a proxy is really there: it is large. Direct connections are
`httptools_transport.py`.

Contract: github-service-and-listener 3.3, 3.4.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from runnerscale.scaleset.errors import InvalidProxy
from runnerscale.scaleset.network import CONNECT_S, KEEP_ALIVE_S, NetworkOptions, Resolver
from runnerscale.scaleset.proxy import ProxyServer
from runnerscale.scaleset.transport import (
    CertificateRefused,
    NoAnswer,
    NotReached,
    ProxyRefused,
    Request,
    Response,
    UnusableRequest,
)
from runnerscale.scaleset.trust import tls_context

# Given the TLS context to use (True: the library's own), makes what opens connections.
ConnectorFactory = Callable[[ssl.SSLContext | bool], aiohttp.BaseConnector]


class AiohttpTransport:
    """One connection pool. Opened by the first request, inside the running loop."""

    def __init__(
        self,
        options: NetworkOptions | None = None,
        *,
        connector: ConnectorFactory | None = None,
    ) -> None:
        """Check the options; open nothing.

        Args:
            options: all but `dial`, which is not aiohttp's.
            connector: a network of one's own; None: real sockets.

        Raises:
            InvalidCertificate: `root_ca_pem` holds none.
            InvalidProxy: a proxy's URL cannot be used.
        """
        self._options = options or NetworkOptions()
        self._options.proxies.checked()
        self._own_connector = connector
        self.has_proxy = self._options.proxies.configured
        self.has_root_ca = bool(self._options.root_ca_pem.strip())
        # Reading the system's store costs milliseconds: only where http:// may not be enough.
        self._tls: ssl.SSLContext | None = self._tls_context() if self.has_root_ca else None
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """The whole response, body included, within `timeout_s`; see `Transport`."""
        session = self._opened()
        with _mapped_faults(timeout_s):
            proxy = self._options.proxies.server_for(request.url)
            pass_ = _proxy_pass(proxy)
            tunnelled = request.url.startswith("https:")
            async with (
                asyncio.timeout(timeout_s),
                session.request(
                    request.method,
                    yarl.URL(request.url, encoded=True),
                    headers={**request.headers, **({} if tunnelled else pass_)},
                    data=request.body,
                    allow_redirects=False,
                    proxy=proxy.url if proxy else None,
                    proxy_headers=pass_ if tunnelled else None,
                ) as response,
            ):
                body, fault = await self._read(response)
        return Response(
            status=response.status,
            reason=response.reason or "",
            headers={name.lower(): value for name, value in response.headers.items()},
            body=body,
            body_fault=fault,
        )

    async def close(self) -> None:
        """Let the connections go. A later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Content-Type", "User-Agent"),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                trust_env=False,
            )
        return self._session

    def _connector(self) -> aiohttp.BaseConnector:
        if self._tls is None:
            self._tls = self._tls_context()
        if self._own_connector is not None:
            return self._own_connector(self._tls)
        resolver = _Names(self._options.resolver) if self._options.resolver else None
        # No limit here: how many calls a host gets at once is `limits.py`'s to say.
        return aiohttp.TCPConnector(
            ssl=self._tls, resolver=resolver, limit=0, keepalive_timeout=KEEP_ALIVE_S
        )

    def _tls_context(self) -> ssl.SSLContext:
        return tls_context(root_ca_pem=self._options.root_ca_pem, verify=self._options.verify_tls)

    async def _read(self, response: aiohttp.ClientResponse) -> tuple[bytes, str]:
        """The body and what kept us from reading it, one of the two empty."""
        body = bytearray()
        limit_bytes = self._options.body_max_bytes
        try:
            async for chunk in response.content.iter_chunked(65536):
                body += chunk
                if len(body) > limit_bytes:
                    response.close()
                    return b"", f"the body is larger than {limit_bytes} bytes"
        except (aiohttp.ClientError, OSError) as error:
            return b"", f"{type(error).__name__}: {error}"
        return bytes(body), ""


class _Names(AbstractResolver):
    """Our resolver as aiohttp wants it."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        del family  # ours gives addresses of both
        return [_result(host, port, address) for address in await self._resolver(host, port)]

    async def close(self) -> None:
        """Nothing is kept."""


def _result(host: str, port: int, address: str) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(
        hostname=host, host=address, port=port, family=family, proto=0, flags=flags
    )


def _proxy_pass(server: ProxyServer | None) -> dict[str, str]:
    """The header that lets us through: in the CONNECT of a tunnel, else in the request."""
    if server is None or (not server.username and server.password is None):
        return {}
    password = "" if server.password is None else server.password.reveal()
    return {"Proxy-Authorization": aiohttp.encode_basic_auth(server.username, password)}


@contextmanager
def _mapped_faults(timeout_s: float) -> Iterator[None]:
    """The library's exceptions become the seam's own, the most telling first."""
    try:
        yield
    except (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError) as error:
        raise CertificateRefused(f"certificate refused: {_cause(error)}") from error
    except aiohttp.ClientHttpProxyError as error:
        said = f"the proxy answered {error.status} {error.message}"
        raise ProxyRefused(said, status=error.status) from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise NotReached(f"not reached: {_cause(error)}") from error
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, InvalidProxy) as error:
        raise UnusableRequest(f"the address cannot be used ({type(error).__name__})") from error
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise NoAnswer(f"no answer within {timeout_s:g} s") from error
        raise NoAnswer(f"no answer: {_cause(error)}") from error
    except ValueError as error:  # a header or method with a line break in it
        raise UnusableRequest("a header or the method cannot be sent") from error


def _cause(error: BaseException) -> str:
    """What happened, without the connection's own address book (hosts of proxies, ports)."""
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
    return str(inner or error) or type(error).__name__
