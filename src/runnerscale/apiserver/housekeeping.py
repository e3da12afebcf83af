"""What follows from writes, in the background: the controllers that a cluster always has.

Garbage collection by owners, emptying of namespaces and of dropped kinds, default service
accounts, the status of quotas, the end of old Events. Each works from a queue of hints that
changes leave; all state is in the store, so a restart only has to look at everything once.
"""

import asyncio
from typing import Any, TypeVar

import structlog

from runnerscale.apiserver.admission import CLAIM_PROTECTION
from runnerscale.apiserver.builtin_kinds import CRD_GROUP
from runnerscale.apiserver.change_log import Change, ChangeType
from runnerscale.apiserver.crds import CLEANUP_FINALIZER
from runnerscale.apiserver.custom_kinds import CRDS
from runnerscale.apiserver.deletion import DeleteOptions, Deletion
from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.kinds import Kind, Registry
from runnerscale.apiserver.metadata import FOREGROUND, ORPHAN
from runnerscale.apiserver.operations import SYSTEM, Operations
from runnerscale.apiserver.quota import quota_status
from runnerscale.apiserver.record import Record
from runnerscale.apiserver.store import StoreError
from runnerscale.core.clock import WAIT_MIN_S, Clock, parse_time

log = structlog.get_logger(__name__)

Json = dict[str, Any]
K = TypeVar("K")

QUOTA_DELAY_S = 0.25  # pods come in bursts; the status of a quota is for people
EVENTS_KEPT_S = 3600.0  # as long as a kube-apiserver keeps them
SWEEP_PERIOD_S = 120.0
FAILED_PAUSE_S = 1.0
ROOT_CA_DESCRIPTION = "The certificate that this API server can be verified by."
STEPS_BEFORE_YIELD = 64  # then requests come first


class Housekeeping:
    """The queues, and the task that works on them."""

    def __init__(
        self,
        operations: Operations,
        deletion: Deletion,
        registry: Registry,
        *,
        clock: Clock,
        root_ca: str = "",
    ) -> None:
        """`root_ca`: PEM for the config map that every namespace has."""
        self._operations = operations
        self._deletion = deletion
        self._registry = registry
        self._clock = clock
        self._root_ca = root_ca
        self._objects: dict[tuple[str, str, str], None] = {}  # to look at, in order
        self._namespaces: dict[str, None] = {}
        self._crds: dict[str, None] = {}
        self._quotas: dict[str, None] = {}
        self._wake = asyncio.Event()
        operations.store.on_change(self._on_change)
        operations.on_namespace_created = self.fill_namespace

    # --- hints ------------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        record = change.record
        resource = record.key[0]
        gone = change.type is ChangeType.DELETED
        if gone:
            for child in self._operations.store.children_of(record.uid):
                self._objects[child.key] = None
            self._on_gone(record)
        before = change.before
        if record.owners and (before is None or gone or before.owners != record.owners):
            self._objects[record.key] = None
            if gone:
                self._look_at_owners(record)
        if record.deleting and not gone:
            self._on_deleting(record)
        if resource in ("pods", "resourcequotas") or gone or change.type is ChangeType.ADDED:
            self._quotas[record.namespace] = None
        if self._objects or self._namespaces or self._crds or self._quotas:
            self._wake.set()

    def _on_gone(self, record: Record) -> None:
        resource = record.key[0]
        namespace = self._operations.store.table("namespaces").get("", record.namespace)
        refill = resource in ("serviceaccounts", "configmaps")
        if namespace is not None and (namespace.deleting or refill):
            self._namespaces[record.namespace] = None
        kind = self._registry.of_resource(resource)
        if kind is not None and kind.custom:
            self._crds[kind.crd_name] = None
        if resource == "pods":
            for claim in self._operations.store.table("persistentvolumeclaims").list(
                record.namespace
            ):
                if claim.deleting:
                    self._objects[claim.key] = None

    def _look_at_owners(self, record: Record) -> None:
        """An owner may have waited for this one to go."""
        for uid in record.owners:
            owner = self._operations.store.by_uid(uid)
            if owner is not None and owner.deleting:
                self._objects[owner.key] = None

    def _on_deleting(self, record: Record) -> None:
        if record.finalizers:
            self._objects[record.key] = None
        if record.key[0] == "namespaces":
            self._namespaces[record.name] = None
        elif record.key[0] == CRDS:
            self._crds[record.name] = None

    # --- the task ---------------------------------------------------------------------------

    def look_at_everything(self) -> None:
        """After a start: hints were lost, the state was not."""
        store = self._operations.store
        for kind in list(self._registry.stored()):
            for record in store.table(kind.resource, kind.selectable):
                if record.owners or (record.deleting and record.finalizers):
                    self._objects[record.key] = None
        for record in store.table("namespaces"):
            self._namespaces[record.name] = None
        for record in store.table(CRDS):
            if record.deleting:
                self._crds[record.name] = None
        for record in store.table("resourcequotas"):
            self._quotas[record.namespace] = None
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; a fault of ours is logged and does not end it."""
        while True:
            try:
                await self._run()
            except Exception:  # broad: without this task nothing is ever collected again
                log.exception("housekeeping failed unexpectedly")
                await self._clock.sleep(FAILED_PAUSE_S)

    async def _run(self) -> None:
        self.look_at_everything()
        next_sweep_s = self._clock.monotonic_s()
        while True:
            now_s = self._clock.monotonic_s()
            if now_s >= next_sweep_s:
                self._expire_events()
                next_sweep_s = now_s + SWEEP_PERIOD_S
            try:
                async with asyncio.timeout(max(WAIT_MIN_S, next_sweep_s - now_s)):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()
            await self._work()

    async def _work(self) -> None:
        steps = 0
        while self._objects or self._namespaces or self._crds:
            self._step()
            steps += 1
            if steps % STEPS_BEFORE_YIELD == 0:
                await self._clock.sleep(0)
        if self._quotas:
            await self._clock.sleep(QUOTA_DELAY_S)
            quotas, self._quotas = self._quotas, {}
            for namespace in quotas:
                self._update_quotas(namespace)

    def _step(self) -> None:
        """One thing from the first queue that has any."""
        try:
            if self._objects:
                self._look_at_object(_first(self._objects))
            elif self._crds:
                self._look_at_crd(_first(self._crds))
            elif self._namespaces:
                self._look_at_namespace(_first(self._namespaces))
        except (ApiFailure, StoreError) as failure:
            # The next change or the next start brings it back.
            log.warning("housekeeping refused", error=str(failure))

    # --- garbage collection -----------------------------------------------------------------

    def _look_at_object(self, key: tuple[str, str, str]) -> None:
        kind = self._registry.of_resource(key[0])
        record = self._operations.store.table(key[0]).get(key[1], key[2])
        if kind is None or record is None:
            return
        if record.deleting:
            if ORPHAN in record.finalizers:
                self._orphan_dependents(kind, record)
                return
            if FOREGROUND in record.finalizers:
                self._delete_dependents(kind, record)
                return
            if CLAIM_PROTECTION in record.finalizers and not self._claim_is_used(record):
                self._drop_finalizer(kind, record, CLAIM_PROTECTION)
                return
        if record.owners:
            self._check_owners(kind, record)

    def _claim_is_used(self, claim: Record) -> bool:
        """A pod that has not ended mounts it."""
        for pod in self._operations.store.table("pods").list(claim.namespace):
            obj = pod.object()
            ended = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            for volume in (obj.get("spec") or {}).get("volumes") or ():
                name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                if name == claim.name and not ended:
                    return True
        return False

    def _check_owners(self, kind: Kind, record: Record) -> None:
        """Delete what has only absent owners; drop references to absent ones otherwise."""
        owners = record.object()["metadata"].get("ownerReferences") or []
        present: list[Json] = []
        absent: list[Json] = []
        waiting = False
        for owner in owners:
            api_version, owner_kind = owner.get("apiVersion", ""), owner.get("kind", "")
            if self._registry.of_reference(api_version, owner_kind) is None:
                return  # nobody can tell whether such an owner exists
            found = self._operations.store.by_uid(owner.get("uid", ""))
            same = found is not None and found.name == owner.get("name")
            if same and found is not None and found.namespace not in ("", record.namespace):
                same = False
            (present if same else absent).append(owner)
            if same and found is not None and found.deleting and FOREGROUND in found.finalizers:
                waiting = True
        if present and absent:
            self._operations.patch(
                kind,
                record.namespace,
                record.name,
                lambda obj: _with_owners(obj, present),
                SYSTEM,
            )
        elif absent and not record.deleting:
            self._delete(kind, record, propagation=None)
        elif waiting and len(present) == 1 and not record.deleting:
            self._delete(kind, record, propagation="Foreground")

    def _delete(self, kind: Kind, record: Record, *, propagation: str | None) -> None:
        options = DeleteOptions(uid=record.uid, propagation=propagation)
        self._deletion.delete(kind, record, options, SYSTEM)

    def _orphan_dependents(self, kind: Kind, owner: Record) -> None:
        for child in self._operations.store.children_of(owner.uid):
            child_kind = self._registry.of_resource(child.key[0])
            if child_kind is None:
                continue
            self._operations.patch(
                child_kind,
                child.namespace,
                child.name,
                lambda obj: _with_owners(obj, _others(obj, owner.uid)),
                SYSTEM,
            )
        self._drop_finalizer(kind, owner, ORPHAN)

    def _delete_dependents(self, kind: Kind, owner: Record) -> None:
        blocking = False
        for child in self._operations.store.children_of(owner.uid):
            child_kind = self._registry.of_resource(child.key[0])
            if child_kind is None:
                continue
            references = child.object()["metadata"].get("ownerReferences") or []
            mine = [r for r in references if r.get("uid") == owner.uid]
            if not child.deleting:
                self._check_owners(child_kind, child)
                if self._operations.store.by_uid(child.uid) is None:
                    continue
            blocking = blocking or any(r.get("blockOwnerDeletion") for r in mine)
        if not blocking:
            self._drop_finalizer(kind, owner, FOREGROUND)

    def _drop_finalizer(self, kind: Kind, record: Record, name: str) -> None:
        current = self._operations.table(kind).get(record.namespace, record.name)
        if current is None or current.uid != record.uid:
            return

        def apply(obj: Json) -> Json:
            kept = [f for f in obj["metadata"].get("finalizers") or () if f != name]
            return {**obj, "metadata": {**obj["metadata"], "finalizers": kept}}

        self._operations.patch(kind, record.namespace, record.name, apply, SYSTEM)

    # --- namespaces and CRDs ----------------------------------------------------------------

    def fill_namespace(self, namespace: str) -> None:
        """The account and the config map that every namespace has."""
        self._ensure("serviceaccounts", namespace, {"metadata": {"name": "default"}})
        if self._root_ca:
            annotations = {"kubernetes.io/description": ROOT_CA_DESCRIPTION}
            meta = {"name": "kube-root-ca.crt", "annotations": annotations}
            body = {"metadata": meta, "data": {"ca.crt": self._root_ca}}
            self._ensure("configmaps", namespace, body)

    def _ensure(self, resource: str, namespace: str, body: Json) -> None:
        kind = self._registry.of_resource(resource)
        assert kind is not None
        name = body["metadata"]["name"]
        present = self._operations.table(kind).get(namespace, name)
        if present is None:
            self._operations.create(kind, namespace, body, SYSTEM)
        elif "data" in body and present.object().get("data") != body["data"]:
            # Another authority since: whoever mounts the map trusts the new one.
            data = body["data"]
            self._operations.patch(
                kind, namespace, name, lambda found: {**found, "data": data}, SYSTEM
            )

    def _look_at_namespace(self, name: str) -> None:
        kind = self._registry.of_resource("namespaces")
        assert kind is not None
        record = self._operations.table(kind).get("", name)
        if record is None:
            return
        if not record.deleting:
            self.fill_namespace(name)
            return
        if self._empty_namespace(name):
            self._operations.patch(
                kind,
                "",
                name,
                lambda obj: {**obj, "spec": {**(obj.get("spec") or {}), "finalizers": []}},
                SYSTEM,
                subresource="finalize",
            )

    def _empty_namespace(self, name: str) -> bool:
        """Delete what is in it; True: nothing is left."""
        left = False
        for kind in list(self._registry.stored()):
            if not kind.namespaced:
                continue
            for record in self._operations.table(kind).list(name):
                if not record.deleting:
                    self._delete(kind, record, propagation="Background")
                left = left or self._operations.store.by_uid(record.uid) is not None
        return not left

    def _look_at_crd(self, name: str) -> None:
        kind = self._registry.find(CRD_GROUP, "v1", "customresourcedefinitions")
        assert kind is not None
        record = self._operations.table(kind).get("", name)
        if record is None or not record.deleting or CLEANUP_FINALIZER not in record.finalizers:
            return
        custom = next((k for k in self._registry.all() if k.crd_name == name), None)
        left = False
        if custom is not None:
            for item in list(self._operations.table(custom)):
                if not item.deleting:
                    self._delete(custom, item, propagation="Background")
                left = left or self._operations.store.by_uid(item.uid) is not None
        if not left:
            self._drop_finalizer(kind, record, CLEANUP_FINALIZER)

    # --- quotas and Events ------------------------------------------------------------------

    def _update_quotas(self, namespace: str) -> None:
        kind = self._registry.of_resource("resourcequotas")
        assert kind is not None
        quotas = self._operations.admission.quotas
        for record in self._operations.table(kind).list(namespace):
            obj = record.object()
            spec = obj.get("spec") or {}
            used = quotas.used(spec, namespace, self._operations.now_s())
            status = quota_status(spec, used)
            if obj.get("status") != status:
                self._operations.store_object(kind, record, {**obj, "status": status})

    def _expire_events(self) -> None:
        table = self._operations.store.table("events")
        oldest_s = self._operations.now_s() - EVENTS_KEPT_S
        for record in list(table):
            if _last_seen_s(record) < oldest_s:
                self._operations.store.remove(table, record)


def _last_seen_s(record: Record) -> float:
    obj = record.object()
    series = obj.get("series") or {}
    for text in (series.get("lastObservedTime"), obj.get("lastTimestamp"), record.created):
        if text:
            try:
                return parse_time(text)
            except ValueError:
                continue
    return 0.0


def _others(obj: Json, uid: str) -> list[Json]:
    return [r for r in obj["metadata"].get("ownerReferences") or () if r.get("uid") != uid]


def _with_owners(obj: Json, owners: list[Json]) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": owners}}


def _first(queue: "dict[K, None]") -> K:
    key = next(iter(queue))
    del queue[key]
    return key
