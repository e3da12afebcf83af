"""The front of the server: who asks, may they, faults on purpose, then the answer over HTTP.

One aiohttp handler for every path. What the verbs do is `endpoints.py`; documents that are no
resources are `documents.py`. An unexpected error is answered 500 and logged, never raised
into the connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from aiohttp import web

from runnerscale.apiserver.authentication import Authenticator, service_account_user
from runnerscale.apiserver.control import CONTROL_PATH, FaultControl
from runnerscale.apiserver.documents import Documents
from runnerscale.apiserver.endpoints import Answer, Call, Endpoints
from runnerscale.apiserver.failures import (
    PAGE_NOT_FOUND,
    ApiFailure,
    bad_request,
    forbidden,
    forbidden_path,
    internal,
    method_not_allowed,
    not_found,
    too_large,
    too_large_version,
    unavailable,
)
from runnerscale.apiserver.faults import FaultRule, Faults
from runnerscale.apiserver.lists import Lists, parse_version, select
from runnerscale.apiserver.metrics import ServerMetrics
from runnerscale.apiserver.paths import Request, is_true, parse_request
from runnerscale.apiserver.plain_values import whole_number
from runnerscale.apiserver.pod_logs import PodLogs
from runnerscale.apiserver.rbac import Ask, Authorizer, User, denial
from runnerscale.apiserver.record import Record, encode_json
from runnerscale.apiserver.rendering import EventRenderer, form_of
from runnerscale.apiserver.store import Store, StoreError
from runnerscale.apiserver.watching import Watches, WatchOptions
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random

log = structlog.get_logger(__name__)

WATCH_TIMEOUT_S_MIN = 1800.0  # as a kube-apiserver: between this and twice this
WARNINGS_MAX = 20  # an answer; each repeats a name that somebody sent
WARNING_MAX = 1024
WATCHER_PATIENCE_S = 60.0  # so long may a watcher leave its connection unread
JSON_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}


@dataclass(frozen=True, slots=True)
class Served:
    """One answered request, for audits and counters."""

    user: str
    request: Request
    code: int
    seconds: float
    user_agent: str


@dataclass(slots=True)
class Parts:
    """What the handler works with."""

    store: Store
    authenticator: Authenticator
    authorizer: Authorizer
    endpoints: Endpoints
    documents: Documents
    lists: Lists
    watches: Watches
    pod_logs: PodLogs
    faults: Faults
    metrics: ServerMetrics
    clock: Clock
    random: Random
    observer: Callable[[Served], None] | None = None
    control: FaultControl | None = None


class Dropped(Exception):
    """The connection was broken on purpose."""


class Handler:
    """Callable for aiohttp."""

    def __init__(self, parts: Parts) -> None:
        """Everything is handed in."""
        self._parts = parts
        self.watcher_patience_s = WATCHER_PATIENCE_S

    async def __call__(self, http: web.Request) -> web.StreamResponse:
        """Answer one request."""
        parts = self._parts
        started_s = parts.clock.monotonic_s()
        request = parse_request(http.method, http.raw_path)
        user_name = ""
        try:
            user = self._user(http)
            user_name = user.name
            response = await self._serve(http, request, user)
            code = response.status
        except ApiFailure as failure:
            code = failure.code
            response = _failed(failure)
        except StoreError as error:
            code = 503
            response = _failed(unavailable(str(error)))
        except (ConnectionResetError, Dropped):
            code = 0
            response = web.Response()
        except Exception as error:  # broad: one bad request must not end the server
            code = 500
            log.exception("request failed unexpectedly", path=request.path, verb=request.verb)
            response = _failed(internal(type(error).__name__))
        self._count(http, request, user_name, code, parts.clock.monotonic_s() - started_s)
        return response

    def _count(
        self, http: web.Request, request: Request, user: str, code: int, seconds: float
    ) -> None:
        parts = self._parts
        parts.metrics.served(request, code, seconds)
        if parts.observer is not None:
            agent = http.headers.get("User-Agent", "")
            parts.observer(Served(user, request, code, seconds, agent))

    # --- who and whether --------------------------------------------------------------------

    def _user(self, http: web.Request) -> User:
        parts = self._parts
        user = parts.authenticator.user_of(http.headers.get("Authorization"))
        wanted = http.headers.get("Impersonate-User")
        if wanted is None:
            return user
        groups = tuple(http.headers.getall("Impersonate-Group", ()))
        asks = [_impersonation(wanted), *(Ask("impersonate", "", "groups", name=g) for g in groups)]
        for ask in asks:
            if not parts.authorizer.allows(user, ask):
                raise forbidden(ask.group, ask.resource, ask.name, denial(user, ask))
        if wanted.startswith("system:serviceaccount:") and not groups:
            _, _, namespace, name = [*wanted.split(":"), "", "", ""][:4]
            return service_account_user(namespace, name)
        return User(wanted, (*groups, "system:authenticated"))

    async def _serve(self, http: web.Request, request: Request, user: User) -> web.StreamResponse:
        parts = self._parts
        ask = request.ask()
        if not parts.authorizer.allows(user, ask):
            raise _denied(user, ask)
        rule = None
        if parts.faults.rules:
            rule = await self._fault(http, request, user)
        if not request.is_resource:
            if parts.control is not None and request.path.startswith(CONTROL_PATH):
                return _answered(parts.control.answer(request, await _reader(http)()))
            return self._document(http, request)
        if request.verb == "watch":
            return await self._watch(http, request)
        if request.subresource == "log":
            return await self._log(http, request)
        call = Call(
            request,
            user,
            http.headers.get("Accept", ""),
            http.headers.get("Content-Type", ""),
            _reader(http),
        )
        answer = await parts.endpoints.answer(call)
        if rule is not None and rule.drop_after:
            _drop(http)
        return _answered(answer)

    async def _fault(self, http: web.Request, request: Request, user: User) -> FaultRule | None:
        parts = self._parts
        rule = parts.faults.hit(request, user.name, parts.random.random())
        if rule is None:
            return None
        if rule.delay_s > 0:
            await parts.clock.sleep(rule.delay_s)
        if rule.drop_before:
            _drop(http)
        if rule.failure is not None:
            raise rule.failure
        return rule

    def _document(self, http: web.Request, request: Request) -> web.Response:
        if http.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        body, content_type = self._parts.documents.get(request, http.headers.get("Accept", ""))
        headers = {"Content-Type": content_type, "Cache-Control": "no-cache, private"}
        return web.Response(body=body, headers=headers)

    # --- streams ----------------------------------------------------------------------------

    async def _watch(self, http: web.Request, request: Request) -> web.StreamResponse:
        parts = self._parts
        query = request.query
        kind = parts.endpoints.kind_of(request)
        selection = select(kind, request.namespace, query)
        renderer = EventRenderer(kind, form_of(http.headers.get("Accept", ""), query))
        options, from_now = self._watch_options(query)
        initial: list[Record] = []
        if from_now and query.get("sendInitialEvents") != "false":
            # State and version are of one moment: no await may come between them.
            initial = parts.lists.records(selection)
        await parts.store.settled(options.version)
        response = web.StreamResponse(headers=JSON_HEADERS)
        response.enable_chunked_encoding()
        parts.metrics.watch_started(request)
        try:
            await response.prepare(http)
            async for batch in parts.watches.events(selection, options, initial):
                now_s = parts.clock.now_s()
                lines = [renderer.line(event, line, now_s) for event, line in batch]
                async with asyncio.timeout(self.watcher_patience_s):
                    await response.write(b"".join(lines))
            await response.write_eof()
        except TimeoutError:
            # It holds a batch and a position; it may come back and resume.
            log.warning("watcher too slow, cut", resource=request.plural)
            if http.transport is not None:
                http.transport.abort()
        except ConnectionError:
            pass  # the watcher has gone
        finally:
            parts.metrics.watch_ended(request)
        return response

    def _watch_options(self, query: dict[str, str]) -> tuple[WatchOptions, bool]:
        """How to watch, and whether to begin with the present state."""
        parts = self._parts
        asked = query.get("resourceVersion") or ""
        initial = is_true(query.get("sendInitialEvents")) if "sendInitialEvents" in query else False
        from_now = asked in ("", "0") or initial
        wanted = 0 if asked in ("", "0") else _watch_version(asked)
        if wanted > parts.store.version:
            raise too_large_version(wanted, parts.store.version)
        version = parts.store.version if from_now else wanted
        timeout_s = float(whole_number(query.get("timeoutSeconds") or "") or 0)
        if timeout_s == 0.0:
            timeout_s = WATCH_TIMEOUT_S_MIN * (1 + parts.random.random())
        bookmarks = (
            is_true(query.get("allowWatchBookmarks")) if "allowWatchBookmarks" in query else False
        )
        return WatchOptions(version, timeout_s, bookmarks, initial and bookmarks), from_now

    async def _log(self, http: web.Request, request: Request) -> web.StreamResponse:
        parts = self._parts
        if request.verb != "get":
            raise method_not_allowed()
        kind = parts.endpoints.kind_of(request)
        pod = parts.store.table("pods", kind.selectable).get(request.namespace, request.name)
        if pod is None:
            raise not_found("", "pods", request.name)
        source = parts.pod_logs.locate(pod, request.query)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        if source is None:
            await response.prepare(http)
            return response
        upstream = await parts.pod_logs.open(source)
        try:
            await response.prepare(http)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
        except ConnectionError:
            pass  # the reader has gone, or the node has
        finally:
            upstream.close()
        return response


def _watch_version(text: str) -> int:
    """A watcher's mistake is answered in another way than a reader's."""
    try:
        return parse_version(text)
    except ApiFailure as failure:
        message = failure.message.removeprefix("invalid resource version: ")
        raise ApiFailure(500, "", message) from None


def _reader(http: web.Request) -> Callable[[], Awaitable[bytes]]:
    async def read() -> bytes:
        try:
            return await http.read()
        except web.HTTPRequestEntityTooLarge:
            raise too_large() from None
        except web.RequestPayloadError:  # cut, or not in the pieces it promised
            raise bad_request("the body of the request cannot be decoded") from None

    return read


def _impersonation(user: str) -> Ask:
    if user.startswith("system:serviceaccount:"):
        _, _, namespace, name = [*user.split(":"), "", "", ""][:4]
        return Ask("impersonate", "", "serviceaccounts", namespace=namespace, name=name)
    return Ask("impersonate", "", "users", name=user)


def _denied(user: User, ask: Ask) -> ApiFailure:
    if ask.path:
        return forbidden_path(denial(user, ask))
    return forbidden(ask.group, ask.resource, ask.name, denial(user, ask))


def _drop(http: web.Request) -> None:
    if http.transport is not None:
        http.transport.abort()
    raise Dropped


def _answered(answer: Answer) -> web.Response:
    response = web.Response(body=answer.body, status=answer.code, headers=JSON_HEADERS)
    for warning in answer.warnings[:WARNINGS_MAX]:
        shown = "".join(c if c.isprintable() else "?" for c in warning[:WARNING_MAX])
        text = shown.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{text}"')
    return response


def _failed(failure: ApiFailure) -> web.Response:
    if failure.message == PAGE_NOT_FOUND:
        return web.Response(text=PAGE_NOT_FOUND + "\n", status=404)
    headers = dict(JSON_HEADERS)
    if failure.retry_after_s is not None:
        headers["Retry-After"] = str(failure.retry_after_s)
    return web.Response(body=encode_json(failure.body()), status=failure.code, headers=headers)
