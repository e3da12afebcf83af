"""Cutting a stream into lines, and both transports on a network that does not exist."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.kube.aiohttp_transport import AiohttpTransport
from runnerscale.kube.errors import BadAnswer, Unreachable
from runnerscale.kube.httptools_transport import HttptoolsTransport
from runnerscale.kube.transport import Endpoint, LineSplitter, Transport
from tests.unit.kube.virtual_network import virtual_dial

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
TransportTo = Callable[[str], Transport]
RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


@given(st.lists(st.binary(max_size=8)), st.lists(st.integers(0, 60)))
def test_lines_do_not_depend_on_where_chunks_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    clean = [line.replace(b"\n", b"") for line in lines]
    stream = b"".join(line + b"\n" for line in clean) + b"rest"
    splitter = LineSplitter()
    found: list[bytes] = []
    begin = 0
    for cut in [*sorted(cuts), len(stream)]:
        found += splitter.feed(stream[begin:cut])
        begin = max(begin, min(cut, len(stream)))
    assert found == [line for line in clean if line]
    assert splitter.rest == b"rest"


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    splitter = LineSplitter(line_bytes_max=10)
    splitter.feed(b"12345")
    with pytest.raises(BadAnswer):
        splitter.feed(b"678901")


class VirtualConnector(aiohttp.BaseConnector):
    """Connects through the loop, which may be a virtual one (research/libraries.md 6)."""

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(self._factory, req.url.host, req.url.port)
        return protocol


async def serve(handler: Handler) -> str:
    server = web.Server(handler)
    loop = asyncio.get_running_loop()
    await loop.create_server(server, "api.test", 80)
    return "http://api.test:80"


def through_aiohttp(server: str) -> Transport:
    return AiohttpTransport(
        Endpoint(server), connector_factory=lambda limit: VirtualConnector(limit=limit)
    )


def directly(server: str) -> Transport:
    return HttptoolsTransport(Endpoint(server), dial=virtual_dial)


@pytest.fixture(params=[directly, through_aiohttp], ids=["httptools", "aiohttp"])
def transport_to(request: pytest.FixtureRequest) -> TransportTo:
    made: TransportTo = request.param
    return made


def test_a_whole_answer_on_virtual_time(run_virtual: RunVirtual, transport_to: TransportTo) -> None:
    seen: dict[str, Any] = {}

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.update(
            path=request.path,
            query=dict(request.query),
            headers={k.lower(): v for k, v in request.headers.items()},
            body=await request.read(),
        )
        return web.Response(status=201, body=b"done", headers={"X-Thing": "1"})

    async def scenario() -> Any:
        url = await serve(handler)
        transport = transport_to(url + "/prefix/")
        found = await transport.request(
            "POST",
            "/api/v1/pods",
            query={"labelSelector": "a=b,c!=d"},
            headers={"Accept": "application/json"},
            body=b"{}",
        )
        await transport.close()
        return found

    found = run_virtual(scenario())
    assert (found.status, found.body, found.headers["x-thing"]) == (201, b"done", "1")
    assert seen["path"] == "/prefix/api/v1/pods"
    assert seen["query"] == {"labelSelector": "a=b,c!=d"}
    assert seen["body"] == b"{}"
    # No header that nobody asked for: not even compression, which costs more than it saves here.
    assert set(seen["headers"]) == {"host", "accept", "content-length"}


def test_a_redirect_is_an_answer_and_not_followed(
    run_virtual: RunVirtual, transport_to: TransportTo
) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://elsewhere/"})

    async def scenario() -> int:
        url = await serve(handler)
        transport = transport_to(url)
        try:
            return (await transport.request("GET", "/")).status
        finally:
            await transport.close()

    assert run_virtual(scenario()) == 302


async def _read_stream(
    transport_to: TransportTo, handler: Handler, silence_max_s: float
) -> list[bytes]:
    url = await serve(handler)
    transport = transport_to(url)
    lines: list[bytes] = []
    try:
        async with transport.stream("/watch", silence_max_s=silence_max_s) as stream:
            assert stream.status == 200
            async for line in stream.lines():
                lines.append(line)
    except Unreachable as error:
        lines.append(f"Unreachable: {error}".encode())
    finally:
        await transport.close()
    return lines


def test_a_stream_comes_line_by_line(run_virtual: RunVirtual, transport_to: TransportTo) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b"one\ntw", b"o\n\nthree\n"):
            await response.write(part)
            await asyncio.sleep(100)
        return response

    assert run_virtual(_read_stream(transport_to, handler, 300)) == [b"one", b"two", b"three"]


def test_a_silent_stream_is_given_up(run_virtual: RunVirtual, transport_to: TransportTo) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(10_000)
        return response

    async def scenario() -> tuple[list[bytes], float]:
        lines = await _read_stream(transport_to, handler, 315)
        return lines, asyncio.get_running_loop().time()

    lines, took_s = run_virtual(scenario())
    assert lines[0] == b"one"
    assert lines[1].startswith(b"Unreachable")
    assert 300 < took_s < 400


def test_an_answer_cut_in_a_line_is_no_end_in_order(
    run_virtual: RunVirtual, transport_to: TransportTo
) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\nhal")
        return response

    lines = run_virtual(_read_stream(transport_to, handler, 300))
    assert lines[0] == b"one"
    assert b"middle of a line" in lines[1]


def test_the_environment_does_not_send_us_through_a_proxy(
    run_virtual: RunVirtual, transport_to: TransportTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://nowhere.invalid:1")
    monkeypatch.delenv("no_proxy", raising=False)

    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(body=b"direct")

    async def scenario() -> bytes:
        url = await serve(handler)
        transport = transport_to(url)
        try:
            return (await transport.request("GET", "/")).body
        finally:
            await transport.close()

    assert run_virtual(scenario()) == b"direct"
