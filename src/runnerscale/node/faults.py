"""Disturbances on demand, as a real node suffers them: for the demo and for tests.

Each is what Kubernetes would show of it: an eviction, an out-of-memory kill, a node that is not
heard of any more, an image that cannot be pulled, no room. Only what they are; carrying them out
is `fault_injector.py`.
"""

from typing import Any

import msgspec


class FaultRefused(Exception):
    """It cannot be injected; the text says why and what would work."""


class _Fault(msgspec.Struct, tag_field="fault", forbid_unknown_fields=True, kw_only=True):
    """Base: which fault is in the field `fault`."""


class _OnePod(_Fault):
    """Of one pod: the oldest that has this namespace, name and labels, as far as they are given."""

    namespace: str = ""
    pod: str = ""
    labels: dict[str, str] = {}


class Evict(_OnePod, tag="evict"):
    """The node is short of something and ends the pod: phase Failed, reason Evicted."""

    message: str = "The node was low on resource: ephemeral-storage."
    grace_s: int = 0


class OomKill(_OnePod, tag="oom-kill"):
    """The kernel kills a container for its memory: 137, reason OOMKilled."""

    container: str = ""  # empty: the first one


class KillContainer(_OnePod, tag="kill"):
    """SIGKILL from nowhere: 137, reason Error."""

    container: str = ""


class NodeLost(_Fault, tag="node-lost"):
    """The node is not heard of for so long; what runs on it goes on unseen."""

    seconds: float = 30.0
    unknown_after_s: float = 5.0  # until the control plane notices (40 s in a real cluster)
    delete_pods: bool = False  # and deletes its pods, which then stay terminating


class ImagePullError(_Fault, tag="image-pull-error"):
    """Images that match cannot be had for so long."""

    pattern: str = "*"
    seconds: float = 30.0


class NoRoom(_Fault, tag="no-room"):
    """Nothing is placed for so long: pods stay Pending, Unschedulable."""

    seconds: float = 30.0


Fault = Evict | OomKill | KillContainer | NodeLost | ImagePullError | NoRoom
NAMES = ("evict", "oom-kill", "kill", "node-lost", "image-pull-error", "no-room")


def decode_fault(document: Any) -> Fault:
    """A fault from plain data.

    Raises:
        FaultRefused: unknown name, unknown or missing field.
    """
    try:
        fault: Fault = msgspec.convert(document, Fault)
    except msgspec.ValidationError as error:
        names = ", ".join(sorted(NAMES))
        raise FaultRefused(f"fault not understood: {error}. Known faults: {names}") from error
    return fault
