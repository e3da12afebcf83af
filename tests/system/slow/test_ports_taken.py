"""Ports of metrics and probes that somebody else has: said, and never the end of the work."""

import socket
from contextlib import ExitStack
from pathlib import Path

import aiohttp

from tests.system.plant import Plant, until


async def test_taken_metrics_and_probe_ports_cost_the_metrics_and_not_the_jobs(
    tmp_path: Path,
) -> None:
    plant = Plant(tmp_path)
    ports = plant.ports
    with ExitStack() as taken:
        for port in (ports.metrics, ports.probes, ports.listener_metrics):
            taken.enter_context(socket.create_server(("127.0.0.1", port)))
        async with plant.running():
            await plant.queue(2)
            await plant.until_done(2)
            said = plant.controller.said()
            assert said.count("metrics or probes are not served") == 2
            for flag in ("--metrics-addr", "--health-probe-bind-address"):
                assert f"flag={flag}" in said
            assert "free the port or choose another, then restart" in said
            assert "metrics cannot be served; the listener goes on without" in plant.pod_logs()
            taken.close()

            async def served() -> bool:
                url = f"http://127.0.0.1:{ports.listener_metrics}/metrics"
                try:
                    async with aiohttp.ClientSession() as session, session.get(url) as answer:
                        return "gha_assigned_jobs" in await answer.text()
                except aiohttp.ClientError:
                    return False

            await until(served, why=plant.tell, within_s=90)  # the listener tries again by itself
            await plant.queue(1)
            await plant.until_done(3)
