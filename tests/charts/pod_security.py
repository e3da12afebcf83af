"""The rules of Pod Security's level `restricted`, as Kubernetes documents them, on a pod's spec.

`violations` says which rule is broken and where; nothing means the pod would be let in.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Spec = Mapping[str, Any]
VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
SECCOMP = frozenset({"RuntimeDefault", "Localhost"})
APPARMOR = frozenset({"RuntimeDefault", "Localhost"})
SELINUX_TYPES = frozenset(
    {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
)
SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    }
)


def violations(spec: Spec) -> list[str]:
    """Every broken rule, in words; the pod's level first."""
    return [
        *_of_pod(spec),
        *(text for one in _containers(spec) for text in _of_container(spec, one)),
    ]


def _containers(spec: Spec) -> Iterator[Spec]:
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(key) or ()


def _of_pod(spec: Spec) -> Iterator[str]:
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            yield key
    for volume in spec.get("volumes") or ():
        kind = next((key for key in volume if key != "name"), "emptyDir")
        if kind not in VOLUMES:
            yield f"volume {volume['name']} is a {kind}"
    context = spec.get("securityContext") or {}
    yield from _of_context("pod", context)
    for sysctl in context.get("sysctls") or ():
        if sysctl["name"] not in SAFE_SYSCTLS:
            yield f"sysctl {sysctl['name']}"


def _of_container(spec: Spec, container: Spec) -> Iterator[str]:
    name = container["name"]
    pod = spec.get("securityContext") or {}
    own = container.get("securityContext") or {}
    yield from _of_context(name, own)
    if own.get("privileged"):
        yield f"{name}: privileged"
    if own.get("procMount", "Default") != "Default":
        yield f"{name}: procMount"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: allowPrivilegeEscalation is not false"
    capabilities = own.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or ()):
        yield f"{name}: capabilities are not dropped"
    if set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
        yield f"{name}: capabilities are added"
    if any(port.get("hostPort") for port in container.get("ports") or ()):
        yield f"{name}: hostPort"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield f"{name}: runAsNonRoot is not true"
    seccomp = own.get("seccompProfile") or pod.get("seccompProfile") or {}
    if seccomp.get("type") not in SECCOMP:
        yield f"{name}: seccompProfile"


def _of_context(name: str, context: Spec) -> Iterator[str]:
    if context.get("runAsUser") == 0:
        yield f"{name}: runAsUser 0"
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield f"{name}: hostProcess"
    options = context.get("seLinuxOptions") or {}
    if options.get("type", "") not in SELINUX_TYPES or options.get("user") or options.get("role"):
        yield f"{name}: seLinuxOptions"
    profile = context.get("appArmorProfile") or {"type": "RuntimeDefault"}
    if profile.get("type") not in APPARMOR:
        yield f"{name}: appArmorProfile"
