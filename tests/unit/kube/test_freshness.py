"""What a lagging server shows to a new process is not believed before it is proven."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.freshness import BELIEVED_AFTER_S, WRITES_WITHIN_S, Freshness
from runnerscale.kube.transport import Answer
from tests.unit.kube.scripted import WIDGETS, MiniServer, Sent, answer, client_on, path_of, status
from tests.unit.kube.test_informer import informer_on, running

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


class World:
    def __init__(self) -> None:
        self.server = MiniServer()
        self.informer = informer_on(self.server)
        self.freshness = Freshness(self.informer, clock=SystemClock(), random=seeded(1))
        self.proven_s: list[float] = []
        loop = asyncio.get_running_loop()
        self.freshness.on_proven(lambda: self.proven_s.append(round(loop.time(), 1)))
        self.task = asyncio.create_task(self.freshness.run())
        self.past: Answer | None = None  # what every list shows
        self.server.before = self._lag

    def _lag(self, sent: Sent) -> Answer | None:
        return self.past if sent.method == "GET" else None

    async def write(self) -> None:
        made = await client_on(self.server).create(WIDGETS, "ns", {"metadata": {"name": "w"}})
        self.freshness.wrote(made.metadata.resource_version)

    def show_the_past(self) -> None:
        meta = {"resourceVersion": str(self.server.version)}
        self.past = answer(200, {"metadata": meta, "items": []})
        self.server.frozen = True

    def show_the_present(self) -> None:
        self.past = None
        self.server.thaw()


def test_nothing_is_proven_before_something_was_written(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await asyncio.sleep(100)
            assert not world.freshness.is_proven
            await world.write()
            await asyncio.sleep(1)
            assert world.freshness.is_proven
        world.task.cancel()

    run_virtual(scenario())


def test_where_no_write_is_let_through_the_caches_are_believed(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await asyncio.sleep(100)
            assert not world.freshness.ask()  # from now on somebody waits
            await asyncio.sleep(WRITES_WITHIN_S - 1)
            assert not world.freshness.ask()
            await asyncio.sleep(2)
            assert world.freshness.ask()

    run_virtual(scenario())


def test_who_is_told_that_what_he_sees_is_old_does_not_believe_it(run_virtual: RunVirtual) -> None:
    # Stale sweep, moved: the only write of the first half minute had met a conflict.
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            world.freshness.ask()
            world.freshness.found_old()
            await asyncio.sleep(2 * WRITES_WITHIN_S)
            assert not world.freshness.is_proven
            await world.write()
            await asyncio.sleep(1)
            assert world.freshness.is_proven
        world.task.cancel()

    run_virtual(scenario())


def test_a_conflict_without_end_does_not_stop_the_work_for_good(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            world.freshness.ask()
            world.freshness.found_old()
            await asyncio.sleep(BELIEVED_AFTER_S - 1)
            assert not world.freshness.is_proven
            await asyncio.sleep(2)
            assert world.freshness.is_proven
        world.task.cancel()

    run_virtual(scenario())


def test_where_objects_come_and_go_all_the_time_it_is_proven_too(run_virtual: RunVirtual) -> None:
    """A list that was answered just before a deletion and a creation is no difference."""

    async def scenario() -> None:
        world = World()
        server = world.server
        async with running(world.informer):
            server.put(path_of("goes"), {})
            await world.informer.wait_synced()

            def churn(sent: Sent, _answer: Answer) -> None:
                if sent.is_comparison:  # answered: what happens now is later than the list
                    server.drop(path_of("goes"))
                    server.put(path_of("comes"), {})

            server.after = churn
            await world.write()
            await asyncio.sleep(1)
            assert world.freshness.is_proven
            assert sum(sent.is_comparison for sent in server.sent) == 1

    run_virtual(scenario())


def test_a_list_of_before_the_write_proves_nothing(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        world.show_the_past()
        world.server.put(path_of("unseen"), {})  # a predecessor's, and its last
        async with running(world.informer):
            await world.informer.wait_synced()
            await world.write()
            await asyncio.sleep(30)
            assert not world.freshness.is_proven
            assert {*world.informer.store} == set()
            world.show_the_present()
            await asyncio.sleep(10)
            assert {*world.informer.store} == {"ns/unseen", "ns/w"}
            assert world.freshness.is_proven and len(world.proven_s) == 1
            assert sum(sent.is_comparison for sent in world.server.sent) <= 20
        world.task.cancel()

    run_virtual(scenario())


def test_a_cache_that_lacks_what_the_list_has_is_not_proven(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            await world.write()
            await asyncio.sleep(3)
            assert not world.freshness.is_proven
            world.server.thaw()
            await asyncio.sleep(6)
            assert world.freshness.is_proven
        world.task.cancel()

    run_virtual(scenario())


def test_a_server_that_stays_in_the_past_is_believed_at_last(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        world.show_the_past()
        async with running(world.informer):
            await world.informer.wait_synced()
            await world.write()
            await asyncio.sleep(BELIEVED_AFTER_S - 1)
            assert not world.freshness.is_proven
            await asyncio.sleep(10)
            assert world.freshness.is_proven
        world.task.cancel()

    run_virtual(scenario())


def test_a_server_in_trouble_is_asked_again(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.past = status(403, "Forbidden")
            await world.write()
            await asyncio.sleep(20)
            assert not world.freshness.is_proven
            world.past = None
            await asyncio.sleep(6)
            assert world.freshness.is_proven
        world.task.cancel()

    run_virtual(scenario())
