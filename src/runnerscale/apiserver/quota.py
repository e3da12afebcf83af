"""ResourceQuota: how much of a namespace is used, and whether one more object fits.

Counting is done from the stored objects each time (only in namespaces that have a quota), so
there is nothing to drift. `admission.py` asks; the status of the quota is kept by
`housekeeping.py`.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from runnerscale.apiserver.failures import ApiFailure, forbidden
from runnerscale.apiserver.formats import format_quantity, parse_quantity
from runnerscale.apiserver.kinds import Kind
from runnerscale.apiserver.pod_defaults import quality_of_service
from runnerscale.apiserver.record import Record
from runnerscale.apiserver.store import Store
from runnerscale.core.clock import parse_time

Json = dict[str, Any]
Usage = dict[str, Decimal]

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
# What must be said for each container once a quota speaks of it.
_MUST_SPECIFY = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_PLAIN_COUNTS = (
    "configmaps",
    "persistentvolumeclaims",
    "resourcequotas",
    "secrets",
)


class Quotas:
    """Reads quotas and pods from the store."""

    def __init__(self, store: Store) -> None:
        """Nothing is kept but what was computed of pods that did not change."""
        self._store = store
        self._pods: dict[tuple[str, str], tuple[int, Json]] = {}

    def check_create(
        self, kind: Kind, obj: Json, namespace: str, now_s: float
    ) -> ApiFailure | None:
        """Why the namespace's quotas refuse one more object; None: they do not."""
        for record in self._store.table("resourcequotas").list(namespace):
            quota = record.object()
            failure = self._check_one(quota, kind, obj, namespace, now_s)
            if failure is not None:
                return failure
        return None

    def _check_one(
        self, quota: Json, kind: Kind, obj: Json, namespace: str, now_s: float
    ) -> ApiFailure | None:
        spec = quota.get("spec") or {}
        hard = _amounts(spec.get("hard") or {})
        name = quota["metadata"]["name"]
        asked = usage_of(kind, obj, now_s)
        asked = {k: v for k, v in asked.items() if k in hard}
        if kind.resource == "pods":
            if not _in_scope(spec, obj):
                return None
            missing = _unspecified(hard, obj.get("spec") or {})
            if missing:
                why = f"failed quota: {name}: must specify {missing}"
                return forbidden(kind.group, kind.plural, obj["metadata"].get("name", ""), why)
        if not asked:
            return None
        used = self.used(spec, namespace, now_s)
        over = sorted(k for k, v in asked.items() if used.get(k, Decimal(0)) + v > hard[k])
        if not over:
            return None
        raw = spec["hard"]
        why = (
            f"exceeded quota: {name},"
            f" requested: {_shown({k: asked[k] for k in over}, raw)},"
            f" used: {_shown({k: used.get(k, Decimal(0)) for k in over}, raw)},"
            f" limited: {','.join(f'{k}={raw[k]}' for k in over)}"
        )
        return forbidden(kind.group, kind.plural, obj["metadata"].get("name", ""), why)

    def used(self, spec: Json, namespace: str, now_s: float) -> Usage:
        """What counts against a quota's limits now."""
        hard = spec.get("hard") or {}
        used: Usage = {name: Decimal(0) for name in hard}
        for name in hard:
            resource = _counted_resource(name)
            if resource and resource != "pods":
                used[name] = Decimal(len(self._store.table(resource).list(namespace)))
        if any(_is_pod_amount(name) for name in hard):
            for record in self._store.table("pods").list(namespace):
                pod = self._pod(record)
                if not _in_scope(spec, pod):
                    continue
                for name, value in _pod_usage(pod, now_s).items():
                    if name in used:
                        used[name] += value
        return used

    def _pod(self, record: Record) -> Json:
        """A pod's parts that count, kept while it does not change."""
        key = (record.namespace, record.name)
        kept = self._pods.get(key)
        if kept is not None and kept[0] == record.version:
            return kept[1]
        obj = record.object()
        spec, meta = obj.get("spec") or {}, obj["metadata"]
        small = {
            "metadata": {
                k: meta[k] for k in ("deletionTimestamp", "deletionGracePeriodSeconds") if k in meta
            },
            "spec": {
                **{k: spec[k] for k in ("priorityClassName", "activeDeadlineSeconds") if k in spec},
                **{
                    group: [
                        {
                            "name": c.get("name"),
                            "resources": c.get("resources") or {},
                            "restartPolicy": c.get("restartPolicy"),
                        }
                        for c in spec.get(group) or ()
                    ]
                    for group in ("containers", "initContainers")
                },
            },
            "status": {"phase": (obj.get("status") or {}).get("phase")},
        }
        if len(self._pods) > _KEPT_MAX:
            self._pods.clear()
        self._pods[key] = (record.version, small)
        return small


_KEPT_MAX = 20_000


def quota_status(spec: Json, used: Usage) -> Json:
    """The status of a quota."""
    hard = spec.get("hard") or {}
    return {
        "hard": dict(hard),
        "used": {k: _text(k, v, hard) for k, v in used.items()},
    }


def _amounts(texts: Json) -> Usage:
    parsed = ((name, parse_quantity(text)) for name, text in texts.items())
    return {name: value for name, value in parsed if value is not None}


def _shown(usage: Usage, raw: Json) -> str:
    return ",".join(f"{k}={_text(k, v, raw)}" for k, v in sorted(usage.items()))


def _text(name: str, value: Decimal, hard: Json) -> str:
    binary = str(hard.get(name, "")).endswith("i") or "memory" in name or "storage" in name
    return format_quantity(value, binary=binary)


def _counted_resource(name: str) -> str:
    """The table whose objects an amount counts; empty: it counts something else."""
    if name.startswith("count/"):
        return name.removeprefix("count/")
    return name if name in _PLAIN_COUNTS else ""


def _is_pod_amount(name: str) -> bool:
    plain = name.removeprefix("requests.").removeprefix("limits.")
    return name in ("pods", "count/pods") or plain in _COMPUTE


def usage_of(kind: Kind, obj: Json, now_s: float) -> Usage:
    """What one object adds."""
    if kind.resource == "pods":
        return _pod_usage(obj, now_s)
    usage: Usage = {f"count/{kind.resource}": Decimal(1)}
    if kind.resource in _PLAIN_COUNTS:
        usage[kind.resource] = Decimal(1)
    return usage


def _pod_usage(pod: Json, now_s: float) -> Usage:
    usage: Usage = {"count/pods": Decimal(1)}
    if not _counts(pod, now_s):
        return usage
    usage["pods"] = Decimal(1)
    spec = pod.get("spec") or {}
    for part in ("requests", "limits"):
        totals = _pod_amounts(spec, part)
        for name, value in totals.items():
            usage[f"{part}.{name}"] = value
            if part == "requests":
                usage[name] = value
    return usage


def _counts(pod: Json, now_s: float) -> bool:
    """A pod that has ended, or should have, is not charged."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return False
    meta = pod.get("metadata") or {}
    if meta.get("deletionTimestamp"):
        grace_s = meta.get("deletionGracePeriodSeconds") or 0
        return now_s <= parse_time(meta["deletionTimestamp"]) + grace_s
    return True


def _pod_amounts(spec: Json, part: str) -> Usage:
    """Containers add up; an init container counts where it alone needs more."""
    total: Usage = {}
    for container in spec.get("containers") or ():
        for name, value in _amounts((container.get("resources") or {}).get(part) or {}).items():
            total[name] = total.get(name, Decimal(0)) + value
    for container in spec.get("initContainers") or ():
        for name, value in _amounts((container.get("resources") or {}).get(part) or {}).items():
            if container.get("restartPolicy") == "Always":
                total[name] = total.get(name, Decimal(0)) + value
            else:
                total[name] = max(total.get(name, Decimal(0)), value)
    return total


def _unspecified(hard: Iterable[str], spec: Json) -> str:
    """The amounts that a quota limits and a container does not state."""
    missing: dict[str, set[str]] = {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for name in hard:
        if name not in _MUST_SPECIFY:
            continue
        part = "limits" if name.startswith("limits.") else "requests"
        plain = name.removeprefix("requests.").removeprefix("limits.")
        for container in containers:
            if plain not in ((container.get("resources") or {}).get(part) or {}):
                missing.setdefault(name, set()).add(str(container.get("name")))
    return "; ".join(f"{k} for: {','.join(sorted(v))}" for k, v in sorted(missing.items()))


def _in_scope(spec: Json, pod: Json) -> bool:
    pod_spec = pod.get("spec") or {}
    for scope in spec.get("scopes") or ():
        ends = pod_spec.get("activeDeadlineSeconds") is not None
        best_effort = quality_of_service(pod_spec) == "BestEffort"
        holds = {
            "Terminating": ends,
            "NotTerminating": not ends,
            "BestEffort": best_effort,
            "NotBestEffort": not best_effort,
            "PriorityClass": bool(pod_spec.get("priorityClassName")),
        }
        if not holds.get(scope, False):
            return False
    return True
