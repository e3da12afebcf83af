"""What DELETE means: at once, after a grace period, or when the finalizers are gone.

Pods on a node get their grace period and stay until the node's agent deletes them with grace
0; everything else waits for finalizers only. What follows a deletion (dependents, the
content of a namespace) is `housekeeping.py`.
"""

from dataclasses import dataclass
from typing import Any

from runnerscale.apiserver.admission import Attributes
from runnerscale.apiserver.builtin_kinds import CRD_GROUP
from runnerscale.apiserver.crds import CLEANUP_FINALIZER
from runnerscale.apiserver.failures import ApiFailure, bad_request, conflict, invalid, unsupported
from runnerscale.apiserver.go_json import type_name
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.metadata import FOREGROUND, ORPHAN
from runnerscale.apiserver.operations import Caller, Operations
from runnerscale.apiserver.record import Record, encode_json
from runnerscale.core.clock import format_time, parse_time

Json = dict[str, Any]

POLICIES = ("Background", "Foreground", "Orphan")
DEFAULT_GRACE_S = 30
GRACE_S_MAX = 10 * 365 * 86400  # a moment that can still be written down


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What the body and query of a DELETE say."""

    grace_period_s: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None


def read_delete_options(body: Json, query: dict[str, str]) -> DeleteOptions:
    """From the body (DeleteOptions) and the query; the body wins.

    Raises:
        ApiFailure: 422, a policy nobody knows.
    """
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
        raise bad_request(
            f"json: cannot unmarshal {type_name(grace)} into Go struct field"
            " DeleteOptions.gracePeriodSeconds of type int64"
        )
    if grace is None and query.get("gracePeriodSeconds"):
        grace = int(query["gracePeriodSeconds"])
    policy = body.get("propagationPolicy") or query.get("propagationPolicy")
    if policy is None:
        orphan = body.get("orphanDependents", query.get("orphanDependents"))
        if orphan is not None:
            policy = "Orphan" if str(orphan).lower() == "true" else "Background"
    if policy is not None and policy not in POLICIES:
        error = unsupported(
            "propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")
        )
        raise invalid("meta.k8s.io", "DeleteOptions", "", [error])
    return DeleteOptions(
        grace_period_s=None if grace is None else _grace(int(grace)),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=policy,
    )


def _grace(seconds: int) -> int:
    return min(seconds, GRACE_S_MAX) if seconds >= 0 else 1


@dataclass(slots=True)
class Deleted:
    """The outcome."""

    data: bytes  # the object, as last seen
    record: Record
    gone: bool


class Deletion:
    """DELETE for every kind."""

    def __init__(self, operations: Operations) -> None:
        """Works on the same store."""
        self._operations = operations

    def delete(self, kind: Kind, record: Record, options: DeleteOptions, caller: Caller) -> Deleted:
        """Delete one object, or begin to.

        Raises:
            ApiFailure: 403, 409.
        """
        _check_preconditions(kind, record, options)
        operations = self._operations
        operations.admission.check_delete(kind, record.name)
        old = record.object()
        operations.admission.check(
            Attributes(
                "DELETE",
                kind,
                "",
                record.namespace,
                record.name,
                None,
                old,
                caller.user.name,
                caller.options.dry_run,
            )
        )
        obj = record.object()
        meta = obj["metadata"]
        if kind.resource == "pods" and not self._begin_grace(obj, options):
            return Deleted(record.data, record, gone=False)
        _set_finalizers(kind, meta, options)
        held = bool(meta.get("finalizers")) or (
            kind.resource == "namespaces" and bool((obj.get("spec") or {}).get("finalizers"))
        )
        grace_s = meta.get("deletionGracePeriodSeconds") or 0
        if not held and kind.resource != "pods":
            if not caller.options.dry_run:
                operations.store.remove(operations.table(kind), record)
            return Deleted(record.data, record, gone=True)
        if held:
            self._mark(kind, obj)
        if caller.options.dry_run:
            return Deleted(encode_json(obj), record, gone=not held and grace_s == 0)
        if obj != old:
            record = operations.store_object(kind, record, obj)
        if held or grace_s > 0:
            return Deleted(record.data, record, gone=False)
        operations.store.remove(operations.table(kind), record)
        return Deleted(record.data, record, gone=True)

    def _mark(self, kind: Kind, obj: Json) -> None:
        """From now on it is being deleted."""
        meta = obj["metadata"]
        if not meta.get("deletionTimestamp"):
            meta["deletionTimestamp"] = self._operations.now()
            if kind.resource != "namespaces":
                meta["deletionGracePeriodSeconds"] = 0
            if meta.get("generation"):
                meta["generation"] += 1
        if kind.resource == "namespaces":
            obj.setdefault("status", {})["phase"] = "Terminating"

    def _begin_grace(self, obj: Json, options: DeleteOptions) -> bool:
        """Set or shorten the grace period of a pod; False: nothing changes."""
        meta, spec = obj["metadata"], obj.get("spec") or {}
        now_s = self._operations.now_s()
        if meta.get("deletionTimestamp"):
            present_s = meta.get("deletionGracePeriodSeconds") or 0
            if present_s == 0:
                return True
            wanted = options.grace_period_s
            if wanted is None or wanted >= present_s:
                return False
            end_s = parse_time(meta["deletionTimestamp"]) - present_s + wanted
            if end_s < now_s:
                end_s, wanted = now_s, 1 if wanted else 0
            meta["deletionTimestamp"] = format_time(end_s)
            meta["deletionGracePeriodSeconds"] = wanted
            return True
        grace_s = options.grace_period_s
        if grace_s is None:
            grace_s = _grace(spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_S))
        ended = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if not spec.get("nodeName") or ended:
            grace_s = 0
        meta["deletionTimestamp"] = format_time(now_s + grace_s)
        meta["deletionGracePeriodSeconds"] = grace_s
        if meta.get("generation"):
            meta["generation"] += 1
        return True


def _check_preconditions(kind: Kind, record: Record, options: DeleteOptions) -> None:
    if options.uid is not None and options.uid != record.uid:
        raise _precondition(
            kind,
            record.name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record"
            f" ({record.uid}). The object might have been deleted and then recreated",
        )
    version = options.resource_version
    if version is not None and version != str(record.version):
        raise _precondition(
            kind,
            record.name,
            f"the ResourceVersion in the precondition ({version}) does not match the"
            f" ResourceVersion in record ({record.version}). The object might have been modified",
        )


def _precondition(kind: Kind, name: str, why: str) -> ApiFailure:
    return conflict(kind.group, kind.kind, name, why)


def _set_finalizers(kind: Kind, meta: Json, options: DeleteOptions) -> None:
    """The finalizers that make garbage collection orphan or wait for dependents."""
    finalizers = [f for f in meta.get("finalizers") or () if f not in (ORPHAN, FOREGROUND)]
    had = [f for f in meta.get("finalizers") or () if f in (ORPHAN, FOREGROUND)]
    if options.propagation == "Orphan":
        finalizers.append(ORPHAN)
    elif options.propagation == "Foreground":
        finalizers.append(FOREGROUND)
    elif options.propagation is None:
        finalizers += had
    if kind.group == CRD_GROUP and CLEANUP_FINALIZER not in finalizers:
        finalizers.append(CLEANUP_FINALIZER)
    if meta.get("deletionTimestamp") and kind.resource != "pods":
        # Once deletion began, only what is already there may hold it.
        finalizers = [f for f in finalizers if f in (meta.get("finalizers") or ())]
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
