"""Pages over real sockets: what is answered, and what hostile clients get."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from runnerscale.core import page_server
from runnerscale.core.page_server import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    Page,
    PageServer,
    text_page,
)

BIG = b"x" * (8 * 1024 * 1024)


def broken(_query: str) -> Page:
    raise ValueError("no")


@asynccontextmanager
async def served() -> AsyncIterator[PageServer]:
    release = asyncio.Event()

    async def slow(query: str) -> Page:
        if query != "now":
            await release.wait()
        return text_page("at last")

    server = PageServer(
        {
            "/page": lambda query: text_page(f"the page {query}".rstrip()),
            "/big": lambda _query: Page(BIG),
            "/broken": broken,
            "/slow": slow,
        }
    )
    await server.listen("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.close()


async def said(server: PageServer, raw: bytes, *, end: bool = False) -> bytes:
    """All that comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(raw)
    if end:
        writer.write_eof()
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


def asked(line: str, *headers: str) -> bytes:
    return "\r\n".join([line, "Host: x", *headers, "Connection: close", "", ""]).encode()


@pytest.mark.parametrize(
    ("line", "status", "body"),
    [
        ("GET /page HTTP/1.1", 200, b"the page"),
        ("GET /page?a=1&b HTTP/1.1", 200, b"the page a=1&b"),
        ("GET /p%61ge HTTP/1.1", 200, b"the page"),
        ("GET http://elsewhere/page HTTP/1.1", 200, b"the page"),
        ("GET /page HTTP/1.0", 200, b"the page"),
        ("HEAD /page HTTP/1.1", 200, b""),
        ("GET /slow?now HTTP/1.1", 200, b"at last"),
        ("GET /other HTTP/1.1", 404, b"404: Not Found"),
        ("GET /page/ HTTP/1.1", 404, b"404: Not Found"),
        ("GET /x/../page HTTP/1.1", 404, b"404: Not Found"),
        ("GET /broken HTTP/1.1", 500, b"500: Internal Server Error"),
        ("POST /page HTTP/1.1", 405, b"405: Method Not Allowed"),
        ("OPTIONS /page HTTP/1.1", 405, b"405: Method Not Allowed"),
        ("DELETE /other HTTP/1.1", 404, b"404: Not Found"),
        ("NONSENSE /page HTTP/1.1", 400, b"400: Bad Request"),
        ("GET /page HTTP/9.9", 400, b"400: Bad Request"),
        ("GET /pa ge HTTP/1.1", 400, b"400: Bad Request"),
        ("\x16\x03\x01\x02", 400, b"400: Bad Request"),
    ],
)
async def test_what_is_answered(line: str, status: int, body: bytes) -> None:
    async with served() as server:
        head, _, got = (await said(server, asked(line))).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert got == body
    assert (b"Allow: GET,HEAD" in head) is (status == 405)
    if not line.startswith("HEAD"):
        assert f"Content-Length: {len(body)}".encode() in head
    assert b"Content-Type: text/plain; charset=utf-8" in head


async def test_a_head_says_how_long_the_page_is() -> None:
    async with served() as server:
        assert b"Content-Length: 8\r\n" in await said(server, asked("HEAD /page HTTP/1.1"))


async def test_a_connection_serves_one_request_after_the_other() -> None:
    async with served() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for number in range(3):
            writer.write(f"GET /page?{number} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"Connection: close" not in head
            assert await reader.readexactly(10) == f"the page {number}".encode()
        writer.close()


async def test_a_client_that_would_speak_something_else_is_answered_as_usual() -> None:
    headers = ("Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    async with served() as server:
        raw = asked("GET /page HTTP/1.1", *headers).replace(b"close", b"Upgrade, HTTP2-Settings")
        got = await said(server, raw)
    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert got.endswith(b"the page")


async def test_a_body_is_dropped_whatever_its_form() -> None:
    chunked = b"5\r\nhello\r\n0\r\n\r\n"
    async with served() as server:
        got = await said(server, asked("GET /page HTTP/1.1", "Content-Length: 5") + b"hello")
        assert got.endswith(b"the page")
        raw = asked("GET /page HTTP/1.1", "Transfer-Encoding: chunked") + chunked
        assert (await said(server, raw)).endswith(b"the page")
        waits = asked("GET /page HTTP/1.1", "Content-Length: 5", "Expect: 100-continue")
        got = await said(server, waits + b"hello")
        assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /page HTTP/1.1\r\nX: " + b"a" * 2 * HEAD_BYTES_MAX, 431),
        (b"GET /" + b"a" * 2 * HEAD_BYTES_MAX, 431),
        (b"GET /page HTTP/1.1\r\n" + b"x: y\r\n" * HEAD_BYTES_MAX, 431),
        (
            b"GET /page HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + b"a" * 2 * BODY_BYTES_MAX,
            413,
        ),
        (b"GET /page HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /page\rHTTP/1.1\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nX: a\0b\r\n\r\n", 400),
    ],
)
async def test_too_much_or_no_http_is_refused(raw: bytes, status: int) -> None:
    async with served() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(raw)
        async with asyncio.timeout(10):
            assert (await reader.readline()).split()[1] == str(status).encode()
        writer.close()
        assert (await said(server, asked("GET /page HTTP/1.1"))).endswith(b"the page")


async def test_a_name_in_the_url_cannot_add_a_header_to_the_answer() -> None:
    async with served() as server:
        got = await said(server, asked("GET /page?%0d%0aX-Evil:%201 HTTP/1.1"))
    assert b"X-Evil" not in got.partition(b"\r\n\r\n")[0]


async def test_of_requests_in_a_row_without_waiting_only_the_first_is_answered() -> None:
    async with served() as server:
        raw = b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
        got = await said(server, raw)
        assert got.count(b"HTTP/1.1 200 OK") == 1
        assert b"Connection: close" in got


async def test_half_a_request_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "REQUEST_S", 0.2)
    async with served() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            async with asyncio.timeout(5):
                for letter in b"GET /page HTTP/1.1\r\nX: " + b"a" * 1000:
                    writer.write(bytes([letter]))
                    await writer.drain()
                    await asyncio.sleep(0.01)  # slow, but never silent
                    if reader.at_eof():
                        break
        except ConnectionError:
            pass
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()


async def test_silence_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "IDLE_S", 0.1)
    async with served() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            async with asyncio.timeout(5):
                await reader.readexactly(1)
        writer.close()


async def test_an_answer_that_nobody_reads_is_not_made_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        for _ in range(10):
            writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.sleep(0.05)
        got = 0
        try:
            async with asyncio.timeout(10):
                while piece := await reader.read(65536):
                    got += len(piece)
        except ConnectionError:
            pass
        assert got < len(BIG) + 1000
        writer.close()


async def test_who_has_said_all_still_hears_a_late_answer() -> None:
    async with served() as server:
        got = await said(server, b"GET /slow?now HTTP/1.1\r\nHost: x\r\n\r\n", end=True)
        assert got.endswith(b"at last")
        assert await said(server, b"", end=True) == b""
        assert await said(server, b"GET /page HT", end=True) == b""


async def test_closing_gives_up_what_is_being_made() -> None:
    async with served() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.05)
        async with asyncio.timeout(5):
            await server.close()
            assert await reader.read() == b""
        assert server.port == 0
        writer.close()
