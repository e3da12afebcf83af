"""The server over HTTP on virtual time, and a client that says exactly what it is told to."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from runnerscale.core.clock import LoopClock
from runnerscale.core.http_connection import HttpConnection
from runnerscale.core.http_dial import Address, Dial
from runnerscale.core.randomness import seeded
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.server import FakeGitHub, serve_fake_github
from tests.unit.fake_github.world import START_S

VERSION = "6.0-preview"
ACCEPT = f"application/json; api-version={VERSION}"
NIL = "00000000-0000-0000-0000-000000000000"


class VirtualConnector(aiohttp.BaseConnector):
    """aiohttp over the network of async-solipsism; every name resolves to the one server."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(self._factory, "127.0.0.1", self._port)
        return protocol


def dial_to(port: int) -> Dial:
    """Direct connections over the network of async-solipsism, all of them to the one server."""

    async def dial(_address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(make, "127.0.0.1", port)
        return connection

    return dial


@dataclass(slots=True)
class Reply:
    """An answer, read to its end."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def exception(self) -> str:
        """The bare class name in `typeName`."""
        return str(self.json["typeName"].split(",")[0].rpartition(".")[2])


@dataclass(slots=True)
class Client:
    """What the tests say to the server."""

    fake: FakeGitHub
    http: aiohttp.ClientSession
    base: str
    admin: str = ""
    tenant: str = ""
    queue_url: str = ""
    queue_token: str = ""
    scale_set_id: int = 0
    session_id: str = ""
    more: dict[str, str] = field(default_factory=dict)

    async def send(self, method: str, url: str, **how: Any) -> Reply:
        headers = {**self.more, **how.pop("headers", {})}
        url = url if "://" in url else self.base + url
        async with self.http.request(method, url, headers=headers, **how) as answer:
            return Reply(answer.status, answer.headers, await answer.read())

    async def service(self, method: str, path: str, **how: Any) -> Reply:
        """The Actions service, as the contract wants it asked."""
        headers = {"Authorization": f"Bearer {self.admin}", **how.pop("headers", {})}
        params = {"api-version": VERSION, **how.pop("params", {})}
        url = f"{self.tenant.rstrip('/')}/_apis{path}"
        return await self.send(method, url, headers=headers, params=params, **how)

    async def register(self, path: str = "my-org", kind: str = "orgs") -> Reply:
        """From a PAT to tenant URL and admin JWT."""
        got = await self.send(
            "POST",
            f"{self.rest}/{kind}/{path.removeprefix('enterprises/')}"
            "/actions/runners/registration-token",
            headers={"Authorization": "Bearer pat"},
        )
        reply = await self.send(
            "POST",
            f"{self.rest}/actions/runner-registration",
            headers={"Authorization": f"RemoteAuth {got.json['token']}"},
            json={"url": f"https://github.example/{path}", "runner_event": "register"},
        )
        self.admin, self.tenant = reply.json["token"], reply.json["url"]
        return reply

    @property
    def rest(self) -> str:
        return "" if "://api." in self.base else "/api/v3"

    async def scale_set(self, name: str = "demo") -> int:
        reply = await self.service(
            "POST", "/runtime/runnerscalesets", json={"name": name, "RunnerSetting": {}}
        )
        assert reply.status == 200, reply.body
        self.scale_set_id = reply.json["id"]
        return self.scale_set_id

    async def open(self, owner: str = "me") -> Reply:
        reply = await self.service(
            "POST",
            f"/runtime/runnerscalesets/{self.scale_set_id}/sessions",
            json={"sessionId": NIL, "ownerName": owner},
        )
        if reply.status == 200:
            self.take_session(reply)
        return reply

    def take_session(self, reply: Reply) -> None:
        self.queue_url = reply.json["messageQueueUrl"]
        self.queue_token = reply.json["messageQueueAccessToken"]
        self.session_id = reply.json["sessionId"]

    async def poll(self, cursor: int = 0, capacity: int | None = 10) -> Reply:
        headers = {"Authorization": f"Bearer {self.queue_token}", "Accept": ACCEPT}
        if capacity is not None:
            headers["X-Scalesetmaxcapacity"] = str(capacity)  # as Go writes it
        params = {"lastMessageId": str(cursor)} if cursor else {}
        return await self.send("GET", self.queue_url, headers=headers, params=params)

    async def acknowledge(self, message_id: int) -> Reply:
        path, mark, query = self.queue_url.partition("?")
        headers = {"Authorization": f"Bearer {self.queue_token}"}
        return await self.send("DELETE", f"{path}/{message_id}{mark}{query}", headers=headers)

    async def jit(self, name: str) -> Reply:
        return await self.service(
            "POST",
            f"/runtime/runnerscalesets/{self.scale_set_id}/generatejitconfig",
            json={"name": name, "workFolder": ""},
        )

    async def queue_jobs(self, count: int = 1, **more: Any) -> list[str]:
        body = {"labels": ["demo"], "count": count, "repository": "my-org/app", **more}
        reply = await self.send("POST", "/control/jobs", json=body)
        assert reply.status == 201, reply.body
        return list(reply.json["jobs"])

    async def fault(self, **body: Any) -> Reply:
        reply = await self.send("POST", "/control/faults", json=body)
        assert reply.status == 201, reply.body
        return reply

    async def ready(self) -> None:
        """Registered, with a scale set and a session."""
        await self.register()
        await self.scale_set()
        assert (await self.open()).status == 200


@asynccontextmanager
async def github(base: str = "", **options: Any) -> AsyncIterator[Client]:
    """A server and its client; `base` is how the client addresses it."""
    wanted = replace(Options(port=8480), **options)
    clock = LoopClock(START_S)
    async with (
        serve_fake_github(wanted, clock=clock, random=seeded(3)) as fake,
        aiohttp.ClientSession(
            connector=VirtualConnector(8480), timeout=aiohttp.ClientTimeout(total=4_000)
        ) as http,
    ):
        yield Client(fake, http, base or fake.base_url)
