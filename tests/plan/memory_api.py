"""A tiny world in memory: just enough of an API server to see where a plan comes to rest.

Versions, uids, finalizers, merge patches, the status subresource, owner garbage collection on
request. Not a judge of semantics (that is the embedded API server's own suite): the tests here
ask what a reconciler does, and that it then does nothing more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from runnerscale.core.clock import ManualClock, format_time
from runnerscale.kube.client import Listed, PatchType
from runnerscale.kube.errors import AlreadyExists, Conflict, NotFound
from runnerscale.kube.patching import merge_apply
from runnerscale.kube.resource import Resource
from runnerscale.kube.store import Indexer, Store

Fault = Callable[[str, str, str], Exception | None]  # verb, plural, name


class MemoryCache:
    """Looks like an informer that is never late (or, `paused`, hears nothing)."""

    def __init__(self, resource: Resource[Any], indexers: Mapping[str, Indexer[Any]]) -> None:
        self.resource = resource
        self.store: Store[Any] = Store(indexers)
        self.lists_done = 1
        self.lists_begun = 1
        self.paused = False
        self.handlers: list[Callable[[Any], None]] = []

    def on_change(self, handler: Callable[[Any], None]) -> None:
        self.handlers.append(handler)

    def on_progress(self, handler: Callable[[], None]) -> None:
        pass

    def is_caught_up(self, resource_version: str) -> bool:
        return True

    def shows(self, key: str, version: str) -> bool:
        return True

    def relist(self) -> None:
        pass

    def tell(self, key: str, item: Any) -> None:
        if not self.paused:
            change = self.store.put(key, item) if item is not None else self.store.remove(key)
            for handler in self.handlers:
                handler(change)


class MemoryApi:
    """Objects as plain JSON; `client` calls, plus what a test does by hand."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.caches: dict[str, MemoryCache] = {}
        self.types: dict[str, Resource[Any]] = {}
        self.writes: list[tuple[str, str, str]] = []  # verb, plural, name
        self.bodies: list[Any] = []
        self.reads: list[tuple[str, str, str]] = []
        self.fault: Fault = lambda verb, plural, name: None
        self._version = 0

    def cache(self, resource: Resource[Any], **indexers: Indexer[Any]) -> Any:
        self.types[resource.plural] = resource
        return self.caches.setdefault(resource.plural, MemoryCache(resource, indexers))

    # --- the client ----------------------------------------------------------------------------

    async def get(self, resource: Resource[Any], namespace: str, name: str, **_: Any) -> Any:
        self.reads.append(("get", resource.plural, name))
        self._fail("get", resource.plural, name)
        return self._decoded(resource, self._found(resource, namespace, name))

    async def list(self, resource: Resource[Any], namespace: str = "", **_: Any) -> Any:
        found = [
            self._decoded(resource, body)
            for (plural, where, _name), body in self.objects.items()
            if plural == resource.plural and namespace in ("", where)
        ]
        return Listed(found, str(self._version))

    async def create(
        self, resource: Resource[Any], namespace: str, body: Mapping[str, Any], **_: Any
    ) -> Any:
        document = _plain(body)
        name = document["metadata"]["name"]
        self._fail("create", resource.plural, name)
        if (resource.plural, namespace, name) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{resource.plural} {name!r} already exists")
        self._log("create", resource, name, document)
        return self._decoded(resource, self.put(resource, namespace, document))

    async def patch(
        self,
        resource: Resource[Any],
        namespace: str,
        name: str,
        body: Any,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        **_: Any,
    ) -> Any:
        assert patch_type is PatchType.MERGE
        patch = _plain(body)
        self._fail("patch", resource.plural, name)
        old = self._found(resource, namespace, name)
        version = patch.get("metadata", {}).pop("resourceVersion", None)
        if version is not None and version != old["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        if subresource == "status":
            patch = {"status": patch.get("status")}
        elif resource.group:
            patch.pop("status", None)
        new = merge_apply(old, patch)
        self._log(f"patch{'/' if subresource else ''}{subresource}", resource, name, patch)
        if new != old:
            if new.get("spec") != old.get("spec"):
                new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
            self._store(resource, namespace, name, new)
        return self._decoded(resource, new)

    async def delete(
        self,
        resource: Resource[Any],
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        grace_period_s: int | None = None,
        **_: Any,
    ) -> Any:
        self._fail("delete", resource.plural, name)
        try:
            body = self._found(resource, namespace, name)
        except NotFound:
            return None
        if uid is not None and body["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", "the uid does not match")
        self._log("delete", resource, name, None)
        grace_s = grace_period_s
        if resource.plural == "pods" and grace_s is None:
            grace_s = body["spec"].get("terminationGracePeriodSeconds", 30)
        meta = body["metadata"]
        if meta.get("finalizers") or (resource.plural == "pods" and grace_s):
            if not meta.get("deletionTimestamp"):
                new = copy.deepcopy(body)
                stamp = format_time(self.clock.now_s() + (grace_s or 0))
                new["metadata"]["deletionTimestamp"] = stamp
                self._store(resource, namespace, name, new)
            elif grace_s == 0 and meta.get("deletionGracePeriodSeconds") != 0:  # held, and forced
                new = copy.deepcopy(body)
                new["metadata"]["deletionGracePeriodSeconds"] = 0
                self._store(resource, namespace, name, new)
            return self._decoded(resource, self.objects[resource.plural, namespace, name])
        self.drop(resource, namespace, name)
        return None

    # --- by hand -------------------------------------------------------------------------------

    def put(self, resource: Resource[Any], namespace: str, document: dict[str, Any]) -> Any:
        body = copy.deepcopy(document)
        meta = body.setdefault("metadata", {})
        meta["namespace"] = namespace
        self._version += 1
        meta.setdefault("uid", f"uid-{self._version}")
        meta.setdefault("generation", 1)
        meta.setdefault("creationTimestamp", format_time(self.clock.now_s()))
        self._store(resource, namespace, meta["name"], body)
        return self.objects[resource.plural, namespace, meta["name"]]

    def change(self, resource: Resource[Any], namespace: str, name: str, patch: Any) -> None:
        """A merge patch by somebody else, status included."""
        old = self._found(resource, namespace, name)
        new = merge_apply(old, _plain(patch))
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        self._store(resource, namespace, name, new)

    def drop(self, resource: Resource[Any], namespace: str, name: str) -> None:
        """Gone at once, whatever held it."""
        self.objects.pop((resource.plural, namespace, name), None)
        self._tell(resource, namespace, name)

    def body(self, resource: Resource[Any], namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get((resource.plural, namespace, name))

    def names(self, resource: Resource[Any]) -> list[str]:
        return sorted(name for plural, _, name in self.objects if plural == resource.plural)

    def changes(self) -> Iterable[tuple[str, str, str]]:
        """The writes since the last call."""
        writes, self.writes = self.writes, []
        return writes

    # --- inside --------------------------------------------------------------------------------

    def _found(self, resource: Resource[Any], namespace: str, name: str) -> dict[str, Any]:
        body = self.objects.get((resource.plural, namespace, name))
        if body is None:
            raise NotFound(404, "NotFound", f"{resource.plural} {name!r} not found")
        return body

    def _store(self, resource: Resource[Any], namespace: str, name: str, body: Any) -> None:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        meta = body["metadata"]
        self.objects[resource.plural, namespace, name] = body
        released = meta.get("deletionTimestamp") and not meta.get("finalizers")
        if released and resource.plural != "pods":
            del self.objects[resource.plural, namespace, name]
        self._tell(resource, namespace, name)

    def _tell(self, resource: Resource[Any], namespace: str, name: str) -> None:
        cache = self.caches.get(resource.plural)
        if cache is None:
            return
        body = self.objects.get((resource.plural, namespace, name))
        item = None if body is None else self._decoded(cache.resource, body)
        cache.tell(f"{namespace}/{name}", item)

    def _decoded(self, resource: Resource[Any], body: Any) -> Any:
        document = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return msgspec.json.decode(msgspec.json.encode(document), type=resource.type)

    def _log(self, verb: str, resource: Resource[Any], name: str, body: Any) -> None:
        self.writes.append((verb, resource.plural, name))
        self.bodies.append(copy.deepcopy(body))

    def _fail(self, verb: str, plural: str, name: str) -> None:
        error = self.fault(verb, plural, name)
        if error is not None:
            raise error


def _plain(body: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body))
