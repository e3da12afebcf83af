"""No pass on a key before the caches show what the last one wrote."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from runnerscale.core.clock import SystemClock
from runnerscale.kube.errors import Unreachable
from runnerscale.kube.own_writes import OwnWrites
from tests.unit.kube.scripted import WIDGETS, MiniServer, answer, client_on, path_of
from tests.unit.kube.test_informer import informer_on, running

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


class World:
    """A server, a cache of it, and what OwnWrites said when."""

    def __init__(self) -> None:
        self.server = MiniServer()
        self.client = client_on(self.server)
        self.informer = informer_on(self.server)
        self.writes = OwnWrites(clock=SystemClock())
        self.heard: list[float] = []

    def wait_for(self, key: str) -> None:
        loop = asyncio.get_running_loop()
        self.writes.when_settled(key, lambda: self.heard.append(round(loop.time(), 1)))

    def lists(self) -> int:
        return sum(s.method == "GET" and not s.is_comparison for s in self.server.sent)


def test_a_write_is_settled_the_moment_the_cache_shows_it(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            made = await world.client.create(WIDGETS, "ns", {"metadata": {"name": "a"}})
            world.writes.wrote("key", world.informer, "ns/a", made.metadata.resource_version)
            assert not world.writes.is_settled("key")
            assert world.writes.is_settled("another")
            world.wait_for("key")
            await asyncio.sleep(3)
            assert world.heard == []
            world.server.thaw()
            await asyncio.sleep(0.01)
            assert world.heard == [3.0]
            assert world.writes.is_settled("key")
            assert len(world.writes) == 0
            await asyncio.sleep(60)
            assert world.heard == [3.0]  # once
            assert world.lists() == 1  # and the watch was trusted

    run_virtual(scenario())


def test_what_the_cache_shows_already_is_never_waited_for(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            made = world.server.put(path_of("a"), {})
            await asyncio.sleep(0.1)
            version = made["metadata"]["resourceVersion"]
            world.writes.wrote("key", world.informer, "ns/a", version)
            assert world.writes.is_settled("key")
            world.wait_for("key")
            assert world.heard == [0.1]

    run_virtual(scenario())


def test_all_of_several_writes_must_show(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            versions = [
                world.server.put(path_of(name), {})["metadata"]["resourceVersion"] for name in "abc"
            ]
            for name, version in reversed([*zip("abc", versions, strict=True)]):  # in any order
                world.writes.wrote("key", world.informer, f"ns/{name}", version)
            world.writes.wrote("other", world.informer, "ns/a", versions[0])
            world.wait_for("key")
            hidden, world.server.history[:] = world.server.history[2:], world.server.history[:2]
            world.server.thaw()
            await asyncio.sleep(0.1)
            assert world.writes.is_settled("other")
            assert not world.writes.is_settled("key")
            world.server.history += hidden
            world.server.thaw()
            await asyncio.sleep(0.1)
            assert world.heard == [0.1]

    run_virtual(scenario())


def test_what_the_last_finalizer_let_go_is_waited_for_until_it_is_gone(
    run_virtual: RunVirtual,
) -> None:
    # A real API server answers with the version of before, which the cache shows already.
    async def scenario() -> None:
        world = World()
        meta = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        made = world.server.put(path_of("a"), {"metadata": meta})
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            item = await world.client.get(WIDGETS, "ns", "a")
            assert item.metadata.resource_version == made["metadata"]["resourceVersion"]
            world.writes.answered("key", world.informer, "ns/a", item)
            assert not world.writes.is_settled("key")
            world.wait_for("key")
            world.server.drop(path_of("a"))
            await asyncio.sleep(2)
            world.server.thaw()
            await asyncio.sleep(0.01)
            assert world.heard == [2.0]

    run_virtual(scenario())


def test_any_other_answer_is_waited_for_by_its_version(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        meta = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
        world.server.put(path_of("a"), {"metadata": meta})
        async with running(world.informer):
            await world.informer.wait_synced()
            item = await world.client.get(WIDGETS, "ns", "a")
            world.writes.answered("key", world.informer, "ns/a", item)
            assert world.writes.is_settled("key")
            world.server.frozen = True
            made = await world.client.create(WIDGETS, "ns", {"metadata": {"name": "b"}})
            world.writes.answered("key", world.informer, "ns/b", made)
            assert not world.writes.is_settled("key")

    run_virtual(scenario())


@pytest.mark.parametrize("how", ["gone", "going", "replaced"])
def test_a_deletion_is_settled_when_the_cache_shows_it(run_virtual: RunVirtual, how: str) -> None:
    async def scenario() -> None:
        world = World()
        made = world.server.put(path_of("a"), {})
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            uid = made["metadata"]["uid"]
            world.writes.deleted("key", world.informer, "ns/a", uid)
            assert not world.writes.is_settled("key")
            world.wait_for("key")
            if how == "going":  # finalizers hold it
                meta = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
                world.server.put(path_of("a"), {"metadata": meta})
            else:
                world.server.drop(path_of("a"))
            if how == "replaced":
                world.server.put(path_of("a"), {})
            world.server.thaw()
            await asyncio.sleep(0.1)
            assert world.heard == [0.0]

    run_virtual(scenario())


def test_a_deletion_of_what_the_cache_never_had_is_settled(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.writes.deleted("key", world.informer, "ns/a", "u")
            world.writes.deleted("key", world.informer, "ns/b", None)
            world.writes.wrote("key", world.informer, "ns/b", None)
            assert world.writes.is_settled("key")

    run_virtual(scenario())


def test_what_never_shows_is_settled_by_a_list_after_the_bound(run_virtual: RunVirtual) -> None:
    # A watch that delivers nothing, and a delete that was answered but never happened.
    async def scenario() -> None:
        world = World()
        kept = world.server.put(path_of("kept"), {})
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            made = world.server.put(path_of("a"), {})
            world.writes.wrote("key", world.informer, "ns/a", made["metadata"]["resourceVersion"])
            world.writes.deleted("key", world.informer, "ns/kept", kept["metadata"]["uid"])
            world.wait_for("key")
            await asyncio.sleep(60)
            assert world.lists() == 2
            assert len(world.heard) == 1
            assert 10.0 <= world.heard[0] <= 11.0
            assert world.informer.store.get("ns/a") is not None

    with capture_logs() as logs:
        run_virtual(scenario())
    assert {entry["object"] for entry in logs if "does not show" in entry["event"]} == {
        "ns/a",
        "ns/kept",
    }


def test_while_the_server_is_down_the_key_stays_aside(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            made = world.server.put(path_of("a"), {})
            world.writes.wrote("key", world.informer, "ns/a", made["metadata"]["resourceVersion"])
            world.wait_for("key")

            def down(_: Any) -> Any:
                raise ConnectionError  # not one of ours: even then

            def refused(_: Any) -> Any:
                raise Unreachable("refused", sent=False)

            world.server.before = refused
            await asyncio.sleep(100)
            world.server.before = down
            await asyncio.sleep(100)
            assert world.heard == []
            world.server.before = lambda _: None
            await asyncio.sleep(60)
            assert len(world.heard) == 1

    run_virtual(scenario())


def test_a_list_that_began_before_the_write_settles_nothing(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        kept = world.server.put(path_of("kept"), {})
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            world.server.hold = asyncio.Event()
            world.informer.relist()
            await asyncio.sleep(1)  # what the list shows is fixed now ...
            world.server.drop(path_of("kept"))  # ... and only then the object is deleted
            world.writes.deleted("key", world.informer, "ns/kept", kept["metadata"]["uid"])
            world.server.hold.set()
            await asyncio.sleep(1)
            assert world.informer.store.get("ns/kept") is not None
            assert not world.writes.is_settled("key")
            world.server.thaw()
            await asyncio.sleep(1)
            assert world.writes.is_settled("key")

    run_virtual(scenario())


def test_versions_that_are_no_numbers_are_found_on_the_object(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.writes.wrote("key", world.informer, "ns/a", "abc")
            world.writes.wrote("slow", world.informer, "ns/a", "xyz")
            made = world.server.put(path_of("a"), {})
            made["metadata"]["resourceVersion"] = "abc"
            await asyncio.sleep(0.1)
            assert world.writes.is_settled("key")
            assert not world.writes.is_settled("slow")
            world.wait_for("slow")
            await asyncio.sleep(20)  # never shown: the list after the bound settles it
            assert world.writes.is_settled("slow")

    run_virtual(scenario())


def test_a_server_that_went_back_in_time_holds_no_key_for_ever(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.writes.wrote("key", world.informer, "ns/a", "999999")  # of before the restore
            world.wait_for("key")
            await asyncio.sleep(60)
            assert len(world.heard) == 1

    run_virtual(scenario())


def test_a_key_parked_twice_is_told_once(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            made = world.server.put(path_of("a"), {})
            version = made["metadata"]["resourceVersion"]
            world.writes.wrote("key", world.informer, "ns/a", version)
            world.wait_for("key")
            world.wait_for("key")
            world.server.thaw()
            await asyncio.sleep(0.1)
            assert len(world.heard) == 1

    run_virtual(scenario())


def test_a_list_of_the_past_that_began_after_the_write_settles_nothing(
    run_virtual: RunVirtual,
) -> None:
    # Another API server that lags behind answers it: at a version that the cache had reached.
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            past = str(world.server.version)
            made = world.server.put(path_of("a"), {})
            world.writes.wrote("key", world.informer, "ns/a", made["metadata"]["resourceVersion"])
            old = answer(200, {"metadata": {"resourceVersion": past}, "items": []})
            lists = [old, old]
            world.server.before = lambda sent: (
                lists.pop() if lists and sent.method == "GET" else None
            )
            for _ in range(2):
                world.informer.relist()
                await asyncio.sleep(1)
                assert not world.writes.is_settled("key")
            world.informer.relist()
            await asyncio.sleep(1)
            assert world.writes.is_settled("key")
            assert world.informer.store.get("ns/a") is not None

    run_virtual(scenario())


def test_a_write_that_the_watch_left_out_is_not_taken_for_shown(run_virtual: RunVirtual) -> None:
    # Another object's event came later, and so the number was reached: the runner that was just
    # made was made once more (gap sweep, template-changed).
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            world.server.frozen = True
            made = await world.client.create(WIDGETS, "ns", {"metadata": {"name": "a"}})
            world.server.history.clear()  # the event that is lost
            world.server.put(path_of("b"), {})
            world.writes.wrote("key", world.informer, "ns/a", made.metadata.resource_version)
            world.wait_for("key")
            world.server.thaw()
            await asyncio.sleep(2)
            assert world.informer.store.get("ns/a") is not None
            assert world.lists() == 2
            assert len(world.heard) == 1

    run_virtual(scenario())


def test_a_write_to_what_is_gone_by_now_needs_no_list(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        async with running(world.informer):
            await world.informer.wait_synced()
            made = world.server.put(path_of("a"), {})
            world.server.drop(path_of("a"))
            await asyncio.sleep(0.1)
            version = made["metadata"]["resourceVersion"]
            world.writes.wrote("key", world.informer, "ns/a", version)  # a late answer
            assert world.writes.is_settled("key")
            assert world.lists() == 1

    run_virtual(scenario())
