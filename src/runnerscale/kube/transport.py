"""The one seam to the network: bytes out, bytes in.

`Transport` is all that the client needs; a test hands in a class of a few lines. Two kinds keep
it: `httptools_transport.py` for the API server that is reached directly, `aiohttp_transport.py`
where a proxy is between; each turns the errors of what it stands on into those of `errors.py`.
Status codes are not looked at: an answer is an answer. Repeats, deadlines and tokens are
`client.py`.

Traffic to the API server never follows `https_proxy` of the environment (contract C2 W54): a
proxy is used only where the kubeconfig names one.
"""

import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import msgspec

from runnerscale.kube.errors import BadAnswer

CONNECTIONS_MAX = 100  # calls at once; more wait in line within their deadline
CONNECT_TIMEOUT_S = 10.0  # a host that does not answer a SYN for so long is down
IDLE_CONNECTION_S = 30.0  # closed by us before a server or balancer does it under a request
LINE_BYTES_MAX = 16 * 1024 * 1024  # ten times the largest object that etcd stores
CHUNK_BYTES = 256 * 1024
# A page of 500 objects is a few MiB; only one of the largest Secrets would come near this.
BODY_BYTES_MAX = 256 * 1024 * 1024

NO_HEADERS: Mapping[str, str] = {}


class Answer(msgspec.Struct, frozen=True):
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


class NetworkTransport(Transport, Protocol):
    """One over a real network, whose authority and certificate may be exchanged meanwhile."""

    on_untrusted: Callable[[], bool] | None  # asked when refused; True: there is a new authority

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """New connections use this from now on, and the old ones serve no further request."""
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
