"""The pretended GitHub alone: JIT calls and messages a second. It must not be the limit of others.

Client and server are in one process here, as nodes and server are in the other cases: so it can
do at least so many.
"""

import asyncio
import time

from benchmarks import github as pretended
from benchmarks.budget import Rounds
from benchmarks.report import Row
from benchmarks.world import Setting
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.config_url import parse_config_url
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.user_agent import SystemInfo

AT_ONCE = 64
CAPACITY = 10_000
MESSAGES_MAX = 1_000


async def measure(_setting: Setting, count: int, _rounds: Rounds) -> list[Row]:
    """Without the latencies that are put on it elsewhere."""
    async with pretended.serving() as github:
        github.hub.faults.clear()
        async with ScaleSetClient(
            parse_config_url(f"{github.url}/demo-org/demo", force_ghes=False),
            personal_access_token("a-token"),
            transport=open_transport(),
            clock=SystemClock(),
            random=system_random(),
            system_info=SystemInfo(system="bench", version="0", commit_sha="", subsystem="bench"),
        ) as client:
            made = await client.create_scale_set("bench", 1)
            figures: dict[str, float | None] = {
                "JIT calls/s": await _jit_calls(client, made.id, count),
                "messages/s": await _messages(client, made.id, github, min(count, MESSAGES_MAX)),
            }
        return [Row("fake GitHub", "-", figures)]


async def _jit_calls(client: ScaleSetClient, scale_set_id: int, count: int) -> float:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            await client.generate_jit_config(scale_set_id, f"runner-{number}")

    began_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(one(number))
    return count / (time.monotonic() - began_s)


async def _messages(
    client: ScaleSetClient, scale_set_id: int, github: pretended.GitHub, count: int
) -> float:
    """One job after the other: each is a message that is polled for and acknowledged."""
    async with client.open_session(scale_set_id, "bench") as session:
        last, taken = 0, 0
        began_s = time.monotonic()
        while taken < count:
            github.queue("bench", seconds=0.0)
            message = await session.poll(last, CAPACITY)
            if message is not None:
                last = message.id
                taken += 1
                await session.acknowledge(last)
        return taken / (time.monotonic() - began_s)
