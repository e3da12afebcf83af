"""The Node object and the lease that stand for this machine in the API server. Pure."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runnerscale.core.clock import format_micro_time, format_time
from runnerscale.node.environment import LOOPBACK

LEASE_NAMESPACE = "kube-node-lease"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Machine:
    """What is told about the machine."""

    name: str
    cpus: int
    memory_bytes: int
    pods_max: int
    port: int  # of the log server; 0: none
    boot_id: str = ""
    version: str = ""


def node_labels(name: str, own: Mapping[str, str]) -> dict[str, str]:
    """The well-known labels, which node selectors ask for, and our own."""
    architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": architecture,
        **own,
    }


def node_body(name: str, labels: Mapping[str, str]) -> Json:
    """For the create, and for the patch of labels."""
    return {"metadata": {"name": name, "labels": dict(labels)}}


def node_status(machine: Machine, *, ready: bool, since_s: float, now_s: float) -> Json:
    """The whole status."""
    resources = {
        "cpu": str(machine.cpus),
        "memory": f"{machine.memory_bytes // 1024}Ki",
        "pods": str(machine.pods_max),
    }
    status: Json = {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [
            {"type": "InternalIP", "address": LOOPBACK},
            {"type": "Hostname", "address": machine.name},
        ],
        "conditions": conditions(ready=ready, since_s=since_s, now_s=now_s),
        "nodeInfo": {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "bootID": machine.boot_id,
            "containerRuntimeVersion": f"process://{machine.version}",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": machine.version,
            "machineID": "",
            "operatingSystem": platform.system().lower(),
            "osImage": platform.platform(terse=True),
            "systemUUID": "",
        },
    }
    if machine.port:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": machine.port}}
    return status


def conditions(*, ready: bool, since_s: float, now_s: float) -> list[Json]:
    """`Ready` and the pressures, which a machine of ours never has."""
    told = (
        ("MemoryPressure", False, "NodeHasSufficientMemory", "enough memory"),
        ("DiskPressure", False, "NodeHasNoDiskPressure", "enough room on the disk"),
        ("PIDPressure", False, "NodeHasSufficientPID", "enough process ids"),
        ("Ready", ready, "NodeReady" if ready else "NodeNotReady", "the node agent is running"),
    )
    return [
        {
            "type": kind,
            "status": "True" if true else "False",
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": format_time(now_s),
            "lastTransitionTime": format_time(since_s),
        }
        for kind, true, reason, message in told
    ]


def unknown_condition(*, now_s: float) -> Json:
    """What the control plane says of a node that it hears nothing from."""
    return {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastHeartbeatTime": format_time(now_s),
        "lastTransitionTime": format_time(now_s),
    }


def lease_body(name: str, *, lease_s: int, now_s: float) -> Json:
    """For the create and for each renewal."""
    return {
        "metadata": {"name": name},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": lease_s,
            "renewTime": format_micro_time(now_s),
        },
    }
