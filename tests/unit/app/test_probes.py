"""What the controller's side server answers."""

import asyncio

import aiohttp
from prometheus_client import CollectorRegistry

from runnerscale.app.probes import SideServer, metrics_pages, probe_pages
from runnerscale.app.process_metrics import add_process_metrics
from runnerscale.core.page_server import CONNECTIONS_MAX
from runnerscale.kube.metrics import KubeMetrics


async def test_metrics_are_those_of_a_go_process_and_carry_no_created_series() -> None:
    registry = CollectorRegistry()
    add_process_metrics(registry)
    KubeMetrics(registry).for_controller("c")
    async with (
        SideServer(metrics_pages(registry), "127.0.0.1:0", flag="--x") as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client,
    ):
        answer = await client.get("/metrics")
        text = await answer.text()
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert (await client.get("/other")).status == 404
    assert 'controller_runtime_reconcile_errors_total{controller="c"} 0.0' in text
    assert "_created" not in text
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "start_time_seconds"):
        assert f"\nprocess_{name} " in text
    assert "\npython_info{" in text


async def test_who_opens_connections_and_says_nothing_is_pushed_out() -> None:
    pages = probe_pages(healthy=lambda: None, ready=lambda: None)
    async with SideServer(pages, "127.0.0.1:0", flag="--x") as server:
        many = 3 * CONNECTIONS_MAX
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(many)]
        for _, writer in silent[::2]:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow:")
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"http://127.0.0.1:{server.port}/healthz") as answer,
        ):
            assert answer.status == 200
        over = 0
        for reader, _ in silent:
            try:
                async with asyncio.timeout(0.05 if over >= many - CONNECTIONS_MAX else 5):
                    over += await reader.read(1) == b""
            except ConnectionResetError:
                over += 1
            except TimeoutError:
                break  # one of the last, which are let be
        assert many - CONNECTIONS_MAX <= over <= many - CONNECTIONS_MAX + 1
        for _, writer in silent:
            writer.close()
