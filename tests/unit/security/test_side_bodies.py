"""Ports that only answer read no body; a probe reads none of a container's answer."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from runnerscale.app.probes import SideServer, metrics_pages, probe_pages
from runnerscale.app.profiles import profile_pages
from runnerscale.core.clock import SystemClock
from runnerscale.core.page_server import Handler
from runnerscale.core.randomness import seeded
from runnerscale.listener.readiness import Readiness
from runnerscale.listener.server import MetricsServer
from runnerscale.node.questions import SystemNetwork
from tests.unit.security.test_bodies import MEMORY_MAX, packed

ENDLESS = b" " * 65536
BOMB = packed(20)


def listener_pages() -> dict[str, Handler]:
    server = MetricsServer(
        ":0",
        path="/metrics",
        registry=CollectorRegistry(),
        readiness=lambda: Readiness(True, ""),
        clock=SystemClock(),
        random=seeded(1),
    )
    return server.pages()


def controller_probes() -> dict[str, Handler]:
    return probe_pages(healthy=lambda: None, ready=lambda: None)


PORTS = {
    "metrics of the controller": (lambda: metrics_pages(CollectorRegistry()), "/metrics"),
    "probes of the controller": (controller_probes, "/readyz"),
    "profiles": (profile_pages, "/debug/pprof/"),
    "metrics of the listener": (listener_pages, "/metrics"),
}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize("port", sorted(PORTS))
async def test_a_port_that_only_answers_unpacks_and_keeps_no_body(port: str, method: str) -> None:
    make, path = PORTS[port]
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    async with (
        SideServer(make(), "127.0.0.1:0", flag="--x") as server,
        aiohttp.ClientSession() as session,
    ):
        url = f"http://127.0.0.1:{server.port}{path}"
        tracemalloc.start()
        try:
            async with session.request(method, url, data=BOMB, headers=headers) as answer:
                assert answer.status == (200 if method == "GET" else 405)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes < MEMORY_MAX
        async with session.get(url) as answer:  # and it goes on
            assert answer.status == 200


@asynccontextmanager
async def container(head: bytes, piece: bytes) -> AsyncIterator[int]:
    """Answers every connection with a head, and then without end."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            while True:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)  # a drain that need not wait lets nobody else go on
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


ANSWERS: dict[str, tuple[bytes, bytes]] = {
    "a body without end": (b"HTTP/1.1 200 OK\r\n\r\n", ENDLESS),
    "a packed body": (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + BOMB, b""),
    "headers without end": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 5000),
    "a header without end": (b"HTTP/1.1 200 OK\r\nx: ", b"a" * 65536),
    "a status without end": (b"HTTP/1.1 200 ", b"a" * 65536),
}


@pytest.mark.parametrize("what", sorted(ANSWERS))
async def test_a_probe_reads_no_more_of_a_container_than_its_status(what: str) -> None:
    network: Any = SystemNetwork()
    head, piece = ANSWERS[what]
    async with container(head, piece or ENDLESS) as port:
        tracemalloc.start()
        try:
            async with asyncio.timeout(20):
                try:
                    status = await network.http_status(f"http://127.0.0.1:{port}/", {})
                except OSError:
                    status = 0
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            await network.close()
    assert status == (200 if "body" in what else 0)
    assert peak_bytes < MEMORY_MAX
