"""Defaults and checks of the built-in kinds other than pods: one small function each.

`RULES` is the table the write path asks. What holds for every kind is `metadata.py`.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runnerscale.apiserver import formats
from runnerscale.apiserver.builtin_kinds import RBAC
from runnerscale.apiserver.crds import default_crd, read_crd
from runnerscale.apiserver.failures import (
    FieldError,
    not_allowed,
    required,
    too_long,
    unsupported,
    wrong,
)
from runnerscale.apiserver.plain_values import well_shaped
from runnerscale.apiserver.pod_defaults import default_pod
from runnerscale.apiserver.pod_rules import check_pod, check_pod_update

Json = dict[str, Any]

DATA_BYTES_MAX = 1024 * 1024
NODE_INFO = (
    *("architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion"),
    *("kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID"),
)
IMMUTABLE = "field is immutable"


def _nothing(_obj: Json) -> None:
    return


def _fine(_obj: Json) -> list[FieldError]:
    return []


def _no_update_rule(_new: Json, _old: Json) -> list[FieldError]:
    return []


@dataclass(frozen=True, slots=True)
class Rules:
    """`default` changes in place; `check` sees creates and updates, `check_update` both sides."""

    default: Callable[[Json], None] = _nothing
    check: Callable[[Json], list[FieldError]] = _fine
    check_update: Callable[[Json, Json], list[FieldError]] = _no_update_rule


def _default_secret(obj: Json) -> None:
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        for key, value in plain.items():
            data[key] = base64.b64encode(value.encode()).decode()


def _check_secret(obj: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    size = 0
    for key, value in (obj.get("data") or {}).items():
        errors += [wrong(f"data[{key}]", key, text) for text in formats.config_key(key)]
        size += len(value) * 3 // 4
    if size > DATA_BYTES_MAX:
        errors.append(too_long("data", DATA_BYTES_MAX))
    return errors


def _check_secret_update(new: Json, old: Json) -> list[FieldError]:
    errors = []
    if new.get("type") != old.get("type"):
        errors.append(wrong("type", new.get("type"), IMMUTABLE))
    return errors + _check_frozen(new, old, ("data",))


def _check_frozen(new: Json, old: Json, parts: tuple[str, ...]) -> list[FieldError]:
    """Secrets and config maps that were declared immutable."""
    if not old.get("immutable"):
        return []
    errors = []
    if not new.get("immutable"):
        errors.append(not_allowed("immutable", "field is immutable when `immutable` is set"))
    for part in parts:
        if (new.get(part) or {}) != (old.get(part) or {}):
            errors.append(not_allowed(part, "field is immutable when `immutable` is set"))
    return errors


def _check_config_map(obj: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for part, entries in (("data", data), ("binaryData", binary)):
        for key in entries:
            errors += [wrong(f"{part}[{key}]", key, text) for text in formats.config_key(key)]
    for key in data.keys() & binary.keys():
        errors.append(wrong(f"data[{key}]", key, "duplicate of key present in binaryData"))
    size = sum(len(v.encode()) for v in data.values()) + sum(len(v) for v in binary.values())
    if size > DATA_BYTES_MAX:
        errors.append(too_long("", DATA_BYTES_MAX))
    return errors


def _check_config_map_update(new: Json, old: Json) -> list[FieldError]:
    return _check_frozen(new, old, ("data", "binaryData"))


def _default_namespace(obj: Json) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    obj.setdefault("status", {}).setdefault("phase", "Active")


def _check_event(obj: Json) -> list[FieldError]:
    about = obj.get("involvedObject") or {}
    namespace = obj["metadata"].get("namespace")
    about_namespace = about.get("namespace") or ""
    if (about_namespace or "default") != namespace:
        text = "does not match event.namespace"
        return [wrong("involvedObject.namespace", about_namespace, text)]
    return []


def _default_event(obj: Json) -> None:
    """Go writes these out even when they are empty, and readers expect them."""
    obj.setdefault("source", {})
    obj.setdefault("firstTimestamp", None)
    obj.setdefault("lastTimestamp", None)
    obj.setdefault("eventTime", None)
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")


def _default_role(obj: Json) -> None:
    if not obj.get("rules"):
        obj["rules"] = None


def _check_rules(obj: Json) -> list[FieldError]:
    errors = []
    for place, rule in enumerate(obj.get("rules") or ()):
        path = f"rules[{place}]"
        if not rule.get("verbs"):
            errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if obj.get("kind") == "Role":
                text = "namespaced rules cannot apply to non-resource URLs"
                errors.append(wrong(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text))
            continue
        if not rule.get("apiGroups"):
            text = "resource rules must supply at least one api group"
            errors.append(required(f"{path}.apiGroups", text))
        if not rule.get("resources"):
            text = "resource rules must supply at least one resource"
            errors.append(required(f"{path}.resources", text))
    return errors


def _default_binding(obj: Json) -> None:
    role = obj.setdefault("roleRef", {})
    if not role.get("apiGroup"):
        role["apiGroup"] = RBAC
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = RBAC


def _check_binding(obj: Json) -> list[FieldError]:
    errors = []
    role = obj.get("roleRef") or {}
    if role.get("apiGroup") != RBAC:
        errors.append(unsupported("roleRef.apiGroup", role.get("apiGroup"), (RBAC,)))
    kinds = ("Role", "ClusterRole") if obj.get("kind") == "RoleBinding" else ("ClusterRole",)
    if role.get("kind") not in kinds:
        errors.append(unsupported("roleRef.kind", role.get("kind") or "", kinds))
    if not role.get("name"):
        errors.append(required("roleRef.name"))
    for place, subject in enumerate(obj.get("subjects") or ()):
        path = f"subjects[{place}]"
        if not subject.get("name"):
            errors.append(required(f"{path}.name"))
        if subject.get("kind") not in ("ServiceAccount", "User", "Group"):
            supported = ("ServiceAccount", "User", "Group")
            errors.append(unsupported(f"{path}.kind", subject.get("kind") or "", supported))
        elif (
            subject["kind"] == "ServiceAccount"
            and not subject.get("namespace")
            and obj.get("kind") == "ClusterRoleBinding"
        ):
            errors.append(required(f"{path}.namespace"))
    return errors


def _check_binding_update(new: Json, old: Json) -> list[FieldError]:
    if new.get("roleRef") != old.get("roleRef"):
        role = new.get("roleRef") or {}
        shown = {
            "APIGroup": role.get("apiGroup"),
            "Kind": role.get("kind"),
            "Name": role.get("name"),
        }
        return [wrong("roleRef", shown, "cannot change roleRef")]
    return []


def _check_lease(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        errors.append(wrong("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        text = "must be greater than or equal to 0"
        errors.append(wrong("spec.leaseTransitions", transitions, text))
    return errors


def _default_priority_class(obj: Json) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    obj.setdefault("value", 0)


def _check_priority_class_update(new: Json, old: Json) -> list[FieldError]:
    if new.get("value") != old.get("value"):
        return [not_allowed("value", "may not be changed in an update.")]
    return []


def _check_quota(obj: Json) -> list[FieldError]:
    errors = []
    for name, text in ((obj.get("spec") or {}).get("hard") or {}).items():
        value = formats.parse_quantity(text)
        if value is not None and value < 0:
            text_ = "must be greater than or equal to 0"
            errors.append(wrong(f"spec.hard[{name}]", text, text_))
    return errors


def _default_claim(obj: Json) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _default_node(obj: Json) -> None:
    """What Go writes out; what can be given away is all there is, until a node says less."""
    status = obj.setdefault("status", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for name in NODE_INFO:
        info.setdefault(name, "")


def _check_claim(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = []
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes", "at least 1 access mode is required"))
    if not ((spec.get("resources") or {}).get("requests") or {}).get("storage"):
        errors.append(required("spec.resources[storage]"))
    return errors


def _check_crd(obj: Json) -> list[FieldError]:
    with well_shaped("CustomResourceDefinition"):
        return read_crd(obj).errors


def _check_crd_update(new: Json, old: Json) -> list[FieldError]:
    errors = []
    for part in ("group", "scope"):
        value = (new.get("spec") or {}).get(part)
        if value != (old.get("spec") or {}).get(part):
            errors.append(wrong(f"spec.{part}", value, IMMUTABLE))
    return errors


RULES: dict[str, Rules] = {
    "pods": Rules(default_pod, check_pod, check_pod_update),
    "secrets": Rules(_default_secret, _check_secret, _check_secret_update),
    "configmaps": Rules(check=_check_config_map, check_update=_check_config_map_update),
    "namespaces": Rules(_default_namespace),
    "events": Rules(_default_event, _check_event),
    f"roles.{RBAC}": Rules(_default_role, _check_rules),
    f"clusterroles.{RBAC}": Rules(_default_role, _check_rules),
    f"rolebindings.{RBAC}": Rules(_default_binding, _check_binding, _check_binding_update),
    f"clusterrolebindings.{RBAC}": Rules(_default_binding, _check_binding, _check_binding_update),
    "leases.coordination.k8s.io": Rules(check=_check_lease),
    "priorityclasses.scheduling.k8s.io": Rules(
        _default_priority_class, check_update=_check_priority_class_update
    ),
    "resourcequotas": Rules(check=_check_quota),
    "nodes": Rules(_default_node),
    "persistentvolumeclaims": Rules(_default_claim, _check_claim),
    "customresourcedefinitions.apiextensions.k8s.io": Rules(
        default_crd, _check_crd, _check_crd_update
    ),
}

NO_RULES = Rules()
