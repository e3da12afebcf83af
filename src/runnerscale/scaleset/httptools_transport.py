"""The real network behind the `Transport` seam: llhttp's parser on asyncio's own connections.

A request costs a fifth of what it costs through aiohttp (ADR 18). It serves every host that is
reached directly, which is nearly always all of them; through a proxy `AiohttpTransport` does
(`route.py` chooses). Both pass the same tests.

Contract: github-service-and-listener 3.3.
"""

import asyncio
import re
import ssl
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from runnerscale.core.http_connection import HttpConnection, HttpFault, StaleConnection
from runnerscale.core.http_dial import Address
from runnerscale.core.http_pool import IdleConnections
from runnerscale.core.http_request import UnsafeHeader, request_bytes
from runnerscale.core.plain_text import one_line
from runnerscale.scaleset.errors import InvalidProxy
from runnerscale.scaleset.host_dial import HostDial
from runnerscale.scaleset.network import CONNECT_S, KEEP_ALIVE_S, NetworkOptions
from runnerscale.scaleset.packed_body import unpacked
from runnerscale.scaleset.transport import (
    CertificateRefused,
    NoAnswer,
    NotReached,
    Request,
    Response,
    UnusableRequest,
)
from runnerscale.scaleset.trust import tls_context

IDLE_MAX = 64  # a host; as many as `limits.py` lets call at once
HOSTS_MAX = 64  # known at once; redirects may name any
WHY_CHARS_MAX = 300

_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE)
_BLANK = re.compile(r"[\x00-\x20\x7f]")
_METHOD = re.compile(r"[A-Z]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_ASCII = "".join(map(chr, range(0x21, 0x7F)))
# HEAD: an answer with a length and no body; CONNECT: no answer's end at all. We send neither.
_NOT_SPOKEN = ("HEAD", "CONNECT")


@dataclass(slots=True, eq=False)
class _Host:
    """One server: how it is reached, and the connections to it that are idle."""

    key: str
    address: Address
    header: str
    is_direct: bool
    idle: IdleConnections


class HttptoolsTransport:
    """Connections are made when they are needed, inside the running loop."""

    def __init__(self, options: NetworkOptions | None = None) -> None:
        """Check the options; open nothing.

        Raises:
            InvalidCertificate: `root_ca_pem` holds none.
            InvalidProxy: a proxy's URL cannot be used.
        """
        self._options = options or NetworkOptions()
        self._options.proxies.checked()
        self.has_proxy = self._options.proxies.configured
        self.has_root_ca = bool(self._options.root_ca_pem.strip())
        # Reading the system's store costs milliseconds: only where http:// may not be enough.
        self._tls: ssl.SSLContext | None = self._tls_context() if self.has_root_ca else None
        self._dial = self._options.dial or HostDial(self._options.resolver)
        self._hosts: dict[str, _Host] = {}
        self._busy: set[HttpConnection] = set()

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """The whole response, body included, within `timeout_s`; see `Transport`."""
        host, target = self._place(request.url)
        if not host.is_direct:
            raise UnusableRequest("the address is reached through a proxy, not directly")
        raw = _raw(host, target, request)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        connection = host.idle.take()
        if connection is None:
            connection = await self._connect(host, deadline_s - loop.time())
        try:
            return await self._answer(host, connection, raw, deadline_s, timeout_s)
        except StaleConnection as error:
            # Kept from an earlier request, closed before anything came back. What was written
            # may have been read: only a GET is as good as not sent.
            if error.sent and request.method != "GET":
                raise NoAnswer(f"no answer: {error}") from None
        connection = await self._connect(host, deadline_s - loop.time())
        try:
            return await self._answer(host, connection, raw, deadline_s, timeout_s)
        except StaleConnection as error:  # a new one, closed before it could be used
            raise NotReached(f"not reached: {error}") from None

    def goes_direct(self, url: str) -> bool:
        """Whether the rules let a request to this URL go without a proxy.

        Raises:
            UnusableRequest: it is no URL that can be asked.
        """
        return self._place(url)[0].is_direct

    async def close(self) -> None:
        """Let the connections go; who waits for an answer gets none. Usable again afterwards."""
        hosts, self._hosts = self._hosts, {}
        idle = [connection for host in hosts.values() for connection in host.idle.empty()]
        for connection in [*idle, *self._busy]:
            await connection.gone()

    # -- connections ---------------------------------------------------------------------------

    async def _connect(self, host: _Host, left_s: float) -> HttpConnection:
        def make() -> HttpConnection:
            return HttpConnection(body_bytes_max=self._options.body_max_bytes)

        within_s = min(CONNECT_S, left_s)
        try:
            async with asyncio.timeout(within_s):
                return await self._dial(host.address, make)
        except TimeoutError as error:
            raise NotReached(f"not reached: no connection within {within_s:.3g} s") from error
        except ssl.SSLCertVerificationError as error:
            raise CertificateRefused(f"certificate refused: {_why(error)}") from error
        except OSError as error:
            raise NotReached(f"not reached: {_why(error)}") from error
        except UnicodeError as error:  # "a..b", a label of 64 letters: no resolver is asked
            raise UnusableRequest("the address holds no name of a host") from error

    async def _answer(
        self, host: _Host, connection: HttpConnection, raw: bytes, until_s: float, within_s: float
    ) -> Response:
        """Ask on this connection. `within_s` is for the message.

        Raises:
            NoAnswer: none until `until_s` (the loop's clock), or no HTTP.
            StaleConnection: not asked, or closed at once; see there.
        """
        fault = ""
        self._busy.add(connection)
        try:
            async with asyncio.timeout_at(until_s):
                body = await connection.request(raw)
        except TimeoutError as error:
            raise NoAnswer(f"no answer within {within_s:g} s") from error
        except StaleConnection:
            raise
        except HttpFault as error:
            if not connection.has_head:
                raise NoAnswer(f"no answer: {error}") from None
            body, fault = b"", str(error)
        finally:
            self._busy.discard(connection)
        headers = connection.headers
        if "content-encoding" in headers:
            bytes_max = self._options.body_max_bytes
            body, broken = unpacked(body, headers["content-encoding"], bytes_max=bytes_max)
            fault = fault or broken
        response = Response(connection.status, connection.reason, headers, body, fault)
        if self._hosts.get(host.key) is host:
            host.idle.put_back(connection)
        else:  # closed meanwhile, or forgotten among too many
            connection.close()
        return response

    # -- addresses -----------------------------------------------------------------------------

    def _place(self, url: str) -> tuple[_Host, str]:
        """The host of a URL, and what to ask it for.

        Raises:
            UnusableRequest: it is no URL that can be asked.
        """
        found = _URL.match(url)
        if found is None or _BLANK.search(url):
            raise UnusableRequest("the address cannot be used (no http or https URL)")
        scheme, netloc, target = found.groups()
        key = f"{scheme}://{netloc}"
        host = self._hosts.get(key)
        if host is None:
            self._forget_unused()
            host = self._hosts[key] = self._host(key, scheme.lower(), netloc)
        if not target.startswith("/"):
            target = f"/{target}"
        return host, target if target.isascii() else quote(target, safe=_ASCII)

    def _host(self, key: str, scheme: str, netloc: str) -> _Host:
        try:
            parts = urlsplit(f"//{netloc}")
            name, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[scheme]
            if not name.isascii():
                name = name.encode("idna").decode("ascii")
            # `goes_direct` looks at scheme, host and port only.
            is_direct = self._options.proxies.server_for(key) is None
        except (ValueError, InvalidProxy) as error:  # UnicodeError is a ValueError
            said = f"the address cannot be used ({type(error).__name__})"
            raise UnusableRequest(said) from error
        if not name or "@" in netloc:
            raise UnusableRequest("the address cannot be used (no host, or a user before it)")
        shown = f"[{name}]" if ":" in name else name
        header = shown if port == _DEFAULT_PORTS[scheme] else f"{shown}:{port}"
        tls = None
        if scheme == "https":
            tls = self._tls = self._tls or self._tls_context()
        address = Address(name, port, tls, name.rstrip("."))
        idle = IdleConnections(idle_s=KEEP_ALIVE_S, most=IDLE_MAX)
        return _Host(key, address, header, is_direct, idle)

    def _forget_unused(self) -> None:
        if len(self._hosts) < HOSTS_MAX:
            return
        for host in self._hosts.values():
            for connection in host.idle.empty():
                connection.close()
        self._hosts.clear()

    def _tls_context(self) -> ssl.SSLContext:
        return tls_context(root_ca_pem=self._options.root_ca_pem, verify=self._options.verify_tls)


def _raw(host: _Host, target: str, request: Request) -> bytes:
    method = request.method
    if not _METHOD.fullmatch(method) or method in _NOT_SPOKEN:
        raise UnusableRequest("the method cannot be sent")
    try:
        return request_bytes(method, target, host.header, request.headers, request.body)
    except UnsafeHeader as error:
        raise UnusableRequest("a header or the method cannot be sent") from error


def _why(error: OSError) -> str:
    return one_line(error.strerror or str(error) or type(error).__name__, WHY_CHARS_MAX)
