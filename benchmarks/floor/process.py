"""The floor's own process: `python -m benchmarks.floor.process ORDERS`, orders on stdin.

It makes, marks and removes runners without deciding anything: no queue, no cache, no watch, no
rule. It is told on a pipe what is wanted (`create 100`), which container has ended
(`remove NAME`, `replace NAME`) and that it is to listen for jobs (`listen`). 64 runners are at work
at once. Any answer that is not what a clean life has ends it with what it was.
"""

import asyncio
import base64
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvloop

from benchmarks.floor import orders
from benchmarks.floor.orders import Cut, Orders
from benchmarks.floor.wire import Wires

AT_ONCE = 64
# Each costs a handshake, and more than a few keep no server busier; at GitHub 64 wait for 100 ms.
API_CONNECTIONS = 32
GITHUB_CONNECTIONS = 2 * AT_ONCE
MARKS_AT_ONCE = 64  # of the listener's half, which never waits behind the other
CLEAN = (200, 201)


class Metadata(msgspec.Struct):
    """All that is needed of an answer of the API server."""

    uid: str
    resource_version: str = msgspec.field(name="resourceVersion")


class Object(msgspec.Struct):
    """An answer of the API server."""

    metadata: Metadata


class Runner(msgspec.Struct):
    """Of the answer below."""

    id: int


class Registration(msgspec.Struct):
    """GitHub's answer to a request for a JIT config."""

    runner: Runner
    config: str = msgspec.field(name="encodedJITConfig")


class Envelope(msgspec.Struct):
    """A message of the queue."""

    message_id: int = msgspec.field(name="messageId")
    body: str = ""


class Event(msgspec.Struct):
    """An element of it: what the floor stores of a job."""

    kind: str = msgspec.field(name="messageType")
    runner_name: str = msgspec.field(name="runnerName", default="")
    request_id: int = msgspec.field(name="runnerRequestId", default=0)
    job_id: str = msgspec.field(name="jobId", default="")
    owner: str = msgspec.field(name="ownerName", default="")
    repository: str = msgspec.field(name="repositoryName", default="")
    run_id: int = msgspec.field(name="workflowRunId", default=0)
    workflow: str = msgspec.field(name="jobWorkflowRef", default="")
    display_name: str = msgspec.field(name="jobDisplayName", default="")


class Unclean(Exception):
    """An answer that a clean life does not have."""


_object = msgspec.json.Decoder(Object)
_registration = msgspec.json.Decoder(Registration)
_envelope = msgspec.json.Decoder(Envelope)
_events = msgspec.json.Decoder(list[Event])


class Life:
    """The requests of a runner's life."""

    def __init__(self, asked: Orders) -> None:
        self._api = _wires(asked, asked.api, API_CONNECTIONS)
        self._github = _wires(asked, asked.github, GITHUB_CONNECTIONS)
        self._prefix = asked.prefix
        self._made = 0
        self._room = asyncio.Semaphore(AT_ONCE)
        self._marks = asyncio.Semaphore(MARKS_AT_ONCE)
        name, uid = orders.NAME, orders.UID
        self._runner = Cut(asked.runner, name).filled
        self._jit = Cut(asked.jit, name).filled
        self._pending = Cut(asked.pending, name, orders.NUMBER).filled
        in_secret = (orders.NAME_BASE64, orders.NUMBER_BASE64, orders.CONFIG_BASE64)
        self._secret = Cut(asked.secret, *in_secret, name, uid).filled
        self._pod = Cut(asked.pod, name, uid).filled
        self._read = Cut(asked.read, name).filled
        self._running = Cut(asked.running, name, orders.VERSION, orders.JOB).filled
        self._delete_pod = Cut(asked.delete_pod, name).filled
        self._delete_runner = Cut(asked.delete_runner, name).filled
        self._finalizers = Cut(asked.finalizers, name).filled
        self._poll = Cut(asked.poll, orders.NUMBER).filled
        self._acknowledge = Cut(asked.acknowledge, orders.NUMBER).filled

    async def create(self) -> None:
        """Object, registration, status; Secret and pod side by side."""
        self._made += 1
        name = f"{self._prefix}{self._made:05d}".encode()
        async with self._room:
            made = _object.decode(await self._clean(self._runner(name)))
            answer = await self._github.ask(self._jit(name))
            registration = _registration.decode(_checked(answer))
            number = b"%d" % registration.runner.id
            await self._clean(self._pending(name, number))
            uid = made.metadata.uid.encode()
            encoded = base64.b64encode
            config = encoded(registration.config.encode())
            body = self._secret(encoded(name), encoded(number), config, name, uid)
            secret = asyncio.ensure_future(self._clean(body))
            await self._clean(self._pod(name, uid))
            await secret

    async def remove(self, name: bytes) -> None:
        """The pod, the object, its finalizers."""
        async with self._room:
            pod = asyncio.ensure_future(self._clean(self._delete_pod(name)))
            await self._clean(self._delete_runner(name))
            await self._clean(self._finalizers(name))
            await pod

    async def _mark(self, event: Event) -> None:
        name = event.runner_name.encode()
        job = msgspec.json.encode(
            {
                "phase": "Running",
                "jobRequestId": event.request_id,
                "jobId": event.job_id,
                "jobRepositoryName": f"{event.owner}/{event.repository}",
                "workflowRunId": event.run_id,
                "jobWorkflowRef": event.workflow,
                "jobDisplayName": event.display_name,
            }
        )
        async with self._marks:
            while True:
                status, body = await self._api.ask(self._read(name))
                if status == 404:  # ended meanwhile
                    return
                found = _object.decode(_checked((status, body)))
                version = found.metadata.resource_version.encode()
                status, body = await self._api.ask(self._running(name, version, job))
                if status not in (404, 409):
                    _checked((status, body))
                if status != 409:
                    return

    async def listen(self) -> None:
        """Poll, mark, acknowledge, without end: so that GitHub hands out jobs."""
        last = b"0"
        while True:
            status, body = await self._github.ask(self._poll(last))
            if status == 202:
                continue
            message = _envelope.decode(_checked((status, body)))
            last = b"%d" % message.message_id
            events = _events.decode(message.body) if message.body else []
            started = [event for event in events if event.kind == "JobStarted"]
            async with asyncio.TaskGroup() as group:
                for event in started:
                    group.create_task(self._mark(event))
            status, body = await self._github.ask(self._acknowledge(last))
            if status != 204:
                raise Unclean(f"{status}: {body[:300]!r}")

    async def _clean(self, raw: bytes) -> bytes:
        return _checked(await self._api.ask(raw))


def _checked(answer: tuple[int, bytes]) -> bytes:
    status, body = answer
    if status not in CLEAN:
        raise Unclean(f"{status}: {body[:300]!r}")
    return body


def _wires(asked: Orders, url: str, most: int) -> Wires:
    parts = urlsplit(url)
    tls = None
    if parts.scheme == "https":
        import ssl

        tls = ssl.create_default_context(cadata=asked.ca_pem)
    assert parts.hostname
    assert parts.port
    return Wires(parts.hostname, parts.port, tls, most, own=asked.own_connections)


async def run(path: Path) -> None:
    """Do what comes on stdin until it is closed."""
    life = Life(orders.read(path))
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    async with asyncio.TaskGroup() as group:

        def begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            return group.create_task(work)

        listening: asyncio.Task[None] | None = None
        while line := await reader.readline():
            order, _, argument = line.rstrip(b"\n").partition(b" ")
            if order == b"create":
                for _ in range(int(argument)):
                    begin(life.create())
            elif order == b"remove":
                begin(life.remove(argument))
            elif order == b"replace":
                begin(life.remove(argument))
                begin(life.create())
            elif order == b"listen" and listening is None:
                listening = begin(life.listen())
        if listening is not None:
            listening.cancel()


if __name__ == "__main__":
    uvloop.run(run(Path(sys.argv[1])))
