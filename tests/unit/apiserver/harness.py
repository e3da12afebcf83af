"""A server in memory and a client to it, for the tests of this folder."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.test_utils import TestServer

from runnerscale.apiserver.admission import Hook
from runnerscale.apiserver.authentication import Identity
from runnerscale.apiserver.handler import Served
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.store import MemoryStore, Store
from runnerscale.core.clock import Clock, SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText

Json = dict[str, Any]

ADMIN = Identity("admin", SecretText("token-of-admin"), ("system:masters",))
BOB = Identity("bob", SecretText("token-of-bob"), ("devs",))
KEY = SecretText("k" * 32)
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
CM = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    code: int
    body: Any
    headers: Any

    def __getitem__(self, path: str) -> Any:
        value = self.body
        for part in path.split("."):
            value = value[int(part)] if isinstance(value, list) else value.get(part)
        return value


class Api:
    """The server under test and one session to it."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession, url: str) -> None:
        self.server = server
        self.session = session
        self.url = url

    def request(self, method: str, path: str, **more: Any) -> Any:
        token = more.pop("token", ADMIN.token.reveal())
        headers = dict(more.pop("headers", {}))
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if "accept" in more:
            headers["Accept"] = more.pop("accept")
        body = more.pop("body", None)
        if body is not None:
            headers["Content-Type"] = more.pop("content_type", "application/json")
            more["data"] = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.session.request(method, self.url + path, headers=headers, **more)

    async def send(self, method: str, path: str, **more: Any) -> Reply:
        async with self.request(method, path, **more) as response:
            text = await response.read()
            try:
                body = json.loads(text) if text else None
            except ValueError:
                body = text.decode()
            return Reply(response.status, body, response.headers)

    async def get(self, path: str, **more: Any) -> Reply:
        return await self.send("GET", path, **more)

    async def create(self, path: str, body: Any, **more: Any) -> Reply:
        return await self.send("POST", path, body=body, **more)

    async def patch(self, path: str, body: Any, kind: str = MERGE, **more: Any) -> Reply:
        return await self.send("PATCH", path, body=body, content_type=kind, **more)

    async def delete(self, path: str, body: Any = None, **more: Any) -> Reply:
        return await self.send("DELETE", path, body=body, **more)

    @asynccontextmanager
    async def watch(self, path: str, **query: Any) -> AsyncIterator["Watch"]:
        params = {"watch": "1", "timeoutSeconds": "600", **query}
        async with self.request("GET", path, params=params) as response:
            assert response.status == 200, await response.text()
            yield Watch(response)


class Watch:
    """An open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> Json:
        """The next event; an empty one at the end of the stream."""
        line = await self._response.content.readline()
        return json.loads(line) if line else {}

    async def seen(self, count: int) -> list[tuple[str, str]]:
        """Type and name of so many events."""
        events = [await self.next() for _ in range(count)]
        return [(e["type"], e["object"]["metadata"].get("name", "")) for e in events]


@asynccontextmanager
async def serving(
    *,
    store: Store | None = None,
    clock: Clock | None = None,
    crds: Any = (),
    hook: Hook | None = None,
    audit: list[Served] | None = None,
    session: aiohttp.ClientSession | None = None,
    **more: Any,
) -> AsyncIterator[Api]:
    """A running server."""
    api = ApiServer(
        store or MemoryStore(),
        clock=clock or SystemClock(),
        random=seeded(7),
        crds=crds,
        identities=[ADMIN, BOB],
        signing_key=KEY,
        admission_hook=hook,
        observer=audit.append if audit is not None else None,
        **more,
    )
    server = TestServer(api.app)
    await server.start_server()
    try:
        async with session or aiohttp.ClientSession() as client:
            yield Api(api, client, str(server.make_url("")).rstrip("/"))
    finally:
        await server.close()


def config_map(name: str, **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def pod(name: str, **spec: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **spec},
    }


async def eventually(check: Any, *, tries: int = 200) -> None:
    """Yield to the loop until a condition holds (background work takes a few turns)."""
    import asyncio

    for _ in range(tries):
        if check():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")
