"""CustomResourceDefinition objects: are they acceptable, and which kinds do they define?

Pure. Serving and dropping the kinds as CRDs come and go is `custom_kinds.py`.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from runnerscale.apiserver import formats
from runnerscale.apiserver.crd_schema import build_schema
from runnerscale.apiserver.failures import FieldError, not_allowed, required, unsupported, wrong
from runnerscale.apiserver.kinds import ALL_VERBS, Column, Kind

Json = dict[str, Any]

DEFINITIONS_KEPT = 32  # each a few hundred kilobytes
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


@dataclass(slots=True)
class Definition:
    """What a CRD's spec means."""

    kinds: list[Kind] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)


def default_crd(obj: Json) -> None:
    """Fill in the names that Kubernetes derives, in place."""
    spec = obj.setdefault("spec", {})
    if not isinstance(spec, dict):
        return
    names = spec.setdefault("names", {})
    if isinstance(names, dict) and names.get("kind"):
        names.setdefault("singular", str(names["kind"]).lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def read_crd(obj: Json) -> Definition:
    """The kinds of a CRD, or what is wrong with it."""
    # Asked when it is judged, when it is stored and at each start: the schema is built once.
    told = {"metadata": {"name": obj["metadata"].get("name")}, "spec": obj.get("spec")}
    known = _read(msgspec.json.encode(told))
    return Definition(list(known.kinds), list(known.errors))


@lru_cache(maxsize=DEFINITIONS_KEPT)
def _read(told: bytes) -> Definition:
    """What `read_crd` says of that much of a CRD; nobody changes a kind or a schema once built."""
    obj = msgspec.json.decode(told)
    found = Definition()
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        found.errors.append(required("spec"))
        return found
    _check_names(obj, spec, found)
    versions = spec.get("versions")
    if not isinstance(versions, list) or not versions:
        found.errors.append(required("spec.versions", "must have at least one version"))
        return found
    _check_versions(versions, found)
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        text = "this server converts nothing: only None is supported"
        found.errors.append(not_allowed("spec.conversion.strategy", text))
    for place, version in enumerate(versions):
        where = f"spec.versions[{place}]"
        kind = _read_version(obj, spec, version, where, found, single=len(versions) == 1)
        if kind is not None and version.get("served"):
            found.kinds.append(kind)
    return found


def _check_names(obj: Json, spec: Json, found: Definition) -> None:
    errors = found.errors
    names = spec.get("names") or {}
    group = spec.get("group") or ""
    if not group:
        errors.append(required("spec.group"))
    elif formats.dns_subdomain(group):
        errors += [wrong("spec.group", group, text) for text in formats.dns_subdomain(group)]
    elif "." not in group:
        errors.append(wrong("spec.group", group, "should be a domain with at least one dot"))
    for name in ("plural", "singular"):
        value = names.get(name) or ""
        if not value:
            errors.append(required(f"spec.names.{name}"))
        else:
            texts = formats.dns1035_label(value)
            errors += [wrong(f"spec.names.{name}", value, text) for text in texts]
    for name in ("kind", "listKind"):
        if not names.get(name):
            errors.append(required(f"spec.names.{name}"))
    wanted = f"{names.get('plural')}.{group}"
    name = obj["metadata"].get("name")
    if names.get("plural") and group and name != wanted:
        errors.append(wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        if not spec.get("scope"):
            errors.append(required("spec.scope"))
        else:
            errors.append(unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))


def _check_versions(versions: list[Json], found: Definition) -> None:
    names = [v.get("name") for v in versions]
    if len(set(map(str, names))) != len(names):
        text = "must contain unique version names"
        found.errors.append(wrong("spec.versions", names, text))
    if sum(bool(v.get("served")) for v in versions) > 1:
        text = "this server serves one version of a kind: it converts nothing"
        found.errors.append(wrong("spec.versions", names, text))
    if sum(bool(v.get("storage")) for v in versions) != 1:
        text = "must have exactly one version marked as storage version"
        found.errors.append(wrong("spec.versions", names, text))


def _read_version(
    obj: Json, spec: Json, version: Json, path: str, found: Definition, *, single: bool
) -> Kind | None:
    raw = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(raw, dict):
        where = f"{path}.schema.openAPIV3Schema"
        found.errors.append(required(where, "schemas are required"))
        return None
    # Kubernetes names the schema of the only version by its older place.
    where = "spec.validation.openAPIV3Schema" if single else f"{path}.schema.openAPIV3Schema"
    schema, errors = build_schema(raw, where)
    found.errors += errors
    columns, column_errors = _read_columns(version, path)
    found.errors += column_errors
    if found.errors:
        return None
    names = spec["names"]
    subresources = version.get("subresources") or {}
    selectable = {
        entry["jsonPath"].lstrip("."): entry["jsonPath"].lstrip(".")
        for entry in version.get("selectableFields") or ()
    }
    return Kind(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or "",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=ALL_VERBS,
        subresources=tuple(name for name in ("status",) if name in subresources),
        schema=schema,
        columns=columns,
        selectable=selectable,
        generation=True,
        unconditional_update=False,
        crd_name=obj["metadata"]["name"],
    )


def _read_columns(version: Json, path: str) -> tuple[tuple[Column, ...], list[FieldError]]:
    errors: list[FieldError] = []
    columns = []
    for place, raw in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}.additionalPrinterColumns[{place}]"
        for name in ("name", "type", "jsonPath"):
            if not raw.get(name):
                errors.append(required(f"{where}.{name}"))
        if raw.get("type") and raw["type"] not in _COLUMN_TYPES:
            errors.append(
                wrong(f"{where}.type", raw["type"], f"must be one of {','.join(_COLUMN_TYPES)}")
            )
        columns.append(
            Column(
                name=raw.get("name") or "",
                type=raw.get("type") or "",
                json_path=raw.get("jsonPath") or "",
                description=raw.get("description") or _DESCRIPTION + str(raw.get("jsonPath")),
                priority=raw.get("priority") or 0,
                format=raw.get("format") or "",
            )
        )
    return tuple(columns), errors


_DESCRIPTION = "Custom resource definition column (in JSONPath format): "
_COLUMN_TYPES = ("integer", "number", "string", "boolean", "date")


def accepted_status(obj: Json, now: str) -> Json:
    """The status of a CRD whose kinds are served."""
    spec = obj["spec"]
    conditions = [
        {
            "type": kind,
            "status": "True",
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    storage = [v["name"] for v in spec["versions"] if v.get("storage")]
    return {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": storage}
