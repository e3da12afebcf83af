"""The floor: only the unavoidable requests of a runner's life, as fast as they can be sent.

No queue, no cache, no rule: a script that knows beforehand what is wanted. 64 at once over the
transport that is the fastest we have, for the API server and for GitHub. It is what the limits
of server, network and machine leave; what we need above it is our own doing. The objects are
those that our controller makes: one runner's are taken as patterns, and it is stopped then.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from benchmarks.world import NAMESPACE, World
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.kube.builtin import PODS, SECRETS
from runnerscale.kube.errors import Conflict, NotFound
from runnerscale.kube.httptools_transport import HttptoolsTransport
from runnerscale.kube.transport import Endpoint
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.config_url import parse_config_url
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.httptools_transport import HttptoolsTransport as GitHubTransport
from runnerscale.scaleset.model import JobEventKind
from runnerscale.scaleset.transport import Request, Response
from runnerscale.scaleset.user_agent import SystemInfo

AT_ONCE = 64
SET = "floor"
SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
POLL_CAPACITY = 10_000


class _Spy(GitHubTransport):
    """Remembers the last request, so that it can be sent again with another name in it."""

    last: Request | None = None

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        self.last = request
        return await super().send(request, timeout_s=timeout_s)


class Floor:
    """Makes, marks and removes runners without deciding anything."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._room = asyncio.Semaphore(AT_ONCE)
        self._made = 0
        self._uids: dict[str, str] = {}
        self._patterns: dict[str, str] = {}
        self._pattern_name = ""
        self._scale_set_id = 0
        self._jit_head: dict[str, str] = {}
        self._jit_path = ""
        self._jit_body = ""
        self._jit = HttptoolsTransport(Endpoint(world.github.url))
        self._spy = _Spy()
        self._github = ScaleSetClient(
            parse_config_url(f"{world.github.url}/demo-org/demo", force_ghes=False),
            personal_access_token("a-token"),
            transport=self._spy,
            clock=SystemClock(),
            random=system_random(),
            system_info=SystemInfo(system="floor", version="0", commit_sha="", subsystem="floor"),
        )

    async def prepare(self) -> None:
        """Patterns of the objects, a token for GitHub; our controller and listener are gone."""
        world = self._world
        await world.start_controller()
        await world.add_set(SET, low=1, high=1)
        await world.eyes.until(lambda s: len(s.online) == 1, within_s=60.0)
        name = next(iter(world.eyes.sights.online))
        for resource in (EPHEMERAL_RUNNERS, SECRETS, PODS):
            found = await world.client.get_raw(resource.path(NAMESPACE, name))
            for key in SERVER_FIELDS:
                found["metadata"].pop(key, None)
            if resource is EPHEMERAL_RUNNERS:
                self._scale_set_id = int(found["spec"]["runnerScaleSetId"])
            found.pop("status", None)
            self._patterns[resource.plural] = json.dumps(found)
        self._pattern_name = name
        assert world.controller is not None
        await world.controller.stop()
        await world.nodes.stop()
        await self._github.generate_jit_config(self._scale_set_id, "floor-pattern")
        asked = self._spy.last
        assert asked is not None
        assert asked.body is not None
        self._jit_path = asked.url.removeprefix(world.github.url)
        self._jit_head = dict(asked.headers)
        self._jit_body = asked.body.decode()

    async def close(self) -> None:
        """All connections closed."""
        await self._jit.close()
        await self._github.close()

    async def create(self, count: int) -> None:
        """So many runners: object, registration, status, Secret, pod."""
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                self._made += 1
                group.create_task(self._create(f"{SET}-runner-{self._made:05d}"))

    async def _create(self, name: str) -> None:
        client = self._world.client
        async with self._room:
            made = await client.create(
                EPHEMERAL_RUNNERS, NAMESPACE, self._body("ephemeralrunners", name)
            )
            self._uids[name] = made.metadata.uid or ""
            body = self._jit_body.replace("floor-pattern", name).encode()
            answer = await self._jit.request(
                "POST",
                self._jit_path.partition("?")[0],
                query=_query(self._jit_path),
                headers=self._jit_head,
                body=body,
            )
            assert answer.status == 200, answer
            config = json.loads(answer.body)
            status = {
                "phase": "Pending",
                "runnerId": config["runner"]["id"],
                "runnerName": name,
            }
            secret = self._body("secrets", name)
            secret["data"] = {"jitToken": config["encodedJITConfig"]}
            await client.patch(
                EPHEMERAL_RUNNERS, NAMESPACE, name, {"status": status}, subresource="status"
            )
            async with asyncio.TaskGroup() as both:
                both.create_task(client.create(SECRETS, NAMESPACE, secret))
                both.create_task(client.create(PODS, NAMESPACE, self._body("pods", name)))

    async def remove(self, name: str) -> None:
        """A runner that has ended: pod, object, finalizers."""
        client = self._world.client
        async with self._room:
            await client.delete(PODS, NAMESPACE, name)
            await client.delete(EPHEMERAL_RUNNERS, NAMESPACE, name)
            await client.patch(
                EPHEMERAL_RUNNERS, NAMESPACE, name, {"metadata": {"finalizers": None}}
            )

    async def mark(self, name: str, fields: dict[str, Any]) -> None:
        """A job was started: the listener's read and its word."""
        client = self._world.client
        async with self._room, _moot():
            found = await client.get(EPHEMERAL_RUNNERS, NAMESPACE, name)
            body = {
                "metadata": {"resourceVersion": found.metadata.resource_version},
                "status": {"phase": "Running", **fields},
            }
            await client.patch(EPHEMERAL_RUNNERS, NAMESPACE, name, body, subresource="status")

    async def listen(self) -> None:
        """Poll, mark, acknowledge, until cancelled: so that GitHub hands out jobs."""
        last = 0
        async with self._github.open_session(self._scale_set_id, "floor") as session:
            while True:
                message = await session.poll(last, POLL_CAPACITY)
                if message is None:
                    continue
                last = message.id
                async with asyncio.TaskGroup() as group:
                    for event in message.events:
                        if event.kind is JobEventKind.STARTED:
                            group.create_task(self.mark(event.runner_name, {"jobId": event.job_id}))
                await session.acknowledge(last)

    def _body(self, plural: str, name: str) -> dict[str, Any]:
        text = self._patterns[plural].replace(self._pattern_name, name)
        body: dict[str, Any] = msgspec.json.decode(text)
        if plural != "ephemeralrunners":
            body["metadata"]["ownerReferences"][0]["uid"] = self._uids[name]
        return body


@asynccontextmanager
async def _moot() -> AsyncIterator[None]:
    """A runner that ended meanwhile needs no mark any more."""
    with suppress(Conflict, NotFound):
        yield


def _query(path: str) -> dict[str, str]:
    pairs = path.partition("?")[2].split("&")
    return dict(pair.split("=", 1) for pair in pairs if pair)
