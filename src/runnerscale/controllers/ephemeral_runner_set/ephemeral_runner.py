"""The EphemeralRunner object that a set makes. Pure.

The name is drawn before the call that creates, so that a call whose answer was lost can be
made again with the same name; no name is ever used twice. Both finalizers are in it from the
beginning. Contract: resources-and-controllers 3.11.
"""

from typing import Any

import msgspec

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunner
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.api.names import runner_proxy_name
from runnerscale.api.values import fields_of, present
from runnerscale.controllers.metadata import merge_annotations, merge_labels
from runnerscale.kube.objects import Body, ObjectMeta, ObjectReference
from runnerscale.kube.patching import controller_reference


def ephemeral_runner(
    item: EphemeralRunnerSet, reference: ObjectReference, *, name: str, fingerprint: str
) -> Body:
    """The body to create. `fingerprint`: of the runner spec it is made from."""
    return {
        "apiVersion": EPHEMERAL_RUNNERS.api_version,
        "kind": EPHEMERAL_RUNNERS.kind,
        "metadata": {
            "name": name,
            "namespace": reference.namespace,
            "labels": labels_of(item),
            "annotations": annotations_of(item, fingerprint=fingerprint),
            "finalizers": list(keys.EPHEMERAL_RUNNER_FINALIZERS),
            "ownerReferences": [controller_reference(reference)],
        },
        "spec": spec_of(item, reference),
    }


def labels_of(item: EphemeralRunnerSet) -> dict[str, str]:
    """The set's labels, as those of a runner, over what the administrator wants on runners."""
    extra = item.spec.ephemeral_runner_metadata
    own = {**(item.metadata.labels or {}), keys.COMPONENT: keys.COMPONENT_RUNNER}
    return merge_labels(extra.labels if extra else None, own)


def annotations_of(item: EphemeralRunnerSet, *, fingerprint: str) -> dict[str, str]:
    """The set's annotations but for our own bookkeeping, and which decision made the runner."""
    extra = item.spec.ephemeral_runner_metadata
    inherited = {
        key: value
        for key, value in (item.metadata.annotations or {}).items()
        if not key.startswith(keys.OWN_PREFIX)
    }
    own = {
        **inherited,
        keys.PATCH_ID: str(item.spec.patch_id),
        keys.RUNNER_SPEC_HASH: fingerprint,
    }
    return merge_annotations(extra.annotations if extra else None, own)


def spec_of(item: EphemeralRunnerSet, reference: ObjectReference) -> dict[str, Any]:
    """The set's runner spec, and where the runner's proxies are."""
    wished = item.spec.ephemeral_runner_spec
    spec: dict[str, Any] = {}
    for field in fields_of(type(wished)):
        value = getattr(wished, field.name)
        if isinstance(value, msgspec.Raw):
            if present(value):
                spec[field.encode_name] = msgspec.json.decode(value)
        elif value != field.default:
            spec[field.encode_name] = msgspec.to_builtins(value)
    # Required by the schema even where they are at their zero.
    spec.setdefault("githubConfigUrl", wished.github_config_url)
    spec.setdefault("githubConfigSecret", wished.github_config_secret)
    spec.setdefault("runnerScaleSetId", wished.runner_scale_set_id)
    if wished.proxy is not None:
        spec["proxySecretRef"] = runner_proxy_name(
            namespace=reference.namespace, runner_set=reference.name
        )
    return spec


def decoded(body: Body, *, uid: str) -> EphemeralRunner:
    """The object as it will be read, for a dry run of its pod."""
    raw = msgspec.json.decode(msgspec.json.encode(body), type=EphemeralRunner)
    raw.metadata = msgspec.structs.replace(raw.metadata, uid=uid)
    return raw


def is_mine(meta: ObjectMeta, owner: ObjectReference) -> bool:
    """Whether an object of that name was made by this set, by a call whose answer was lost."""
    return any(o.controller and o.uid == owner.uid for o in meta.owner_references or ())
