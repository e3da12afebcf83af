"""What a pod must look like: Kubernetes' own checks, as far as a wrong template can hit them.

Not every check that Kubernetes has: those of fields that decide whether a template of ours is
accepted. Defaults are `pod_defaults.py`; who may create pods and how many is admission.
"""

from collections.abc import Iterator
from typing import Any

from runnerscale.apiserver import formats
from runnerscale.apiserver.failures import (
    FieldError,
    duplicate,
    not_allowed,
    not_there,
    required,
    unsupported,
    wrong,
)
from runnerscale.apiserver.metadata import check_labels

Json = dict[str, Any]


def check_pod(obj: Json) -> list[FieldError]:
    """A pod that is to be created, after defaulting."""
    return list(_check_spec(obj.get("spec") or {}))


def _check_spec(spec: Json) -> Iterator[FieldError]:
    volumes: set[str] = set()
    yield from _check_volumes(spec.get("volumes") or [], volumes)
    names: set[str] = set()
    containers = spec.get("containers") or []
    if not containers:
        yield required("spec.containers")
    for place, container in enumerate(containers):
        yield from _check_container(container, f"spec.containers[{place}]", names, volumes)
    for place, container in enumerate(spec.get("initContainers") or []):
        where = f"spec.initContainers[{place}]"
        yield from _check_container(container, where, names, volumes)
        policy = container.get("restartPolicy")
        if policy and policy != "Always":
            yield unsupported(f"{where}.restartPolicy", policy, ("Always",))
    yield from _one_of(spec, "restartPolicy", ("Always", "OnFailure", "Never"))
    yield from _one_of(
        spec, "dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    )
    yield from _check_numbers(spec)
    yield from check_labels(spec.get("nodeSelector") or {}, "spec.nodeSelector")
    for name, check in _NAMES.items():
        value = spec.get(name)
        if value:
            yield from (wrong(f"spec.{name}", value, text) for text in check(value))


_NAMES = {
    "serviceAccountName": formats.dns_subdomain,
    "nodeName": formats.dns_subdomain,
    "priorityClassName": formats.dns_subdomain,
    "runtimeClassName": formats.dns_subdomain,
    "hostname": formats.dns_label,
    "subdomain": formats.dns_label,
}


def _one_of(
    target: Json, name: str, values: tuple[str, ...], path: str = "spec"
) -> Iterator[FieldError]:
    value = target.get(name)
    if value and value not in values:
        yield unsupported(f"{path}.{name}", value, values)


def _check_numbers(spec: Json) -> Iterator[FieldError]:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        text = f"must be between 1 and {2**31 - 1}, inclusive"
        yield wrong("spec.activeDeadlineSeconds", deadline, text)


def _check_volumes(volumes: list[Json], names: set[str]) -> Iterator[FieldError]:
    for place, volume in enumerate(volumes):
        where = f"spec.volumes[{place}]"
        name = volume.get("name") or ""
        if not name:
            yield required(f"{where}.name")
        else:
            yield from (wrong(f"{where}.name", name, t) for t in formats.dns_label(name))
            if name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
        sources = sorted((key for key in volume if key != "name"), key=_source_order)
        for extra in sources[1:]:
            yield not_allowed(f"{where}.{extra}", "may not specify more than 1 volume type")
        yield from _check_sources(volume, where)


_SOURCES_IN_ORDER = ("emptyDir", "hostPath", "gitRepo", "secret", "nfs", "persistentVolumeClaim")


def _source_order(name: str) -> int:
    """Kubernetes complains about the later ones."""
    return _SOURCES_IN_ORDER.index(name) if name in _SOURCES_IN_ORDER else len(_SOURCES_IN_ORDER)


def _check_sources(volume: Json, where: str) -> Iterator[FieldError]:
    for source, name in (
        ("secret", "secretName"),
        ("configMap", "name"),
        ("persistentVolumeClaim", "claimName"),
        ("hostPath", "path"),
    ):
        value = volume.get(source)
        if value is not None and not value.get(name):
            yield required(f"{where}.{source}.{name}")
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        items = (volume.get(source) or {}).get("items") or ()
        for place, item in enumerate(items):
            path = f"{where}.{source}.items[{place}]"
            if source in ("secret", "configMap") and not item.get("key"):
                yield required(f"{path}.key")
            yield from _check_relative(item.get("path"), f"{path}.path")


def _check_relative(value: str | None, path: str) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    elif value.startswith("/"):
        yield wrong(path, value, "must be a relative path")
    elif ".." in value.split("/"):
        yield wrong(path, value, "must not contain '..'")


def _check_container(
    container: Json, where: str, names: set[str], volumes: set[str]
) -> Iterator[FieldError]:
    name = container.get("name") or ""
    if not name:
        yield required(f"{where}.name")
    else:
        yield from (wrong(f"{where}.name", name, text) for text in formats.dns_label(name))
        if name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name)
    image = container.get("image") or ""
    if not image:
        yield required(f"{where}.image")
    elif image != image.strip():
        yield wrong(f"{where}.image", image, "must not have leading or trailing whitespace")
    yield from _check_ports(container.get("ports") or [], where)
    yield from _check_env(container.get("env") or [], where)
    yield from _check_env_from(container.get("envFrom") or [], where)
    yield from _check_mounts(container.get("volumeMounts") or [], where, volumes)
    yield from _one_of(container, "imagePullPolicy", ("Always", "IfNotPresent", "Never"), where)
    yield from _check_resources(container.get("resources") or {}, f"{where}.resources")


def _check_ports(ports: list[Json], where: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for place, port in enumerate(ports):
        path = f"{where}.ports[{place}]"
        number = port.get("containerPort")
        if not number:
            yield required(f"{path}.containerPort")
        else:
            texts = formats.port_number(number)
            yield from (wrong(f"{path}.containerPort", number, text) for text in texts)
        name = port.get("name")
        if name and name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name or "")
        yield from _one_of(port, "protocol", ("SCTP", "TCP", "UDP"), path)


_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _check_env(variables: list[Json], where: str) -> Iterator[FieldError]:
    for place, variable in enumerate(variables):
        path = f"{where}.env[{place}]"
        name = variable.get("name") or ""
        if not name:
            yield required(f"{path}.name")
        else:
            yield from (wrong(f"{path}.name", name, text) for text in formats.env_name(name))
        source = variable.get("valueFrom")
        if source is None:
            continue
        path = f"{path}.valueFrom"
        given = [s for s in _SOURCES if source.get(s) is not None]
        if not given:
            text = (
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`,"
                " `secretKeyRef` or `fileKeyRef`"
            )
            yield wrong(path, "", text)
        elif variable.get("value"):
            yield wrong(path, "", "may not be specified when `value` is not empty")
        elif len(given) > 1:
            yield wrong(path, "", "may not have more than one field specified at a time")
        for kind in ("configMapKeyRef", "secretKeyRef"):
            if source.get(kind) is not None:
                yield from _check_key_reference(source[kind], f"{path}.{kind}")
        if source.get("fieldRef") is not None and not source["fieldRef"].get("fieldPath"):
            yield required(f"{path}.fieldRef.fieldPath")


def _check_key_reference(reference: Json, path: str) -> Iterator[FieldError]:
    if not reference.get("key"):
        yield required(f"{path}.key")
    else:
        texts = formats.config_key(reference["key"])
        yield from (wrong(f"{path}.key", reference["key"], text) for text in texts)


def _check_env_from(sources: list[Json], where: str) -> Iterator[FieldError]:
    for place, source in enumerate(sources):
        path = f"{where}.envFrom[{place}]"
        given = [k for k in ("configMapRef", "secretRef") if source.get(k) is not None]
        if not given:
            yield wrong(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield wrong(path, "", "may not have more than one field specified at a time")


def _check_mounts(mounts: list[Json], where: str, volumes: set[str]) -> Iterator[FieldError]:
    paths: set[str] = set()
    for place, mount in enumerate(mounts):
        path = f"{where}.volumeMounts[{place}]"
        name = mount.get("name") or ""
        if not name:
            yield required(f"{path}.name")
        if name not in volumes:
            yield not_there(f"{path}.name", name)
        target = mount.get("mountPath") or ""
        if not target:
            yield required(f"{path}.mountPath")
        elif target in paths:
            yield wrong(f"{path}.mountPath", target, "must be unique")
        paths.add(target)


def _check_resources(resources: Json, path: str) -> Iterator[FieldError]:
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            value = formats.parse_quantity(text)
            if value is not None and value < 0:
                where = f"{path}.{kind}[{name}]"
                yield wrong(where, text, "must be greater than or equal to 0")
    for name, text in requests.items():
        asked, limit = formats.parse_quantity(text), formats.parse_quantity(limits.get(name))
        if asked is not None and limit is not None and asked > limit:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield wrong(f"{path}.requests", text, detail)


_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be"
    " set to 1 if it was previously negative)"
)


def check_pod_update(new: Json, old: Json) -> list[FieldError]:
    """A pod's spec hardly changes once it is there."""
    errors = list(_check_spec(new.get("spec") or {}))
    if _frozen(new.get("spec") or {}) != _frozen(old.get("spec") or {}):
        errors.append(not_allowed("spec", _MAY_CHANGE))
    return errors


def _frozen(spec: Json) -> Json:
    """The part of a spec that may not change."""
    kept = {k: v for k, v in spec.items() if k not in ("activeDeadlineSeconds", "tolerations")}
    for group in ("containers", "initContainers"):
        kept[group] = [
            {k: v for k, v in container.items() if k != "image"}
            for container in spec.get(group) or ()
        ]
    return kept
