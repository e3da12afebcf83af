"""The direct transport: which connection a request takes, how often it is sent, what is refused."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.core.http_connection import HttpConnection
from runnerscale.core.http_dial import Address
from runnerscale.scaleset.httptools_transport import HOSTS_MAX, IDLE_MAX, HttptoolsTransport
from runnerscale.scaleset.network import CONNECT_S, KEEP_ALIVE_S, NetworkOptions
from runnerscale.scaleset.transport import (
    CertificateRefused,
    NoAnswer,
    NotReached,
    Request,
    Response,
    TransportFault,
    UnusableRequest,
)
from tests.unit.core.test_http_connection import WHOLE, Wire
from tests.unit.kube.virtual_network import Peers, lost_dial, virtual_dial

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]
URL = "http://github.test/x"


def direct(**options: Any) -> HttptoolsTransport:
    return HttptoolsTransport(NetworkOptions(**{"dial": virtual_dial, **options}))


@asynccontextmanager
async def world(
    *hosts: str, requests_each: int = 1000, answer: bytes = WHOLE
) -> AsyncIterator[tuple[Peers, HttptoolsTransport]]:
    peers, transport = Peers(requests_each=requests_each, answer=answer), direct()
    await peers.start(*hosts or ("github.test",))
    try:
        yield peers, transport
    finally:
        await transport.close()
        await peers.stop()


async def ask(transport: HttptoolsTransport, method: str = "GET", url: str = URL) -> bytes:
    body = None if method in ("GET", "DELETE") else b"{}"
    return (await transport.send(Request(method, url, {}, body), timeout_s=30.0)).body


# -- connections that were kept ----------------------------------------------------------------


def test_one_after_the_other_share_a_connection(run_virtual: RunVirtual) -> None:
    async def scenario() -> tuple[int, int]:
        async with world() as (peers, transport):
            for method in ("GET", "POST", "PATCH", "DELETE", "GET"):
                assert await ask(transport, method) == b"hello"
            return peers.connections, len(peers.requests)

    assert run_virtual(scenario()) == (1, 5)


def test_a_get_on_a_stale_connection_is_sent_again_on_a_new_one(run_virtual: RunVirtual) -> None:
    async def scenario() -> tuple[int, int]:
        async with world(requests_each=1) as (peers, transport):
            assert await ask(transport) == b"hello"
            assert await ask(transport) == b"hello"
            return peers.connections, len(peers.requests)

    # The second went out twice: unanswered on the first connection, answered on the second.
    assert run_virtual(scenario()) == (2, 3)


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_what_may_have_taken_effect_is_sent_only_once(run_virtual: RunVirtual, method: str) -> None:
    async def scenario() -> int:
        async with world(requests_each=1) as (peers, transport):
            await ask(transport)
            with pytest.raises(NoAnswer) as caught:
                await ask(transport, method)
            assert caught.value.sent
            return len(peers.requests)

    assert run_virtual(scenario()) == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_connection_that_the_other_side_closed_is_not_used(
    run_virtual: RunVirtual, method: str
) -> None:
    async def scenario() -> tuple[int, int]:
        async with world() as (peers, transport):
            await ask(transport)
            peers.hang_up()
            await asyncio.sleep(1)
            assert await ask(transport, method) == b"hello"  # so that also a POST is never in doubt
            return peers.connections, len(peers.requests)

    assert run_virtual(scenario()) == (2, 2)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_new_connection_that_is_lost_before_it_is_used_got_nothing(method: str) -> None:
    with pytest.raises(NotReached) as caught:
        await ask(direct(dial=lost_dial), method)
    assert not caught.value.sent


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_new_connection_that_ends_without_an_answer_leaves_it_open(
    run_virtual: RunVirtual, method: str
) -> None:
    async def scenario() -> int:
        async with world(requests_each=0) as (peers, transport):
            with pytest.raises(NoAnswer) as caught:
                await ask(transport, method)
            assert caught.value.sent
            return len(peers.requests)

    assert run_virtual(scenario()) == 1


def test_connections_that_nobody_uses_are_closed(run_virtual: RunVirtual) -> None:
    async def scenario() -> tuple[int, int]:
        async with world() as (peers, transport):
            async with asyncio.TaskGroup() as group:
                for _ in range(5):
                    group.create_task(ask(transport))
            await asyncio.sleep(KEEP_ALIVE_S - 5)
            before = peers.closed
            await asyncio.sleep(10)
            return before, peers.closed

    assert run_virtual(scenario()) == (0, 5)


def test_a_burst_is_not_kept_for_ever(run_virtual: RunVirtual) -> None:
    async def scenario() -> tuple[int, int]:
        async with world() as (peers, transport):
            async with asyncio.TaskGroup() as group:
                for _ in range(IDLE_MAX + 10):
                    group.create_task(ask(transport))
            await asyncio.sleep(1)
            return peers.connections, peers.closed

    assert run_virtual(scenario()) == (IDLE_MAX + 10, 10)


def test_each_host_has_connections_of_its_own(run_virtual: RunVirtual) -> None:
    async def scenario() -> int:
        async with world("github.test", "pipelines.test") as (peers, transport):
            for _ in range(3):
                await ask(transport, url="http://github.test/a")
                await ask(transport, url="http://pipelines.test/a")
            return peers.connections

    assert run_virtual(scenario()) == 2


def test_hosts_that_redirects_name_are_not_remembered_for_ever(run_virtual: RunVirtual) -> None:
    async def scenario() -> int:
        hosts = [f"h{number}.test" for number in range(HOSTS_MAX + 1)]
        async with world(*hosts) as (peers, transport):
            for host in hosts:
                await ask(transport, url=f"http://{host}/")
            await asyncio.sleep(1)
            return peers.closed

    assert run_virtual(scenario()) == HOSTS_MAX


def test_closing_ends_calls_that_wait_and_is_no_end_for_good(run_virtual: RunVirtual) -> None:
    async def scenario() -> int:
        async with world(answer=b"") as (peers, transport):
            asked = asyncio.get_running_loop().create_task(ask(transport))
            await asyncio.sleep(1)
            await transport.close()
            with pytest.raises(NoAnswer):
                await asked
            peers.answer = WHOLE
            assert await ask(transport) == b"hello"
            return peers.connections

    assert run_virtual(scenario()) == 2


# -- what comes back ---------------------------------------------------------------------------

PIECES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 503 Not Now\r\n",
            b"Content-Length: 5\r\n",
            b"Content-Encoding: gzip\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"\r\n",
            b"hello",
            b"5\r\nhello\r\n0\r\n\r\n",
        ]
    ),
)


@given(st.lists(PIECES, max_size=8))
def test_whatever_comes_is_a_response_or_a_fault_of_the_seam(pieces: list[bytes]) -> None:
    async def dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
        made, wire = make(), Wire()
        made.connection_made(wire)  # type: ignore[arg-type]

        def answer() -> None:
            for piece in pieces:
                made.data_received(piece)
            made.connection_lost(None)

        asyncio.get_running_loop().call_soon(answer)
        return made

    async def feed() -> Response | str:
        request = Request("POST", URL, {"Authorization": "hush"}, b"hush")
        try:
            return await direct(dial=dial, body_max_bytes=100).send(request, timeout_s=5.0)
        except TransportFault as fault:
            return str(fault)

    found = asyncio.run(feed())
    if isinstance(found, str):
        assert "hush" not in found
    else:
        assert found.status >= 200
        assert not (found.body and found.body_fault)


# -- time --------------------------------------------------------------------------------------


async def no_dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
    await asyncio.sleep(1000)
    raise AssertionError("somebody waited")


@pytest.mark.parametrize(("timeout_s", "takes_s"), [(30.0, CONNECT_S), (5.0, 5.0)])
def test_a_dead_address_is_known_to_have_got_nothing(
    run_virtual: RunVirtual, timeout_s: float, takes_s: float
) -> None:
    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        before = loop.time()
        with pytest.raises(NotReached, match=f"no connection within {takes_s:g} s"):
            await direct(dial=no_dial).send(Request("POST", URL, {}, b""), timeout_s=timeout_s)
        return loop.time() - before

    assert run_virtual(scenario()) == pytest.approx(takes_s, abs=0.1)


def test_silence_ends_the_call_and_the_connection(run_virtual: RunVirtual) -> None:
    async def scenario() -> int:
        async with world(answer=b"") as (peers, transport):
            with pytest.raises(NoAnswer, match="no answer within 30 s"):
                await ask(transport)
            await asyncio.sleep(1)
            return peers.closed  # half an answer may still be on its way

    assert run_virtual(scenario()) == 1


# -- what is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "line", "host"),
    [
        ("http://github.test", "GET / HTTP/1.1", "github.test"),
        ("http://github.test?a=b", "GET /?a=b HTTP/1.1", "github.test"),
        ("http://github.test:80/a%2Fb?c=%20#d", "GET /a%2Fb?c=%20 HTTP/1.1", "github.test"),
        ("HTTP://GitHub.test/A", "GET /A HTTP/1.1", "github.test"),
        ("http://github.test/é", "GET /%C3%A9 HTTP/1.1", "github.test"),
    ],
)
def test_the_url_decides_line_and_host(
    run_virtual: RunVirtual, url: str, line: str, host: str
) -> None:
    async def scenario() -> list[str]:
        async with world() as (peers, transport):
            await ask(transport, url=url)
            return peers.requests[0].decode().split("\r\n")

    assert run_virtual(scenario()) == [line, f"Host: {host}", "", ""]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://[::1]:8080/", ("::1", 8080, "[::1]:8080")),
        ("http://bücher.test/", ("xn--bcher-kva.test", 80, "xn--bcher-kva.test")),
    ],
)
async def test_odd_hosts_are_asked_for_as_they_are_meant(
    url: str, address: tuple[str, int, str]
) -> None:
    seen: list[Address] = []
    wire = Wire()

    async def dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
        seen.append(address)
        made = make()
        made.connection_made(wire)  # type: ignore[arg-type]
        asyncio.get_running_loop().call_soon(made.data_received, WHOLE)
        return made

    assert await ask(direct(dial=dial), url=url) == b"hello"
    host, port, named = address
    assert [(found.host, found.port, found.tls) for found in seen] == [(host, port, None)]
    assert wire.sent.split(b"\r\n")[1] == f"Host: {named}".encode()


@pytest.mark.parametrize(
    "url",
    [
        *("", "nothing", "gopher://h/", "http://", "http:///x", "https://h:99999/", "https://[::1"),
        *("http://u:hush@h/", "http://h/a b", "http://h/a\r\nX: hush", "http://h\t.test/"),
        *("http://h/\0", "http://é..test/"),
    ],
)
async def test_an_address_that_cannot_be_asked_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(UnusableRequest) as caught:
        await ask(direct(dial=no_dial), url=url)
    assert "hush" not in str(caught.value)


async def test_a_name_that_no_resolver_takes_is_said() -> None:
    with pytest.raises(UnusableRequest, match="no name of a host"):
        await ask(HttptoolsTransport(), url=f"http://{'a' * 64}.test/")


@pytest.mark.parametrize("method", ["GET /evil HTTP/1.1\r\nX:", "get", "", "HEAD", "CONNECT"])
async def test_a_method_that_is_not_spoken_is_refused(method: str) -> None:
    with pytest.raises(UnusableRequest, match="method"):
        await ask(direct(dial=no_dial), method)


@pytest.mark.parametrize("name", ["X\r\nY", "X\0"])
async def test_no_header_ends_its_line_early(name: str) -> None:
    with pytest.raises(UnusableRequest):
        await direct(dial=no_dial).send(Request("GET", URL, {name: "hush"}), timeout_s=1.0)


async def test_a_certificate_that_nobody_trusts_is_told_apart() -> None:
    async def dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
        raise ssl.SSLCertVerificationError("self-signed")

    with pytest.raises(CertificateRefused, match=r"certificate refused: .*self-signed"):
        await ask(direct(dial=dial), url="https://github.test/")
