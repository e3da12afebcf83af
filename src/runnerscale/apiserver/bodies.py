"""From the bytes of a request to an object of a kind: decoding, unknown fields, pruning.

What the object means is `operations.py`; this file only makes sure that it has the shape of
its kind, and tells what was dropped (`fieldValidation`).
"""

from typing import Any

import msgspec

from runnerscale.apiserver.builtin_types import WrongType, read_object
from runnerscale.apiserver.failures import (
    ApiFailure,
    bad_request,
    invalid,
    quoted,
    unsupported_media_type,
    wrong,
)
from runnerscale.apiserver.go_json import syntax_error, type_name
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.plain_values import check_depth, plain_value, well_shaped
from runnerscale.apiserver.protobuf import CONTENT_TYPE, decode_protobuf
from runnerscale.apiserver.schema import apply_defaults, prune
from runnerscale.kube.yaml_text import NotYaml, load_yaml

Json = dict[str, Any]

YAML_TYPES = ("application/yaml", "text/yaml", "application/x-yaml")
UNKNOWN_KIND = "couldn't get version/kind; json parse error"
SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'  # Kubernetes' own name for its list of kinds
SUMMARY_BYTES_MAX = 30
ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def decode_body(body: bytes, content_type: str, kind: Kind | None = None) -> Json:
    """The object in a body; `kind`: what it should be one of.

    Raises:
        ApiFailure: 400 unreadable, 415 of a type that is not understood.
    """
    try:
        value = decode_any(body, content_type)
    except ApiFailure as failure:
        if kind is None or not failure.message.startswith(UNKNOWN_KIND):
            raise
        raise _unrecognized(kind, failure.message, body) from None
    if not isinstance(value, dict):
        why = (
            f"{UNKNOWN_KIND}: json: cannot unmarshal {type_name(value)} into Go value of type"
            ' struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string'
            ' "json:\\"kind,omitempty\\"" }'
        )
        raise bad_request(why) if kind is None else _unrecognized(kind, why, body)
    return value


def _unrecognized(kind: Kind, why: str, body: bytes) -> ApiFailure:
    what = f"the object provided is unrecognized (must be of type {kind.kind})"
    return bad_request(f"{what}: {why} ({_summary(body)})")


def _summary(body: bytes) -> str:
    """How a body is repeated in a message."""
    if not body:
        return "<empty>"
    start = body[:SUMMARY_BYTES_MAX]
    text = start.decode("utf-8", errors="replace") if start.startswith(b"{") else start.hex()
    return text if len(body) <= SUMMARY_BYTES_MAX else f"{text} ..."


def decode_any(body: bytes, content_type: str, what: str = UNKNOWN_KIND) -> Any:
    """Any JSON or YAML value in a body; `what` begins the sentence about an unreadable one."""
    plain = content_type.partition(";")[0].strip().lower()
    if plain == CONTENT_TYPE:
        with well_shaped("protobuf body"):
            return decode_protobuf(body)
    if plain in YAML_TYPES:
        try:
            return plain_value(load_yaml(body))
        except NotYaml as error:
            raise bad_request(f"error converting YAML to JSON: {error}") from None
    if plain and not (plain.endswith("json") or plain == "*/*"):
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include:"
            f" {ACCEPTED}"
        )
    check_depth(body)
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"{what}: {syntax_error(body) or error}") from None


def check_type_names(kind: Kind, obj: Json) -> None:
    """apiVersion and kind are those of the path.

    Raises:
        ApiFailure: 400.
    """
    if kind.custom and not obj.get("kind"):
        body = msgspec.json.encode(obj)
        raise _unrecognized(kind, f"Object 'Kind' is missing in '{body.decode()}'", body)
    found_kind = obj.setdefault("kind", kind.kind)
    found_version = obj.setdefault("apiVersion", kind.api_version)
    if kind.custom and found_kind != kind.kind:
        name = (obj.get("metadata") or {}).get("name") or ""
        error = wrong("kind", found_kind, f"must be {kind.kind}")
        raise invalid(kind.group, found_kind, name, [error])
    if found_version != kind.api_version:
        if kind.custom:
            raise bad_request(
                f"the API version in the data ({found_version}) does not match the expected API"
                f" version ({kind.api_version})"
            )
        raise bad_request(
            f"{found_kind} in version {quoted(found_version)} cannot be handled as a {kind.kind}:"
            f" {not_registered(found_kind, found_version)}"
        )
    if found_kind != kind.kind:
        raise bad_request(
            f"{found_kind} in version {quoted(kind.version)} cannot be handled as a {kind.kind}:"
            f" converting ({kind.version}.{found_kind}) to (core.{kind.kind}): unknown conversion"
        )


def not_registered(kind: Any, version: Any) -> str:
    """Nobody knows such a kind."""
    return f"no kind {quoted(str(kind))} is registered for version {quoted(str(version))} {SCHEME}"


def shape(kind: Kind, obj: Json) -> tuple[Json, list[str]]:
    """The object with known fields only, defaults of its CRD filled in; what was dropped.

    Raises:
        ApiFailure: 400, a value cannot be what its field wants.
    """
    meta = obj.get("metadata")
    if meta is None:
        obj["metadata"] = meta = {}
    if not isinstance(meta, dict):
        why = f"json: cannot unmarshal {type_name(meta)} into Go struct field {kind.kind}.metadata"
        raise bad_request(_unhandled(kind, f"{why} of type v1.ObjectMeta"))
    try:
        if kind.type_name:
            read, reading = read_object(obj, kind.type_name)
            _tidy_metadata(read.setdefault("metadata", {}))
            return read, reading.unknown
        obj["metadata"], reading = read_object(meta, "ObjectMeta")
    except WrongType as error:
        raise bad_request(_unhandled(kind, str(error))) from None
    _tidy_metadata(obj["metadata"])
    unknown = [f"metadata.{path}" for path in reading.unknown]
    if kind.schema is not None:
        unknown += prune(obj, kind.schema)
        apply_defaults(obj, kind.schema)
    return obj, unknown


def _unhandled(kind: Kind, why: str) -> str:
    return (
        f"{kind.kind} in version {quoted(kind.version)} cannot be handled as a {kind.kind}: {why}"
    )


def strict_failure(kind: Kind, unknown: list[str]) -> str:
    """The sentence for a strict request with unknown fields."""
    return _unhandled(kind, "strict decoding error: " + ", ".join(unknown_texts(unknown)))


def unknown_texts(unknown: list[str]) -> list[str]:
    """One text for each unknown field."""
    return [f'unknown field "{path}"' for path in unknown]


def _tidy_metadata(meta: Json) -> None:
    """Empty is absent, as Kubernetes writes it."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences", "managedFields"):
        if name in meta and not meta[name]:
            del meta[name]
    for name in ("generateName", "namespace", "uid", "resourceVersion", "selfLink", "name"):
        if meta.get(name) == "":
            del meta[name]
    # Who set which field is not tracked here: server-side apply is refused.
    meta.pop("managedFields", None)
    meta.pop("selfLink", None)
