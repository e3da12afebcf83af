"""The listener's configuration file and the Secret that it lies in.

Byte for byte what ARC writes (its listener image reads it too): key order, escapes, the final
newline. Data and metadata are written together, from what was read in this pass (W2). What
cannot be rendered leaves the last good file in place. Which changes need a new pod is
`integrity.py`; how a running listener takes up the others, `listener/config_file.py`.

Pure. Contract: resources-and-controllers 3.5, github-service-and-listener 6.
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from runnerscale.api.autoscaling_listener import AutoscalingListenerSpec
from runnerscale.api.labels import INTEGRITY_HASH
from runnerscale.api.names import hash_secret
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.api.values import MetricsConfig, ProxyServerConfig, as_body
from runnerscale.controllers.autoscaling_listener import means
from runnerscale.controllers.autoscaling_listener.snapshot import (
    Action,
    Child,
    Create,
    Patch,
    Read,
    Snapshot,
)
from runnerscale.controllers.metadata import (
    merge_annotations,
    merge_labels,
    metadata_patch,
    with_owned_keys,
)
from runnerscale.controllers.stages import Stage
from runnerscale.credentials.place import Resolved
from runnerscale.kube.builtin import Secret
from runnerscale.kube.objects import Body
from runnerscale.kube.patching import controller_reference, is_controlled_by

KEY = "config.json"
VAULT_AZURE = "azure_key_vault"
LOG_LEVELS = ("debug", "info", "warn", "error")
LOG_FORMATS = ("text", "json")

# As Go's encoder writes them: fit to stand inside HTML and JavaScript.
_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def stage(seen: Snapshot) -> Stage[Action]:
    """Read what is stored, write what should be."""
    child = Child.CONFIG_SECRET
    if child in seen.refused:
        return Stage(troubles=(seen.refused[child],))
    if seen.is_unasked(child):
        return Stage((Read(child),))
    content, wrong = rendered(seen)
    if content is None:
        return Stage(troubles=(wrong,) if wrong else ())
    return Stage(_write(seen, content))


def rendered(seen: Snapshot) -> tuple[bytes | None, Trouble | None]:
    """The file's content; or why there can be none (nothing, while credentials are asked for)."""
    wrong = invalid(seen.listener.spec)
    if wrong:
        what = f"its configuration cannot be used: {wrong}"
        return None, trouble(Reason.SPEC_INVALID, about=seen.about, happened=what)
    found = means.resolved(seen)
    if found is None:
        return None, None
    return encode(config(seen, found)), None


def stored(seen: Snapshot) -> bytes | None:
    """What the Secret holds now; None too for what no listener could read."""
    secret = seen.secret(Child.CONFIG_SECRET)
    text = (secret.data or {}).get(KEY) if secret else None
    content = base64.b64decode(text) if text else b""
    try:
        msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return content


def invalid(spec: AutoscalingListenerSpec) -> str:
    """Why no listener could use this; "" if one could. The words are the listener's own."""
    namespace, name = spec.autoscaling_runner_set_namespace, spec.ephemeral_runner_set_name
    vault = spec.vault_config.type if spec.vault_config else ""
    if not spec.github_config_url:
        return "GitHubConfigUrl is not provided"
    if not namespace or not name:
        return (
            f'EphemeralRunnerSetNamespace "{namespace}" or EphemeralRunnerSetName "{name}" '
            "is missing"
        )
    if spec.runner_scale_set_id == 0:
        return 'RunnerScaleSetId "0" is missing'
    if spec.max_runners < spec.min_runners:
        return (
            f'MinRunners "{spec.min_runners}" cannot be greater than '
            f'MaxRunners "{spec.max_runners}"'
        )
    if vault not in ("", VAULT_AZURE):
        return f'VaultType validation failed: unknown vault type: "{vault}"'
    if vault and not spec.github_config_secret:
        return f'VaultLookupKey is required when VaultType is set to "{VAULT_AZURE}"'
    if vault and not (spec.vault_config and spec.vault_config.azure_key_vault):
        return f'azureKeyVault is required when the vault type is "{VAULT_AZURE}"'
    return ""


def config(seen: Snapshot, found: Resolved) -> dict[str, Any]:
    """The file as a mapping, in the order in which its keys are written."""
    spec, settings = seen.listener.spec, seen.settings
    vault = bool(spec.vault_config and spec.vault_config.type)
    known_level = settings.log_level in LOG_LEVELS and settings.log_format in LOG_FORMATS
    head: dict[str, Any] = {
        "configure_url": spec.github_config_url,
        "vault_type": spec.vault_config.type if spec.vault_config and vault else "",
        "vault_lookup_key": spec.github_config_secret if vault else "",
    }
    return {
        **head,
        **(_azure(seen) if vault else _credentials(found)),
        "ephemeral_runner_set_namespace": spec.autoscaling_runner_set_namespace,
        "ephemeral_runner_set_name": spec.ephemeral_runner_set_name,
        "max_runners": spec.max_runners,
        "min_runners": spec.min_runners,
        "runner_scale_set_id": spec.runner_scale_set_id,
        "runner_scale_set_name": spec.autoscaling_runner_set_name,
        "server_root_ca": found.root_ca_pem,
        "log_level": settings.log_level if known_level else "debug",
        "log_format": settings.log_format if known_level else "text",
        "metrics_addr": settings.metrics_addr,
        "metrics_endpoint": settings.metrics_endpoint if settings.metrics_addr else "",
        "metrics": _metrics(spec.metrics),
    }


def encode(content: Mapping[str, Any]) -> bytes:
    """Compact JSON with Go's escapes and a final newline."""
    text = msgspec.json.encode(content).decode()
    for char, escape in _ESCAPES.items():
        text = text.replace(char, escape)
    return text.encode() + b"\n"


def _credentials(found: Resolved) -> dict[str, Any]:
    return {
        "github_app_id": found.app_id,
        "github_app_installation_id": found.app_installation_id,
        "github_app_private_key": _revealed(found.app_private_key),
        "github_token": _revealed(found.token),
    }


def _revealed(secret: Any) -> str:
    return secret.reveal() if secret is not None else ""


def _azure(seen: Snapshot) -> dict[str, Any]:
    vault = seen.listener.spec.vault_config
    azure = vault.azure_key_vault if vault else None
    if vault is None or azure is None:
        return {}
    body: dict[str, Any] = {
        "tenant_id": azure.tenant_id,
        "client_id": azure.client_id,
        "url": azure.url,
        "certificate_path": azure.certificate_path,
    }
    if vault.proxy:
        # ARC leaves it out, and its listener cannot reach such a vault (W24).
        body["proxy"] = {
            "HTTPProxy": _proxy_url(seen, vault.proxy.http),
            "HTTPSProxy": _proxy_url(seen, vault.proxy.https),
            "NoProxy": ",".join(vault.proxy.no_proxy or ()),
        }
    return {"azure_key_vault": body}


def _proxy_url(seen: Snapshot, server: ProxyServerConfig | None) -> str:
    if server is None or not server.url:
        return ""
    secret = seen.vault_proxy
    if not server.credential_secret_ref or not isinstance(secret, Secret):
        return server.url
    data = secret.data or {}
    username, password = (
        base64.b64decode(data.get(key, "")).decode(errors="replace")
        for key in ("username", "password")
    )
    return means.with_user(server.url, username, password)


def _metrics(metrics: MetricsConfig | None) -> dict[str, Any] | None:
    if metrics is None:
        return None
    return _sorted_maps(as_body(metrics))


def _sorted_maps(body: dict[str, Any]) -> dict[str, Any]:
    # Go writes maps sorted by key, and whole numbers without a fraction.
    sections = {}
    for name in ("counters", "gauges", "histograms"):
        if body.get(name):
            sections[name] = {key: _plain(body[name][key]) for key in sorted(body[name])}
    return sections


def _plain(series: dict[str, Any]) -> dict[str, Any]:
    if series.get("buckets"):
        buckets = [int(b) if float(b).is_integer() else b for b in series["buckets"]]
        return {**series, "buckets": buckets}
    return series


def _write(seen: Snapshot, content: bytes) -> tuple[Action, ...]:
    child = Child.CONFIG_SECRET
    block = seen.listener.spec.config_secret_metadata
    excluded = seen.settings.excluded_prefixes
    labels = merge_labels(block.labels if block else None, None, excluded=excluded)
    annotations = with_owned_keys(
        labels,
        merge_annotations(
            block.annotations if block else None,
            {INTEGRITY_HASH: hash_secret({KEY: content})},
        ),
    )
    owners = [controller_reference(seen.reference)]
    data = {KEY: base64.b64encode(content).decode()}
    secret = seen.secret(child)
    if secret is None:
        metadata: Body = {"name": seen.child_name(child), "namespace": seen.namespace}
        metadata |= {"labels": labels, "annotations": annotations, "ownerReferences": owners}
        return (Create(child, {"type": "Opaque", "metadata": metadata, "data": data}),)
    patch: Body = {}
    changed = metadata_patch(secret.metadata, labels=labels, annotations=annotations)
    if not is_controlled_by(secret, seen.reference):
        changed["ownerReferences"] = owners
    if changed:
        patch["metadata"] = changed
    if (secret.data or {}).get(KEY) != data[KEY]:
        patch["data"] = data
    return (Patch(child, patch),) if patch else ()
