"""One HTTP/1.1 connection to a server: one exchange at a time, parsed by llhttp.

The protocol that asyncio calls and llhttp calls back. Here because both `kube/` and `scaleset/`
stand on it and must not know each other. It knows nothing of pools (`http_pool.py`), of names and
sockets (`http_dial.py`), of deadlines, and of what is said over it. Whatever goes wrong while an
exchange is under way becomes a fault below, once; each side makes its own errors of them, with the
name of the host in front.
"""

import asyncio
from typing import Any, cast

import httptools

from runnerscale.core.plain_text import one_line

# Of the head of an answer, and without a byte of its body later on (chunk extensions, trailers);
# the head that Kubernetes or GitHub sends takes a few hundred.
HEAD_BYTES_MAX = 512 * 1024
BUFFER_BYTES_MAX = 4 * 1024 * 1024  # of a stream that nobody reads: then the peer has to wait
SAID_MAX = 200  # characters of a library's own words in a message of ours


class HttpFault(Exception):
    """No whole answer. The text is without host and secrets: "the answer was cut"."""


class BrokenConnection(HttpFault):
    """Cut or silent while an answer was due; the request may have taken effect."""


class StaleConnection(HttpFault):
    """The peer closed a connection that had been used before, without a byte of an answer.

    Most often it had closed it already when the request was written. `sent` is False where it
    had been lost before, also a new one: nothing was written.
    """

    def __init__(self, *, sent: bool) -> None:
        """`sent`: something was written."""
        super().__init__("the connection was closed")
        self.sent = sent


class NotHttp(HttpFault):
    """What came is no answer, or larger than the bound."""


class HttpConnection(asyncio.Protocol):
    """Made by a dial; `request` or `stream` begins an exchange, and only one at a time."""

    def __init__(self, *, body_bytes_max: int, made_for: object = None) -> None:
        """`made_for`: whatever the maker wants to know it by."""
        self.made_for = made_for
        self.exchanges = 0
        self.is_open = False
        self.may_be_used_again = False
        self._is_lost = False
        self._body_bytes_max = body_bytes_max
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: HttpFault | None = None
        self._is_paused = False
        self._lost: asyncio.Event | None = None
        self._reset(is_stream=False)
        self._is_busy = False

    @property
    def has_head(self) -> bool:
        """The head of the last answer came whole, whatever became of its body."""
        return self._is_head_complete

    # -- exchanges -----------------------------------------------------------------------------

    async def request(self, raw: bytes) -> bytes:
        """Send it; the answer's whole body. Given up on the way, the connection is closed.

        `status`, `reason` and `headers` are the answer's from then on, and already when only its
        body broke: `has_head` says so.

        Raises:
            BrokenConnection: cut, or no HTTP connection at all.
            StaleConnection: see there.
            NotHttp: not HTTP, or without end.
        """
        self._begin(raw, is_stream=False)
        try:
            await self._until(lambda: self._is_complete)
        except BaseException:  # also when cancelled: half an answer may still be on its way
            self.abort()
            raise
        return bytes(self._body)

    async def stream(self, raw: bytes, *, silence_max_s: float) -> None:
        """Send it and wait for the head of the answer; then `chunk`. Raises as `request`."""
        self._begin(raw, is_stream=True)
        await self._until(lambda: self._is_head_complete, silence_max_s)

    async def chunk(self, silence_max_s: float) -> bytes:
        """What came since; empty: the answer has ended in order. Raises as `request`."""
        await self._until(lambda: bool(self._body) or self._is_complete, silence_max_s)
        came = bytes(self._body)
        self._body.clear()
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return came

    def close(self) -> None:
        """In order: what is written is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """At once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    async def gone(self) -> None:
        """At once, and its socket is closed when this returns."""
        if self._transport is not None and not self._is_lost:
            self._lost = asyncio.Event()
            self.abort()
            await self._lost.wait()

    def _begin(self, raw: bytes, *, is_stream: bool) -> None:
        assert not self._is_busy, "one exchange at a time"
        self._reset(is_stream=is_stream)
        self._is_busy = True
        self.exchanges += 1
        if self._transport is None or self._transport.is_closing():
            self._fail(StaleConnection(sent=False))
            return
        self._transport.write(raw)

    def _reset(self, *, is_stream: bool) -> None:
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self._is_stream = is_stream
        self._is_head_complete = False
        self._is_complete = False
        self._head_bytes = 0
        self._bare_bytes = 0  # since the last of the body, or of the head
        self._body = bytearray()  # a list of its parts may cost forty times what is in them
        self._failure = None
        self.may_be_used_again = False

    async def _until(self, there: Any, silence_max_s: float | None = None) -> None:
        while not there():
            if self._failure is not None:
                raise self._failure
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                if silence_max_s is None:
                    await self._waiter
                else:
                    async with asyncio.timeout(silence_max_s):
                        await self._waiter
            except TimeoutError:
                raise BrokenConnection("no byte came for too long") from None
            finally:
                self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: HttpFault) -> None:
        if self._failure is None and not self._is_complete:
            self._failure = error
        self._is_busy = False
        self.abort()
        self._wake()

    # -- what asyncio calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for the first exchange."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._parser = httptools.HttpResponseParser(self)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer; where none was asked for, they are not ours to understand."""
        if not self._is_busy:
            self.abort()
            return
        if not self._is_head_complete:
            self._head_bytes += len(data)
        self._bare_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            said = one_line(str(error), SAID_MAX)
            self._fail(NotHttp(f"not an HTTP answer: {said}"))
            return
        if self._is_busy and self._bare_bytes > HEAD_BYTES_MAX:
            what = "what is around its body" if self._is_head_complete else "its head"
            self._fail(NotHttp(f"not an HTTP answer: {what} has no end"))

    def eof_received(self) -> None:
        """The transport closes itself; `connection_lost` follows."""

    def connection_lost(self, error: Exception | None) -> None:
        """In order, where the answer ends with the connection; else it is broken off."""
        self.is_open = False
        self._is_lost = True
        if self._lost is not None:
            self._lost.set()
        if not self._is_busy:
            return
        if error is None and self._ends_with_connection():
            self.on_message_complete()
            return
        if self.exchanges > 1 and not self._head_bytes:
            self._fail(StaleConnection(sent=True))
        elif self._is_head_complete:
            self._fail(BrokenConnection("the answer was cut"))
        else:
            why = f"{type(error).__name__}: {error}" if error else "closed by the other side"
            self._fail(BrokenConnection(f"the connection broke ({one_line(why, SAID_MAX)})"))

    def _ends_with_connection(self) -> bool:
        return (
            self._is_head_complete
            and "content-length" not in self.headers
            and "transfer-encoding" not in self.headers
        )

    # -- what llhttp calls ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """One more than was asked for is nobody's answer: not the next one's either."""
        if not self._is_busy:
            self.abort()

    def on_status(self, reason: bytes) -> None:
        """A part of the words behind the status code."""
        if self._is_busy and not self._is_head_complete:
            self.reason += reason.decode("utf-8", "replace")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One whole header; those behind a body (trailers) are nothing that we know."""
        if self._is_busy and not self._is_head_complete:
            self.headers[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")

    def on_headers_complete(self) -> None:
        """The head is there; one with 1xx is followed by another."""
        if not self._is_busy:
            return
        self.status = self._parser.get_status_code()
        if self.status < 100:
            self._fail(NotHttp(f"not an HTTP answer: status {self.status}"))
        elif self.status >= 200:
            self._is_head_complete = True
            if self._is_stream:
                self._wake()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if not self._is_busy:
            return
        self._bare_bytes = 0
        self._body += body
        if self._is_stream:
            if len(self._body) > BUFFER_BYTES_MAX and not self._is_paused and self._transport:
                self._is_paused = True
                self._transport.pause_reading()
            self._wake()
        elif len(self._body) > self._body_bytes_max:
            self._body.clear()
            self._fail(NotHttp(f"the answer is larger than {self._body_bytes_max} bytes"))

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if not self._is_busy:
            return
        if self.status < 200:
            self.reason = ""
            self.headers = {}
            return
        self._is_busy = False
        self._is_complete = True
        self.may_be_used_again = self._parser.should_keep_alive()
        self._wake()
