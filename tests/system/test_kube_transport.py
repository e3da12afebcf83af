"""The transport over real sockets and real TLS: what the virtual network cannot show.

Refused, reset, a wrong authority, a deadline, a proxy, certificates both ways, an exec plugin
that is a real process. Everything on 127.0.0.1 with ports the system picks.
"""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.kube import errors
from runnerscale.kube.aiohttp_transport import AiohttpTransport
from runnerscale.kube.builtin import CONFIG_MAPS, PODS
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import ClusterConfig, Login, load_config, open_client
from runnerscale.kube.httptools_transport import HttptoolsTransport
from runnerscale.kube.pem import ClientCertificate
from runnerscale.kube.transport import Endpoint
from runnerscale.kube.watch import Added, Bookmark

AUTHORITY = trustme.CA()
CA_PEM = AUTHORITY.cert_pem.bytes().decode()
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "ns"}}


@asynccontextmanager
async def serving(
    handler: Handler,
    *,
    names: tuple[str, ...] = ("127.0.0.1",),
    client_authority: trustme.CA | None = None,
) -> AsyncIterator[str]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert(*names).configure_cert(tls)
    if client_authority is not None:
        client_authority.configure_trust(tls)
        tls.verify_mode = ssl.CERT_REQUIRED
    server = web.ServerRunner(web.Server(handler))
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0, ssl_context=tls, shutdown_timeout=0.1)
    await site.start()
    port = server.addresses[0][1]
    try:
        yield f"https://127.0.0.1:{port}"
    finally:
        await server.cleanup()


@asynccontextmanager
async def client_of(config: ClusterConfig, **options: Any) -> AsyncIterator[KubeClient]:
    client = open_client(config, clock=SystemClock(), random=seeded(1), **options)
    try:
        yield client
    finally:
        await client.close()


async def pod(request: web.BaseRequest) -> web.StreamResponse:
    return web.json_response(POD)


async def test_a_get_over_tls_with_an_authority_of_our_own() -> None:
    async with serving(pod) as url, client_of(ClusterConfig(url, ca_pem=CA_PEM)) as client:
        found = await client.get(PODS, "ns", "p")
        assert found.metadata.name == "p"


@pytest.mark.parametrize("kind", [AiohttpTransport, HttptoolsTransport])
async def test_connections_are_used_again_and_bounded(kind: Any) -> None:
    peers: set[Any] = set()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        peers.add(request.transport.get_extra_info("peername") if request.transport else None)
        await asyncio.sleep(0.01)
        return web.json_response(POD)

    async with serving(handler) as url:
        tls = ssl.create_default_context(cadata=CA_PEM)
        transport = kind(Endpoint(url, tls), connections_max=3)
        async with asyncio.TaskGroup() as group:
            for _ in range(30):
                group.create_task(transport.request("GET", "/api"))
        await transport.close()
    assert 1 <= len(peers) <= 3


async def test_a_wrong_authority_is_said_and_nothing_is_sent() -> None:
    other = trustme.CA().cert_pem.bytes().decode()
    async with serving(pod) as url, client_of(ClusterConfig(url, ca_pem=other)) as client:
        with pytest.raises(
            errors.ConfigError, match=r"certificate is not trusted.*authority|issuer"
        ):
            await client.get(PODS, "ns", "p")  # at once: waiting does not heal it


async def test_the_name_is_checked_against_tls_server_name() -> None:
    async with serving(pod, names=("inner.test",)) as url:
        async with client_of(ClusterConfig(url, ca_pem=CA_PEM, server_name="inner.test")) as client:
            assert (await client.get(PODS, "ns", "p")).metadata.name == "p"
        async with client_of(ClusterConfig(url, ca_pem=CA_PEM)) as client:
            with pytest.raises(errors.ConfigError, match="certificate is not trusted"):
                await client.get(PODS, "ns", "p")


async def test_insecure_means_insecure() -> None:
    config_of = ClusterConfig
    async with (
        serving(pod, names=("elsewhere.test",)) as url,
        client_of(config_of(url, insecure=True)) as client,
    ):
        assert (await client.get(PODS, "ns", "p")).metadata.name == "p"


async def test_a_client_certificate_is_shown() -> None:
    people = trustme.CA()
    me = people.issue_cert("me@example.com")
    chain = "".join(part.bytes().decode() for part in me.cert_chain_pems)
    key = SecretText(me.private_key_pem.bytes().decode())
    async with serving(pod, client_authority=people) as url:
        login = Login(certificate=ClientCertificate(chain, key))
        async with client_of(ClusterConfig(url, ca_pem=CA_PEM, login=login)) as client:
            assert (await client.get(PODS, "ns", "p")).metadata.name == "p"
        async with client_of(ClusterConfig(url, ca_pem=CA_PEM)) as client:
            with pytest.raises(errors.Unreachable):
                await client.get(PODS, "ns", "p", timeout_s=0.3)


async def test_a_port_that_nobody_listens_on_is_refused_within_the_deadline() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{taken.getsockname()[1]}"
        async with client_of(ClusterConfig(url, ca_pem=CA_PEM)) as client:
            with pytest.raises(errors.Unreachable, match="no connection") as caught:
                await client.create(CONFIG_MAPS, "ns", {"metadata": {"name": "x"}}, timeout_s=0.3)
            assert url.removeprefix("https://") in str(caught.value)
            assert "object at" not in str(caught.value)  # the same text in each process


async def test_a_reset_in_the_middle_is_unreachable_and_a_write_is_not_repeated() -> None:
    calls = 0

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        await reader.readuntil(b"\r\n\r\n")
        calls += 1
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, client_of(ClusterConfig(f"http://127.0.0.1:{port}")) as client:
        with pytest.raises(errors.Unreachable):
            await client.patch(PODS, "ns", "p", {"metadata": {}})
    assert calls == 1


async def test_what_is_no_http_is_told_in_one_short_line() -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-\x1b[2J" + b"\xff" * 3000 + b"\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(garbage, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, client_of(ClusterConfig(f"http://127.0.0.1:{port}")) as client:
        with pytest.raises(errors.BadAnswer, match="not an HTTP answer") as caught:
            await client.get(PODS, "ns", "p", timeout_s=5)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


async def test_a_server_that_does_not_answer_costs_the_deadline_and_no_more() -> None:
    async def never(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    async with serving(never) as url, client_of(ClusterConfig(url, ca_pem=CA_PEM)) as client:
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        with pytest.raises(errors.Unreachable, match="in time"):
            await client.get(PODS, "ns", "p", timeout_s=0.2)
        assert loop.time() - begin_s < 2.0


async def test_a_watch_streams_as_it_happens_and_ends_in_order() -> None:
    go_on = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        line = json.dumps({"type": "ADDED", "object": POD}) + "\n"
        await response.write(line[:20].encode())
        await response.write(line[20:].encode())
        await go_on.wait()
        mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}
        await response.write(json.dumps(mark).encode() + b"\n")
        return response

    async with serving(handler) as url, client_of(ClusterConfig(url, ca_pem=CA_PEM)) as client:
        events: list[Any] = []
        async with asyncio.timeout(10):
            async for event in client.watch(PODS, "ns", resource_version="1"):
                events.append(event)
                go_on.set()
    assert isinstance(events[0], Added)
    assert events[1:] == [Bookmark("7")]


async def test_a_proxy_of_the_kubeconfig_is_used_and_one_of_the_environment_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        body = json.dumps(POD).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = ClusterConfig("http://api.test:8080", proxy_url=f"http://127.0.0.1:{port}")
    async with server, client_of(config) as client:
        assert (await client.get(PODS, "ns", "p")).metadata.name == "p"
    assert seen[0].startswith(b"GET http://api.test:8080/api/v1/namespaces/ns/pods/p ")
    async with serving(pod) as url, client_of(ClusterConfig(url, ca_pem=CA_PEM)) as client:
        assert (await client.get(PODS, "ns", "p")).metadata.name == "p"


async def test_an_exec_plugin_of_a_kubeconfig_gives_the_token(tmp_path: Path) -> None:
    issued = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "TOKEN"},
    }
    counter = tmp_path / "count"
    plugin = tmp_path / "get-token"
    plugin.write_text(
        "#!/bin/sh\n"
        f'echo x >> "{counter}"\n'
        f'n=$(wc -l < "{counter}" | tr -d " ")\n'
        f"echo '{json.dumps(issued)}' | sed \"s/TOKEN/t$n/\"\n"
    )
    plugin.chmod(0o755)

    good = "t1"

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {good}":
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        return web.json_response(POD)

    async with serving(handler) as url:
        kubeconfig = tmp_path / "config"
        (tmp_path / "ca.pem").write_text(CA_PEM)
        cluster = {"server": url, "certificate-authority": "ca.pem"}
        command = {"apiVersion": issued["apiVersion"], "command": "./get-token"}
        kubeconfig.write_text(
            json.dumps(
                {
                    "current-context": "x",
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"exec": command}}],
                }
            )
        )
        config = load_config(kubeconfig, {})
        async with client_of(config, environ={"PATH": "/usr/bin:/bin"}) as client:
            for _ in range(3):
                assert (await client.get(PODS, "ns", "p")).metadata.name == "p"
            assert counter.read_text() == "x\n"
            good = "t2"  # the server no longer takes the old one
            credentials = client._calls._credentials
            credentials._issued_s -= 60.0  # type: ignore[attr-defined]  # a minute has passed
            assert (await client.get(PODS, "ns", "p")).metadata.name == "p"
            assert counter.read_text() == "x\nx\n"
