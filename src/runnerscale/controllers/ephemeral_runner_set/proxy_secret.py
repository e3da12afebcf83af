"""The proxies of a set's runners as ready-made environment values, in a Secret of the set.

Exists before the first runner that refers to it, follows rotated credentials within a minute,
and goes when no proxy is wished any more (W46) or with the set. Runner pods read it when they
start; running ones are not touched.

Pure. Contract: resources-and-controllers 3.6, 4.3 S5.
"""

import base64

from runnerscale.api import labels as keys
from runnerscale.api.names import hash_secret, runner_proxy_name
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Action,
    DeleteProxySecret,
    Look,
    ReadProxySecret,
    ResolveProxy,
    Snapshot,
    WriteProxySecret,
)
from runnerscale.controllers.metadata import metadata_patch
from runnerscale.controllers.stages import Stage
from runnerscale.credentials.place import Resolved
from runnerscale.kube.builtin import Secret
from runnerscale.kube.objects import Body
from runnerscale.kube.patching import controller_reference, is_controlled_by

LOOK_EVERY_S = 45.0  # with the level pass: rotated credentials arrive within a minute and a half
HTTP, HTTPS, NO_PROXY = "http_proxy", "https_proxy", "no_proxy"


def stage(seen: Snapshot) -> Stage[Action]:
    """Keep the Secret as long as a proxy is wished, and no longer."""
    proxy = seen.proxy
    troubles = (proxy.trouble,) if proxy.trouble else ()
    if not is_wished(seen):
        removal_ = removal(seen)
        return removal_ if removal_ is not None else Stage(troubles=troubles)
    if proxy.trouble and seen.now_s < proxy.again_s:
        return Stage(troubles=troubles, again_s=proxy.again_s - seen.now_s)
    if proxy.data is None:
        return Stage((ResolveProxy(),), troubles)
    if proxy.secret is Look.UNKNOWN:
        return Stage((ReadProxySecret(),), troubles)
    write = wanted_write(seen, proxy.data)
    again_s = max(0.0, proxy.again_s - seen.now_s)
    return Stage((write,) if write else (), troubles, again_s=None if write else again_s)


def is_wished(seen: Snapshot) -> bool:
    """The runners are to use a proxy."""
    return seen.item.spec.ephemeral_runner_spec.proxy is not None


def is_ready(seen: Snapshot) -> bool:
    """Whether a runner could refer to it: it is there, whatever its age."""
    return not is_wished(seen) or isinstance(seen.proxy.secret, Secret)


def removal(seen: Snapshot) -> Stage[Action] | None:
    """Take away what an earlier spec needed; None: nothing is there.

    Only where something says that there was one: most sets never had a proxy, and a set that
    may not read Secrets (any more) must come to its end too. What is missed is left to garbage
    collection with the set.
    """
    proxy = seen.proxy
    if proxy.trouble is not None:
        return None
    if proxy.secret is Look.UNKNOWN and (is_wished(seen) or seen.had_proxy):
        return Stage((ReadProxySecret(),))
    secret = proxy.secret
    if isinstance(secret, Secret) and is_controlled_by(secret, seen.reference):
        return Stage((DeleteProxySecret(secret.metadata.uid or ""),))
    return None


def name_of(seen: Snapshot) -> str:
    """The name that ARC gives it, too."""
    reference = seen.reference
    return runner_proxy_name(namespace=reference.namespace, runner_set=reference.name)


def data_of(found: Resolved) -> dict[str, bytes]:
    """All three keys, whatever is configured; what is not is empty."""
    return {
        HTTP: found.http_proxy.reveal().encode() if found.http_proxy else b"",
        HTTPS: found.https_proxy.reveal().encode() if found.https_proxy else b"",
        NO_PROXY: ",".join(found.no_proxy).encode(),
    }


def wanted_write(seen: Snapshot, data: dict[str, bytes]) -> WriteProxySecret | None:
    """The write that is due, if one is."""
    mine = seen.item.metadata.labels or {}
    labels = {key: mine.get(key, "") for key in (keys.SCALE_SET_NAME, keys.SCALE_SET_NAMESPACE)}
    annotations = {keys.INTEGRITY_HASH: hash_secret(data)}
    owners = [controller_reference(seen.reference)]
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    secret = seen.proxy.secret
    if not isinstance(secret, Secret):
        metadata: Body = {
            "name": name_of(seen),
            "namespace": seen.reference.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": owners,
        }
        return WriteProxySecret({"metadata": metadata, "data": encoded}, create=True)
    patch: Body = {}
    changed = metadata_patch(secret.metadata, labels=labels, annotations=annotations)
    if not is_controlled_by(secret, seen.reference):
        changed["ownerReferences"] = owners
    if changed:
        patch["metadata"] = changed
    now = secret.data or {}
    if any(now.get(key) != value for key, value in encoded.items()):  # what else is there may stay
        patch["data"] = encoded
    return WriteProxySecret(patch, create=False) if patch else None
