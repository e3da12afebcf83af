"""The typed client of the Kubernetes API.

`Client` is what the rest of the project asks for; `KubeClient` is the one that asks a server.
Types are slim structs, so nothing here can PUT one: writes are plain mappings. Decoding is
`watch.py` and `status.py`, the network `transport.py`, tokens `credentials.py`; what is left
here is the deadline of a call and what is repeated within it (`calls.py`).
"""

import builtins
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.builtin import PODS, SERVICE_ACCOUNTS
from runnerscale.kube.calls import TIMEOUT_S, Calls
from runnerscale.kube.credentials import Anonymous, Credentials
from runnerscale.kube.delete_call import delete_options, kind_of
from runnerscale.kube.errors import BadAnswer, BadRequest, Gone, NotFound
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.objects import KubeObject
from runnerscale.kube.resource import Resource
from runnerscale.kube.transport import Transport
from runnerscale.kube.watch import UNREADABLE, Page, Poisoned, ResourceDecoder, WatchEvent

T = TypeVar("T", bound=KubeObject)

_SEGMENT = re.compile(r"[A-Za-z0-9._:@-]{1,253}")

PAGE_ITEMS = 500  # what client-go asks for: a page is a few megabytes at most
PAGES_MAX = 10_000  # a server that never stops saying "continue" is broken
RELISTS_MAX = 2  # a 410 between pages starts over; after these, everything in one answer
WATCH_TIMEOUT_S = 300.0
LEASES_PATH = "/apis/coordination.k8s.io/"
SILENCE_MARGIN_S = 15.0  # how much later than its own timeout a server may end a watch


class PatchType(StrEnum):
    """The content type of a patch."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A whole collection, all pages, at one version; what did not fit its type stands apart."""

    items: list[T]
    resource_version: str
    poisoned: tuple[Poisoned, ...] = ()


class Client(Protocol):
    """What controllers, listener and node agent may ask of the API server.

    Every method raises only errors of `kube.errors`. `timeout_s` bounds the whole call, waits
    and retries included; None takes the client's default (30 s).
    """

    async def get(
        self, resource: Resource[T], namespace: str, name: str, *, timeout_s: float | None = None
    ) -> T:
        """One object, read from the server itself."""
        ...

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float | None = None,
    ) -> Listed[T]:
        """All objects, in pages, at one version. `namespace` "": of all namespaces."""
        ...

    async def create(
        self,
        resource: Resource[T],
        namespace: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> T:
        """Create. After `Unreachable` it may exist: look before you repeat."""
        ...

    async def patch(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        body: Any,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> T:
        """Change. Put `metadata.resourceVersion` in it where it follows from something read."""
        ...

    async def delete(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_s: int | None = None,
        propagation: str | None = None,
        timeout_s: float | None = None,
    ) -> T | None:
        """The object as it is now being deleted, or None when it is already gone."""
        ...

    async def create_token(
        self,
        namespace: str,
        service_account: str,
        *,
        expiration_s: int = 3600,
        timeout_s: float | None = None,
    ) -> str:
        """A token of that service account (TokenRequest). A secret."""
        ...

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float = WATCH_TIMEOUT_S,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Events of `kube.watch` after that version; ends when the server ends it in order."""
        ...


class KubeClient:
    """The client of one API server. Safe to use by many tasks at once."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        random: Random,
        credentials: Credentials | None = None,
        metrics: KubeMetrics | None = None,
        user_agent: str = "runnerscale",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`timeout_s`: the bound of a call that names none of its own."""
        self._transport = transport
        self._calls = Calls(
            transport,
            credentials=credentials if credentials is not None else Anonymous(),
            clock=clock,
            random=random,
            metrics=metrics,
            user_agent=user_agent,
            timeout_s=timeout_s,
        )
        self._decoders: dict[int, tuple[Any, ResourceDecoder[Any]]] = {}

    def guard_writes(self, may_work: Callable[[], bool]) -> None:
        """From now on nothing is written while this says no, but for leases.

        For a leader that was stopped for longer than its lease: as it wakes, what it was about to
        write is another one's business, and it has not noticed yet.
        """
        self._calls.may_write = lambda path: may_work() or path.startswith(LEASES_PATH)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def get(
        self, resource: Resource[T], namespace: str, name: str, *, timeout_s: float | None = None
    ) -> T:
        """See `Client`."""
        path = _one(resource, namespace, name)
        body = await self._calls.call("GET", path, timeout_s=timeout_s)
        return self._decoder(resource).object(body)

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float | None = None,
    ) -> Listed[T]:
        """See `Client`. A version that runs out between two pages starts the list over."""
        query = _selectors(label_selector, field_selector)
        path = resource.path(namespace)
        deadline = self._calls.deadline(timeout_s)
        for _ in range(RELISTS_MAX):
            try:
                return await self._pages(
                    resource, path, query | {"limit": str(PAGE_ITEMS)}, deadline
                )
            except Gone:
                continue
        return await self._pages(resource, path, query, deadline)

    async def _pages(
        self, resource: Resource[T], path: str, query: dict[str, str], deadline: Any
    ) -> Listed[T]:
        decoder = self._decoder(resource)
        items: builtins.list[T] = []
        poisoned: builtins.list[Poisoned] = []
        for _ in range(PAGES_MAX):
            body = await self._calls.call(
                "GET", path, query=query, media_type=resource.accept, timeout_s=deadline.left_s()
            )
            page: Page[T] = decoder.page(body)
            items += page.items
            poisoned += page.poisoned
            if not page.continue_token:
                return Listed(items, page.resource_version, tuple(poisoned))
            query = query | {"continue": page.continue_token}
        raise BadAnswer(f"the list of {resource.plural} has more than {PAGES_MAX} pages")

    async def create(
        self,
        resource: Resource[T],
        namespace: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> T:
        """See `Client`. `apiVersion` and `kind` are filled in."""
        document = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        answer = await self._calls.call(
            "POST",
            resource.path(namespace),
            query=_dry(dry_run),
            body=msgspec.json.encode(document),
            timeout_s=timeout_s,
        )
        return self._decoder(resource).object(answer)

    async def patch(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        body: Any,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> T:
        """See `Client`."""
        answer = await self._calls.call(
            "PATCH",
            _one(resource, namespace, name, subresource),
            query=_dry(dry_run),
            body=msgspec.json.encode(body),
            media_type=patch_type.value,
            timeout_s=timeout_s,
        )
        return self._decoder(resource).object(answer)

    async def replace(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        document: Mapping[str, Any],
        *,
        subresource: str = "",
        timeout_s: float | None = None,
    ) -> T:
        """PUT a whole document, as `get_raw` gave it; never one made from a slim struct."""
        answer = await self._calls.call(
            "PUT",
            _one(resource, namespace, name, subresource),
            body=msgspec.json.encode(document),
            timeout_s=timeout_s,
        )
        return self._decoder(resource).object(answer)

    async def delete(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_s: int | None = None,
        propagation: str | None = None,
        timeout_s: float | None = None,
    ) -> T | None:
        """See `Client`. A uid or version that no longer holds is `Conflict`."""
        options = delete_options(uid, resource_version, grace_period_s, propagation)
        try:
            answer = await self._calls.call(
                "DELETE",
                _one(resource, namespace, name),
                body=msgspec.json.encode(options) if options else None,
                timeout_s=timeout_s,
            )
        except NotFound:
            return None
        if kind_of(answer) == "Status":  # gone at once: the server says so instead of showing it
            return None
        return self._decoder(resource).object(answer)

    async def create_token(
        self,
        namespace: str,
        service_account: str,
        *,
        expiration_s: int = 3600,
        timeout_s: float | None = None,
    ) -> str:
        """See `Client`."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": expiration_s},
        }
        path = _one(SERVICE_ACCOUNTS, namespace, service_account, "token")
        body = msgspec.json.encode(request)
        answer = await self._calls.call("POST", path, body=body, timeout_s=timeout_s)
        try:
            return _token_answer.decode(answer).status.token
        except UNREADABLE as error:
            raise BadAnswer(f"the TokenRequest of {service_account} has no token") from error

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float = WATCH_TIMEOUT_S,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """See `Client`. An `ERROR` event comes as `ErrorEvent`; an HTTP error is raised."""
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, int(timeout_s))),
        }
        decode = self._decoder(resource).line
        silence_max_s = timeout_s + SILENCE_MARGIN_S
        path = resource.path(namespace)
        async with (
            self._calls.open_stream(path, query, silence_max_s) as stream,
            aclosing(stream.lines()) as lines,
        ):
            async for line in lines:
                yield decode(line)

    async def bind_pod(
        self, namespace: str, name: str, *, node: str, uid: str, timeout_s: float | None = None
    ) -> None:
        """Place a pod on a node. `Conflict` if it has one already, or is another of that name."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = _one(PODS, namespace, name, "binding")
        body = msgspec.json.encode(binding)
        await self._calls.call("POST", path, body=body, timeout_s=timeout_s)

    async def get_raw(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Any GET, decoded to plain values: for what no struct describes."""
        body = await self._calls.call("GET", path, query=query or {}, timeout_s=timeout_s)
        try:
            return msgspec.json.decode(body)
        except UNREADABLE as error:
            raise BadAnswer(f"{path} did not answer with JSON: {error}") from error

    async def pod_logs(
        self,
        namespace: str,
        name: str,
        *,
        container: str = "",
        tail_lines: int = 100,
        limit_bytes: int = 64 * 1024,
        previous: bool = False,
        timeout_s: float | None = None,
    ) -> str:
        """The end of a container's log, bounded both ways."""
        query = {"tailLines": str(tail_lines), "limitBytes": str(limit_bytes)}
        if container:
            query["container"] = container
        if previous:
            query["previous"] = "true"
        path = _one(PODS, namespace, name, "log")
        body = await self._calls.call("GET", path, query=query, timeout_s=timeout_s)
        return body.decode("utf-8", errors="replace")

    def _decoder(self, resource: Resource[T]) -> ResourceDecoder[T]:
        # By identity: resources are module constants, and hashing one costs more than this.
        known = self._decoders.get(id(resource))
        if known is None:
            known = (resource, ResourceDecoder(resource))  # the reference keeps the id taken
            self._decoders[id(resource)] = known
        decoder: ResourceDecoder[T] = known[1]
        return decoder


def _one(resource: Resource[Any], namespace: str, name: str, subresource: str = "") -> str:
    """The path of one object.

    A name comes from somebody's spec now and then. An empty one would turn a DELETE into that
    of the whole collection, `../x` would lead to another kind: refused before anything is sent.
    """
    for text, what in ((name, "name"), (namespace, "namespace")):
        optional = what == "namespace" and not resource.namespaced
        if not (optional and not text) and (
            _SEGMENT.fullmatch(text) is None or text in (".", "..")
        ):
            raise BadRequest(
                code=400,
                reason="BadRequest",
                message=f"{text!r} cannot be the {what} of a {resource.kind}",
                path=resource.path(),
            )
    return resource.path(namespace, name, subresource)


class _TokenStatus(msgspec.Struct):
    token: str


class _TokenAnswer(msgspec.Struct):
    status: _TokenStatus


_token_answer = msgspec.json.Decoder(_TokenAnswer)


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    query: dict[str, str] = {}
    if label_selector:
        query["labelSelector"] = label_selector
    if field_selector:
        query["fieldSelector"] = field_selector
    return query


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
