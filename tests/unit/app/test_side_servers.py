"""Ports beside the controller's work: what serves them brings no framework into the process."""

import subprocess
import sys

import pytest

ASK = """
import asyncio, sys
from contextlib import AsyncExitStack
from prometheus_client import CollectorRegistry
from runnerscale.app.side_servers import serve_beside

async def serve():
    async with AsyncExitStack() as stack:
        metrics, probes, pprof = sys.argv[1:]
        addresses = {"metrics_addr": metrics, "probe_addr": probes, "pprof_addr": pprof}
        registry = CollectorRegistry()
        await serve_beside(stack, **addresses, registry=registry, why_not_ready=lambda: None)

asyncio.run(serve())
print("aiohttp" in sys.modules)
"""


@pytest.mark.parametrize(
    "addresses",
    [("", "0", ""), ("0", "0", "0"), ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")],
)
def test_aiohttp_is_not_loaded_whatever_is_served(addresses: tuple[str, str, str]) -> None:
    # 10 MiB (ADR 18, 19).
    command = [sys.executable, "-c", ASK, *addresses]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "False"
