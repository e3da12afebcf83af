"""The transports on real sockets: TLS, proxies, redirects, what breaks on the way.

Each test runs for what `open_transport` gives and for aiohttp alone, which serves proxies.
"""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import async_solipsism
import pytest
import trustme
from aiohttp import ClientRequest, ClientTimeout, web
from aiohttp.connector import BaseConnector
from cryptography.x509 import load_pem_x509_certificates

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.scaleset.aiohttp_transport import AiohttpTransport
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.errors import Unavailable
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.proxy import ProxyRules
from runnerscale.scaleset.retry import RetryPolicy
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.transport import (
    CertificateRefused,
    NoAnswer,
    NotReached,
    ProxyRefused,
    Request,
    Response,
    Transport,
    UnusableRequest,
    send_following,
)
from tests.unit.kube.virtual_network import virtual_dial

HandlerType = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def echo(request: web.Request) -> web.Response:
    return web.json_response(
        {
            "method": request.method,
            "path": request.raw_path,
            "host": request.host,
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": (await request.read()).decode(),
        }
    )


@asynccontextmanager
async def serving(handler: HandlerType, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


Kind = Callable[[NetworkOptions], Transport]
TransportOf = Callable[..., AbstractAsyncContextManager[Transport]]


@pytest.fixture(params=[open_transport, AiohttpTransport], ids=["chosen", "aiohttp"])
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def transport_of(kind: Kind) -> TransportOf:
    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[Transport]:
        transport = kind(NetworkOptions(**options))
        try:
            yield transport
        finally:
            await transport.close()

    return opened


async def loopback(_host: str, _port: int) -> list[str]:
    """Every name lives on this machine."""
    return ["127.0.0.1"]


def get(url: str, **headers: str) -> Request:
    return Request("GET", url, headers)


def json_of(response: Response) -> Any:
    return json.loads(response.body)


@pytest.mark.behaviour("C2 T9")
async def test_what_is_sent_is_what_was_asked_for_and_nothing_more(
    kind: Kind, transport_of: TransportOf
) -> None:
    async with serving(echo) as port, transport_of() as transport:
        request = Request(
            "POST",
            f"http://127.0.0.1:{port}/a%26b?name=a%20b%2Fc",
            {"Authorization": "Bearer t", "User-Agent": '{"system":"x"}'},
            b"the-body",
        )
        response = await transport.send(request, timeout_s=5)
    seen = json_of(response)
    assert (response.status, response.reason) == (200, "OK")
    assert (seen["method"], seen["path"], seen["body"]) == (
        "POST",
        "/a%26b?name=a%20b%2Fc",
        "the-body",
    )
    packed = {"accept-encoding"} if kind is AiohttpTransport else set()
    assert set(seen["headers"]) == {
        "host",
        "authorization",
        "user-agent",
        "content-length",
        *packed,
    }
    assert response.header("Content-Type").startswith("application/json")
    assert response.date_s() is not None


async def test_an_empty_post_says_that_it_is_empty(transport_of: TransportOf) -> None:
    async with serving(echo) as port, transport_of() as transport:
        response = await transport.send(Request("POST", f"http://127.0.0.1:{port}/"), timeout_s=5)
    assert json_of(response)["headers"].get("content-length", "0") == "0"


async def test_hosted_names_can_live_on_loopback(transport_of: TransportOf) -> None:
    async with serving(echo) as port, transport_of(resolver=loopback) as transport:
        response = await transport.send(get(f"http://api.github.com:{port}/meta"), timeout_s=5)
    assert json_of(response)["host"] == f"api.github.com:{port}"


# -- TLS -------------------------------------------------------------------------------------


def server_tls(ca: trustme.CA, name: str = "localhost") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    return context


def pem(ca: trustme.CA) -> str:
    return ca.cert_pem.bytes().decode()


@pytest.mark.behaviour("C2 T80", "C1 T75", "C2 T79")
async def test_a_private_root_has_to_be_given(transport_of: TransportOf) -> None:
    ca = trustme.CA()
    async with serving(echo, server_tls(ca)) as port:
        url = f"https://localhost:{port}/"
        async with transport_of(resolver=loopback) as transport:
            with pytest.raises(CertificateRefused, match="certificate refused") as caught:
                await transport.send(get(url), timeout_s=5)
            assert not caught.value.worth_repeating
        async with transport_of(resolver=loopback, root_ca_pem=pem(ca)) as transport:
            assert transport.has_root_ca
            assert (await transport.send(get(url), timeout_s=5)).status == 200
        async with transport_of(resolver=loopback, verify_tls=False) as transport:
            assert (await transport.send(get(url), timeout_s=5)).status == 200
        other = pem(trustme.CA())
        async with transport_of(resolver=loopback, root_ca_pem=other) as transport:
            with pytest.raises(CertificateRefused):
                await transport.send(get(url), timeout_s=5)


@pytest.mark.behaviour("C2 T80")
async def test_an_intermediate_alone_is_enough_for_what_it_signed(
    transport_of: TransportOf,
) -> None:
    intermediate = trustme.CA().create_child_ca()
    chain = intermediate.issue_cert("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    chain.configure_cert(context)
    only = pem(intermediate)
    assert len(load_pem_x509_certificates(only.encode())) == 1
    async with (
        serving(echo, context) as port,
        transport_of(resolver=loopback, root_ca_pem=only) as transport,
    ):
        url = f"https://localhost:{port}/"
        assert (await transport.send(get(url), timeout_s=5)).status == 200


async def test_a_certificate_for_another_name_is_refused(transport_of: TransportOf) -> None:
    ca = trustme.CA()
    async with (
        serving(echo, server_tls(ca, "other.example")) as port,
        transport_of(resolver=loopback, root_ca_pem=pem(ca)) as transport,
    ):
        with pytest.raises(CertificateRefused):
            await transport.send(get(f"https://localhost:{port}/"), timeout_s=5)


# -- proxies ---------------------------------------------------------------------------------


@dataclass
class Proxy:
    """A forward proxy that writes down who came through: by absolute URL, or by CONNECT."""

    answer: bytes = b""  # instead of passing on
    target: tuple[str, int] = ("127.0.0.1", 0)
    heads: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *lines = head.strip().split("\r\n")
            pairs = (text.partition(":") for text in lines)
            self.heads.append((line, {n.lower(): v.strip() for n, _, v in pairs}))
            if self.answer:
                writer.write(self.answer)
            else:
                await self._pass_on(line, head, reader, writer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _pass_on(
        self, line: str, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self.target)
        if line.startswith("CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far_writer.write(head.encode("latin-1"))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(reader, far_writer))
            group.create_task(self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def proxying(proxy: Proxy, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


BASIC = "Basic " + base64.b64encode("usér:pa@ss".encode()).decode()


@pytest.mark.behaviour("C2 T81", "C1 T74", "C1 T183")
async def test_an_http_target_goes_through_its_proxy_with_credentials(
    transport_of: TransportOf,
) -> None:
    proxy = Proxy()
    async with serving(echo) as port, proxying(proxy) as proxy_port:
        proxy.target = ("127.0.0.1", port)
        rules = ProxyRules(http=SecretText(f"http://us%C3%A9r:pa%40ss@127.0.0.1:{proxy_port}"))
        async with transport_of(proxies=rules) as transport:
            assert transport.has_proxy
            response = await transport.send(get("http://example.com/x?y=z"), timeout_s=5)
    assert json_of(response)["host"] == "example.com"
    ((line, headers),) = proxy.heads
    assert line == "GET http://example.com/x?y=z HTTP/1.1"
    assert headers["proxy-authorization"] == BASIC


@pytest.mark.behaviour("C2 T81", "C1 T74", "C1 T183")
@pytest.mark.parametrize("tls_to_proxy", [False, True])
async def test_an_https_target_is_tunnelled_and_the_proxy_sees_no_token(
    tls_to_proxy: bool, transport_of: TransportOf
) -> None:
    ca, proxy = trustme.CA(), Proxy()
    proxy_tls = server_tls(ca, "proxy.example") if tls_to_proxy else None
    scheme = "https" if tls_to_proxy else "http"
    async with (
        serving(echo, server_tls(ca, "ghes.example")) as port,
        proxying(proxy, proxy_tls) as proxy_port,
    ):
        proxy.target = ("127.0.0.1", port)
        url = f"{scheme}://us%C3%A9r:pa%40ss@proxy.example:{proxy_port}"
        rules = ProxyRules(https=SecretText(url), http=SecretText("http://127.0.0.1:1"))
        async with transport_of(proxies=rules, root_ca_pem=pem(ca), resolver=loopback) as transport:
            request = get("https://ghes.example/api/v3/meta", Authorization="Bearer t")
            response = await transport.send(request, timeout_s=5)
    assert json_of(response)["headers"]["authorization"] == "Bearer t"
    ((line, headers),) = proxy.heads
    assert line == "CONNECT ghes.example:443 HTTP/1.1"
    assert headers["proxy-authorization"] == BASIC
    assert "authorization" not in headers


@pytest.mark.behaviour("C2 T82", "C1 T183")
async def test_what_is_exempt_goes_direct(transport_of: TransportOf) -> None:
    async with (
        serving(echo) as port,
        transport_of(
            proxies=ProxyRules(http=SecretText("http://127.0.0.1:1"), no_proxy=("example.com",)),
            resolver=loopback,
        ) as transport,
    ):
        for host in ("example.com", "a.example.com", "localhost", "127.0.0.1"):
            assert (await transport.send(get(f"http://{host}:{port}/"), timeout_s=5)).status == 200
        with pytest.raises(NotReached):
            await transport.send(get(f"http://example.org:{port}/"), timeout_s=5)


async def test_a_proxy_that_refuses_is_told_without_its_secrets(transport_of: TransportOf) -> None:
    proxy = Proxy(answer=b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    async with proxying(proxy) as proxy_port:
        rules = ProxyRules(https=SecretText(f"http://user:hush@127.0.0.1:{proxy_port}"))
        async with transport_of(proxies=rules) as transport:
            with pytest.raises(ProxyRefused, match="the proxy answered 407") as caught:
                await transport.send(get("https://example.com/"), timeout_s=5)
    assert caught.value.denied
    assert "hush" not in str(caught.value)


# -- what breaks -----------------------------------------------------------------------------


async def test_a_refused_connection_was_not_sent(transport_of: TransportOf) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with transport_of() as transport:
            with pytest.raises(NotReached) as caught:
                await transport.send(get(f"http://127.0.0.1:{port}/"), timeout_s=5)
            assert not caught.value.sent


async def test_a_name_that_is_not_found_was_not_sent(transport_of: TransportOf) -> None:
    async def nowhere(_host: str, _port: int) -> list[str]:
        raise OSError("no such name")

    async with transport_of(resolver=nowhere) as transport:
        with pytest.raises(NotReached, match="no such name"):
            await transport.send(get("http://nowhere.example/"), timeout_s=5)


@asynccontextmanager
async def raw_server(answer: bytes, *, hold: bool = False) -> AsyncIterator[str]:
    held = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        if hold:
            await held.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        held.set()
        server.close()


@pytest.mark.parametrize("answer", [b"", b"not http at all\r\n\r\n"])
async def test_no_answer_may_have_taken_effect(answer: bytes, transport_of: TransportOf) -> None:
    async with raw_server(answer) as url, transport_of() as transport:
        with pytest.raises(NoAnswer) as caught:
            await transport.send(get(url), timeout_s=5)
        assert caught.value.sent


async def test_silence_ends_with_the_attempts_time(transport_of: TransportOf) -> None:
    async with raw_server(b"", hold=True) as url, transport_of() as transport:
        with pytest.raises(NoAnswer, match=r"no answer within 0\.05 s"):
            await transport.send(get(url), timeout_s=0.05)


async def test_a_body_that_breaks_off_keeps_status_and_ids(transport_of: TransportOf) -> None:
    answer = b"HTTP/1.1 500 Oops\r\nActivityId: a\r\nContent-Length: 100\r\n\r\nhalf"
    async with raw_server(answer) as url, transport_of() as transport:
        response = await transport.send(get(url), timeout_s=5)
    assert (response.status, response.reason, response.header("activityid")) == (500, "Oops", "a")
    assert response.body == b""
    assert response.body_fault


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_body_has_a_largest_size_even_unpacked(
    compressed: bool, transport_of: TransportOf
) -> None:
    async def large(request: web.Request) -> web.Response:
        response = web.Response(body=b"x" * 1_000_000)
        if compressed:
            response.enable_compression(web.ContentCoding.gzip)
        return response

    async with serving(large) as port, transport_of(body_max_bytes=100_000) as transport:
        response = await transport.send(get(f"http://127.0.0.1:{port}/"), timeout_s=5)
        assert "larger than 100000 bytes" in response.body_fault
        assert response.body == b""
    async with serving(large) as port, transport_of() as transport:
        response = await transport.send(get(f"http://127.0.0.1:{port}/"), timeout_s=5)
        assert len(response.body) == 1_000_000


@pytest.mark.parametrize("url", ["gopher://h/", "nothing"])
async def test_an_address_that_cannot_be_used_is_told(url: str, transport_of: TransportOf) -> None:
    async with transport_of() as transport:
        with pytest.raises(UnusableRequest):
            await transport.send(get(url), timeout_s=5)


async def test_a_header_that_cannot_be_sent_is_told_and_not_quoted(
    transport_of: TransportOf,
) -> None:
    async with serving(echo) as port, transport_of() as transport:
        request = get(f"http://127.0.0.1:{port}/", Authorization="Bearer hush\r\nX: y")
        with pytest.raises(UnusableRequest) as caught:
            await transport.send(request, timeout_s=5)
        assert "hush" not in str(caught.value)


@pytest.mark.behaviour("C2 T86")
async def test_a_redirect_is_followed_with_method_and_body(transport_of: TransportOf) -> None:
    async def moved(request: web.Request) -> web.StreamResponse:
        if request.path == "/old":
            raise web.HTTPTemporaryRedirect("/new?a=b")
        return await echo(request)

    async with serving(moved) as port, transport_of() as transport:
        request = Request(
            "POST", f"http://127.0.0.1:{port}/old", {"Authorization": "Bearer t"}, b"the-body"
        )
        seen = json_of(await send_following(transport, request, timeout_s=5))
    assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/new?a=b", "the-body")
    assert seen["headers"]["authorization"] == "Bearer t"


async def test_a_transport_may_be_closed_twice_and_used_again(transport_of: TransportOf) -> None:
    async with serving(echo) as port, transport_of() as transport:
        assert isinstance(transport.has_proxy, bool)
        await transport.close()
        url = f"http://127.0.0.1:{port}/"
        assert (await transport.send(get(url), timeout_s=5)).status == 200
        await transport.close()
        assert (await transport.send(get(url), timeout_s=5)).status == 200


async def test_the_whole_client_over_sockets(kind: Kind) -> None:
    refused = 0

    async def github(request: web.Request) -> web.StreamResponse:
        nonlocal refused
        if request.path.endswith("/registration-token"):
            return web.json_response({"token": "r"}, status=201)
        if request.path.endswith("/runner-registration"):
            token = "e30.eyJleHAiOjQxMDI0NDQ4MDB9.sig"  # exp: the year 2100
            url = f"http://pipelines.github.localhost:{port}/tenant/"
            return web.json_response({"url": url, "token": token})
        if not refused:
            refused += 1
            return web.Response(status=503)
        return web.json_response({"id": 3, "name": "r"})

    async with serving(github) as port:
        transport = kind(NetworkOptions(resolver=loopback))
        async with ScaleSetClient(
            f"http://github.localhost:{port}/my-org",
            personal_access_token("t"),
            transport=transport,
            clock=SystemClock(),
            random=seeded(1),
            policy=RetryPolicy(retries_max=1, spread_s=0.0),
        ) as client:
            assert (await client.get_runner(3)).id == 3
            with pytest.raises(Unavailable):
                await client.get_runner(3, timeout_s=0.0)


# -- a network without sockets ---------------------------------------------------------------


class VirtualConnector(BaseConnector):
    """Connections inside one loop on virtual time. Holds the pin of aiohttp's minor version."""

    async def _create_connection(
        self, req: ClientRequest, traces: list[Any], timeout: ClientTimeout
    ) -> Any:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(self._factory, req.url.host, req.url.port)
        return protocol


def virtually() -> Transport:
    return open_transport(NetworkOptions(dial=virtual_dial))


def virtually_by_aiohttp() -> Transport:
    return AiohttpTransport(connector=lambda _: VirtualConnector())


@pytest.mark.parametrize("virtual", [virtually, virtually_by_aiohttp])
def test_a_network_of_ones_own_can_be_put_in(virtual: Callable[[], Transport]) -> None:
    async def work() -> float:
        runner = web.ServerRunner(web.Server(slow_echo))
        await runner.setup()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(runner.server, "github.example", 80)  # type: ignore[arg-type]
        try:
            transport = virtual()
            url = "http://github.example/"
            assert (await transport.send(get(url), timeout_s=60)).status == 200
            with pytest.raises(NoAnswer):
                await transport.send(get(url), timeout_s=10)
            await transport.close()
        finally:
            server.close()
            await runner.cleanup()
        return loop.time()

    async def slow_echo(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(50)
        return await echo(request)

    with asyncio.Runner(loop_factory=async_solipsism.EventLoop) as runner:
        assert 60 <= runner.run(work()) < 200
