"""The one seam to the network: a request goes in, a response or a `TransportFault` comes out.

A file of its own so that everything above (tokens, retries, calls) is tried with a plain
function as network. What a fault means for a call is decided in `retry.py`; the real
network is `httptools_transport.py`, and `aiohttp_transport.py` where a proxy is between.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Protocol
from urllib.parse import urljoin, urlsplit

BODY_MAX_BYTES = 16 * 1024 * 1024  # weakness W55; the largest honest answer is far below 1 MiB
REDIRECTS_MAX = 10


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent. Headers and body may hold secrets: `repr` shows neither."""

    method: str
    url: str = field(repr=False)  # a queue URL may carry a token
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Response:
    """What came back. Header names are lower case."""

    status: int
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    body_fault: str = ""  # why the body could not be read to its end; `body` is then empty

    def header(self, name: str) -> str:
        """The header's value, or nothing."""
        return self.headers.get(name.lower(), "")

    @property
    def status_text(self) -> str:
        """`404 Not Found`."""
        return f"{self.status} {self.reason}".rstrip()

    def date_s(self) -> float | None:
        """The sender's own clock, seconds since the epoch, by the `Date` header."""
        return http_date_s(self.header("date"))


class TransportFault(Exception):
    """No response. Raised by transports only; never leaves `scaleset/`."""

    sent = True  # the other side may have got the request, and acted on it
    worth_repeating = True


class NotReached(TransportFault):
    """Name not found, connection or proxy refused, TLS handshake failed: nothing was sent."""

    sent = False


PROXY_DENIES = (403, 407)


class ProxyRefused(NotReached):
    """The proxy answered instead of passing us on."""

    worth_repeating = False

    def __init__(self, message: str, *, status: int = 407) -> None:
        """`status`: the proxy's own; others than 403 and 407 say that it cannot, not may not."""
        super().__init__(message)
        self.denied = status in PROXY_DENIES


class CertificateRefused(NotReached):
    """The other side's certificate is not signed by anybody we trust."""

    worth_repeating = False


class NoAnswer(TransportFault):
    """Reset, closed or silent after the request went out."""


class UnusableRequest(TransportFault):
    """Too many redirects, a scheme or header that cannot be sent: the same next time."""

    sent = False
    worth_repeating = False


class Transport(Protocol):
    """Sends one request, follows nothing, and repeats nothing that may take effect twice.

    What it may repeat, once and within the same `timeout_s`: a request on a connection kept from
    an earlier one, which the other side closed before a byte of an answer, where the request only
    reads. The direct transport takes only a GET for such; aiohttp also what HTTP calls idempotent.
    A request that was certainly not written goes out on a new connection, whatever its method.
    """

    has_proxy: bool
    has_root_ca: bool

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """The whole response, body included, within `timeout_s`.

        Raises:
            TransportFault: no response; a body that broke off is `Response.body_fault`.
        """
        ...

    async def close(self) -> None:
        """Let the connections go."""
        ...


def http_date_s(text: str) -> float | None:
    """Seconds since the epoch of an HTTP date, None for anything else."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


async def send_following(transport: Transport, request: Request, *, timeout_s: float) -> Response:
    """`send`, with redirects followed; `timeout_s` is for each hop."""
    for _ in range(REDIRECTS_MAX + 1):
        response = await transport.send(request, timeout_s=timeout_s)
        following = redirected(request, response)
        if following is None:
            return response
        request = following
    raise UnusableRequest(f"stopped after {REDIRECTS_MAX} redirects")


def redirected(request: Request, response: Response) -> Request | None:
    """The request that follows a redirect; None: this is no redirect.

    307 and 308 keep method and body, the others become a GET, as browsers and Go do. The
    credentials go along only within the same scheme, host and port.
    """
    location = response.header("location")
    if response.status not in (301, 302, 303, 307, 308) or not location:
        return None
    url = urljoin(request.url, location)
    headers = dict(request.headers)
    method, body = request.method, request.body
    if response.status not in (307, 308) and method not in ("GET", "HEAD"):
        method, body = "GET", None
    if _origin(url) != _origin(request.url):
        headers = {k: v for k, v in headers.items() if k.lower() != "authorization"}
    return replace(request, method=method, url=url, headers=headers, body=body)


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise UnusableRequest(f"redirected to a URL that cannot be read: {error}") from error
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port or default
