"""A small API server in memory for tests of the node agent: what a node does to pods, no more.

Versions, uid guards, graceful deletion of pods, binding, watches. The real rules are those of
`apiserver/`; the system tests use that one.
"""

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from runnerscale.core.clock import Clock, format_time
from runnerscale.kube.client import Listed, PatchType
from runnerscale.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from runnerscale.kube.objects import KubeObject
from runnerscale.kube.resource import Resource
from runnerscale.kube.watch import Added, Deleted, Modified

T = TypeVar("T", bound=KubeObject)
Json = dict[str, Any]
Key = tuple[str, str, str]


class MemoryApi:
    """Implements `NodeClient`; tests look at and change `objects` through its methods."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._objects: dict[Key, Json] = {}
        self._version = 0
        self._log: list[tuple[int, str, str, Json]] = []  # version, event, plural, object
        self._grown = asyncio.Event()
        self.writes: list[tuple[str, str, Json]] = []  # verb, plural/subresource, body
        self.fail: Callable[[str, str], KubeError | None] = lambda _verb, _what: None
        self.tokens = 0
        self.listed_pods: list[Json] | None = None  # what lists show instead of the present

    # --- for tests -------------------------------------------------------------------------

    def put(self, plural: str, namespace: str, name: str, document: Json) -> Json:
        """Create or replace."""
        key = (plural, namespace, name)
        event = "MODIFIED" if key in self._objects else "ADDED"
        document = copy.deepcopy(document)
        meta = document.setdefault("metadata", {})
        meta.update(name=name, namespace=namespace)
        meta.setdefault("uid", f"uid-{name}-{self._version}")
        meta.setdefault("creationTimestamp", format_time(self._clock.now_s()))
        return self._store(key, document, event)

    def add_pod(self, name: str, *, node: str | None = "single-machine", **spec: Any) -> Json:
        """A pod in namespace jobs with one container of image demo:1."""
        containers = [{"name": "runner", "image": "demo:1"}]
        body: Json = {"restartPolicy": "Never", "containers": containers, **spec}
        account = ("serviceaccounts", "jobs", spec.get("serviceAccountName", "default"))
        if account not in self._objects:  # a pod without one would not have been created
            self.put(*account, {})
        if node:
            body["nodeName"] = node
        return self.put("pods", "jobs", name, {"spec": body, "status": {"phase": "Pending"}})

    def pod(self, name: str) -> Json | None:
        """A copy of a pod."""
        return copy.deepcopy(self._objects.get(("pods", "jobs", name)))

    def status(self, name: str) -> Json:
        """The status of a pod that is there."""
        found = self.pod(name)
        assert found is not None
        status: Json = found.get("status", {})
        return status

    def state(self, name: str, place: int = 0) -> Json:
        """The state of its nth container; empty if nothing is told yet."""
        told = self.status(name).get("containerStatuses") or []
        return told[place]["state"] if told else {}

    def drop(self, plural: str, namespace: str, name: str) -> None:
        """Gone without ceremony."""
        document = self._objects.pop((plural, namespace, name))
        self._emit("DELETED", plural, document)

    def get_node(self) -> Json:
        """The node."""
        return copy.deepcopy(self._objects[("nodes", "", "single-machine")])

    # --- the client ------------------------------------------------------------------------

    async def get(
        self, resource: Resource[T], namespace: str, name: str, *, timeout_s: float | None = None
    ) -> T:
        self._may("get", resource.plural)
        return self._typed(resource, self._find(resource.plural, namespace, name))

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float | None = None,
    ) -> Listed[T]:
        self._may("list", resource.plural)
        if self.listed_pods is not None and resource.plural == "pods":
            past = [self._typed(resource, document) for document in self.listed_pods]
            return Listed(past, str(self._version))
        items = [
            self._typed(resource, document)
            for (plural, _, _), document in self._objects.items()
            if plural == resource.plural
        ]
        return Listed(items, str(self._version))

    async def create(
        self,
        resource: Resource[T],
        namespace: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> T:
        self._may("create", resource.plural)
        name = body["metadata"]["name"]
        if (resource.plural, namespace, name) in self._objects:
            raise AlreadyExists(409, "AlreadyExists", f"{name} exists")
        self.writes.append(("create", resource.plural, dict(body)))
        return self._typed(resource, self.put(resource.plural, namespace, name, dict(body)))

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
        what = f"{resource.plural}/{subresource}" if subresource else resource.plural
        self._may("patch", what)
        await self._clock.sleep(0)
        document = self._find(resource.plural, namespace, name)
        uid = body.get("metadata", {}).get("uid")
        if uid and uid != document["metadata"]["uid"]:
            raise Conflict(409, "Conflict", "Precondition failed: UID")
        self.writes.append(("patch", what, copy.deepcopy(body)))
        merged = _merge(document, body, by_type=patch_type is PatchType.STRATEGIC)
        key = (resource.plural, namespace, name)
        return self._typed(resource, self._store(key, merged, "MODIFIED"))

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
        self._may("delete", resource.plural)
        try:
            document = self._find(resource.plural, namespace, name)
        except NotFound:
            return None
        meta = document["metadata"]
        if uid and uid != meta["uid"]:
            raise Conflict(409, "Conflict", "Precondition failed: UID")
        self.writes.append(("delete", resource.plural, {"name": name, "grace": grace_period_s}))
        grace = grace_period_s
        if grace is None:
            grace = document.get("spec", {}).get("terminationGracePeriodSeconds", 30)
        if document.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            grace = 0
        if not document.get("spec", {}).get("nodeName"):
            grace = 0
        if grace == 0:
            self.drop(resource.plural, namespace, name)
            return None
        meta["deletionTimestamp"] = format_time(self._clock.now_s() + grace)
        meta["deletionGracePeriodSeconds"] = grace
        key = (resource.plural, namespace, name)
        return self._typed(resource, self._store(key, document, "MODIFIED"))

    async def delete_pod(self, name: str, *, grace: int | None = None) -> None:
        """As a user would."""
        from runnerscale.kube.builtin import PODS

        await self.delete(PODS, "jobs", name, grace_period_s=grace)

    async def create_token(
        self,
        namespace: str,
        service_account: str,
        *,
        expiration_s: int = 3600,
        timeout_s: float | None = None,
    ) -> str:
        self._may("create", "serviceaccounts/token")
        self.tokens += 1
        return f"token-{service_account}-{self.tokens}"

    async def bind_pod(
        self, namespace: str, name: str, *, node: str, uid: str, timeout_s: float | None = None
    ) -> None:
        self._may("create", "pods/binding")
        await self._clock.sleep(0)
        document = self._find("pods", namespace, name)
        if document["spec"].get("nodeName"):
            raise Conflict(409, "Conflict", "already assigned")
        document["spec"]["nodeName"] = node
        self._store(("pods", namespace, name), document, "MODIFIED")

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float = 300.0,
    ) -> AsyncGenerator[Any, None]:
        kinds: Any = {"ADDED": Added, "MODIFIED": Modified, "DELETED": Deleted}
        seen = int(resource_version)
        while True:
            fresh = [entry for entry in self._log if entry[0] > seen]
            for version, event, plural, document in fresh:
                seen = version
                if plural == resource.plural:
                    yield kinds[event](self._typed(resource, document))
            if not fresh:
                grown = self._grown
                await grown.wait()

    # --- inside ----------------------------------------------------------------------------

    def _may(self, verb: str, what: str) -> None:
        error = self.fail(verb, what)
        if error is not None:
            raise error

    def _find(self, plural: str, namespace: str, name: str) -> Json:
        try:
            return copy.deepcopy(self._objects[(plural, namespace, name)])
        except KeyError:
            raise NotFound(404, "NotFound", f'{plural} "{name}" not found') from None

    def _store(self, key: Key, document: Json, event: str) -> Json:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self._objects[key] = document
        self._append(event, key[0], document)
        return document

    def _emit(self, event: str, plural: str, document: Json) -> None:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self._append(event, plural, document)

    def _append(self, event: str, plural: str, document: Json) -> None:
        self._log.append((self._version, event, plural, copy.deepcopy(document)))
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    @staticmethod
    def _typed(resource: Resource[T], document: Json) -> T:
        return msgspec.json.decode(msgspec.json.encode(document), type=resource.type)


def _merge(target: Json, patch: Json, *, by_type: bool) -> Json:
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            inner = merged.get(name)
            merged[name] = _merge(inner if isinstance(inner, dict) else {}, value, by_type=by_type)
        elif by_type and name == "conditions":
            fresh = {c["type"] for c in value}
            merged[name] = [c for c in merged.get(name, []) if c["type"] not in fresh] + value
        else:
            merged[name] = copy.deepcopy(value)
    return merged
