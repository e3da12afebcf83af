"""The pretended GitHub alone: JIT calls a second. It must not be the limit of the others."""

import asyncio
import time

from benchmarks import github as pretended
from benchmarks.report import Row
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.config_url import parse_config_url
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.user_agent import SystemInfo

AT_ONCE = 64


async def measure(count: int) -> Row:
    """Client and server in one process: at least so many."""
    async with pretended.serving() as github:
        github.hub.faults.clear()  # without the latency that is put on it elsewhere
        async with ScaleSetClient(
            parse_config_url(f"{github.url}/demo-org/demo", force_ghes=False),
            personal_access_token("a-token"),
            transport=open_transport(),
            clock=SystemClock(),
            random=system_random(),
            system_info=SystemInfo(system="bench", version="0", commit_sha="", subsystem="bench"),
        ) as client:
            made = await client.create_scale_set("bench", 1)
            room = asyncio.Semaphore(AT_ONCE)

            async def one(number: int) -> None:
                async with room:
                    await client.generate_jit_config(made.id, f"runner-{number}")

            began_s = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for number in range(count):
                    group.create_task(one(number))
            per_s = count / (time.monotonic() - began_s)
        return Row("fake GitHub", "-", {"JIT calls/s": per_s})
