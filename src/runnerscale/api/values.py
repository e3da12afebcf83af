"""Types that more than one of the four kinds contains, and how a field is documented.

Slim structs as in `kube.objects`: strings and numbers default to their zero, because the
API drops zeros on write and absence means zero. Pod templates stay raw JSON (`msgspec.Raw`),
empty where absent: nobody here owns their schema, so no new pod field is ever lost.

Contract: resources-and-controllers 1.2.
"""

from functools import cache
from typing import Annotated, Any

import msgspec

GROUP = "actions.github.com"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

# An absent raw section. Test with `present(raw)`; never encode it.
NOTHING = msgspec.Raw(b"")


def doc(description: str, *, mandatory: bool = False, **schema: Any) -> msgspec.Meta:
    """Describe a field for the CRD; `schema`: further OpenAPI keywords.

    Neither `mandatory` nor a keyword is checked on reading: an object stored before a rule
    existed must still decode. The API server is who refuses.
    """
    return msgspec.Meta(
        description=description, extra_json_schema=schema, extra={"mandatory": mandatory}
    )


def present(raw: msgspec.Raw) -> bool:
    """Whether a raw section holds anything (absent and null are the same)."""
    return bytes(raw) not in (b"", b"null")


def read(raw: msgspec.Raw) -> dict[str, Any]:
    """A raw section as a fresh mapping; empty where it is absent or no object."""
    if not present(raw):
        return {}
    value = msgspec.json.decode(raw)
    return value if isinstance(value, dict) else {}


@cache  # one entry a kind of struct; asking msgspec each time is most of a plan's time
def fields_of(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a kind of struct, in order."""
    return msgspec.structs.fields(kind)


def as_body(value: Any) -> Any:
    """A struct as plain values for a create or patch: zeros dropped, raw sections opened.

    The only way to write a struct: encoding one directly would trip over an absent section.
    Nulls inside raw sections mean absent, and are left out, also inside lists: what a server
    makes of them differs, and a comparison with what it stored would never come to rest.
    """
    if isinstance(value, msgspec.Raw):
        return _without_nulls(msgspec.json.decode(value)) if present(value) else None
    if isinstance(value, msgspec.Struct):
        bodies = {}
        for field in fields_of(type(value)):
            item = getattr(value, field.name)
            body = None if item == field.default else as_body(item)
            # A section that is always there (a template) is absent when nothing is in it.
            always = field.default_factory is not msgspec.NODEFAULT
            if body is not None and not (always and body == {}):
                bodies[field.encode_name] = body
        return bodies
    if isinstance(value, dict):
        return {key: as_body(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_body(item) for item in value]
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


class ResourceMeta(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Labels and annotations that an administrator adds to generated objects."""

    labels: Annotated[
        dict[str, str] | None, doc("Labels; those of the controller win over them.")
    ] = None
    annotations: Annotated[
        dict[str, str] | None, doc("Annotations; those of the controller win over them.")
    ] = None


class ProxyServerConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """One proxy."""

    url: Annotated[str, doc("Where the proxy is, such as http://proxy.example.com:8080.")] = ""
    credential_secret_ref: Annotated[
        str, doc("Name of a Secret with the keys username and password.")
    ] = ""


class ProxyConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Which proxy serves which scheme, and what goes direct."""

    http: Annotated[ProxyServerConfig | None, doc("Proxy for http URLs.")] = None
    https: Annotated[ProxyServerConfig | None, doc("Proxy for https URLs.")] = None
    no_proxy: Annotated[
        list[str] | None, doc("Hosts, suffixes, addresses and networks that go direct.")
    ] = None


class ConfigMapKeyRef(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A key of a config map."""

    key: Annotated[str, doc("The key.", mandatory=True)]
    name: Annotated[str, doc("Name of the config map.", default="")] = ""
    optional: Annotated[bool | None, doc("Whether the key may be absent.")] = None


class CertificateSource(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Where extra root certificates come from."""

    config_map_key_ref: Annotated[
        ConfigMapKeyRef | None,
        doc("Key of a config map with PEM text.", **{"x-kubernetes-map-type": "atomic"}),
    ] = None


class TLSConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """How GitHub's server certificate is checked."""

    certificate_from: Annotated[
        CertificateSource | None, doc("Where extra root certificates come from.")
    ] = None


class AzureKeyVaultConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Where the vault is and who we are there."""

    url: Annotated[str, doc("URL of the vault.", mandatory=True)]
    tenant_id: Annotated[str, doc("Tenant of the application.", mandatory=True)]
    client_id: Annotated[str, doc("The application that reads the vault.", mandatory=True)]
    certificate_path: Annotated[
        str,
        doc(
            "Path of its certificate in the containers of controller and listener.", mandatory=True
        ),
    ]


class VaultConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Credentials come from a vault instead of a Kubernetes Secret."""

    type: Annotated[str, doc("Kind of vault: azure_key_vault.")] = ""
    azure_key_vault: Annotated[AzureKeyVaultConfig | None, doc("Which Azure Key Vault.")] = None
    proxy: Annotated[ProxyConfig | None, doc("Proxies on the way to the vault.")] = None


class SeriesConfig(msgspec.Struct, rename="camel", gc=False):
    """Which labels a counter or gauge has."""

    labels: Annotated[list[str], doc("Names of the labels.", mandatory=True)]


class HistogramConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Which labels and buckets a histogram has."""

    labels: Annotated[list[str], doc("Names of the labels.", mandatory=True)]
    buckets: Annotated[list[float] | None, doc("Upper bounds of the buckets, in seconds.")] = None


class MetricsConfig(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Which listener metrics are published, with which labels and buckets."""

    counters: Annotated[dict[str, SeriesConfig] | None, doc("Counters by name.")] = None
    gauges: Annotated[dict[str, SeriesConfig] | None, doc("Gauges by name.")] = None
    histograms: Annotated[dict[str, HistogramConfig] | None, doc("Histograms by name.")] = None


class LocalObjectReference(msgspec.Struct, rename="camel", gc=False):
    """A named object in the same namespace."""

    name: Annotated[str, doc("Its name.", default="")] = ""


# Open schemas of the two halves of a pod template: whatever a newer API server understands
# in a pod spec passes through, but a spec without containers is refused as it always was.
POD_METADATA_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
POD_SPEC_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["containers"],
    "properties": {
        "containers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}},
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
    },
    "x-kubernetes-preserve-unknown-fields": True,
}


# The standard Condition of Kubernetes, one for each type.
CONDITIONS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
            "message": {"type": "string", "maxLength": 32768},
        },
    },
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}
CONDITIONS = doc("Verdicts, one for each type.", **CONDITIONS_SCHEMA)


class PodTemplate(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A pod template; both halves stay raw JSON."""

    metadata: Annotated[
        msgspec.Raw, doc("Labels and annotations of the pod.", **POD_METADATA_SCHEMA)
    ] = NOTHING
    spec: Annotated[msgspec.Raw, doc("Spec of the pod.", **POD_SPEC_SCHEMA)] = NOTHING
