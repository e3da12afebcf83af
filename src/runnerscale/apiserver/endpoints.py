"""The verbs on resources: what each request reads or writes, and how the answer looks.

Who may is settled before (`handler.py`). A write is done in one step without awaiting, then
its answer waits until the store has it on disk.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from runnerscale.apiserver.bodies import check_type_names as check_types
from runnerscale.apiserver.bodies import decode_any, decode_body
from runnerscale.apiserver.deletion import Deletion, read_delete_options
from runnerscale.apiserver.failures import (
    bad_request,
    invalid,
    method_not_allowed,
    no_such_path,
    no_such_resource,
    not_found,
    unsupported,
    unsupported_media_type,
)
from runnerscale.apiserver.go_json import go_text, type_name
from runnerscale.apiserver.kinds import Kind, Registry
from runnerscale.apiserver.lists import Lists, Page, select
from runnerscale.apiserver.operations import Caller, Operations, WriteOptions, Written
from runnerscale.apiserver.patch import json_patch, merge_patch
from runnerscale.apiserver.paths import Request, check_dry_run, options_name
from runnerscale.apiserver.plain_values import check_depth, well_shaped
from runnerscale.apiserver.rbac import User
from runnerscale.apiserver.record import Record, encode_json
from runnerscale.apiserver.rendering import form_of, render_list, render_object
from runnerscale.apiserver.reviews import Reviews
from runnerscale.apiserver.store import Store
from runnerscale.apiserver.strategic_patch import strategic_patch
from runnerscale.apiserver.subresources import bind_pod, evict_pod

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")
NO_APPLY = (
    "server-side apply is not supported by this server: it does not track who owns which field;"
    " use client-side apply (kubectl apply without --server-side) or a merge patch"
)
_REVIEWS = ("authorization.k8s.io", "authentication.k8s.io")
_WHOLE_SUBRESOURCES = ("status", "finalize")


@dataclass(slots=True)
class Call:
    """A request with what travels beside its line."""

    request: Request
    user: User
    accept: str
    content_type: str
    read_body: Callable[[], Awaitable[bytes]]


@dataclass(slots=True)
class Answer:
    """What goes back."""

    body: bytes
    code: int = 200
    warnings: tuple[str, ...] = ()


class Endpoints:
    """Verbs by name."""

    def __init__(
        self,
        registry: Registry,
        store: Store,
        operations: Operations,
        deletion: Deletion,
        lists: Lists,
        reviews: Reviews,
    ) -> None:
        """All parts are shared with the rest of the server."""
        self._registry = registry
        self._store = store
        self._operations = operations
        self._deletion = deletion
        self._lists = lists
        self._reviews = reviews

    def kind_of(self, request: Request) -> Kind:
        """The kind a request is about.

        Raises:
            ApiFailure: 404 unknown, 405 the kind cannot do that.
        """
        kind = self._registry.find(request.group, request.version, request.plural)
        if kind is None:
            known = self._registry.of_version(request.group, request.version)
            raise no_such_resource() if known else no_such_path()
        if request.subresource:
            if request.subresource not in kind.subresources:
                if kind.custom:
                    raise not_found(kind.group, kind.plural, request.name)
                raise no_such_path()
            return kind
        if request.verb not in kind.verbs:
            raise method_not_allowed()
        if kind.namespaced and not request.namespace and request.verb not in ("list", "watch"):
            raise method_not_allowed() if request.verb == "create" else no_such_path()
        if not kind.namespaced and request.namespace and kind.resource != "namespaces":
            raise no_such_path()
        return kind

    async def answer(self, call: Call) -> Answer:
        """Carry out one request that is no watch and no log.

        Raises:
            ApiFailure: the answer is no.
        """
        request = call.request
        kind = self.kind_of(request)
        if request.subresource and request.subresource not in _WHOLE_SUBRESOURCES:
            return await self._act(call, kind)
        verb = request.verb
        if verb == "get":
            return await self._get(call, kind)
        if verb == "list":
            return await self._list(call, kind)
        if bool(request.name) != (verb not in ("create", "deletecollection")):
            raise method_not_allowed()
        check_dry_run(request)
        if verb == "create":
            return await self._create(call, kind)
        if verb == "update":
            return await self._replace(call, kind)
        if verb == "patch":
            return await self._patch(call, kind)
        if verb == "delete" and not request.subresource:
            return await self._delete(call, kind)
        if verb == "deletecollection" and not request.subresource:
            return await self._delete_collection(call, kind)
        raise method_not_allowed()

    # --- reads ------------------------------------------------------------------------------

    async def _get(self, call: Call, kind: Kind) -> Answer:
        request = call.request
        form = form_of(call.accept, request.query)
        record = self._operations.get(kind, request.namespace, request.name)
        await self._store.settled(record.version)
        return Answer(render_object(kind, record.data, form, self._operations.now_s()))

    async def _list(self, call: Call, kind: Kind) -> Answer:
        request = call.request
        form = form_of(call.accept, request.query, many=True, go_list=_go_list(kind))
        page = self._lists.page(select(kind, request.namespace, request.query), request.query)
        await self._store.settled(page.version)
        return Answer(render_list(kind, page, form, self._operations.now_s()))

    # --- writes -----------------------------------------------------------------------------

    def _caller(self, call: Call, *, patch: str | None = None) -> Caller:
        query = call.request.query
        validation = query.get("fieldValidation") or "Warn"
        if validation not in ("Ignore", "Warn", "Strict"):
            error = unsupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn"))
            raise invalid("meta.k8s.io", options_name(call.request.verb), "", [error])
        return Caller(call.user, WriteOptions(call.request.dry_run, validation, patch))

    async def _written(self, call: Call, kind: Kind, written: Written) -> Answer:
        form = form_of(call.accept, call.request.query)
        await self._store.settled()
        body = render_object(kind, written.data, form, self._operations.now_s())
        return Answer(body, 201 if written.created else 200, tuple(written.warnings))

    async def _create(self, call: Call, kind: Kind) -> Answer:
        request = call.request
        body = decode_body(await call.read_body(), call.content_type, kind)
        if kind.group in _REVIEWS:
            check_types(kind, body)
            with well_shaped(kind.kind):
                answer = self._reviews.answer(kind, body, call.user, request.namespace)
            return Answer(encode_json(answer), 201)
        check_types(kind, body)
        written = self._operations.create(kind, request.namespace, body, self._caller(call))
        return await self._written(call, kind, written)

    async def _replace(self, call: Call, kind: Kind) -> Answer:
        request = call.request
        body = decode_body(await call.read_body(), call.content_type, kind)
        check_types(kind, body)
        written = self._operations.replace(
            kind,
            request.namespace,
            request.name,
            body,
            self._caller(call),
            subresource=request.subresource,
        )
        return await self._written(call, kind, written)

    async def _patch(self, call: Call, kind: Kind) -> Answer:
        request = call.request
        patch_type = call.content_type.partition(";")[0].strip().lower()
        _check_patch_type(kind, patch_type)
        patch = decode_any(await call.read_body(), "application/json", "error decoding patch")
        written = self._operations.patch(
            kind,
            request.namespace,
            request.name,
            _applier(kind, patch_type, patch),
            self._caller(call, patch=go_text(patch) if patch_type == STRATEGIC else ""),
            subresource=request.subresource,
        )
        return await self._written(call, kind, written)

    async def _delete(self, call: Call, kind: Kind) -> Answer:
        request = call.request
        options, caller = await self._delete_options(call)
        record = self._operations.get(kind, request.namespace, request.name)
        deleted = self._deletion.delete(kind, record, options, caller)
        await self._store.settled()
        if not deleted.gone or kind.returns_deleted:
            form = form_of(call.accept, request.query)
            return Answer(render_object(kind, deleted.data, form, self._operations.now_s()))
        details = {"name": record.name, "group": kind.group, "kind": kind.plural, "uid": record.uid}
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {k: v for k, v in details.items() if v},
        }
        return Answer(encode_json(status))

    async def _delete_options(self, call: Call) -> tuple[Any, Caller]:
        raw = await call.read_body()
        body: Json = {}
        if raw.strip():
            body = decode_body(raw, call.content_type)
        with well_shaped("DeleteOptions"):
            options = read_delete_options(body, call.request.query)
        caller = self._caller(call)
        if body.get("dryRun"):
            caller = replace(caller, options=replace(caller.options, dry_run=True))
        return options, caller

    async def _delete_collection(self, call: Call, kind: Kind) -> Answer:
        request = call.request
        options, caller = await self._delete_options(call)
        selection = select(kind, request.namespace, request.query)
        deleted: list[Record] = []
        for record in self._lists.records(selection):
            self._deletion.delete(kind, record, options, caller)
            deleted.append(record)
        await self._store.settled()
        page = Page(deleted, self._store.version)
        form = form_of(call.accept, request.query, many=True, go_list=_go_list(kind))
        return Answer(render_list(kind, page, form, self._operations.now_s()))

    # --- subresources that act --------------------------------------------------------------

    async def _act(self, call: Call, kind: Kind) -> Answer:
        request = call.request
        if request.verb != "create":
            raise method_not_allowed()
        check_dry_run(request)
        body = decode_body(await call.read_body(), call.content_type)
        record = self._operations.get(kind, request.namespace, request.name)
        caller = self._caller(call)
        with well_shaped(request.subresource):
            if request.subresource == "binding":
                answer = bind_pod(self._operations, kind, record, body, caller)
            elif request.subresource == "eviction":
                answer = evict_pod(self._operations, self._deletion, kind, record, body, caller)
            elif request.subresource == "token":
                answer = self._reviews.request_token(record, body)
            else:
                raise method_not_allowed()
        await self._store.settled()
        return Answer(encode_json(answer), 201)


def _go_list(kind: Kind) -> str:
    return "*unstructured.UnstructuredList" if kind.custom else f"*{kind.version}.{kind.list_kind}"


def _check_patch_type(kind: Kind, patch_type: str) -> None:
    if patch_type in APPLY:
        raise unsupported_media_type(NO_APPLY)
    if patch_type in (JSON_PATCH, MERGE) or (patch_type == STRATEGIC and not kind.custom):
        return
    if not kind.custom:
        raise unsupported_media_type("415: Unsupported Media Type", details={})
    raise unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include:"
        f" {', '.join((JSON_PATCH, MERGE, APPLY[0]))}"
    )


def _applier(kind: Kind, patch_type: str, patch: Any) -> Callable[[Json], Json]:
    if patch_type == JSON_PATCH:
        return lambda obj: _patched(json_patch, obj, patch)
    if not isinstance(patch, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {type_name(patch)} into Go value of"
            " type map[string]interface {}"
        )
    if patch_type == MERGE:
        return lambda obj: _patched(merge_patch, obj, patch)
    return lambda obj: _patched(strategic_patch, obj, patch, kind.type_name)


def _patched(apply: Callable[..., Any], *arguments: Any) -> Json:
    with well_shaped("patch"):
        value = apply(*arguments)
        check_depth(encode_json(value))
    assert isinstance(value, dict)
    return value
