"""/openapi/v3: one document a group and version, for `kubectl apply` and `kubectl explain`.

kubectl reads from it which kinds exist, whether the server checks fields itself
(`fieldValidation`), and how lists merge. Built from the type table and the CRDs; descriptions
exist only where a CRD brings them.
"""

import hashlib
from typing import Any

import msgspec

from runnerscale.apiserver.builtin_types import SCALARS, FieldType, types
from runnerscale.apiserver.kinds import Kind, Registry

Json = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SHARED = ("ObjectMeta", "OwnerReference", "ManagedFieldsEntry", "LabelSelector")
_SCALAR_SCHEMAS: dict[str, Json] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "boolean": {"type": "boolean"},
    "number": {"type": "number"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "int-or-string": {
        "oneOf": [{"type": "integer"}, {"type": "string"}],
        "format": "int-or-string",
    },
    "time": {"type": "string", "format": "date-time"},
    "micro-time": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "object": {"type": "object"},
    "any": {},
}


class OpenApi:
    """The documents, made when asked for and kept until the kinds change."""

    def __init__(self, registry: Registry) -> None:
        """Nothing is built yet."""
        self._registry = registry
        self._revision = -1
        self._documents: dict[str, bytes] = {}

    def index(self) -> bytes:
        """/openapi/v3: where the documents are, each with a hash of its content."""
        paths = {}
        for group, versions in self._registry.groups().items():
            for version in versions:
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                data = self.document(path)
                digest = hashlib.sha256(data or b"").hexdigest()[:32].upper()
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return msgspec.json.encode({"paths": paths})

    def document(self, path: str) -> bytes | None:
        """The document of `api/v1` or `apis/GROUP/VERSION`."""
        if self._revision != self._registry.revision:
            self._revision = self._registry.revision
            self._documents = {}
        known = self._documents.get(path)
        if known is not None:
            return known
        parts = path.strip("/").split("/")
        if len(parts) == 2 and parts[0] == "api":
            group, version = "", parts[1]
        elif len(parts) == 3 and parts[0] == "apis":
            group, version = parts[1], parts[2]
        else:
            return None
        kinds = self._registry.of_version(group, version)
        if not kinds:
            return None
        data = msgspec.json.encode(_document(kinds))
        self._documents[path] = data
        return data


def _document(kinds: list[Kind]) -> Json:
    schemas: dict[str, Json] = {}
    paths: dict[str, Json] = {}
    for kind in kinds:
        name = schema_name(kind)
        schemas[name] = _custom_schema(kind) if kind.custom else _type_schema(kind.type_name, kind)
        schemas[name]["x-kubernetes-group-version-kind"] = [_gvk(kind)]
        if "list" in kind.verbs:
            schemas[f"{name}List"] = _list_schema(kind, name)
        _needed(schemas[name], schemas)
        paths |= _paths(kind, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "runnerscale"},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _gvk(kind: Kind, suffix: str = "") -> Json:
    return {"group": kind.group, "kind": kind.kind + suffix, "version": kind.version}


def schema_name(kind: Kind) -> str:
    """The name of a kind's schema."""
    if kind.custom:
        return f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"
    return _type_name(kind.type_name)


def _type_name(name: str) -> str:
    return f"{_META}.{name}" if name in _SHARED else f"io.k8s.api.v1.{name}"


def _type_schema(name: str, kind: Kind | None = None) -> Json:
    fields = types()[name]
    schema: Json = {
        "type": "object",
        "properties": {field: _field_schema(wanted) for field, wanted in fields.items()},
    }
    needed = [field for field, wanted in fields.items() if wanted.required]
    if needed:
        schema["required"] = needed
    if kind is not None:
        schema["description"] = f"{kind.kind} of {kind.api_version}."
    return schema


def _field_schema(wanted: FieldType) -> Json:
    if wanted.items is not None:
        schema: Json = {"type": "array", "items": _field_schema(wanted.items)}
        if wanted.merge:
            schema["x-kubernetes-patch-strategy"] = "merge"
            if wanted.retain_keys:
                schema["x-kubernetes-patch-strategy"] = "merge,retainKeys"
        if wanted.merge_key:
            schema["x-kubernetes-patch-merge-key"] = wanted.merge_key
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = list(wanted.unique or (wanted.merge_key,))
        elif wanted.merge:
            schema["x-kubernetes-list-type"] = "set"
        return schema
    if wanted.values is not None:
        return {"type": "object", "additionalProperties": _field_schema(wanted.values)}
    if wanted.type in SCALARS:
        return dict(_SCALAR_SCHEMAS[wanted.type])
    return {"allOf": [{"$ref": f"#/components/schemas/{_type_name(wanted.type)}"}], "default": {}}


def _needed(schema: Any, schemas: dict[str, Json]) -> None:
    """Add every type that a schema refers to."""
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            name = reference.rsplit("/", 1)[1]
            if name not in schemas:
                schemas[name] = _type_schema(name.rsplit(".", 1)[1])
                _needed(schemas[name], schemas)
        for value in schema.values():
            _needed(value, schemas)
    elif isinstance(schema, list):
        for value in schema:
            _needed(value, schemas)


def _custom_schema(kind: Kind) -> Json:
    assert kind.schema is not None
    schema: Json = dict(kind.schema.raw)
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **(schema.get("properties") or {}),
        "metadata": {
            "allOf": [{"$ref": f"#/components/schemas/{_META}.ObjectMeta"}],
            "description": "Standard object's metadata.",
        },
    }
    return schema


def _list_schema(kind: Kind, name: str) -> Json:
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}},
        },
        "x-kubernetes-group-version-kind": [
            {"group": kind.group, "kind": kind.list_kind, "version": kind.version}
        ],
    }


def _query(name: str) -> Json:
    return {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}


_WRITE_QUERY = [_query("dryRun"), _query("fieldManager"), _query("fieldValidation")]


def _paths(kind: Kind, name: str) -> dict[str, Json]:
    prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    where = f"{prefix}/namespaces/{{namespace}}" if kind.namespaced else prefix
    reference = {"$ref": f"#/components/schemas/{name}"}
    content = {"application/json": {"schema": reference}}

    def operation(action: str, *, body: bool) -> Json:
        found: Json = {
            "responses": {"200": {"description": "OK", "content": content}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(kind),
        }
        if body:
            found["parameters"] = _WRITE_QUERY
            found["requestBody"] = {"content": {"*/*": {"schema": reference}}}
        return found

    collection: Json = {"post": operation("post", body=True)}
    paths = {f"{where}/{kind.plural}": collection}
    if "get" not in kind.verbs:
        return paths
    collection["get"] = operation("list", body=False)
    patch = operation("patch", body=True)
    patch_types = ["application/json-patch+json", "application/merge-patch+json"]
    if not kind.custom:
        patch_types.append("application/strategic-merge-patch+json")
    patch["requestBody"] = {"content": {t: {"schema": {"type": "object"}} for t in patch_types}}
    paths[f"{where}/{kind.plural}/{{name}}"] = {
        "get": operation("get", body=False),
        "put": operation("put", body=True),
        "patch": patch,
        "delete": operation("delete", body=False),
    }
    return paths
