"""Two stand-ins behind the transport seam: one of functions, one that behaves like a server.

`Scripted` answers with what a test's function says. `MiniServer` keeps objects of any kind
with versions, pages, watches and bookmarks, and breaks on demand: what a real API server does
is judged elsewhere (`tests/conformance`), here it only has to misbehave precisely.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.client import KubeClient
from runnerscale.kube.errors import Unreachable
from runnerscale.kube.objects import NO_RAW, KubeObject
from runnerscale.kube.patching import merge_apply
from runnerscale.kube.resource import Resource
from runnerscale.kube.transport import Answer, Stream


class WidgetSpec(msgspec.Struct, rename="camel"):
    """A spec with something that can be wrong and something that stays raw."""

    size: int = 0
    template: Annotated[msgspec.Raw, msgspec.Meta(description="kept as it is")] = NO_RAW


class Widget(KubeObject):
    """A kind of our own."""

    spec: WidgetSpec | None = None


WIDGETS = Resource("example.com", "v1", "widgets", "Widget", Widget)


@dataclass(frozen=True)
class Sent:
    """One request as it reached the network."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")

    @property
    def is_comparison(self) -> bool:
        """A list of metadata alone: a cache is compared with what there is."""
        return "PartialObjectMetadataList" in self.headers.get("Accept", "")


def answer(status: int, document: Any = None, **headers: str) -> Answer:
    body = b"" if document is None else json.dumps(document).encode()
    return Answer(status, {k.replace("_", "-"): v for k, v in headers.items()}, body)


def status(code: int, reason: str, message: str = "no", **details: Any) -> Answer:
    return answer(
        code,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": message,
            "details": details,
        },
    )


@dataclass
class ListedStream:
    """A stream with a fixed status and lines; an exception among the lines is raised."""

    status: int
    source: AsyncGenerator[bytes, None]
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def lines(self) -> AsyncGenerator[bytes, None]:
        return self.source

    async def read(self) -> bytes:
        return self.body


async def lines_of(*items: Any) -> AsyncGenerator[bytes, None]:
    for item in items:
        if isinstance(item, Exception):
            raise item
        if isinstance(item, float | int):
            await asyncio.sleep(item)
            continue
        yield item if isinstance(item, bytes) else json.dumps(item).encode()


Reply = Answer | Exception | Awaitable[Answer]


class Scripted:
    """A transport of functions."""

    host = "api.test:443"

    def __init__(
        self,
        reply: Callable[[Sent], Reply] | None = None,
        stream: Callable[[Sent], Stream | Exception] | None = None,
    ) -> None:
        self.sent: list[Sent] = []
        self.closed = False
        self._reply = reply
        self._stream = stream

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = {},
        headers: Mapping[str, str] = {},
        body: bytes | None = None,
    ) -> Answer:
        request = Sent(method, path, dict(query), dict(headers), body)
        self.sent.append(request)
        assert self._reply is not None
        reply = self._reply(request)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Answer) else await reply

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] = {},
        headers: Mapping[str, str] = {},
        silence_max_s: float,
    ) -> AsyncGenerator[Stream, None]:
        request = Sent("WATCH", path, dict(query), dict(headers))
        self.sent.append(request)
        assert self._stream is not None
        stream = self._stream(request)
        if isinstance(stream, Exception):
            raise stream
        yield stream

    async def close(self) -> None:
        self.closed = True


def client_on(transport: Any, **options: Any) -> KubeClient:
    return KubeClient(transport, clock=SystemClock(), random=seeded(1), **options)


class MiniServer:
    """Objects with versions behind the transport seam; for one loop, without sockets.

    `before` may raise or return an answer instead of the real one; `after` sees the real
    answer and may raise: the effect took place and the answer was lost.
    """

    host = "mini.test:443"

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, Any]] = {}  # by path
        self.history: list[tuple[int, str, str, dict[str, Any]]] = []  # version, type, path, object
        self.compacted = 0  # versions up to this are forgotten
        self.sent: list[Sent] = []
        self.before: Callable[[Sent], Answer | None] = lambda _: None
        self.after: Callable[[Sent, Answer], None] = lambda *_: None
        self.page_hook: Callable[[], None] = lambda: None
        self.frozen = False  # watches deliver nothing
        self.hold: asyncio.Event | None = None  # reads are answered, and the answers held back
        self._changed = asyncio.Event()
        self._cut: set[asyncio.Event] = set()
        self._uids = 0

    # --- what a test does behind the client's back ---

    def put(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        old = self.objects.get(path)
        self.version += 1
        namespace, name = path.split("/")[-3], path.split("/")[-1]
        meta = dict(document.get("metadata") or {})
        meta |= {"name": name, "namespace": namespace, "resourceVersion": str(self.version)}
        if old is None:
            self._uids += 1
            meta["uid"] = f"uid-{self._uids}"
        else:
            meta["uid"] = old["metadata"]["uid"]
        made = {**document, "metadata": meta}
        self.objects[path] = made
        self._note("ADDED" if old is None else "MODIFIED", path, made)
        return made

    def drop(self, path: str) -> None:
        old = self.objects.pop(path)
        self.version += 1
        gone = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
        self._note("DELETED", path, gone)

    def compact(self) -> None:
        self.compacted = self.version
        self.history.clear()
        self._wake()

    def cut_watches(self) -> None:
        """Every open watch breaks in the middle of a line."""
        for cut in self._cut:
            cut.set()

    def thaw(self) -> None:
        self.frozen = False
        self._wake()

    def _note(self, kind: str, path: str, document: dict[str, Any]) -> None:
        self.history.append((self.version, kind, path, document))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # --- the transport ---

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = {},
        headers: Mapping[str, str] = {},
        body: bytes | None = None,
    ) -> Answer:
        request = Sent(method, path, dict(query), dict(headers), body)
        self.sent.append(request)
        await asyncio.sleep(0)
        instead = self.before(request)
        if instead is not None:
            return instead
        done = getattr(self, f"_{method.lower()}")(request)
        self.after(request, done)
        if self.hold is not None and method == "GET":
            await self.hold.wait()
        assert isinstance(done, Answer)
        return done

    def _get(self, request: Sent) -> Answer:
        if request.path in self.objects:
            return answer(200, self.objects[request.path])
        if "/widgets/" in request.path or "/leases/" in request.path:
            return status(404, "NotFound")
        paths = sorted(p for p in self.objects if p.startswith(request.path + "/"))
        begin, limit = 0, int(request.query.get("limit", "0")) or len(paths) or 1
        if token := request.query.get("continue"):
            then, begin = (int(part) for part in token.split("-"))
            if then < self.compacted:
                return status(410, "Expired", "the provided continue parameter is too old")
        meta: dict[str, Any] = {"resourceVersion": str(self.version)}
        if begin + limit < len(paths):
            meta["continue"] = f"{self.version}-{begin + limit}"
            self.page_hook()
        items = [self.objects[p] for p in paths[begin : begin + limit]]
        return answer(200, {"kind": "List", "metadata": meta, "items": items})

    def _post(self, request: Sent) -> Answer:
        document = request.json
        path = f"{request.path}/{document['metadata']['name']}"
        if path in self.objects:
            return status(409, "AlreadyExists")
        return answer(201, self.put(path, document))

    def _put(self, request: Sent) -> Answer:
        old = self.objects.get(request.path)
        if old is None:
            return status(404, "NotFound")
        wanted = request.json["metadata"].get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            return status(409, "Conflict")
        return answer(200, self.put(request.path, request.json))

    def _patch(self, request: Sent) -> Answer:
        old = self.objects.get(request.path)
        if old is None:
            return status(404, "NotFound")
        wanted = (request.json.get("metadata") or {}).get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            return status(409, "Conflict")
        return answer(200, self.put(request.path, merge_apply(old, request.json)))

    def _delete(self, request: Sent) -> Answer:
        old = self.objects.get(request.path)
        if old is None:
            return status(404, "NotFound")
        uid = ((request.json or {}).get("preconditions") or {}).get("uid")
        if uid and uid != old["metadata"]["uid"]:
            return status(409, "Conflict")
        self.drop(request.path)
        return answer(200, {"kind": "Status", "status": "Success"})

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] = {},
        headers: Mapping[str, str] = {},
        silence_max_s: float,
    ) -> AsyncGenerator[Stream, None]:
        request = Sent("WATCH", path, dict(query), dict(headers))
        self.sent.append(request)
        await asyncio.sleep(0)
        instead = self.before(request)
        if instead is not None:
            yield ListedStream(instead.status, lines_of(), body=instead.body)
            return
        cut = asyncio.Event()
        self._cut.add(cut)
        try:
            source = self._watch(path, int(query["resourceVersion"]), cut)
            yield ListedStream(200, source)
        finally:
            self._cut.discard(cut)

    async def _watch(
        self, path: str, since: int, cut: asyncio.Event
    ) -> AsyncGenerator[bytes, None]:
        seen = since
        while True:
            if seen < self.compacted:  # also a watcher that was too slow
                gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                yield json.dumps({"type": "ERROR", "object": gone}).encode()
                return
            fresh = [] if self.frozen else [e for e in self.history if e[0] > seen]
            for version, kind, at, document in fresh:
                seen = version
                if at.startswith(path + "/"):
                    yield json.dumps({"type": kind, "object": document}).encode()
            if fresh:
                continue
            if cut.is_set():
                raise Unreachable("connection reset")
            waits = [asyncio.ensure_future(e.wait()) for e in (self._changed, cut)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    async def close(self) -> None:
        return None


def path_of(name: str, namespace: str = "ns") -> str:
    return WIDGETS.path(namespace, name)
