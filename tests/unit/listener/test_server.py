"""`/metrics`, `/healthz` and `/readyz` over a real socket."""

import asyncio
import socket

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.listener.metric_settings import MetricsFile
from runnerscale.listener.metrics import ListenerMetrics
from runnerscale.listener.server import (
    AddressError,
    MetricsServer,
    Readiness,
    parse_address,
)
from runnerscale.scaleset.config_url import parse_config_url


class Scene:
    def __init__(self, address: str = "127.0.0.1:0", path: str = "/metrics") -> None:
        self.registry = CollectorRegistry()
        self.ready = Readiness(True, "listening")
        self.server = MetricsServer(
            address,
            path=path,
            registry=self.registry,
            readiness=lambda: self.ready,
            clock=SystemClock(),
            random=seeded(1),
        )

    async def bound(self) -> None:
        for _ in range(500):
            if self.server.port:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("never bound")

    async def get(self, path: str) -> tuple[int, str, str]:
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"http://127.0.0.1:{self.server.port}{path}") as answer,
        ):
            return answer.status, await answer.text(), answer.headers["Content-Type"]


async def test_the_pages_of_the_server() -> None:
    this = Scene(path="stats")
    ListenerMetrics(
        MetricsFile(),
        place=parse_config_url("https://github.com/org"),
        set_name="set",
        namespace="runners",
        registry=this.registry,
    )
    task = asyncio.get_running_loop().create_task(this.server.run())
    await this.bound()
    status, text, content_type = await this.get("/stats")
    assert status == 200 and content_type.startswith("text/plain; version=0.0.4")
    assert 'promhttp_metric_handler_errors_total{cause="gathering"} 0.0' in text
    assert "gha_" not in text
    assert (await this.get("/healthz"))[:2] == (200, "ok\n")
    assert (await this.get("/readyz"))[:2] == (200, "listening\n")
    this.ready = Readiness(False, "waiting: SessionHeldElsewhere: held")
    assert (await this.get("/readyz"))[:2] == (503, "waiting: SessionHeldElsewhere: held\n")
    assert (await this.get("/metrics"))[0] == 404
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.behaviour("C2 T189")
async def test_a_taken_port_is_waited_for() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        this = Scene(f"127.0.0.1:{port}")
        task = asyncio.get_running_loop().create_task(this.server.run())
        await asyncio.sleep(0.2)
        assert not task.done() and this.server.port == 0
    await this.bound()
    assert (await this.get("/healthz"))[0] == 200
    task.cancel()
    await asyncio.wait({task})


async def test_an_address_that_is_none_ends_the_server_only() -> None:
    await Scene("nonsense").server.run()


async def test_values_that_cannot_be_gathered_are_a_500_and_are_counted() -> None:
    this = Scene()

    class Broken:
        def collect(self) -> list[object]:
            raise ValueError("no")

        def describe(self) -> list[object]:
            return []

    this.registry.register(Broken())  # type: ignore[arg-type]
    task = asyncio.get_running_loop().create_task(this.server.run())
    await this.bound()
    assert (await this.get("/metrics"))[0] == 500
    assert this.server._errors["gathering"] == 1
    task.cancel()
    await asyncio.wait({task})


def test_addresses_as_go_writes_them() -> None:
    assert parse_address(":8080") == ("", 8080)
    assert parse_address("127.0.0.1:0") == ("127.0.0.1", 0)
    assert parse_address("[::1]:9") == ("::1", 9)
    for text in ("8080", ":x", ":70000", "", ":\u00b2", ":" + "9" * 5000):
        with pytest.raises(AddressError):
            parse_address(text)
