"""Watches over HTTP: what is seen, when one ends, how it is resumed; virtual time where needed.

That the events are those of a real kube-apiserver is held by `tests/conformance`.
"""

import asyncio
from typing import Any

import aiohttp
import async_solipsism
import pytest
from aiohttp import web

from runnerscale.apiserver.authentication import Identity
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.store import MemoryStore
from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from tests.unit.apiserver.harness import ADMIN, CM, KEY, Api, config_map, eventually


class VirtualConnector(aiohttp.BaseConnector):
    """Connects through the loop, so that a virtual loop may own the network."""

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(self._factory, req.url.host, req.url.port)
        return protocol


def virtually(work: Any, identities: tuple[Identity, ...] = (ADMIN,)) -> None:
    """Run `work(api)` against a server on a loop whose time is virtual."""

    async def main() -> None:
        server = ApiServer(
            MemoryStore(),
            clock=LoopClock(1_800_000_000.0),
            random=seeded(3),
            identities=identities,
            signing_key=KEY,
        )
        runner = web.AppRunner(server.app, access_log=None, handler_cancellation=True)
        await runner.setup()
        loop = asyncio.get_running_loop()
        assert runner.server is not None
        listener = await loop.create_server(runner.server, "127.0.0.1", 8080)
        async with aiohttp.ClientSession(
            connector=VirtualConnector(), timeout=aiohttp.ClientTimeout(total=None)
        ) as session:
            await work(Api(server, session, "http://127.0.0.1:8080"))
        listener.close()
        await runner.cleanup()

    with asyncio.Runner(loop_factory=async_solipsism.EventLoop) as loop_runner:
        loop_runner.run(main())


def test_a_quiet_watch_gets_a_bookmark_each_minute_and_one_shortly_before_its_end() -> None:
    async def work(api: Api) -> None:
        async with api.watch(
            CM, allowWatchBookmarks="true", timeoutSeconds="130", resourceVersion="5"
        ) as watch:
            began_s = asyncio.get_running_loop().time()
            times = []
            event = await watch.next()
            while event:
                if event["type"] == "BOOKMARK":
                    assert event["object"]["metadata"].keys() == {"resourceVersion"}
                    assert event["object"]["kind"] == "ConfigMap"
                    times.append(round(asyncio.get_running_loop().time() - began_s))
                event = await watch.next()
            assert times == [60, 120, 128]

    virtually(work)


def test_a_bookmark_carries_a_version_that_a_new_watch_can_start_from() -> None:
    async def work(api: Api) -> None:
        async with api.watch(
            CM, allowWatchBookmarks="true", timeoutSeconds="5", resourceVersion="1"
        ) as watch:
            event = await watch.next()
            while event["type"] != "BOOKMARK":
                event = await watch.next()
        version = event["object"]["metadata"]["resourceVersion"]
        await api.create(CM, config_map("later"))
        async with api.watch(CM, resourceVersion=version) as watch:
            assert await watch.seen(1) == [("ADDED", "later")]

    virtually(work)


def test_a_watch_without_a_timeout_of_its_own_ends_after_half_an_hour_to_an_hour() -> None:
    async def work(api: Api) -> None:
        async with api.watch(CM, timeoutSeconds="0", resourceVersion="1") as watch:
            began_s = asyncio.get_running_loop().time()
            while await watch.next():
                pass
            assert 1800 <= asyncio.get_running_loop().time() - began_s <= 3600

    virtually(work)


async def test_the_initial_events_end_with_an_annotated_bookmark(api: Api) -> None:
    await api.create(CM, config_map("a"))
    async with api.watch(
        CM,
        sendInitialEvents="true",
        allowWatchBookmarks="true",
        resourceVersionMatch="NotOlderThan",
        fieldSelector="metadata.name=a",
    ) as watch:
        first, second = await watch.next(), await watch.next()
    assert (first["type"], second["type"]) == ("ADDED", "BOOKMARK")
    assert second["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watcher_that_fell_out_of_the_window_is_told_410_and_can_list_again(
    api: Api,
) -> None:
    created = await api.create(CM, config_map("a"))
    await api.patch(f"{CM}/a", {"data": {"x": "1"}})
    api.server.compact("configmaps")
    async with api.watch(CM, resourceVersion=created["metadata.resourceVersion"]) as watch:
        event = await watch.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert event["object"]["reason"] == "Expired"
        assert event["object"]["message"].startswith("too old resource version: ")
        assert await watch.next() == {}
    listed = await api.get(CM)
    async with api.watch(CM, resourceVersion=listed["metadata.resourceVersion"]) as watch:
        await api.create(CM, config_map("b"))
        assert await watch.seen(1) == [("ADDED", "b")]


async def test_a_cut_watch_ends_and_resumes_without_losing_anything(api: Api) -> None:
    listed = await api.get(CM)
    async with api.watch(CM, resourceVersion=listed["metadata.resourceVersion"]) as watch:
        created = await api.create(CM, config_map("a"))
        assert await watch.seen(1) == [("ADDED", "a")]
        assert api.server.cut_watches("pods") == 0
        assert api.server.cut_watches("configmaps") == 1
        assert await watch.next() == {}
    await api.create(CM, config_map("b"))
    async with api.watch(CM, resourceVersion=created["metadata.resourceVersion"]) as watch:
        assert await watch.seen(1) == [("ADDED", "b")]


def test_stopping_the_server_ends_open_watches_at_once() -> None:
    async def work(api: Api) -> None:
        async with api.watch(CM) as watch:
            await eventually(lambda: api.server.watches.running == 1)
            began_s = asyncio.get_running_loop().time()
            await api.server.app.shutdown()
            while await watch.next():
                pass
            assert asyncio.get_running_loop().time() - began_s < 1

    virtually(work)


async def test_watchers_of_one_namespace_see_nothing_of_another(api: Api) -> None:
    listed = await api.get(CM)
    async with api.watch(CM, resourceVersion=listed["metadata.resourceVersion"]) as watch:
        await api.create("/api/v1/namespaces/kube-system/configmaps", config_map("other"))
        await api.create(CM, config_map("mine"))
        assert await watch.seen(1) == [("ADDED", "mine")]


async def test_a_hundred_watchers_see_the_same_events(api: Api) -> None:
    listed = await api.get(CM)
    version = listed["metadata.resourceVersion"]

    async def watch_one() -> list[tuple[str, str]]:
        async with api.watch(CM, resourceVersion=version) as watch:
            return await watch.seen(20)

    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(watch_one()) for _ in range(100)]
        for number in range(20):
            await api.create(CM, config_map(f"n{number:02d}"))
    wanted = [("ADDED", f"n{n:02d}") for n in range(20)]
    assert all(w.result() == wanted for w in watchers)
    assert api.server.watches.running <= 100


async def test_a_watcher_that_does_not_read_is_cut_and_delays_nobody(api: Api) -> None:
    api.server.handler.watcher_patience_s = 0.2
    host, port = api.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port), limit=1024)
    token = ADMIN.token.reveal()
    writer.write(
        f"GET {CM}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    await eventually(lambda: api.server.watches.running == 1)
    for number in range(30):  # more than all buffers between the two hold
        assert (await api.create(CM, config_map(f"n{number}", x="y" * 500_000))).code == 201
    await eventually(lambda: api.server.watches.running == 0)
    writer.close()


async def test_a_watch_from_the_future_is_refused(api: Api) -> None:
    reply = await api.get(CM, params={"watch": "1", "resourceVersion": "99999999"})
    assert reply.code == 504
    assert reply["details.causes.0.reason"] == "ResourceVersionTooLarge"


async def test_a_watch_as_a_table_names_its_columns_once(api: Api) -> None:
    listed = await api.get(CM)
    headers = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    params = {"watch": "1", "resourceVersion": listed["metadata.resourceVersion"]}
    async with api.request("GET", CM, params=params, headers=headers) as response:
        await api.create(CM, config_map("a", x="1"))
        await api.create(CM, config_map("b"))
        import json

        first = json.loads(await response.content.readline())["object"]
        second = json.loads(await response.content.readline())["object"]
    assert [c["name"] for c in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert first["rows"][0]["cells"][:2] == ["a", 1]
    assert second["columnDefinitions"] is None


@pytest.mark.parametrize("path", ["/api/v1/nones", "/apis/none.io/v1/xs"])
async def test_nobody_can_watch_what_is_not_served(api: Api, path: str) -> None:
    reply = await api.get(path, params={"watch": "1"})
    assert reply.code == 404


def test_a_pods_grace_period_shrinks_but_never_grows() -> None:
    async def work(api: Api) -> None:
        pods = "/api/v1/namespaces/default/pods"
        spec = {"containers": [{"name": "a", "image": "b"}], "nodeName": "n"}
        await api.create(pods, {"metadata": {"name": "p"}, "spec": spec})
        begun = await api.delete(f"{pods}/p")
        assert begun["metadata.deletionGracePeriodSeconds"] == 30
        assert begun["metadata.deletionTimestamp"] == "2027-01-15T08:00:30Z"
        longer = await api.delete(f"{pods}/p", {"gracePeriodSeconds": 60})
        assert longer["metadata.deletionGracePeriodSeconds"] == 30
        await asyncio.sleep(10)
        shorter = await api.delete(f"{pods}/p", {"gracePeriodSeconds": 5})
        # 5 s after the first request is already past: a second is left to the agent.
        assert shorter["metadata.deletionGracePeriodSeconds"] == 1
        gone = await api.delete(f"{pods}/p", {"gracePeriodSeconds": 0})
        assert gone.code == 200
        assert (await api.get(f"{pods}/p")).code == 404

    virtually(work)


def test_old_events_end_after_an_hour() -> None:
    async def work(api: Api) -> None:
        events = "/api/v1/namespaces/default/events"
        body = {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "lastTimestamp": "2027-01-15T08:00:00Z",
        }
        await api.create(events, body)
        await asyncio.sleep(3500)
        assert (await api.get(f"{events}/e")).code == 200
        await asyncio.sleep(300)
        assert (await api.get(f"{events}/e")).code == 404

    virtually(work)
