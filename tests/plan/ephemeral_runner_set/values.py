"""Plain values for the pure rules; tests change them with `replace`."""

from typing import Any

import msgspec

from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.api.labels import EPHEMERAL_RUNNER_SET_FINALIZER, INTEGRITY_HASH
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Check,
    Retired,
    Runner,
    Snapshot,
    Template,
)
from runnerscale.kube.objects import ObjectReference

NOW = 1_800_000_000.0
REFERENCE = ObjectReference(
    "actions.github.com/v1alpha1", "EphemeralRunnerSet", "runners", "set", "uid-set"
)
IDLE = Runner(
    name="idle", uid="u1", resource_version="5", created_s=NOW - 300, runner_id=7, phase="Pending"
)
FAILED = Retired(
    name="bad",
    uid="f1",
    phase="Failed",
    reason="RunnerFailed",
    message="container runner ended with exit code 1",
    since_s=NOW - 1,
)


def item(**members: Any) -> EphemeralRunnerSet:
    body: dict[str, Any] = {
        "metadata": {
            "name": "set",
            "namespace": "runners",
            "uid": "uid-set",
            "resourceVersion": "9",
            "generation": 3,
            "finalizers": [EPHEMERAL_RUNNER_SET_FINALIZER],
            "annotations": {INTEGRITY_HASH: "h"},
        },
        "spec": {"patchID": 0, "replicas": 0},
    }
    for name, part in members.items():
        body[name] = {**body.get(name, {}), **part}
    return msgspec.json.decode(msgspec.json.encode(body), type=EphemeralRunnerSet)


SEEN = Snapshot(
    now_s=NOW,
    item=item(),
    reference=REFERENCE,
    fingerprint="r1-now",
    template=Template(Check.ACCEPTED),
)
