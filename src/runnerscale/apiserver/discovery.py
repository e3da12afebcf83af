"""What is served: /api, /apis, their groups, and the aggregated form that kubectl prefers."""

import base64
import hashlib
from typing import Any

from runnerscale.apiserver.kinds import Kind, Registry

Json = dict[str, Any]

AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# The version that is said to clients: the Kubernetes API that is imitated.
VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.0+runnerscale",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "cpython",
    "platform": "any/any",
}

CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
# Subresources: (kind of its body, group, version, verbs).
_SUBRESOURCES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "status": ("", "", "", ("get", "patch", "update")),
    "log": ("", "", "", ("get",)),
    "binding": ("Binding", "", "v1", ("create",)),
    "eviction": ("Eviction", "policy", "v1", ("create",)),
    "token": ("TokenRequest", "authentication.k8s.io", "v1", ("create",)),
    "finalize": ("", "", "", ("update",)),
}


def core_versions(address: str) -> Json:
    """/api."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(registry: Registry) -> Json:
    """/apis."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            _group(name, versions) for name, versions in sorted(registry.groups().items()) if name
        ],
    }


def _group(name: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def group(registry: Registry, name: str) -> Json | None:
    """/apis/GROUP."""
    versions = registry.groups().get(name)
    if not name or versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(registry: Registry, name: str, version: str) -> Json | None:
    """/api/v1 and /apis/GROUP/VERSION."""
    kinds = registry.of_version(name, version)
    if not kinds:
        return None
    resources: list[Json] = []
    for kind in sorted(kinds, key=lambda k: k.plural):
        entry: Json = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": _verbs(kind),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        if "get" in kind.verbs:
            entry["storageVersionHash"] = _storage_version_hash(kind)
        resources.append(entry)
        resources += [_subresource(kind, sub) for sub in sorted(kind.subresources)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{version}" if name else version,
        "resources": resources,
    }


def _verbs(kind: Kind) -> list[str]:
    """Kinds of CRDs list them in an order of their own."""
    return [v for v in CUSTOM_VERBS if v in kind.verbs] if kind.custom else list(kind.verbs)


def _storage_version_hash(kind: Kind) -> str:
    """What clients compare to see that objects are stored in another form than before."""
    digest = hashlib.sha256(f"{kind.api_version}/{kind.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _subresource(kind: Kind, name: str) -> Json:
    body, body_group, body_version, verbs = _SUBRESOURCES[name]
    entry: Json = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": body or kind.kind,
        "verbs": list(verbs),
    }
    if body and (body_group, body_version) != (kind.group, kind.version):
        entry["group"], entry["version"] = body_group, body_version
    return entry


def aggregated(registry: Registry, *, core: bool) -> Json:
    """/api (core) or /apis in one document with all resources."""
    items = []
    for name, versions in sorted(registry.groups().items()):
        if bool(name) == core:
            continue
        items.append(
            {
                "metadata": {"name": name, "creationTimestamp": None} if name else {},
                "versions": [
                    {
                        "version": version,
                        "freshness": "Current",
                        "resources": [
                            _aggregated_resource(kind)
                            for kind in sorted(
                                registry.of_version(name, version), key=lambda k: k.plural
                            )
                        ],
                    }
                    for version in versions
                ],
            }
        )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(kind: Kind) -> Json:
    entry: Json = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    subresources = []
    for name in sorted(kind.subresources):
        body, body_group, body_version, verbs = _SUBRESOURCES[name]
        response = (
            {"group": body_group, "version": body_version, "kind": body}
            if body
            else {"group": kind.group, "version": kind.version, "kind": kind.kind}
        )
        subresources.append({"subresource": name, "responseKind": response, "verbs": list(verbs)})
    if subresources:
        entry["subresources"] = subresources
    return entry
