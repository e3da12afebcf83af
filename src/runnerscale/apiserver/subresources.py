"""Subresources that are acts rather than parts of an object: binding, eviction, tokens.

Status and finalize are writes of the object itself (`operations.py`); logs are `pod_logs.py`.
"""

from typing import Any

from runnerscale.apiserver.deletion import Deletion, read_delete_options
from runnerscale.apiserver.failures import ApiFailure, bad_request, conflict, required
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.operations import Caller, Operations
from runnerscale.apiserver.record import Record
from runnerscale.apiserver.write_rules import wrong_uid

Json = dict[str, Any]

SUCCESS: Json = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


def bind_pod(
    operations: Operations, kind: Kind, record: Record, body: Json, caller: Caller
) -> Json:
    """POST pods/NAME/binding: place a pod on a node.

    Raises:
        ApiFailure: 409, it is placed already, being deleted, or another pod of that name.
    """
    target = body.get("target") or {}
    node = target.get("name") or ""
    if not node:
        raise ApiFailure(500, "", str(required("target.name")))
    if target.get("kind") not in (None, "", "Node"):
        raise bad_request("only a Node can be the target of a binding")
    obj = record.object()
    meta, spec = obj["metadata"], obj["spec"]
    uid = (body.get("metadata") or {}).get("uid")
    if uid and uid != record.uid:
        raise wrong_uid(kind, record, uid)
    if meta.get("deletionTimestamp"):
        why = f"pod {record.name} is being deleted, cannot be assigned to a host"
        raise conflict("", "pods/binding", record.name, why)
    if spec.get("nodeName"):
        why = f"pod {record.name} is already assigned to node {_quoted(spec['nodeName'])}"
        raise conflict("", "pods/binding", record.name, why)
    spec["nodeName"] = node
    status = obj.setdefault("status", {})
    conditions = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    conditions.append(
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": operations.now(),
        }
    )
    status["conditions"] = conditions
    if not caller.options.dry_run:
        operations.store_object(kind, record, obj)
    return SUCCESS


def _quoted(text: str) -> str:
    return f'"{text}"'


def evict_pod(
    operations: Operations,
    deletion: Deletion,
    kind: Kind,
    record: Record,
    body: Json,
    caller: Caller,
) -> Json:
    """POST pods/NAME/eviction: a polite delete (no disruption budgets are kept here)."""
    options = read_delete_options(body.get("deleteOptions") or {}, {})
    if not caller.options.dry_run:
        record = _marked_for_eviction(operations, kind, record)
    deletion.delete(kind, record, options, caller)
    return SUCCESS


def _marked_for_eviction(operations: Operations, kind: Kind, record: Record) -> Record:
    """Whoever looks at the dying pod sees that it was asked to go."""
    obj = record.object()
    conditions = (obj.get("status") or {}).get("conditions") or ()
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": operations.now(),
    }
    others = [c for c in conditions if c.get("type") != condition["type"]]
    obj["status"] = {**(obj.get("status") or {}), "conditions": [*others, condition]}
    return operations.store_object(kind, record, obj)
