"""Objects as tables, for `kubectl get`: columns of CRDs, and of the built-in kinds.

The server computes the cells; kubectl only prints them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from runnerscale.apiserver.json_path import find
from runnerscale.apiserver.kinds import Column, Kind
from runnerscale.apiserver.pod_columns import pod_cells
from runnerscale.core.clock import parse_time

Json = dict[str, Any]
Cells = Callable[[Json, float], list[Any]]

NAME = Column("Name", "string", "", "Name must be unique within a namespace.", 0, "name")
AGE = Column("Age", "string", "", "Time since the object was created.")


def human_duration(seconds: float) -> str:
    """As kubectl says ages: `5s`, `3m20s`, `4h`, `2d`."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    if total < 120:
        return f"{total}s"
    minutes = total // 60
    if minutes < 10:
        rest = total % 60
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = total // 3600
    if hours < 8:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        rest = hours % 24
        return f"{days}d{rest}h" if rest else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y"


def age(text: str | None, now_s: float) -> str:
    """The age of a stored time."""
    if not text:
        return "<unknown>"
    try:
        return human_duration(now_s - parse_time(text))
    except ValueError:
        return "<invalid>"


def columns_of(kind: Kind) -> tuple[Column, ...]:
    """What a table of this kind shows."""
    if kind.columns:
        return (NAME, *kind.columns)
    if kind.custom:
        return (NAME, AGE)
    if kind.resource == "events":
        return _EVENT_COLUMNS
    built_in = _BUILTIN.get(kind.resource)
    return built_in[0] if built_in else (NAME, AGE)


def cells_of(kind: Kind, obj: Json, now_s: float) -> list[Any]:
    """The cells of one row."""
    meta = obj.get("metadata") or {}
    name = meta.get("name") or ""
    if kind.columns:
        return [name, *(_cell(obj, column, now_s) for column in kind.columns)]
    if kind.resource == "events":
        return _event(obj, now_s)
    built_in = _BUILTIN.get(kind.resource)
    if built_in and not kind.custom:
        return [name, *built_in[1](obj, now_s)]
    return [name, age(meta.get("creationTimestamp"), now_s)]


def _cell(obj: Json, column: Column, now_s: float) -> Any:
    found = find(obj, column.json_path)
    if not found:
        return None
    value = found[0]
    if value is None:
        return None
    if column.type == "date":
        return age(value, now_s) if isinstance(value, str) else "<invalid>"
    if column.type == "string" and not isinstance(value, str):
        return _text(value)
    if column.type == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + " ".join(_text(v) for v in value) + "]"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{_text(v)}" for k, v in sorted(value.items())) + "]"
    return str(value)


def table(
    kind: Kind,
    objects: Sequence[Json],
    *,
    now_s: float,
    include: str = "Metadata",
    headers: bool = True,
    list_meta: Json | None = None,
) -> Json:
    """A meta.k8s.io Table. `include`: what goes into each row's `object`."""
    columns = columns_of(kind)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta or {},
        "columnDefinitions": [
            {
                "name": c.name,
                "type": c.type,
                "format": c.format,
                "description": c.description or "",
                "priority": c.priority,
            }
            for c in columns
        ]
        if headers
        else None,
        "rows": [
            {"cells": cells_of(kind, obj, now_s), "object": _row_object(obj, include)}
            for obj in objects
        ],
    }


def _row_object(obj: Json, include: str) -> Json | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return partial_metadata(obj)


def partial_metadata(obj: Json) -> Json:
    """Only the metadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata") or {},
    }


# --- built-in kinds -------------------------------------------------------------------------


def _column(name: str, *, wide: bool = False, type_: str = "string") -> Column:
    return Column(name, type_, "", priority=1 if wide else 0)


def _created(obj: Json, now_s: float) -> str:
    return age((obj.get("metadata") or {}).get("creationTimestamp"), now_s)


def _count(value: Any) -> str:
    return str(len(value or ()))


def _secret(obj: Json, now_s: float) -> list[Any]:
    return [obj.get("type", ""), len(obj.get("data") or ()), _created(obj, now_s)]


def _config_map(obj: Json, now_s: float) -> list[Any]:
    count = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [count, _created(obj, now_s)]


def _namespace(obj: Json, now_s: float) -> list[Any]:
    return [(obj.get("status") or {}).get("phase", ""), _created(obj, now_s)]


def _node(obj: Json, now_s: float) -> list[Any]:
    status, meta = obj.get("status") or {}, obj.get("metadata") or {}
    ready = "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            ready = "Ready" if condition.get("status") == "True" else "NotReady"
    if (obj.get("spec") or {}).get("unschedulable"):
        ready += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = sorted(k.removeprefix(prefix) for k in meta.get("labels") or () if k.startswith(prefix))
    info = status.get("nodeInfo") or {}
    addresses = {a.get("type"): a.get("address") for a in status.get("addresses") or ()}
    return [
        ready,
        ",".join(roles) or "<none>",
        _created(obj, now_s),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _event(obj: Json, now_s: float) -> list[Any]:
    about = obj.get("involvedObject") or {}
    series = obj.get("series") or {}
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("eventTime")
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    count = series.get("count") or obj.get("count") or 1
    source = (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
    return [
        age(last, now_s),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        source,
        str(obj.get("message", "")).strip(),
        age(first, now_s),
        count,
        (obj.get("metadata") or {}).get("name", ""),
    ]


def _lease(obj: Json, now_s: float) -> list[Any]:
    return [(obj.get("spec") or {}).get("holderIdentity", ""), _created(obj, now_s)]


def _role(obj: Json, _now_s: float) -> list[Any]:
    return [(obj.get("metadata") or {}).get("creationTimestamp")]


def _binding(obj: Json, now_s: float) -> list[Any]:
    role = obj.get("roleRef") or {}
    subjects = obj.get("subjects") or []

    def named(kind: str) -> str:
        return ", ".join(
            f"{s.get('namespace')}/{s['name']}" if kind == "ServiceAccount" else s["name"]
            for s in subjects
            if s.get("kind") == kind
        )

    return [
        f"{role.get('kind')}/{role.get('name')}",
        _created(obj, now_s),
        named("User"),
        named("Group"),
        named("ServiceAccount"),
    ]


def _crd(obj: Json, _now_s: float) -> list[Any]:
    return [(obj.get("metadata") or {}).get("creationTimestamp")]


def _quota(obj: Json, now_s: float) -> list[Any]:
    status = obj.get("status") or {}
    used = status.get("used") or {}
    hard = status.get("hard") or (obj.get("spec") or {}).get("hard") or {}
    shown = {k: f"{k}: {used.get(k, '0')}/{hard[k]}" for k in sorted(hard)}
    limits = ", ".join(v for k, v in shown.items() if k.startswith("limits."))
    requests = ", ".join(v for k, v in shown.items() if not k.startswith("limits."))
    return [requests, limits, _created(obj, now_s)]


def _claim(obj: Json, now_s: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    modes = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX"}
    shown = ",".join(modes.get(m, m) for m in status.get("accessModes") or ())
    return [
        status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", ""),
        shown,
        spec.get("storageClassName", ""),
        "<unset>",
        _created(obj, now_s),
        spec.get("volumeMode", "<unset>"),
    ]


def _priority(obj: Json, now_s: float) -> list[Any]:
    return [
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        _created(obj, now_s),
        obj.get("preemptionPolicy", ""),
    ]


def _named(*columns: Column) -> tuple[Column, ...]:
    return (NAME, *columns)


_ROLE_COLUMNS = _named(Column("Created At", "date", ""))
_BINDING_COLUMNS = _named(
    _column("Role"),
    _column("Age"),
    _column("Users", wide=True),
    _column("Groups", wide=True),
    _column("ServiceAccounts", wide=True),
)
_BUILTIN: dict[str, tuple[tuple[Column, ...], Cells]] = {
    "pods": (
        _named(
            _column("Ready"),
            _column("Status"),
            _column("Restarts"),
            _column("Age"),
            _column("IP", wide=True),
            _column("Node", wide=True),
            _column("Nominated Node", wide=True),
            _column("Readiness Gates", wide=True),
        ),
        lambda obj, now_s: pod_cells(obj, _created(obj, now_s)),
    ),
    "secrets": (_named(_column("Type"), _column("Data"), _column("Age")), _secret),
    "configmaps": (_named(_column("Data"), _column("Age")), _config_map),
    "namespaces": (_named(_column("Status"), _column("Age")), _namespace),
    "nodes": (
        _named(
            _column("Status"),
            _column("Roles"),
            _column("Age"),
            _column("Version"),
            _column("Internal-IP", wide=True),
            _column("External-IP", wide=True),
            _column("OS-Image", wide=True),
            _column("Kernel-Version", wide=True),
            _column("Container-Runtime", wide=True),
        ),
        _node,
    ),
    "leases.coordination.k8s.io": (_named(_column("Holder"), _column("Age")), _lease),
    "roles.rbac.authorization.k8s.io": (_ROLE_COLUMNS, _role),
    "clusterroles.rbac.authorization.k8s.io": (_ROLE_COLUMNS, _role),
    "rolebindings.rbac.authorization.k8s.io": (_BINDING_COLUMNS, _binding),
    "clusterrolebindings.rbac.authorization.k8s.io": (_BINDING_COLUMNS, _binding),
    "customresourcedefinitions.apiextensions.k8s.io": (_ROLE_COLUMNS, _crd),
    "resourcequotas": (_named(_column("Request"), _column("Limit"), _column("Age")), _quota),
    "persistentvolumeclaims": (
        _named(
            _column("Status"),
            _column("Volume"),
            _column("Capacity"),
            _column("Access Modes"),
            _column("StorageClass"),
            _column("VolumeAttributesClass"),
            _column("Age"),
            _column("VolumeMode", wide=True),
        ),
        _claim,
    ),
    "priorityclasses.scheduling.k8s.io": (
        _named(
            _column("Value", type_="integer"),
            _column("Global-Default", type_="boolean"),
            _column("Age"),
            _column("PreemptionPolicy"),
        ),
        _priority,
    ),
}

# Events put the time first and the name last.
_EVENT_COLUMNS = (
    _column("Last Seen"),
    _column("Type"),
    _column("Reason"),
    _column("Object"),
    _column("Subobject", wide=True),
    _column("Source", wide=True),
    _column("Message"),
    _column("First Seen", wide=True),
    _column("Count", wide=True),
    Column("Name", "string", "", "", 1, "name"),
)
