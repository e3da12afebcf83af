"""What a watch left out is found: within a minute, and without a list that nobody needs."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.client import Listed
from runnerscale.kube.consistency import EVERY_S, ON_ITS_WAY_S, Odd, oddities, still
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import KubeObject, ObjectMeta
from runnerscale.kube.store import Change, Store
from tests.unit.kube.scripted import WIDGETS, MiniServer, Sent, Widget, client_on, path_of, status

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]

FOUND_WITHIN_S = EVERY_S + ON_ITS_WAY_S + 1.0


def thing(name: str, version: int, *, uid: str = "u") -> KubeObject:
    meta = ObjectMeta(name=name, namespace="ns", uid=uid, resource_version=str(version))
    return KubeObject(metadata=meta)


def shown(*items: KubeObject) -> Store[KubeObject]:
    store: Store[KubeObject] = Store()
    for item in items:
        store.put(f"ns/{item.metadata.name}", item)
    return store


def listed(version: int, *items: KubeObject) -> Listed[KubeObject]:
    return Listed([*items], str(version))


class TestOddities:
    def test_the_same_is_nothing(self) -> None:
        assert oddities(shown(thing("a", 5)), (), listed(9, thing("a", 5))) == ()

    def test_an_object_that_the_cache_lacks(self) -> None:
        assert oddities(shown(), (), listed(9, thing("a", 5))) == (Odd("ns/a", "", ""),)

    def test_an_object_that_changed(self) -> None:
        assert oddities(shown(thing("a", 5)), (), listed(9, thing("a", 6))) == (
            Odd("ns/a", "u", "5"),
        )

    def test_an_object_that_is_gone(self) -> None:
        assert oddities(shown(thing("a", 5)), (), listed(9)) == (Odd("ns/a", "u", "5"),)

    def test_another_object_of_that_name(self) -> None:
        there = listed(9, thing("a", 6, uid="v"))
        assert oddities(shown(thing("a", 7)), (), there) == (Odd("ns/a", "u", "7"),)

    def test_what_is_newer_in_the_cache_than_in_the_list_is_no_difference(self) -> None:
        assert oddities(shown(thing("a", 12), thing("b", 11)), (), listed(9, thing("a", 5))) == ()

    def test_what_cannot_be_read_is_kept_out_on_purpose(self) -> None:
        assert oddities(shown(thing("b", 3)), ("ns/a", "ns/b"), listed(9, thing("a", 5))) == ()

    def test_what_was_on_its_way_is_not_lost(self) -> None:
        odd = oddities(shown(), (), listed(9, thing("a", 5), thing("b", 6)))
        assert still(shown(thing("a", 5)), odd) == ["ns/b"]


class Leaky:
    """A client whose watch leaves out the events that `lost` names."""

    def __init__(self, server: MiniServer) -> None:
        self._client = client_on(server)
        self.lost: Callable[[Any], bool] = lambda _event: False

    def list(self, *arguments: Any, **named: Any) -> Any:
        return self._client.list(*arguments, **named)

    async def watch(self, *arguments: Any, **named: Any) -> Any:
        async with aclosing(self._client.watch(*arguments, **named)) as events:
            async for event in events:
                if not self.lost(event):
                    yield event


class World:
    def __init__(self) -> None:
        self.server = MiniServer()
        self.client = Leaky(self.server)
        client: Any = self.client
        self.informer: Informer[Widget] = Informer(
            client, WIDGETS, namespace="ns", clock=SystemClock(), random=seeded(1)
        )
        self.heard: list[Change[Widget]] = []
        self.informer.on_change(self.heard.append)
        self.task = asyncio.create_task(self.informer.run())

    def full_lists(self) -> int:
        return sum(s.method == "GET" and not s.is_comparison for s in self.server.sent)

    def comparisons(self) -> int:
        return sum(sent.is_comparison for sent in self.server.sent)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def test_every_kind_of_lost_event_is_found_within_a_minute(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        world.server.put(path_of("gone"), {})
        world.server.put(path_of("changed"), {})
        await world.informer.wait_synced()
        await asyncio.sleep(1)
        world.client.lost = lambda _event: True
        world.server.drop(path_of("gone"))
        changed = world.server.put(path_of("changed"), {"spec": {"size": 7}})
        world.server.put(path_of("new"), {})
        await asyncio.sleep(1)
        world.client.lost = lambda _event: False
        assert {*world.informer.store} == {"ns/gone", "ns/changed"}
        world.heard.clear()
        await asyncio.sleep(FOUND_WITHIN_S)
        assert {*world.informer.store} == {"ns/changed", "ns/new"}
        found = world.informer.store.get("ns/changed")
        assert found is not None
        assert found.metadata.resource_version == changed["metadata"]["resourceVersion"]
        assert sorted(change.key for change in world.heard) == ["ns/changed", "ns/gone", "ns/new"]
        assert world.full_lists() == 2
        await world.end()

    run_virtual(scenario())


def test_a_cache_that_is_right_is_never_listed_again(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        await world.informer.wait_synced()
        for number in range(600):  # changes all the time: lists and events cross
            world.server.put(path_of(f"w{number % 7}"), {"spec": {"size": number}})
            await asyncio.sleep(1)
        assert world.full_lists() == 1
        assert 10 <= world.comparisons() <= 14
        await world.end()

    run_virtual(scenario())


def test_a_server_that_refuses_the_comparison_harms_nobody(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        world = World()
        await world.informer.wait_synced()

        def refuse(sent: Sent) -> Any:
            return status(403, "Forbidden") if sent.is_comparison else None

        world.server.before = refuse
        world.server.put(path_of("a"), {})
        await asyncio.sleep(300)
        assert {*world.informer.store} == {"ns/a"}
        assert world.informer.trouble == ""
        await world.end()

    run_virtual(scenario())
