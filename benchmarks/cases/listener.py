"""The listener alone: start to session, memory, messages a second, from the poll to the patch.

The controller starts it and is stopped then: what is measured is the one process, and the API
server has nothing else to do. GitHub answers a poll the moment a job is queued.
"""

import asyncio
import statistics
import time

from benchmarks.budget import Rounds
from benchmarks.eyes import percentile
from benchmarks.machine import used
from benchmarks.report import Row
from benchmarks.world import Setting, World, world
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS, EphemeralRunnerSet
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.kube.informer import Informer
from runnerscale.kube.store import Change

WITHIN_S = 60.0
SET = "bench"
STARTS = 5
FLOOD_S = 5.0
FLOOD_JOBS_MAX = 5_000


class Wanted:
    """What the set's object says is wanted."""

    def __init__(self) -> None:
        self.replicas = 0
        self._news = asyncio.Event()

    def changed(self, change: Change[EphemeralRunnerSet]) -> None:
        """By an informer."""
        if change.new is not None and change.new.metadata.name == SET:
            self.replicas = change.new.spec.replicas or 0
            self._news.set()

    async def until(self, count: int) -> None:
        """So many are."""
        async with asyncio.timeout(WITHIN_S):
            while self.replicas < count:
                self._news.clear()
                await self._news.wait()


async def measure(setting: Setting, count: int, _rounds: Rounds) -> list[Row]:
    """`count` jobs one after the other, then as many as can be for some seconds."""
    async with world(setting) as made:
        await made.start_controller()
        starts_s = [await _start(made, number) for number in range(STARTS - 1)]
        others = made.listener_pids()
        rss_mib = [used([pid]).rss_mib for pid in others]
        starts_s.append(await _start(made, STARTS - 1, name=SET))
        pids = [pid for pid in made.listener_pids() if pid not in others]
        assert made.controller is not None
        await made.controller.stop()
        wanted = Wanted()
        informer = Informer(
            made.client, EPHEMERAL_RUNNER_SETS, clock=SystemClock(), random=system_random()
        )
        informer.on_change(wanted.changed)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(informer.run())
            await informer.wait_synced()
            before = used(pids)
            late = [await _one_job(made, wanted, number + 1) for number in range(count)]
            after = used(pids)
            messages_per_s = await _flood(made)
            watching.cancel()
        return [
            Row(
                f"listener {count}",
                setting.server,
                {
                    "start to session s": statistics.median(starts_s),
                    "RSS MiB": statistics.median(rss_mib),
                    "RSS after MiB": used(pids).rss_mib,
                    "poll to patch p50 s": percentile(late, 0.5),
                    "poll to patch p95 s": percentile(late, 0.95),
                    "CPU ms/message": 1000 * (after.cpu_s - before.cpu_s) / count,
                    "messages/s": messages_per_s,
                },
            )
        ]


async def _start(made: World, number: int, name: str = "") -> float:
    """One more listener; from the start of its process to its open session."""
    await made.add_set(name or f"start-{number}", low=0, high=FLOOD_JOBS_MAX)
    await made.until_listening(number + 1)
    return time.monotonic() - made.nodes.listener_starts[number]


async def _one_job(made: World, wanted: Wanted, number: int) -> float:
    began_s = time.monotonic()
    made.github.queue(SET, seconds=0.0)
    await wanted.until(number)
    late_s = time.monotonic() - began_s
    await made.pause(0.02)  # it has acknowledged, and polls again
    return late_s


async def _flood(made: World) -> float:
    """Messages that it took and acknowledged a second, while there was always another one."""
    acknowledged = made.github.calls().get("acknowledge", 0)
    began_s = time.monotonic()
    for _ in range(FLOOD_JOBS_MAX):
        if time.monotonic() - began_s > FLOOD_S:
            break
        made.github.queue(SET, seconds=0.0)
        await asyncio.sleep(0.002)
    took_s = time.monotonic() - began_s
    return (made.github.calls().get("acknowledge", 0) - acknowledged) / took_s
