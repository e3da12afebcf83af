"""The listener's pod, as it should be, and when a pod that exists is another one.

A running listener of our own image reads a changed configuration file by itself, so its pod is
replaced only for what cannot change under a held session: its place at GitHub, image, template,
proxies. A foreign image (ARC's) reads its file once; there every change replaces the pod. A
fingerprint that is not ours says nothing: then contents are compared (W9). Pods are never
updated (W20).

Pure. Contract: resources-and-controllers 2.8, 3.8.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from runnerscale.api import labels as keys
from runnerscale.api.fingerprint import fingerprint, is_ours
from runnerscale.api.listener_word import CONTROLLER_VARIABLE
from runnerscale.api.values import PodTemplate, as_body, read
from runnerscale.controllers.autoscaling_listener import config_secret, identity, proxy_secret
from runnerscale.controllers.autoscaling_listener.snapshot import Child, Ended, Snapshot
from runnerscale.controllers.autoscaling_listener.template import CONTAINER, merged
from runnerscale.core.clock import parse_time
from runnerscale.core.whole_number import whole_number
from runnerscale.kube.builtin import Pod
from runnerscale.kube.objects import Body
from runnerscale.kube.patching import controller_reference

CONFIG_FOLDER = "/etc/gha-listener"
# What Pod Security "restricted" asks for. In the container, not in the pod: a sidecar of the
# user's may need more, and has not asked for this. The listener writes no files.
RESTRICTED: Mapping[str, Any] = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
GRACE_S = 60  # a message in work is finished, then the session is given back
PORT_MAX = 65535

# What a listener of ours takes up while it runs; see `listener/config.py`.
RELOADED = frozenset(
    {
        "github_app_id",
        "github_app_installation_id",
        "github_app_private_key",
        "github_token",
        "vault_lookup_key",
        "max_runners",
        "min_runners",
        "runner_scale_set_name",
        "log_level",
    }
)


class PodError(Exception):
    """No pod can be made from these settings; one sentence."""


def desired(seen: Snapshot, *, integrity: str) -> Body:
    """The pod to create.

    Raises:
        PodError: the metrics address has no port.
    """
    template = _template(seen)
    pod = _bare(seen)
    memory = _memory(seen)
    account = {keys.LISTENER_ACCOUNT_UID: _account_uid(seen)}
    pod["metadata"]["annotations"] = {keys.INTEGRITY_HASH: integrity, **memory, **account}
    pod = merged(pod, template) if template is not None else pod
    if reloads(seen, pod):  # no part of its identity: a listener without it works as well
        listener = pod["spec"]["containers"][0]
        known = {"name": CONTROLLER_VARIABLE, "value": "runnerscale"}
        pod["spec"]["containers"][0] = {**listener, "env": [*listener["env"], known]}
    return pod


def integrity(seen: Snapshot) -> str | None:
    """The fingerprint of the pod as it should be; None: its configuration is not known.

    Raises:
        PodError: as `desired`.
    """
    content, _ = config_secret.rendered(seen)
    content = content or config_secret.stored(seen)
    if content is None:
        return None
    template = _template(seen)
    pod = _bare(seen)
    if template is not None:
        pod = merged(pod, template)
    file = msgspec.json.decode(content)
    identity_of_pod: dict[str, Any] = {
        "spec": pod["spec"],
        "template": read_metadata(template),
        "proxy": _proxy_values(seen),
        # As text: an empty list of labels is not the same as no series at all.
        "config": _text({key: value for key, value in file.items() if key not in RELOADED}),
    }
    if not reloads(seen, pod):
        identity_of_pod["config"] = _text(file)
        identity_of_pod["rules"] = identity.rules(seen)
        identity_of_pod["labels"] = seen.listener.metadata.labels
    return fingerprint(identity_of_pod)


def is_other(seen: Snapshot, pod: Pod, wished: str) -> bool:
    """Whether this pod must be replaced."""
    stamp = (pod.metadata.annotations or {}).get(keys.INTEGRITY_HASH, "")
    if is_ours(stamp):
        return stamp != wished
    # Made by ARC: what can be seen decides. Anything else it will learn at its next restart.
    image = next((c.image for c in _containers(pod) if c.name == CONTAINER), None)
    wished_image: str = desired(seen, integrity="")["spec"]["containers"][0]["image"]
    return image != wished_image


def has_lost_its_account(seen: Snapshot, pod: Pod) -> bool:
    """Whether its ServiceAccount was deleted and made again since.

    The name is the same, the account is not: every call with the pod's token ends as 401, until
    a kubelet renews it in an hour or so.
    """
    account = seen.child(Child.SERVICE_ACCOUNT)
    if account is None:
        return False
    uid = (pod.metadata.annotations or {}).get(keys.LISTENER_ACCOUNT_UID)
    if uid is not None:
        return uid != account.metadata.uid
    # A pod of ARC's, or of an earlier version of ours: the times tell, in whole seconds.
    born, made = account.metadata.creation_timestamp, pod.metadata.creation_timestamp
    return bool(born and made) and parse_time(born or "") > parse_time(made or "")


def _account_uid(seen: Snapshot) -> str:
    account = seen.child(Child.SERVICE_ACCOUNT)
    return (account.metadata.uid or "") if account is not None else ""


def reloads(seen: Snapshot, pod: Mapping[str, Any]) -> bool:
    """Whether the listener in this pod takes up a changed configuration by itself."""
    return bool(pod["spec"]["containers"][0]["image"] == seen.settings.image)


def read_metadata(template: Mapping[str, Any] | None) -> Any:
    """What of the template lands in the pod's metadata."""
    metadata = (template or {}).get("metadata") or {}
    return {key: metadata.get(key) for key in ("labels", "annotations")}


def _bare(seen: Snapshot) -> Body:
    spec = seen.listener.spec
    container: Body = {
        "name": CONTAINER,
        "image": spec.image,
        "command": [seen.settings.entrypoint],
        "env": _env(seen),
        "volumeMounts": [{"name": "listener-config", "mountPath": CONFIG_FOLDER, "readOnly": True}],
    }
    if seen.settings.metrics_addr:
        port = metrics_port(seen.settings.metrics_addr)
        container["ports"] = [{"name": "metrics", "protocol": "TCP", "containerPort": port}]
    if seen.settings.restricted:
        container["securityContext"] = dict(RESTRICTED)
    if seen.settings.resources:
        container["resources"] = dict(seen.settings.resources)
    volume = {
        "name": "listener-config",
        "secret": {"secretName": seen.child_name(Child.CONFIG_SECRET)},
    }
    pod_spec: Body = {
        "serviceAccountName": seen.child_name(Child.SERVICE_ACCOUNT),
        "nodeSelector": {keys.NODE_OS: "linux"},
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "containers": [container],
        "volumes": [volume],
    }
    if spec.image_pull_secrets:
        pod_spec["imagePullSecrets"] = [as_body(secret) for secret in spec.image_pull_secrets]
    return {
        "metadata": {
            "name": seen.name,
            "namespace": seen.namespace,
            "labels": dict(seen.listener.metadata.labels or {}),
            "annotations": {},
            "ownerReferences": [controller_reference(seen.reference)],
        },
        "spec": pod_spec,
    }


def _env(seen: Snapshot) -> list[Body]:
    env: list[Body] = [{"name": "LISTENER_CONFIG_PATH", "value": f"{CONFIG_FOLDER}/config.json"}]
    proxy = seen.listener.spec.proxy
    configured = (
        (proxy_secret.HTTP, proxy and proxy.http),
        (proxy_secret.HTTPS, proxy and proxy.https),
        (proxy_secret.NO_PROXY, proxy and proxy.no_proxy),
    )
    name = seen.child_name(Child.PROXY_SECRET)
    for key, part in configured:
        if part:
            source = {"secretKeyRef": {"name": name, "key": key}}
            env.append({"name": key, "valueFrom": source})
    return env


def metrics_port(address: str) -> int:
    """The port of `host:port` or `:port`.

    Raises:
        PodError: there is none.
    """
    _, colon, text = address.rpartition(":")
    port = whole_number(text) or 0
    if not colon or not 0 < port <= PORT_MAX:
        raise PodError(
            f'the controller\'s --listener-metrics-addr "{address}" has no port; '
            "use :8080, or 0 for no metrics"
        )
    return port


def _template(seen: Snapshot) -> dict[str, Any] | None:
    template: PodTemplate | None = seen.listener.spec.template
    if template is None:
        return None
    return {"metadata": read(template.metadata), "spec": read(template.spec)}


def _memory(seen: Snapshot) -> dict[str, str]:
    status = seen.listener.status
    # The pod before may have gone in an earlier pass: then the status remembers.
    ended = seen.ended or Ended(status.restarts, status.last_termination)
    if not ended.termination:
        return {}
    return {
        keys.LISTENER_RESTARTS: str(ended.restarts),
        keys.LISTENER_LAST_TERMINATION: ended.termination,
    }


def _proxy_values(seen: Snapshot) -> dict[str, str] | None:
    if seen.listener.spec.proxy is None:
        return None
    data = proxy_secret.stored(seen)
    if data is None:
        return None
    return {key: value.decode(errors="replace") for key, value in data.items()}


def _text(content: Mapping[str, Any]) -> str:
    return msgspec.json.encode(content, order="sorted").decode()


def _containers(pod: Pod) -> list[Any]:
    return list(pod.spec.containers) if pod.spec else []
