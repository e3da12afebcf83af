"""Types that more than one of the four kinds contains, and how a field is documented.

Slim structs as in `kube.objects`: strings and numbers default to their zero, because the
API drops zeros on write and absence means zero. Pod templates stay raw JSON (`msgspec.Raw`),
empty where absent: nobody here owns their schema, so no new pod field is ever lost.

Contract: resources-and-controllers 1.2.
"""

from typing import Any

import msgspec

GROUP = "actions.github.com"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

# An absent raw section. Test with `present(raw)`; never encode it.
NOTHING = msgspec.Raw(b"")


def doc(description: str, **schema: Any) -> msgspec.Meta:
    """Describe a field for the CRD; `schema`: further OpenAPI keywords, not checked on reading.

    Reading stays tolerant (an object stored before a rule existed must still decode); the
    API server is who refuses.
    """
    return msgspec.Meta(description=description, extra_json_schema=schema or None)


def present(raw: msgspec.Raw) -> bool:
    """Whether a raw section holds anything (absent and null are the same)."""
    return bytes(raw) not in (b"", b"null")


def read(raw: msgspec.Raw) -> dict[str, Any]:
    """A raw section as a fresh mapping; empty where it is absent or no object."""
    if not present(raw):
        return {}
    value = msgspec.json.decode(raw)
    return value if isinstance(value, dict) else {}


def as_body(value: Any) -> Any:
    """A struct as plain values for a create or patch: zeros dropped, raw sections opened.

    The only way to write a struct: encoding one directly would trip over an absent section.
    """
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value) if present(value) else None
    if isinstance(value, msgspec.Struct):
        fields = ((f, getattr(value, f.name)) for f in msgspec.structs.fields(value))
        bodies = {f.encode_name: as_body(item) for f, item in fields if item != f.default}
        return {name: body for name, body in bodies.items() if body is not None}
    if isinstance(value, dict):
        return {key: as_body(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_body(item) for item in value]
    return value


class ResourceMeta(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Labels and annotations that an administrator adds to generated objects."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ProxyServerConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """One proxy."""

    url: str = ""
    # Name of a Secret with the keys username and password.
    credential_secret_ref: str = ""


class ProxyConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Which proxy serves which scheme, and what goes direct."""

    http: ProxyServerConfig | None = None
    https: ProxyServerConfig | None = None
    no_proxy: list[str] | None = None


class ConfigMapKeyRef(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A key of a config map."""

    key: str
    name: str = ""
    optional: bool | None = None


class CertificateSource(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Where extra root certificates come from."""

    config_map_key_ref: ConfigMapKeyRef | None = None


class TLSConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """How GitHub's server certificate is checked."""

    certificate_from: CertificateSource | None = None


class AzureKeyVaultConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Where the vault is and who we are there."""

    url: str
    tenant_id: str
    client_id: str
    certificate_path: str


class VaultConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Credentials come from a vault instead of a Kubernetes Secret."""

    type: str = ""  # only azure_key_vault is understood
    azure_key_vault: AzureKeyVaultConfig | None = None
    proxy: ProxyConfig | None = None


class CounterConfig(msgspec.Struct, rename="camel", gc=False):
    """Which labels a counter or gauge has."""

    labels: list[str]


class HistogramConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Which labels and buckets a histogram has."""

    labels: list[str]
    buckets: list[float] | None = None


class MetricsConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Which listener metrics are published, with which labels and buckets."""

    counters: dict[str, CounterConfig] | None = None
    gauges: dict[str, CounterConfig] | None = None
    histograms: dict[str, HistogramConfig] | None = None


class LocalObjectReference(msgspec.Struct, rename="camel", gc=False):
    """A named object in the same namespace."""

    name: str = ""


class PodTemplate(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A pod template; both halves stay raw JSON."""

    metadata: msgspec.Raw = NOTHING
    spec: msgspec.Raw = NOTHING
