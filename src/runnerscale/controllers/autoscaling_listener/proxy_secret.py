"""The listener's proxies as ready-made environment values, in a Secret of their own.

Made from the source Secrets in every pass, so that rotated proxy credentials arrive (W3); the
pod is replaced then, because an environment is fixed at its start (`integrity.py`).

Pure. Contract: resources-and-controllers 3.6.
"""

import base64

from runnerscale.api import labels as keys
from runnerscale.api.names import hash_secret
from runnerscale.controllers.autoscaling_listener import means
from runnerscale.controllers.autoscaling_listener.snapshot import (
    Action,
    Child,
    Create,
    Patch,
    Read,
    Remove,
    Snapshot,
)
from runnerscale.controllers.metadata import metadata_patch
from runnerscale.controllers.stages import Stage
from runnerscale.credentials.place import Resolved
from runnerscale.kube.objects import Body, is_deleting
from runnerscale.kube.patching import controller_reference, is_controlled_by

HTTP, HTTPS, NO_PROXY = "http_proxy", "https_proxy", "no_proxy"


def stage(seen: Snapshot) -> Stage[Action]:
    """Keep the Secret as long as a proxy is wished, and no longer."""
    child = Child.PROXY_SECRET
    if child in seen.refused:
        return Stage(troubles=(seen.refused[child],))
    if seen.listener.spec.proxy is None:
        return _without(seen)
    if seen.is_unasked(child):
        return Stage((Read(child),))
    found = means.resolved(seen)
    return Stage() if found is None else Stage(_write(seen, data_of(found)))


def data_of(found: Resolved) -> dict[str, bytes]:
    """All three keys, whatever is configured; what is not is empty."""
    return {
        HTTP: found.http_proxy.reveal().encode() if found.http_proxy else b"",
        HTTPS: found.https_proxy.reveal().encode() if found.https_proxy else b"",
        NO_PROXY: ",".join(found.no_proxy).encode(),
    }


def stored(seen: Snapshot) -> dict[str, bytes] | None:
    """What the Secret holds now of what we keep in it; what else somebody put there is his."""
    secret = seen.secret(Child.PROXY_SECRET)
    if secret is None:
        return None
    data = secret.data or {}
    return {key: base64.b64decode(data[key]) for key in (HTTP, HTTPS, NO_PROXY) if key in data}


def is_ready(seen: Snapshot) -> bool:
    """Whether a pod could refer to it."""
    return seen.listener.spec.proxy is None or seen.child(Child.PROXY_SECRET) is not None


def _without(seen: Snapshot) -> Stage[Action]:
    """Take away what an earlier spec needed; looked for only when a pod is about to be made."""
    child = Child.PROXY_SECRET
    secret = seen.secret(child)
    if secret is not None:
        if is_controlled_by(secret, seen.reference) and not is_deleting(secret):
            return Stage((Remove(child, secret.metadata.uid or ""),))
        return Stage()
    look = seen.is_unasked(child) and seen.pod is None
    return Stage((Read(child),)) if look else Stage()


def _write(seen: Snapshot, data: dict[str, bytes]) -> tuple[Action, ...]:
    child = Child.PROXY_SECRET
    spec = seen.listener.spec
    labels = {
        keys.SCALE_SET_NAMESPACE: spec.autoscaling_runner_set_namespace,
        keys.SCALE_SET_NAME: spec.autoscaling_runner_set_name,
    }
    annotations = {keys.INTEGRITY_HASH: hash_secret(data)}
    owners = [controller_reference(seen.reference)]
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    secret = seen.secret(child)
    if secret is None:
        metadata: Body = {"name": seen.child_name(child), "namespace": seen.namespace}
        metadata |= {"labels": labels, "annotations": annotations, "ownerReferences": owners}
        return (Create(child, {"metadata": metadata, "data": encoded}),)
    patch: Body = {}
    changed = metadata_patch(secret.metadata, labels=labels, annotations=annotations)
    if not is_controlled_by(secret, seen.reference):
        changed["ownerReferences"] = owners
    if changed:
        patch["metadata"] = changed
    if stored(seen) != data:
        patch["data"] = encoded
    return (Patch(child, patch),) if patch else ()
