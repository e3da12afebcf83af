"""The parts of Kubernetes objects that every kind shares, as slim structs.

Slim: only fields that somebody here reads. Such a struct must never be PUT (it would erase
what it does not know): writes are merge patches built as plain mappings. Every optional
field is `T | None`, because the API server does send `null` (a bookmark's
creationTimestamp, for one).
"""

from typing import Any

import msgspec

# What a raw field holds when the object has none. Not None: msgspec reads `Raw | None` as null
# only. An empty Raw is left out when it is written, in structs that omit defaults.
NO_RAW = msgspec.Raw(b"")


class OwnerReference(msgspec.Struct, rename="camel", omit_defaults=True, gc=False, frozen=True):
    """Who owns an object; garbage collection follows it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Metadata of any object. Times are RFC 3339 text, as they travel."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class Condition(msgspec.Struct, rename="camel", gc=False):
    """The standard condition: a list map by `type` in `status.conditions`."""

    type: str
    status: str = "Unknown"  # "True", "False" or "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


class KubeObject(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Base of every kind: `apiVersion`, `kind`, `metadata`."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class AnyObject(KubeObject, gc=False):
    """An object of any kind with the well-known sections kept as raw JSON."""

    spec: msgspec.Raw = NO_RAW
    status: msgspec.Raw = NO_RAW
    data: msgspec.Raw = NO_RAW


class ObjectReference(msgspec.Struct, frozen=True):
    """Which object, in full: what Events and owner references are made from."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-wide objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def reference_to(item: KubeObject) -> ObjectReference:
    """The reference to an object read through the client (its kind is filled in there)."""
    meta = item.metadata
    return ObjectReference(
        item.api_version, item.kind, meta.namespace or "", meta.name or "", meta.uid or ""
    )


def key_of(item: KubeObject) -> str:
    """The work-queue and cache key: `namespace/name`, or `name` for cluster-wide objects."""
    meta = item.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name or "")


def split_key(key: str) -> tuple[str, str]:
    """`(namespace, name)` of a key; the namespace is empty for cluster-wide objects."""
    namespace, slash, name = key.rpartition("/")
    return (namespace, name) if slash else ("", key)


def controller_of(item: KubeObject) -> OwnerReference | None:
    """The owner that controls this object, if any."""
    for owner in item.metadata.owner_references or ():
        if owner.controller:
            return owner
    return None


def is_deleting(item: KubeObject) -> bool:
    """Somebody asked for its deletion; finalizers may still hold it."""
    return bool(item.metadata.deletion_timestamp)


# A mapping that becomes the JSON body of a create or a patch.
Body = dict[str, Any]
