"""Values that the tests of the node start from; a test changes what it is about."""

from typing import Any

import msgspec

from runnerscale.node.pod_spec import Container, NodePod
from runnerscale.node.pod_view import ContainerView, Kind, PodView
from runnerscale.node.processes import ExitStatus

NOW_S = 1_800_000_000.0

Json = dict[str, Any]


def pod_json(**spec: Any) -> Json:
    """A pod on the node, as the API server has it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "one",
            "namespace": "jobs",
            "uid": "uid-1",
            "labels": {"app": "runner"},
            "annotations": {"note": "x"},
        },
        "spec": {"containers": [{"name": "runner", "image": "demo:1"}], **spec},
    }


def pod(**spec: Any) -> NodePod:
    """The same, decoded."""
    return msgspec.convert(pod_json(**spec), NodePod)


def container(**fields: Any) -> Container:
    """A container by its JSON fields."""
    return msgspec.convert({"name": "runner", "image": "demo:1", **fields}, Container)


def ended(code: int, *, ran_s: float = 1.0, ended_s: float = NOW_S, reason: str = "") -> ExitStatus:
    """An attempt that ended at `ended_s`."""
    return ExitStatus(code, reason=reason, started_s=ended_s - ran_s, finished_s=ended_s)


FRESH = ContainerView(name="runner", image="demo:1")
RUNNING = ContainerView(
    name="runner",
    image="demo:1",
    attempts=1,
    running_since_s=NOW_S - 5,
    started=True,
    ready=True,
)
INIT = ContainerView(name="init", kind=Kind.INIT)
SIDECAR = ContainerView(name="side", kind=Kind.SIDECAR)
POD = PodView(
    namespace="jobs",
    name="one",
    uid="uid-1",
    containers=(FRESH,),
    now_s=NOW_S,
    started_s=NOW_S - 10,
    restart_policy="Never",
)
