"""Who the listener is and what it may do: ServiceAccount, Role, RoleBinding.

It may read and patch runners, and patch the one set that it scales; nothing else, and nothing
in any other namespace. Only our own keys are compared, so that foreign labels stay (W4); what
drifts is repaired, a RoleBinding to another Role is made anew (W43).

Pure. Contract: resources-and-controllers 3.2-3.4, 4.2 L4-L6.
"""

from collections.abc import Mapping
from typing import Any

from runnerscale.api import labels as keys
from runnerscale.api.fingerprint import fingerprint, same
from runnerscale.api.values import GROUP, ResourceMeta
from runnerscale.controllers.autoscaling_listener.snapshot import (
    Action,
    Child,
    Create,
    Patch,
    Read,
    Remove,
    Snapshot,
)
from runnerscale.controllers.metadata import (
    merge_annotations,
    merge_labels,
    metadata_patch,
    with_owned_keys,
)
from runnerscale.controllers.stages import Stage
from runnerscale.kube.builtin import Role, RoleBinding
from runnerscale.kube.objects import Body, is_deleting
from runnerscale.kube.patching import controller_reference, is_controlled_by

RBAC_GROUP = "rbac.authorization.k8s.io"


def stage(seen: Snapshot) -> Stage[Action]:
    """Make or repair all three, side by side."""
    actions: list[Action] = []
    for child, body in (
        (Child.SERVICE_ACCOUNT, service_account(seen)),
        (Child.ROLE, role(seen)),
        (Child.ROLE_BINDING, role_binding(seen)),
    ):
        if child not in seen.refused:
            actions += _step(seen, child, body)
    return Stage(tuple(actions), tuple(_refusals(seen)))


def are_ready(seen: Snapshot) -> bool:
    """Whether a pod could act with them."""
    children = (Child.SERVICE_ACCOUNT, Child.ROLE, Child.ROLE_BINDING)
    return all(seen.child(child) is not None for child in children)


def service_account(seen: Snapshot) -> Body:
    """The identity of the pod."""
    block = seen.listener.spec.service_account_metadata
    metadata = _metadata(seen, Child.SERVICE_ACCOUNT, block, {}, content={})
    return {"metadata": {**metadata, "ownerReferences": [controller_reference(seen.reference)]}}


def rules(seen: Snapshot) -> list[dict[str, list[str]]]:
    """What the listener may do, in the contract's order."""
    runner_set = seen.listener.spec.ephemeral_runner_set_name
    return [
        {
            "apiGroups": [GROUP],
            "resources": ["ephemeralrunnersets"],
            "resourceNames": [runner_set],
            "verbs": ["patch"],
        },
        {"apiGroups": [GROUP], "resources": ["ephemeralrunners"], "verbs": ["get", "patch"]},
        {"apiGroups": [GROUP], "resources": ["ephemeralrunners/status"], "verbs": ["patch"]},
    ]


def role(seen: Snapshot) -> Body:
    """The rights, in the namespace of the runners."""
    allowed = rules(seen)
    block = seen.listener.spec.role_metadata
    metadata = _metadata(seen, Child.ROLE, block, _mapping_labels(seen), content={"rules": allowed})
    return {"metadata": metadata, "rules": allowed}


def role_binding(seen: Snapshot) -> Body:
    """Who has these rights."""
    grant = {
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": seen.name},
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": seen.child_name(Child.SERVICE_ACCOUNT),
                "namespace": seen.namespace,
            }
        ],
    }
    block = seen.listener.spec.role_binding_metadata
    labels = _mapping_labels(seen)
    return {"metadata": _metadata(seen, Child.ROLE_BINDING, block, labels, content=grant), **grant}


def _mapping_labels(seen: Snapshot) -> dict[str, str]:
    # By these the controller finds the listener again: they cannot have it as their owner,
    # which lives in another namespace.
    return {keys.LISTENER_NAMESPACE: seen.namespace, keys.LISTENER_NAME: seen.name}


def _metadata(
    seen: Snapshot,
    child: Child,
    block: ResourceMeta | None,
    more_labels: Mapping[str, str],
    *,
    content: Any,
) -> Body:
    spec = seen.listener.spec
    excluded = seen.settings.excluded_prefixes
    scale_set = {
        keys.SCALE_SET_NAMESPACE: spec.autoscaling_runner_set_namespace,
        keys.SCALE_SET_NAME: spec.autoscaling_runner_set_name,
    }
    own = merge_labels(
        seen.listener.metadata.labels, {**scale_set, **more_labels}, excluded=excluded
    )
    labels = merge_labels(block.labels, own, excluded=excluded) if block and block.labels else own
    annotations = merge_annotations(
        block.annotations if block else None, {keys.INTEGRITY_HASH: fingerprint(content)}
    )
    return {
        "name": seen.child_name(child),
        "namespace": seen.child_namespace(child),
        # The mapping labels must stay whatever is excluded: without them nobody finds the object.
        "labels": {**labels, **more_labels},
        "annotations": with_owned_keys({**labels, **more_labels}, annotations),
    }


def _step(seen: Snapshot, child: Child, body: Body) -> list[Action]:
    actual = seen.child(child)
    if actual is None:
        if seen.is_unasked(child):  # a create found it taken: see by whom
            return [Read(child)]
        return [Create(child, body)]
    if isinstance(actual, RoleBinding) and _role_drifted(actual, body):
        if is_deleting(actual):
            return []  # its end is an event
        # A roleRef cannot be changed.
        return [Remove(child, actual.metadata.uid or "")]
    wished = body["metadata"]
    metadata = metadata_patch(
        actual.metadata, labels=wished["labels"], annotations=wished["annotations"]
    )
    if "ownerReferences" in wished and not is_controlled_by(actual, seen.reference):
        metadata["ownerReferences"] = wished["ownerReferences"]
    patch: Body = {"metadata": metadata} if metadata else {}
    if isinstance(actual, Role) and not same(actual.rules, body["rules"]):
        patch["rules"] = body["rules"]
    if isinstance(actual, RoleBinding) and not same(actual.subjects, body["subjects"]):
        patch["subjects"] = body["subjects"]
    return [Patch(child, patch)] if patch else []


def _role_drifted(actual: RoleBinding, body: Body) -> bool:
    reference = actual.role_ref
    if reference is None:
        return True
    return (reference.kind, reference.name) != ("Role", body["roleRef"]["name"])


def _refusals(seen: Snapshot) -> list[Any]:
    children = (Child.SERVICE_ACCOUNT, Child.ROLE, Child.ROLE_BINDING)
    return [seen.refused[child] for child in children if child in seen.refused]
