"""The floor as the benchmarks hold it in their hand; the work is done by `process.py`.

The objects are those that our controller makes: one runner's are taken as patterns, and controller
and listener are stopped then. What a container's end is to ours by a watch, is to it a line on a
pipe: it is told as soon as the node's word is stored, which no one can know earlier.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from benchmarks.children import Child, start
from benchmarks.floor import orders, patterns
from benchmarks.machine import Used, used
from benchmarks.world import NAMESPACE, Setting, World
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.kube.builtin import PODS
from runnerscale.kube.cluster import load_config
from runnerscale.kube.errors import NotFound
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.config_url import parse_config_url
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.httptools_transport import HttptoolsTransport
from runnerscale.scaleset.transport import Request, Response
from runnerscale.scaleset.user_agent import SystemInfo

SET = "floor"
RAW, OWN = "raw", "own"  # kinds of its connections
WITHIN_S = 60.0


class FloorFailed(Exception):
    """Its process ended, with what it said last."""


class _Spy(HttptoolsTransport):
    """Remembers the last request, so that it can be sent again with another name in it."""

    last: Request | None = None

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        self.last = request
        return await super().send(request, timeout_s=timeout_s)


class Floor:
    """Gives the orders."""

    def __init__(self, world: World, child: Child) -> None:
        self._world = world
        self._child = child
        self.replaces = False  # whether a runner that has ended is followed by another
        self.made = 0
        world.eyes.on_seen = self._seen

    def used(self) -> Used:
        """CPU and memory of its process."""
        return used([self._child.pid])

    def create(self, count: int) -> None:
        """So many runners, now."""
        self.made += count
        self._order(f"create {count}")

    def _seen(self, what: str, name: str) -> None:
        if what == "reported":
            self._order(f"{'replace' if self.replaces else 'remove'} {name}")

    def _order(self, line: str) -> None:
        assert self._child.process.stdin is not None
        self._child.process.stdin.write(f"{line}\n".encode())

    async def until_failed(self) -> None:
        """Without end, unless the process ends.

        Raises:
            FloorFailed: it did.
        """
        await self._child.process.wait()
        raise FloorFailed(f"the floor's process ended:\n{self._child.tail()}")


@asynccontextmanager
async def floor_of(world: World, setting: Setting) -> AsyncGenerator[Floor, None]:
    """Ready, listening for jobs, in a world without runners; gone at the end.

    Raises:
        FloorFailed: its process ended meanwhile.
    """
    github = _client(world, spy := _Spy())
    try:
        runner, scale_set_id = await _pattern_runner(world)
        await github.generate_jit_config(scale_set_id, orders.NAME)
        jit = spy.last
        assert jit is not None
        async with github.open_session(scale_set_id, "floor") as session:
            opened = session._session
            assert opened is not None
            config = load_config(await world.server.controller(), {})
            token = config.login.token
            assert token is not None
            told = patterns.Heard(
                server=config.server,
                ca_pem=config.ca_pem,
                token=token.reveal(),
                namespace=NAMESPACE,
                prefix=f"{SET}-runner-",
                own_connections=setting.floor == OWN,
                runner=runner,
                jit=jit,
                github=world.github.url,
                queue_url=opened.queue_url,
                queue_token=opened.queue_token,
            )
            path = world.folder / "floor.json"
            patterns.made(told).write(path)
            child = await start(
                "floor",
                [str(path)],
                world.folder / "floor.log",
                module="benchmarks.floor.process",
                is_ordered=True,
            )
            try:
                async with asyncio.TaskGroup() as group:
                    script = Floor(world, child)
                    watching = group.create_task(script.until_failed())
                    await asyncio.sleep(1.0)  # it has loaded what it needs
                    script._order("listen")
                    world.eyes.forget()
                    yield script
                    watching.cancel()
            finally:
                world.eyes.on_seen = None
                await child.kill()
    finally:
        await github.close()


async def _pattern_runner(world: World) -> tuple[dict[str, object], int]:
    """One that our controller made; it, controller and listener are gone by then."""
    await world.start_controller()
    await world.add_set(SET, low=1, high=1)
    await world.eyes.until(lambda s: len(s.online) == 1, within_s=WITHIN_S)
    name = next(iter(world.eyes.sights.online))
    path = f"{EPHEMERAL_RUNNERS.path(NAMESPACE)}/{name}"
    found = await world.client.get_raw(path)
    assert world.controller is not None
    await world.controller.stop()
    await world.nodes.stop()
    for runner in list(world.github.hub.state.runners.values()):
        world.github.forget(runner)
    await world.client.delete(PODS, NAMESPACE, name, grace_period_s=0)
    await world.client.delete(EPHEMERAL_RUNNERS, NAMESPACE, name)
    with suppress(NotFound):
        await world.client.patch(
            EPHEMERAL_RUNNERS, NAMESPACE, name, {"metadata": {"finalizers": None}}
        )
    await world.eyes.until(lambda s: len(s.gone) == 1, within_s=WITHIN_S)
    return found, int(found["spec"]["runnerScaleSetId"])


def _client(world: World, transport: HttptoolsTransport) -> ScaleSetClient:
    return ScaleSetClient(
        parse_config_url(f"{world.github.url}/demo-org/demo", force_ghes=False),
        personal_access_token("a-token"),
        transport=transport,
        clock=SystemClock(),
        random=system_random(),
        system_info=SystemInfo(system="floor", version="0", commit_sha="", subsystem="floor"),
    )
