"""Our own HTTP connection: what a peer may send, in whatever pieces it comes.

Expected values follow RFC 9112: message bodies (6.3), interim answers (RFC 9110 15.2), answers
that end with the connection.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.core.http_connection import (
    BUFFER_BYTES_MAX,
    HEAD_BYTES_MAX,
    BrokenConnection,
    HttpConnection,
    HttpFault,
    NotHttp,
    StaleConnection,
)


@dataclass(frozen=True)
class Answer:
    """What the connection has of an answer when its body is there."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes


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
    made, wire = HttpConnection(**{"body_bytes_max": 1 << 20, **options}), Wire()
    made.connection_made(wire)  # type: ignore[arg-type]
    return made, wire


async def answered(made: HttpConnection, *pieces: bytes, lost: Any = ...) -> Answer:
    asked = asyncio.ensure_future(made.request(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    for piece in pieces:
        made.data_received(piece)
    if lost is not ...:
        made.connection_lost(lost)
    body = await asked
    return Answer(made.status, made.reason, made.headers, body)


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Thing: a\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


@pytest.mark.parametrize("raw", [WHOLE, CHUNKED, INTERIM + WHOLE])
def test_an_answer_is_the_same_wherever_it_is_cut(raw: bytes) -> None:
    async def all_cuts() -> None:
        for place in range(1, len(raw)):
            made, _ = connection()
            found = await answered(made, raw[:place], raw[place:])
            assert (found.status, found.reason, found.body) == (200, "OK", b"hello")
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
    with pytest.raises(BrokenConnection, match="the answer was cut"):
        await answered(made, b"HTTP/1.1 200 OK\r\n\r\nhel", lost=ConnectionResetError())
    made, _ = connection()
    with pytest.raises(BrokenConnection, match="the answer was cut"):
        await answered(made, WHOLE[:-1], lost=None)
    made, _ = connection()
    with pytest.raises(BrokenConnection, match="the connection broke"):
        await answered(made, lost=None)


async def test_a_connection_used_before_that_ends_without_a_byte_is_stale() -> None:
    made, _ = connection()
    await answered(made, WHOLE)
    with pytest.raises(StaleConnection):
        await answered(made, lost=None)


async def test_what_came_before_the_body_broke_is_kept() -> None:
    made, _ = connection()
    with pytest.raises(BrokenConnection):
        await answered(made, WHOLE[:-1].replace(b"200 OK", b"503 Not Now"), lost=None)
    assert (made.has_head, made.status, made.reason) == (True, 503, "Not Now")
    assert made.headers["x-thing"] == "a"
    made, _ = connection()
    with pytest.raises(BrokenConnection):
        await answered(made, WHOLE[:30], lost=None)
    assert not made.has_head


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
    with pytest.raises(NotHttp, match=r"^not an HTTP answer"):
        await answered(made, raw)
    assert wire.closed


async def test_a_head_without_end_is_refused() -> None:
    made, _ = connection()
    line = b"X: " + b"a" * 1000 + b"\r\n"
    with pytest.raises(NotHttp, match="no end"):
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
    with pytest.raises(NotHttp, match="no end"):
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
    with pytest.raises(NotHttp, match=r"^not an HTTP answer: status"):
        await answered(made, WHOLE.replace(b"200", status) + WHOLE)
    assert wire.closed


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=6))
def test_nothing_that_comes_is_more_than_an_error(pieces: list[bytes]) -> None:
    async def feed() -> None:
        made, _ = connection(body_bytes_max=100)
        try:
            await answered(made, *pieces, lost=None)
        except HttpFault:
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
