"""A small HTTP server for pages that are read: metrics, probes, debug pages.

GET and HEAD, nothing else; no framework, because one costs 10 MiB in each process and a quarter of
a listener's start. Whoever can reach such a port may be hostile: a request is bounded in bytes and
in time, its body is dropped, and a connection too many pushes the oldest out (the kubelet and
Prometheus are through in a moment, whoever only holds on is who has to go). A request that comes
before the answer to the one before was read is not answered: the connection is closed behind that
one.

What the pages say, and where they are served, is the caller's.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

import httptools
import structlog

log = structlog.get_logger(__name__)

CONNECTIONS_MAX = 64
HEAD_BYTES_MAX = 16 * 1024
BODY_BYTES_MAX = 1024 * 1024  # read and dropped; nobody sends one with a GET
REQUEST_S = 10.0  # from its first byte to its last
IDLE_S = 75.0  # without a request, or with an answer that nobody reads
TEXT = "text/plain; charset=utf-8"
METHODS = ("GET", "HEAD")
PHRASES = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Page:
    """One answer."""

    body: bytes
    status: int = 200
    content_type: str = TEXT
    allow: str = ""


def text_page(text: str, status: int = 200) -> Page:
    """Plain text."""
    return Page(text.encode("utf-8", "replace"), status)


# From the query (raw, without the question mark) to the page.
Handler = Callable[[str], Page | Awaitable[Page]]


class PageServer:
    """Serves some pages by path, on one address."""

    def __init__(self, pages: Mapping[str, Handler], *, most: int = CONNECTIONS_MAX) -> None:
        """`pages`: by their exact path. `most`: connections that are open at once."""
        self._pages = dict(pages)
        self._most = most
        self._open: dict[_Connection, None] = {}  # the oldest first
        self._socket: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> None:
        """Begin; an empty host: all interfaces, port 0: any that is free.

        Raises:
            OSError: the address cannot be had.
        """
        loop = asyncio.get_running_loop()
        self._socket = await loop.create_server(self._connection, host or None, port)

    @property
    def port(self) -> int:
        """The port in use; 0 when nothing is served."""
        sockets = self._socket.sockets if self._socket else ()
        return int(sockets[0].getsockname()[1]) if sockets else 0

    async def close(self) -> None:
        """Take no more, and let go of what is open. May be called again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        waiting = [connection.end() for connection in [*self._open]]
        for task in waiting:
            if task is not None:
                await asyncio.wait([task])

    def _connection(self) -> asyncio.BaseProtocol:
        for oldest in [*self._open][: max(0, len(self._open) - self._most + 1)]:
            oldest.abort()  # not close: its reader may never read the rest
        return _Connection(self._pages, self._open)


class _Connection(asyncio.Protocol):
    """One request at a time, parsed by llhttp."""

    def __init__(self, pages: Mapping[str, Handler], known: dict["_Connection", None]) -> None:
        self._pages = pages
        self._known = known
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_last = False  # close behind the next answer
        self._reset()

    def _reset(self) -> None:
        self._bytes = 0
        self._url = b""
        self._method = ""
        self._has_head = False
        self._is_whole = False
        self._is_busy = False

    def abort(self) -> None:
        """At once."""
        self._known.pop(self, None)
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> asyncio.Task[None] | None:
        """What is written is sent, what is being made is given up; the task that makes it."""
        if self._transport is not None:
            self._transport.close()
        if self._task is not None:
            self._task.cancel()
        return self._task

    # -- what asyncio calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._known[self] = None
        self._parser = httptools.HttpRequestParser(self)
        self._due(IDLE_S)

    def connection_lost(self, _error: Exception | None) -> None:
        """It went, or was sent away."""
        self._known.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def eof_received(self) -> bool:
        """It sends no more; it may still read what is being made for it."""
        self._is_last = True
        return self._is_busy

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._is_busy or transport.get_write_buffer_size():
            self._is_last = True  # more is asked before the last answer was read
            if not self._is_busy:
                self.abort()
            return
        if not self._bytes:
            self._due(REQUEST_S)
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_last = True  # we speak nothing else; it is answered as if it had not asked
        except httptools.HttpParserError:
            if not self._is_whole:
                self._refuse(400)
                return
            self._is_last = True
        if self._is_whole:
            self._answer()
        elif not self._has_head and self._bytes > HEAD_BYTES_MAX:
            self._refuse(431)
        elif self._bytes > HEAD_BYTES_MAX + BODY_BYTES_MAX:
            self._refuse(413)

    # -- what llhttp calls ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A second one in the same bytes is not answered."""
        if self._is_whole:
            self._is_last = True

    def on_url(self, url: bytes) -> None:
        """A part of it."""
        if not self._is_whole:
            self._url += url

    def on_header(self, name: bytes, _value: bytes) -> None:
        """Only one is of any interest: whether the client waits with its body."""
        if not self._is_whole and name.lower() == b"expect" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_headers_complete(self) -> None:
        """The head is there."""
        if self._is_whole:
            return
        self._has_head = True
        self._method = self._parser.get_method().decode("latin-1")
        if self._parser.get_http_version() != "1.1":
            self._is_last = True

    def on_message_complete(self) -> None:
        """The request is whole."""
        if not self._is_whole:
            self._is_whole = True
            self._is_last = self._is_last or not self._parser.should_keep_alive()

    # -- answers -------------------------------------------------------------------------------

    def _answer(self) -> None:
        self._is_busy = True
        self._due(None)
        try:
            page = self._page()
        except Exception as error:  # noqa: BLE001 - one page's mistake is that page's
            page = self._failed(error)
        if isinstance(page, Page):
            self._send(page)
        else:
            self._task = asyncio.get_running_loop().create_task(self._send_later(page))

    def _page(self) -> Page | Awaitable[Page]:
        try:
            url = httptools.parse_url(self._url)
        except httptools.HttpParserInvalidURLError:
            return text_page("400: Bad Request", 400)
        path = unquote((url.path or b"/").decode("latin-1"))
        handler = self._pages.get(path)
        if handler is None:
            return text_page("404: Not Found", 404)
        if self._method not in METHODS:
            body = b"405: Method Not Allowed"
            return Page(body, 405, allow=",".join(METHODS))
        found = handler((url.query or b"").decode("latin-1"))
        assert isinstance(found, Page) or inspect.isawaitable(found)
        return found

    async def _send_later(self, page: Awaitable[Page]) -> None:
        try:
            made = await page
        except Exception as error:  # noqa: BLE001 - as above
            made = self._failed(error)
        self._task = None
        self._send(made)

    def _failed(self, error: Exception) -> Page:
        log.error("a page could not be made", exc_info=error)
        return text_page("500: Internal Server Error", 500)

    def _refuse(self, status: int) -> None:
        """What came is no request, or too much of one."""
        self._is_last = True
        self._send(text_page(f"{status}: {PHRASES[status]}", status))

    def _send(self, page: Page) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        head = [
            f"HTTP/1.1 {page.status} {PHRASES[page.status]}",
            f"Content-Type: {page.content_type}",
            f"Content-Length: {len(page.body)}",
        ]
        if page.allow:
            head.append(f"Allow: {page.allow}")
        if self._is_last:
            head.append("Connection: close")
        start = "\r\n".join([*head, "", ""]).encode("latin-1")
        transport.write(start if self._method == "HEAD" else start + page.body)
        self._due(IDLE_S)
        self._reset()
        if self._is_last:
            transport.close()

    def _due(self, seconds: float | None) -> None:
        """When the client has to have gone on; None: it waits for us."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)
