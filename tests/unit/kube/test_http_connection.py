"""The direct transport's own HTTP: what a peer may send, in whatever pieces it comes.

Expected values follow RFC 9112: message bodies (6.3), interim answers (RFC 9110 15.2), answers
that end with the connection.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.kube.errors import BadAnswer, ConfigError, Unreachable
from runnerscale.kube.http_connection import (
    BUFFER_BYTES_MAX,
    HEAD_BYTES_MAX,
    HttpConnection,
    StaleConnection,
)
from runnerscale.kube.httptools_transport import Address, HttptoolsTransport
from runnerscale.kube.transport import IDLE_CONNECTION_S, Answer, Endpoint
from tests.unit.kube.virtual_network import virtual_dial

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


class Wire:
    """The transport under a connection: keeps what is written, knows whether it is closed."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False
        self.reading = True

    def write(self, data: bytes) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def connection(**options: Any) -> tuple[HttpConnection, Wire]:
    made, wire = HttpConnection("api.test:80", **options), Wire()
    made.connection_made(wire)  # type: ignore[arg-type]
    return made, wire


async def answered(made: HttpConnection, *pieces: bytes, lost: Any = ...) -> Answer:
    asked = asyncio.ensure_future(made.request(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    for piece in pieces:
        made.data_received(piece)
    if lost is not ...:
        made.connection_lost(lost)
    return await asked


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Thing: a\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


@pytest.mark.parametrize("raw", [WHOLE, CHUNKED, INTERIM + WHOLE])
def test_an_answer_is_the_same_wherever_it_is_cut(raw: bytes) -> None:
    async def all_cuts() -> None:
        for place in range(1, len(raw)):
            made, _ = connection()
            found = await answered(made, raw[:place], raw[place:])
            assert (found.status, found.body) == (200, b"hello")
            assert "link" not in found.headers
            assert made.may_be_used_again

    asyncio.run(all_cuts())


async def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    made, _ = connection()
    found = await answered(made, b"HTTP/1.1 200 OK\r\n\r\nhello", lost=None)
    assert found.body == b"hello"
    assert not made.may_be_used_again


async def test_a_connection_that_breaks_is_no_end() -> None:
    made, _ = connection()
    with pytest.raises(Unreachable, match="the answer was cut"):
        await answered(made, b"HTTP/1.1 200 OK\r\n\r\nhel", lost=ConnectionResetError())
    made, _ = connection()
    with pytest.raises(Unreachable, match="the answer was cut"):
        await answered(made, WHOLE[:-1], lost=None)
    made, _ = connection()
    with pytest.raises(Unreachable, match="the connection broke"):
        await answered(made, lost=None)


async def test_a_connection_used_before_that_ends_without_a_byte_is_stale() -> None:
    made, _ = connection()
    await answered(made, WHOLE)
    with pytest.raises(StaleConnection):
        await answered(made, lost=None)


async def test_no_body_where_there_is_none() -> None:
    made, _ = connection()
    found = await answered(made, b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (found.status, found.body) == (204, b"")
    assert made.may_be_used_again


async def test_a_server_that_closes_afterwards_is_not_asked_again() -> None:
    made, _ = connection()
    await answered(made, WHOLE.replace(b"X-Thing: a", b"Connection: close"))
    assert not made.may_be_used_again


async def test_a_second_answer_is_nobodys() -> None:
    made, wire = connection()
    evil = WHOLE.replace(b"hello", b"other").replace(b"X-Thing: a", b"X-Thing: b")
    found = await answered(made, WHOLE + evil)
    assert (found.body, found.headers["x-thing"]) == (b"hello", "a")
    assert wire.closed
    assert not made.is_open
    made, wire = connection()
    await answered(made, WHOLE)
    made.data_received(evil)  # later, before anything was asked
    assert wire.closed


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_said(raw: bytes) -> None:
    made, wire = connection()
    with pytest.raises(BadAnswer, match="not an HTTP answer"):
        await answered(made, raw)
    assert wire.closed


async def test_a_head_without_end_is_refused() -> None:
    made, _ = connection()
    line = b"X: " + b"a" * 1000 + b"\r\n"
    with pytest.raises(BadAnswer, match="no end"):
        await answered(made, b"HTTP/1.1 200 OK\r\n", *[line] * (HEAD_BYTES_MAX // 1000))


CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;"
END = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (CHUNK, b"a" * 1000),  # the extension of a chunk
        (END, b"X-Y: " + b"a" * 1000 + b"\r\n"),  # trailers
        (END + b"X-Y: ", b"a" * 1000),  # one trailer
    ],
)
async def test_what_is_around_a_body_has_an_end_too(start: bytes, more: bytes) -> None:
    made, wire = connection()
    with pytest.raises(BadAnswer, match="no end"):
        await answered(made, start, *[more] * (HEAD_BYTES_MAX // len(more) + 1))
    assert wire.closed


async def test_a_body_in_many_small_chunks_is_not_without_end() -> None:
    made, _ = connection()
    chunk = b"1;" + b"a" * 1000 + b"\r\nx\r\n"
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    found = await answered(made, start, *[chunk] * (HEAD_BYTES_MAX // 1000), b"0\r\n\r\n")
    assert len(found.body) == HEAD_BYTES_MAX // 1000


async def test_trailers_are_no_headers() -> None:
    made, _ = connection()
    found = await answered(made, END + b"Retry-After: 9\r\n\r\n")
    assert (found.body, found.headers) == (b"hello", {"transfer-encoding": "chunked"})


@pytest.mark.parametrize("status", [b"000", b"099"])
async def test_a_status_that_is_none_brings_no_body_to_the_next_answer(status: bytes) -> None:
    made, wire = connection()
    with pytest.raises(BadAnswer, match="not an HTTP answer: status"):
        await answered(made, WHOLE.replace(b"200", status) + WHOLE)
    assert wire.closed


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=6))
def test_nothing_that_comes_is_more_than_an_error(pieces: list[bytes]) -> None:
    async def feed() -> None:
        made, _ = connection(body_bytes_max=100)
        try:
            await answered(made, *pieces, lost=None)
        except (BadAnswer, Unreachable):
            pass

    asyncio.run(feed())


async def test_who_gives_up_closes_the_connection() -> None:
    made, wire = connection()
    asked = asyncio.ensure_future(made.request(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert wire.closed


async def test_a_stream_that_nobody_reads_makes_the_peer_wait() -> None:
    made, wire = connection()
    asked = asyncio.ensure_future(made.stream(b"GET / HTTP/1.1\r\n\r\n", silence_max_s=9.0))
    await asyncio.sleep(0)
    made.data_received(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (BUFFER_BYTES_MAX + 1))
    await asked
    assert not wire.reading
    assert len(await made.chunk(9.0)) == BUFFER_BYTES_MAX + 1
    assert wire.reading


# -- the pool ----------------------------------------------------------------------------------


class Peers:
    """A server that answers as told, and counts its connections and requests."""

    def __init__(self, *, requests_each: int = 1000) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self.closed = 0
        self._requests_each = requests_each

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(lambda: _Peer(self), "api.test", 80)

    @property
    def requests_each(self) -> int:
        return self._requests_each


class _Peer(asyncio.Protocol):
    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._served = 0

    def connection_made(self, transport: Any) -> None:
        self._peers.connections += 1
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._peers.requests.append(data)
        self._served += 1
        if self._served > self._peers.requests_each:
            self._transport.close()
            return
        self._transport.write(WHOLE)

    def connection_lost(self, error: Exception | None) -> None:
        self._peers.closed += 1


def direct(**options: Any) -> HttptoolsTransport:
    return HttptoolsTransport(Endpoint("http://api.test:80"), dial=virtual_dial, **options)


def test_a_read_on_a_stale_connection_is_asked_again_on_a_new_one_and_a_write_is_not(
    run_virtual: RunVirtual,
) -> None:
    async def scenario() -> list[int]:
        peers = Peers(requests_each=1)
        await peers.start()
        transport = direct()
        for _ in range(2):
            assert (await transport.request("GET", "/x")).body == b"hello"
        counts = [len(peers.requests), peers.connections]
        with pytest.raises(Unreachable) as caught:
            await transport.request("PATCH", "/x", body=b"{}")
        assert caught.value.sent  # nobody knows whether it took effect
        await transport.close()
        return [*counts, len(peers.requests)]

    # The second GET went out twice: unanswered on the first connection, answered on the second.
    assert run_virtual(scenario()) == [3, 2, 4]


async def lost_dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
    """A connection that its peer closed before anything could be written."""
    made, wire = make(), Wire()
    made.connection_made(wire)  # type: ignore[arg-type]
    wire.close()
    made.connection_lost(None)
    return made


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_connection_that_is_lost_before_it_is_used_is_unreachable(method: str) -> None:
    transport = HttptoolsTransport(Endpoint("http://api.test:80"), dial=lost_dial)
    with pytest.raises(Unreachable) as caught:
        await transport.request(method, "/x")
    assert not caught.value.sent
    with pytest.raises(Unreachable):
        async with transport.stream("/x", silence_max_s=1.0):
            raise AssertionError("there is no answer")


def test_connections_that_nobody_uses_are_closed(run_virtual: RunVirtual) -> None:
    async def scenario() -> tuple[int, int]:
        peers = Peers()
        await peers.start()
        transport = direct()
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(transport.request("GET", "/x"))
        before = peers.closed
        await asyncio.sleep(IDLE_CONNECTION_S + 1)
        return before, peers.closed

    assert run_virtual(scenario()) == (0, 5)


def test_no_more_connections_than_the_bound(run_virtual: RunVirtual) -> None:
    async def scenario() -> int:
        peers = Peers()
        await peers.start()
        transport = direct(connections_max=3)
        async with asyncio.TaskGroup() as group:
            for _ in range(30):
                group.create_task(transport.request("GET", "/x"))
        await transport.close()
        return peers.connections

    assert run_virtual(scenario()) == 3


def test_new_tls_settings_are_used_from_the_next_request_on(run_virtual: RunVirtual) -> None:
    async def scenario() -> tuple[int, list[object]]:
        peers = Peers()
        await peers.start()
        seen: list[object] = []

        async def dial(address: Address, make: Any) -> HttpConnection:
            seen.append(address.tls)
            return await virtual_dial(address, make)

        transport = HttptoolsTransport(Endpoint("http://api.test:80"), dial=dial)
        await transport.request("GET", "/x")
        settings: Any = object()
        transport.use_tls(settings)
        await transport.request("GET", "/x")
        await transport.request("GET", "/x")
        await transport.close()
        return peers.connections, [tls is settings for tls in seen]

    assert run_virtual(scenario()) == (2, [False, True])


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b"])
async def test_no_header_ends_its_line_early(value: str) -> None:
    with pytest.raises(ConfigError, match=r"'X-Thing'.*line end") as caught:
        await direct().request("GET", "/x", headers={"X-Thing": value})
    assert value not in str(caught.value)  # it may be a token


def test_paths_and_queries_are_quoted(run_virtual: RunVirtual) -> None:
    async def scenario() -> bytes:
        peers = Peers()
        await peers.start()
        transport = direct()
        await transport.request(
            "GET", "/api/v1/pods/a b\r\nX: y%20z", query={"labelSelector": "a=b,c in (d)"}
        )
        await transport.close()
        return peers.requests[0].split(b"\r\n")[0]

    assert run_virtual(scenario()) == (
        b"GET /api/v1/pods/a%20b%0D%0AX:%20y%20z?labelSelector=a%3Db%2Cc%20in%20%28d%29 HTTP/1.1"
    )


@pytest.mark.parametrize("server", ["", "api.test", "ftp://api.test", "http://"])
def test_what_is_no_server_is_said_at_once(server: str) -> None:
    with pytest.raises(ConfigError):
        HttptoolsTransport(Endpoint(server))
