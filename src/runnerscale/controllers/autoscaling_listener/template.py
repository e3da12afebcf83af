"""How a user's `listenerTemplate` changes the listener's pod.

Three kinds of fields: what identifies the listener is ignored, lists are added to, the rest is
replaced. What a template leaves out keeps its default (in ARC any template takes the 60 s away in
which the listener gives its session back). Fields that are newer than this file pass through.

Pure. Contract: resources-and-controllers 3.9, charts-and-operations W-S17.
"""

from collections.abc import Mapping
from typing import Any

from runnerscale.kube.objects import Body

CONTAINER = "listener"

POD_IGNORED = frozenset(
    {
        "serviceAccountName",
        "serviceAccount",
        "automountServiceAccountToken",
        "resources",
        "hostnameOverride",
        "schedulingGroup",
    }
)
POD_IF_NOT_EMPTY = frozenset({"restartPolicy"})
POD_IF_NOT_NULL = frozenset({"imagePullSecrets", "nodeSelector"})
POD_OWN = frozenset({"containers", "volumes"})  # treated by themselves

CONTAINER_IF_NOT_EMPTY = frozenset({"image", "command"})
# What the controller may have been told to give every listener (Settings.restricted, .resources).
# An object that went through Go has an empty `resources` whether its author wrote one or not.
CONTAINER_DEFAULTED = frozenset({"resources", "securityContext"})
CONTAINER_APPENDED = ("env", "args", "ports", "envFrom", "volumeMounts", "volumeDevices")


def merged(pod: Mapping[str, Any], template: Mapping[str, Any]) -> Body:
    """The pod with the template on it; neither is changed."""
    metadata = template.get("metadata") or {}
    return {
        **pod,
        "metadata": {
            **pod["metadata"],
            "labels": {**(metadata.get("labels") or {}), **pod["metadata"]["labels"]},
            "annotations": {
                **(metadata.get("annotations") or {}),
                **pod["metadata"]["annotations"],
            },
        },
        "spec": _merged_spec(pod["spec"], template.get("spec") or {}),
    }


def _merged_spec(base: Mapping[str, Any], over: Mapping[str, Any]) -> Body:
    spec: Body = dict(base)
    for key, value in over.items():
        if key in POD_IGNORED or key in POD_OWN or value is None:
            continue
        if key in POD_IF_NOT_EMPTY and not value:
            continue
        spec[key] = value
    spec["volumes"] = [*base.get("volumes", ()), *(over.get("volumes") or ())]
    spec["containers"] = _merged_containers(base["containers"], over.get("containers") or ())
    return spec


def _merged_containers(base: Any, over: Any) -> list[Body]:
    listener = dict(base[0])
    others = []
    for container in over:
        if container.get("name") == CONTAINER:
            listener = _merged_listener(listener, container)
        else:
            others.append(container)
    return [listener, *others]


def _merged_listener(base: Mapping[str, Any], over: Mapping[str, Any]) -> Body:
    container = dict(base)
    for key, value in over.items():
        if key == "name" or key in CONTAINER_APPENDED or value is None:
            continue
        if key in CONTAINER_IF_NOT_EMPTY and not value:
            continue
        if key in CONTAINER_DEFAULTED and key in base and not value:
            continue
        container[key] = value
    for key in CONTAINER_APPENDED:
        joined = [*base.get(key, ()), *(over.get(key) or ())]
        if joined:
            container[key] = joined
    return container
