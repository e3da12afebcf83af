"""The whole runtime against the embedded API server, over HTTP, on virtual time.

A small operator: a ConfigMap with `data.copies` wants so many Secrets, with drawn names, so a
pass on a stale cache would make too many. The server is impartial: it knows none of this.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from runnerscale.apiserver.authentication import Identity
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.store import MemoryStore
from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import name_suffix, seeded
from runnerscale.core.secret import SecretText
from runnerscale.kube.builtin import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Secret,
)
from runnerscale.kube.client import KubeClient
from runnerscale.kube.controller import Controller
from runnerscale.kube.credentials import StaticToken
from runnerscale.kube.errors import Conflict
from runnerscale.kube.events import EventRecorder
from runnerscale.kube.httptools_transport import HttptoolsTransport
from runnerscale.kube.informer import Informer
from runnerscale.kube.lease import LeaderLease
from runnerscale.kube.objects import ObjectReference, key_of, reference_to
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.patching import controller_reference, owner_index
from runnerscale.kube.reconcile import Plan
from runnerscale.kube.transport import Endpoint
from runnerscale.kube.watch import Added, Deleted, Modified
from tests.unit.kube.virtual_network import virtual_dial

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]
EPOCH_S = 1_800_000_000.0
NAMESPACE = "team"


@asynccontextmanager
async def api_server() -> AsyncIterator[str]:
    api = ApiServer(
        MemoryStore(),
        clock=LoopClock(EPOCH_S),
        random=seeded(7),
        identities=[Identity("admin", SecretText("t0k"), ("system:masters",))],
        signing_key=SecretText("k" * 32),
    )
    runner = web.AppRunner(api.app, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(runner.server, "api.test", 80)
    try:
        yield "http://api.test:80"
    finally:
        server.close()
        await runner.cleanup()


class Lagging(KubeClient):
    """Its watches are behind: each event comes 20 ms after the one before."""

    async def watch(self, *given: Any, **options: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(super().watch(*given, **options)) as events:
            async for event in events:
                await asyncio.sleep(0.02)
                yield event


def client_to(url: str, seed: int = 1, kind: type[KubeClient] = KubeClient) -> KubeClient:
    return kind(
        HttptoolsTransport(Endpoint(url), dial=virtual_dial),
        clock=LoopClock(EPOCH_S),
        random=seeded(seed),
        credentials=StaticToken(SecretText("t0k")),
    )


async def prepared(url: str) -> KubeClient:
    client = client_to(url)
    await client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    return client


@dataclass(frozen=True)
class Seen:
    owner: ObjectReference
    copies: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Make:
    owner: ObjectReference
    name: str


@dataclass(frozen=True)
class Drop:
    owner: ObjectReference
    name: str


class Copies:
    """The reconciler."""

    def __init__(self, client: KubeClient, seed: int = 3) -> None:
        options: Any = {"namespace": NAMESPACE, "clock": LoopClock(EPOCH_S)}
        self.client = client
        self.random = seeded(seed)
        self.wishes = Informer(client, CONFIG_MAPS, random=seeded(1), **options)
        self.secrets = Informer(
            client, SECRETS, indexers={"owner": owner_index}, random=seeded(2), **options
        )
        self.own = OwnWrites(clock=LoopClock(EPOCH_S))
        self.events = EventRecorder(
            client, component="copies", clock=LoopClock(EPOCH_S), random=seeded(4)
        )
        self.controller = Controller(
            name="copies",
            reconciler=self,
            keys=self.wishes.store.keys,
            clock=LoopClock(EPOCH_S),
            random=seeded(5),
            own_writes=self.own,
        )
        self.wishes.on_change(lambda change: self.controller.enqueue(change.key))
        self.secrets.on_change(lambda change: self._enqueue_owner(change.new or change.old))

    def _enqueue_owner(self, secret: Secret | None) -> None:
        for value in owner_index(secret) if secret is not None else ():
            self.controller.enqueue(value.removeprefix("ConfigMap/"))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.wishes.run())
            group.create_task(self.secrets.run())
            group.create_task(self.events.run())
            await self.wishes.wait_synced()
            await self.secrets.wait_synced()
            group.create_task(self.controller.run())

    def observe(self, key: str) -> Seen | None:
        wish = self.wishes.store.get(key)
        if wish is None or "copies" not in (wish.data or {}):
            return None
        secrets = self.secrets.store.by_index("owner", f"ConfigMap/{key}")
        names = tuple(sorted(str(secret.metadata.name) for secret in secrets))
        return Seen(reference_to(wish), int((wish.data or {})["copies"]), names)

    def plan(self, seen: Seen) -> Plan[Make | Drop, str]:
        missing = seen.copies - len(seen.names)
        if missing > 0:
            names = [f"{seen.owner.name}-{name_suffix(self.random)}" for _ in range(missing)]
            return Plan(tuple(Make(seen.owner, name) for name in names))
        surplus = seen.names[seen.copies :]
        return Plan(tuple(Drop(seen.owner, name) for name in surplus))

    async def apply(self, action: Make | Drop) -> bool:
        key = action.owner.key
        if isinstance(action, Drop):
            secret = self.secrets.store.get(f"{NAMESPACE}/{action.name}")
            uid = secret.metadata.uid if secret else None
            await self.client.delete(SECRETS, NAMESPACE, action.name, uid=uid)
            self.own.deleted(key, self.secrets, f"{NAMESPACE}/{action.name}", uid)
            return False
        owners = [controller_reference(action.owner)]
        body = {"metadata": {"name": action.name, "ownerReferences": owners}}
        made = await self.client.create(SECRETS, NAMESPACE, body)
        self.own.wrote(key, self.secrets, key_of(made), made.metadata.resource_version)
        return True

    def learn(self, seen: Seen, answers: Sequence[tuple[Make | Drop, bool]]) -> Seen:
        made = {action.name for action, kept in answers if kept}
        gone = {action.name for action, kept in answers if not kept}
        return replace(seen, names=tuple(sorted({*seen.names, *made} - gone)))

    def report(self, key: str, seen: Seen | None, troubles: Sequence[str]) -> None:
        if seen is not None:
            self.events.record(
                seen.owner, type="Normal", reason="Copied", message=f"{seen.copies} copies"
            )


@asynccontextmanager
async def working(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def secrets_of(client: KubeClient) -> list[str]:
    listed = await client.list(SECRETS, NAMESPACE)
    return [str(secret.metadata.name) for secret in listed.items]


def test_a_wish_is_met_exactly_and_followed(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        async with api_server() as url:
            client = await prepared(url)
            lagging = client_to(url, kind=Lagging)
            async with working(Copies(lagging).run()):
                body = {"metadata": {"name": "wish"}, "data": {"copies": "100"}}
                await client.create(CONFIG_MAPS, NAMESPACE, body)
                made: set[str] = set()
                for _ in range(100):
                    await asyncio.sleep(0.05)
                    made.update(await secrets_of(client))
                assert len(made) == 100  # not one too many, not even for a moment
                assert len(await secrets_of(client)) == 100
                await client.patch(CONFIG_MAPS, NAMESPACE, "wish", {"data": {"copies": "40"}})
                await asyncio.sleep(5)
                names = await secrets_of(client)
                assert len(names) == 40
                for name in names[:10]:  # somebody interferes
                    await client.delete(SECRETS, NAMESPACE, name)
                await asyncio.sleep(5)
                assert len(await secrets_of(client)) == 40
                await asyncio.sleep(120)  # the level passes change nothing
                events = await client.list(EVENTS, NAMESPACE)
                told = {event.message for event in events.items if event.reason == "Copied"}
                assert told == {"100 copies", "40 copies"}
            await lagging.close()
            await client.close()

    run_virtual(scenario())


def test_killed_anywhere_it_never_makes_one_too_many(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        async with api_server() as url:
            client = await prepared(url)
            body = {"metadata": {"name": "wish"}, "data": {"copies": "60"}}
            await client.create(CONFIG_MAPS, NAMESPACE, body)
            grown: list[int] = []
            for life in range(40):
                mine = client_to(url, life)
                async with working(Copies(mine, seed=100 + life).run()):
                    for _ in range(2 * life):  # steps of the loop: time stands still
                        await asyncio.sleep(0)
                await mine.close()
                grown.append(len(await secrets_of(client)))
            assert max(grown) <= 60
            assert len(set(grown)) >= 3, grown  # it was caught in the middle, more than once
            mine = client_to(url, 99)
            async with working(Copies(mine, seed=99).run()):
                await asyncio.sleep(10)
                assert len(await secrets_of(client)) == 60
            await mine.close()
            await client.close()

    run_virtual(scenario())


def test_client_and_server_understand_each_other(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        async with api_server() as url:
            client = await prepared(url)
            made = await client.create(
                CONFIG_MAPS, NAMESPACE, {"metadata": {"name": "a"}, "data": {"x": "1"}}
            )
            dry = {"metadata": {"name": "dry"}}
            await client.create(CONFIG_MAPS, NAMESPACE, dry, dry_run=True)
            changed = await client.patch(CONFIG_MAPS, NAMESPACE, "a", {"data": {"x": "2"}})
            stale = {"metadata": {"resourceVersion": made.metadata.resource_version}}
            try:
                await client.patch(CONFIG_MAPS, NAMESPACE, "a", stale | {"data": {"x": "3"}})
            except Conflict as error:
                conflict = error
            assert conflict.code == 409
            listed = await client.list(CONFIG_MAPS, NAMESPACE)
            assert [item.metadata.name for item in listed.items] == ["a"]
            kinds: list[Any] = []

            async def follow() -> None:
                version = made.metadata.resource_version or ""
                events = client.watch(CONFIG_MAPS, NAMESPACE, resource_version=version)
                async for event in events:
                    kinds.append(type(event))

            async with working(follow()):
                await client.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": "b"}})
                gone = await client.delete(CONFIG_MAPS, NAMESPACE, "a", uid=changed.metadata.uid)
                assert gone is None
                await asyncio.sleep(1)
            assert [kind for kind in kinds if kind in (Added, Modified, Deleted)] == [
                Modified,
                Added,
                Deleted,
            ]
            account = {"metadata": {"name": "robot"}}
            await client.get_raw("/version")
            await client.create(SERVICE_ACCOUNTS, NAMESPACE, account)
            assert await client.create_token(NAMESPACE, "robot", expiration_s=600)
            await client.close()

    run_virtual(scenario())


def test_a_lease_lives_on_the_embedded_server(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        async with api_server() as url:
            client = await prepared(url)
            order: list[str] = []

            def competitor(name: str) -> Coroutine[Any, Any, None]:
                lease = LeaderLease(
                    client,
                    namespace=NAMESPACE,
                    name="copies",
                    identity=name,
                    clock=LoopClock(EPOCH_S),
                    random=seeded(len(name)),
                    abandon=lambda: None,
                )

                async def work() -> None:
                    order.append(name)
                    await asyncio.sleep(1_000_000)

                return lease.run(work)

            async with working(competitor("one")):
                await asyncio.sleep(30)
                second = asyncio.create_task(competitor("second"))
                await asyncio.sleep(30)
                assert order == ["one"]
            await asyncio.sleep(5)
            assert order == ["one", "second"]
            second.cancel()
            await asyncio.wait([second])
            found = await client.get(LEASES, NAMESPACE, "copies")
            assert found.spec is not None
            assert (found.spec.holder_identity or "", found.spec.lease_transitions) == ("", 1)
            await client.close()

    run_virtual(scenario())
