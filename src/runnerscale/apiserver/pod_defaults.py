"""What Kubernetes fills into a pod that does not say it. Pure; in place.

A file of its own beside `pod_rules.py`, because defaults come before admission (quota counts
them) and validation after it.
"""

from decimal import Decimal
from typing import Any

from runnerscale.apiserver.formats import parse_quantity

Json = dict[str, Any]

_FILE_MODE = 0o644


def default_pod(obj: Json) -> None:
    """Fill in spec defaults."""
    spec = obj.setdefault("spec", {})
    _fill(spec, "restartPolicy", "Always")
    _fill(spec, "terminationGracePeriodSeconds", 30)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _fill(spec, "dnsPolicy", "ClusterFirst")
    _fill(spec, "securityContext", {})
    _fill(spec, "schedulerName", "default-scheduler")
    _fill(spec, "enableServiceLinks", True)
    # The older name of the same field follows the newer one.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def _fill(target: Json, name: str, value: Any) -> None:
    if target.get(name) is None:
        target[name] = value


def _default_container(container: Json) -> None:
    _fill(container, "terminationMessagePath", "/dev/termination-log")
    _fill(container, "terminationMessagePolicy", "File")
    _fill(container, "resources", {})
    if not container.get("imagePullPolicy"):
        image = str(container.get("image") or "")
        tag = image.rpartition("/")[2].partition(":")[2]
        latest = "@" not in image and tag in ("", "latest")
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    for port in container.get("ports") or ():
        _fill(port, "protocol", "TCP")
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            _fill(reference, "apiVersion", "v1")
    _default_requests(container["resources"])
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            _default_probe(container[name])


def _default_requests(resources: Json) -> None:
    limits = resources.get("limits") or {}
    if limits:
        requests = resources.setdefault("requests", {})
        for name, value in limits.items():
            requests.setdefault(name, value)


def _default_probe(probe: Json) -> None:
    _fill(probe, "timeoutSeconds", 1)
    _fill(probe, "periodSeconds", 10)
    _fill(probe, "successThreshold", 1)
    _fill(probe, "failureThreshold", 3)
    if probe.get("httpGet") is not None:
        _fill(probe["httpGet"], "path", "/")
        _fill(probe["httpGet"], "scheme", "HTTP")


def _default_volume(volume: Json) -> None:
    sources = [name for name in volume if name != "name"]
    if not sources:
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(name) is not None:
            _fill(volume[name], "defaultMode", _FILE_MODE)
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        if item.get("fieldRef") is not None:
            _fill(item["fieldRef"], "apiVersion", "v1")
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("serviceAccountToken") is not None:
            _fill(source["serviceAccountToken"], "expirationSeconds", 3600)
    if volume.get("hostPath") is not None:
        _fill(volume["hostPath"], "type", "")


def quality_of_service(spec: Json) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`, from cpu and memory of all containers."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    named, guaranteed = False, bool(containers)
    for container in containers:
        resources = container.get("resources") or {}
        requests = _compute(resources.get("requests"))
        limits = _compute(resources.get("limits"))
        named = named or bool(requests or limits)
        guaranteed = guaranteed and len(limits) == 2 and requests == limits
    if not named:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(amounts: Json | None) -> dict[str, Decimal]:
    found = {}
    for name in ("cpu", "memory"):
        value = parse_quantity((amounts or {}).get(name, "0"))
        if value:
            found[name] = value
    return found
