"""The environment of a container: values, references, `$(NAME)`, and the service variables.

Order and precedence are Kubernetes': the node's own and the image's first, then envFrom, then
env in its order; a later one replaces an earlier one, and `$(NAME)` sees what came before.
Pure: the Secrets and ConfigMaps were read by `preparation.py`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from runnerscale.node.pod_spec import (
    Container,
    EnvVar,
    EnvVarSource,
    KeySelector,
    NodePod,
    ResourceFieldSelector,
)
from runnerscale.node.quantity import parse_quantity

LOOPBACK = "127.0.0.1"
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
# What a container without a limit is told it may use: the machine, if the caller knows it.
_WHOLE_MACHINE = {"cpu": Decimal(1), "memory": Decimal(0), "ephemeral-storage": Decimal(0)}


class EnvironmentProblem(Exception):
    """A reference leads nowhere: kubelet's CreateContainerConfigError, with its message."""


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A Secret or ConfigMap in the pod's namespace."""

    kind: str  # "Secret" or "ConfigMap"
    name: str


Contents = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Known:
    """What a container's environment may refer to."""

    pod: NodePod
    objects: Mapping[ObjectRef, Contents | None] = field(repr=False)  # None: does not exist
    machine: Mapping[str, Decimal] = field(default_factory=lambda: dict(_WHOLE_MACHINE))


def referenced_objects(container: Container) -> frozenset[ObjectRef]:
    """The Secrets and ConfigMaps that must be read before `build_environment`."""
    refs: set[ObjectRef] = set()
    for source in container.env_from or ():
        if source.secret_ref:
            refs.add(ObjectRef("Secret", source.secret_ref.name))
        if source.config_map_ref:
            refs.add(ObjectRef("ConfigMap", source.config_map_ref.name))
    for variable in container.env or ():
        origin = variable.value_from
        if origin and origin.secret_key_ref:
            refs.add(ObjectRef("Secret", origin.secret_key_ref.name))
        if origin and origin.config_map_key_ref:
            refs.add(ObjectRef("ConfigMap", origin.config_map_key_ref.name))
    return frozenset(refs)


def build_environment(
    container: Container, known: Known, *, base: Mapping[str, str]
) -> dict[str, str]:
    """`base` with everything the container asks for.

    Raises:
        EnvironmentProblem: a Secret, ConfigMap, key or field that is not there.
    """
    env = dict(base)
    own: dict[str, str] = {}
    own.update(_from_whole_objects(container, known))
    for variable in container.env or ():
        value = _value_of(variable, known, container, {**env, **own})
        if value is not None:
            own[variable.name] = value
    env.update(own)
    return env


def expand(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` replaced where NAME is known, left alone where not; `$$` is one `$`."""
    parts: list[str] = []
    place = 0
    while place < len(text):
        if text[place] != "$" or place + 1 == len(text):
            parts.append(text[place])
            place += 1
        elif text[place + 1] == "$":
            parts.append("$")
            place += 2
        elif text[place + 1] == "(" and (end := text.find(")", place)) > 0:
            name = text[place + 2 : end]
            parts.append(env.get(name, text[place : end + 1]))
            place = end + 1
        else:
            parts.append("$")
            place += 1
    return "".join(parts)


def expand_all(texts: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """`expand` on each."""
    return tuple(expand(text, env) for text in texts)


def field_value(pod: NodePod, path: str) -> str:
    """A field of the pod that may be handed to its containers.

    Raises:
        EnvironmentProblem: not one of those that exist.
    """
    meta = pod.metadata
    keyed = _KEYED.fullmatch(path)
    if keyed:
        values = meta.labels if keyed.group(1) == "labels" else meta.annotations
        return (values or {}).get(keyed.group(2), "")
    simple = {
        "metadata.name": meta.name or "",
        "metadata.namespace": meta.namespace or "",
        "metadata.uid": meta.uid or "",
        "metadata.labels": _listed(meta.labels),
        "metadata.annotations": _listed(meta.annotations),
        "spec.nodeName": pod.spec.node_name or "",
        "spec.serviceAccountName": pod.spec.service_account_name or "default",
        "status.hostIP": LOOPBACK,
        "status.hostIPs": LOOPBACK,
        "status.podIP": LOOPBACK,
        "status.podIPs": LOOPBACK,
    }
    if path not in simple:
        raise EnvironmentProblem(f"field label not supported: {path}")
    return simple[path]


def resource_value(
    selector: ResourceFieldSelector, containers: Sequence[Container], known: Known, own: str
) -> str:
    """A limit or request, divided and rounded up, as Kubernetes does it.

    Raises:
        EnvironmentProblem: an unknown container, or something that is no quantity.
    """
    wanted = selector.container_name or own
    container = next((item for item in containers if item.name == wanted), None)
    group, _, resource = selector.resource.partition(".")
    if container is None or group not in ("limits", "requests"):
        raise EnvironmentProblem(f"resource {selector.resource} of {wanted} is not supported")
    resources = container.resources
    limits = (resources.limits if resources else None) or {}
    requests = (resources.requests if resources else None) or {}
    given = limits.get(resource) if group == "limits" else requests.get(resource)
    try:
        amount = (
            parse_quantity(given) if given is not None else known.machine.get(resource, Decimal(0))
        )
        divisor = parse_quantity(selector.divisor or 1) or Decimal(1)
    except ValueError as error:
        raise EnvironmentProblem(f"{selector.resource} of {wanted}: {error}") from error
    return str(math.ceil(amount / divisor))


def _listed(values: Mapping[str, str] | None) -> str:
    # The downward API's own form: key="value", sorted, one a line.
    return "\n".join(f'{key}="{value}"' for key, value in sorted((values or {}).items()))


def _from_whole_objects(container: Container, known: Known) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for source in container.env_from or ():
        for kind, selector in (("Secret", source.secret_ref), ("ConfigMap", source.config_map_ref)):
            if selector is None:
                continue
            contents = known.objects.get(ObjectRef(kind, selector.name))
            if contents is None:
                if selector.optional:
                    continue
                raise EnvironmentProblem(f'{kind.lower()} "{selector.name}" not found')
            prefix = source.prefix or ""
            pairs += [(prefix + key, _text(value)) for key, value in sorted(contents.items())]
    return pairs


def _value_of(
    variable: EnvVar, known: Known, container: Container, env: Mapping[str, str]
) -> str | None:
    origin = variable.value_from
    if origin is None:
        return expand(variable.value or "", env)
    if origin.field_ref:
        return field_value(known.pod, origin.field_ref.field_path)
    if origin.resource_field_ref:
        spec = known.pod.spec
        everyone = [*(spec.init_containers or ()), *spec.containers]
        return resource_value(origin.resource_field_ref, everyone, known, container.name)
    return _key_of_object(variable, origin, known)


def _key_of_object(variable: EnvVar, origin: EnvVarSource, known: Known) -> str | None:
    if origin.secret_key_ref:
        return _key(origin.secret_key_ref, "Secret", known)
    if origin.config_map_key_ref:
        return _key(origin.config_map_key_ref, "ConfigMap", known)
    raise EnvironmentProblem(f"env {variable.name}: valueFrom has no source that this node knows")


def _key(selector: KeySelector, kind: str, known: Known) -> str | None:
    contents = known.objects.get(ObjectRef(kind, selector.name))
    if contents is not None and selector.key in contents:
        return _text(contents[selector.key])
    if selector.optional:
        return None
    if contents is None:
        raise EnvironmentProblem(f'{kind.lower()} "{selector.name}" not found')
    where = f"{known.pod.metadata.namespace}/{selector.name}"
    raise EnvironmentProblem(f"couldn't find key {selector.key} in {kind} {where}")


def _text(value: bytes) -> str:
    # As the operating system hands bytes to a process: nothing is lost on the way.
    return value.decode("utf-8", "surrogateescape")
