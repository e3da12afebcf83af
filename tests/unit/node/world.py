"""A node agent on virtual time with an API server in memory and scripted processes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from runnerscale.node.agent import NodeAgent
from runnerscale.node.config import ImageRule, NodeConfig
from runnerscale.node.parts import Telemetry
from tests.unit.node.memory_api import MemoryApi
from tests.unit.node.scripted_processes import ScriptedProcess, ScriptedProcesses

EPOCH_S = 1_800_000_000.0
CONFIG = NodeConfig(images=(ImageRule(pattern="demo:*", entrypoint=("/run",)),))


class NoNetwork:
    """Answers as told."""

    def __init__(self) -> None:
        self.status = 200

    async def http_status(self, url: str, headers: Mapping[str, str]) -> int:
        if self.status == 0:
            raise OSError("connection refused")
        return self.status

    async def connect(self, host: str, port: int) -> None:
        if self.status == 0:
            raise OSError("connection refused")


class World:
    """Everything outside of the agent."""

    def __init__(self) -> None:
        self.clock = LoopClock(EPOCH_S)
        self.api = MemoryApi(self.clock)
        self.machine = ScriptedProcesses(self.clock)
        self.network = NoNetwork()
        self.agent: NodeAgent | None = None
        self.registry = CollectorRegistry()

    @contextlib.asynccontextmanager
    async def node(self, config: NodeConfig = CONFIG) -> AsyncIterator[NodeAgent]:
        """An agent that runs inside the block; leaving it is a kill."""
        self.registry = CollectorRegistry()
        agent = NodeAgent(
            self.api,
            config=config,
            processes=self.machine,
            network=self.network,
            clock=self.clock,
            random=seeded(1),
            telemetry=Telemetry.of(self.registry),
            environ={"PATH": "/bin", "SECRET": "not passed on"},
        )
        self.agent = agent
        task = asyncio.get_running_loop().create_task(agent.run())
        try:
            await self.until(lambda: agent.ready)
            yield agent
            if task.done():
                task.result()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def until(self, true: Callable[[], Any], *, within_s: float = 60.0) -> None:
        """Wait in virtual time."""
        began_s = self.clock.monotonic_s()
        while not true():
            if self.clock.monotonic_s() - began_s > within_s:
                raise AssertionError("it did not come true in time")
            await self.clock.sleep(0.05)

    async def running(self, name: str, container: str = "runner") -> ScriptedProcess:
        """The newest process of a container, once the API server was told that it runs."""
        await self.until(
            lambda: any(
                told["name"] == container and "running" in told["state"]
                for kind in ("containerStatuses", "initContainerStatuses")
                for told in self.api.status(name).get(kind, [])
            )
        )
        return self.machine.of(name, container)[-1]
