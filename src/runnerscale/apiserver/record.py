"""One stored object: its bytes, and the few facts that are asked without decoding them."""

from typing import Any

import msgspec

Json = dict[str, Any]
Key = tuple[str, str, str]  # resource, namespace, name

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode


def encode_json(value: Any) -> bytes:
    """Compact JSON."""
    return _encode(value)


def decode_object(data: bytes) -> Json:
    """A fresh dict of stored bytes: whoever gets it may change it."""
    return _decode(data)


class Record:
    """An object as it is stored. Never changed: a write makes a new one."""

    __slots__ = (
        "created",
        "data",
        "deleting",
        "fields",
        "finalizers",
        "key",
        "labels",
        "owners",
        "uid",
        "version",
    )

    def __init__(self, key: Key, version: int, obj: Json, selectable: dict[str, str]) -> None:
        """Encode `obj`, whose metadata.resourceVersion is set to `version`.

        `selectable`: which fields selectors may ask for, and where they are.
        """
        meta = obj["metadata"]
        meta["resourceVersion"] = str(version)
        self.key = key
        self.version = version
        head = {"kind": obj.get("kind"), "apiVersion": obj.get("apiVersion")}
        self.data = encode_json({**head, **obj})  # in this order: lists cut it off
        self._index(obj, selectable)

    @classmethod
    def stored(cls, key: Key, version: int, data: bytes, selectable: dict[str, str]) -> "Record":
        """A record read back from disk."""
        record = cls.__new__(cls)
        record.key = key
        record.version = version
        record.data = data
        record._index(decode_object(data), selectable)
        return record

    def _index(self, obj: Json, selectable: dict[str, str]) -> None:
        meta = obj["metadata"]
        self.uid: str = meta.get("uid", "")
        self.labels: dict[str, str] = meta.get("labels") or {}
        self.created: str = meta.get("creationTimestamp") or ""
        self.deleting: bool = bool(meta.get("deletionTimestamp"))
        self.finalizers: tuple[str, ...] = tuple(meta.get("finalizers") or ())
        self.owners: tuple[str, ...] = tuple(
            owner.get("uid", "") for owner in meta.get("ownerReferences") or ()
        )
        self.fields: dict[str, str] = {
            name: field_text(obj, path) for name, path in selectable.items()
        }

    @property
    def namespace(self) -> str:
        """Empty for cluster-wide objects."""
        return self.key[1]

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.key[2]

    def object(self) -> Json:
        """A fresh dict."""
        return _decode(self.data)

    def data_at(self, version: int) -> bytes:
        """The same object carrying another version: what a deletion event shows."""
        obj = _decode(self.data)
        obj["metadata"]["resourceVersion"] = str(version)
        return _encode(obj)


def field_text(obj: Json, path: str) -> str:
    """The value at a dotted path as a field selector sees it; empty when absent."""
    value: Any = obj
    for part in path.split("."):
        if not isinstance(value, dict):
            return ""
        value = value.get(part)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
