"""The Secret that carries the JIT config from GitHub to the runner's pod. Pure.

Named like the runner and owned by it; the only place where the JIT config is ever stored.
Contract: resources-and-controllers 3.12, and 2.7 for the hash on the pod.
"""

import base64
import hashlib
from collections.abc import Sequence

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunner
from runnerscale.controllers.ephemeral_runner.identity import Jit
from runnerscale.controllers.metadata import merge_annotations, merge_labels
from runnerscale.kube.objects import Body

JIT_TOKEN = "jitToken"  # noqa: S105 - a key
RUNNER_NAME = "runnerName"
RUNNER_ID = "runnerId"
SCALE_SET_ID = "scaleSetId"
HASH_LENGTH = 10  # as long as ARC's at most


def jit_secret(runner: EphemeralRunner, jit: Jit, *, excluded_labels: Sequence[str] = ()) -> Body:
    """The body to create. Holds the secret in the clear: never log it."""
    meta = runner.spec.ephemeral_runner_config_secret_metadata
    labels = merge_labels(meta.labels if meta else None, None, excluded=excluded_labels)
    annotations = merge_annotations(meta.annotations if meta else None, None)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": runner.metadata.name,
            "namespace": runner.metadata.namespace,
            **({"labels": labels} if labels else {}),
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [owner_reference(runner)],
        },
        "data": {key: base64.b64encode(value).decode() for key, value in _data(jit).items()},
    }


def template_hash(jit: Jit) -> str:
    """What the pod's `pod-template-hash` label says: another for each JIT config.

    Nobody reads it (contract 2.7), so it is not ARC's own: that one goes over the config byte by
    byte, which was an eighth of what a runner's life costs us.
    """
    data = _data(jit)
    text = b"\0".join(data[key] for key in sorted(data))
    return hashlib.sha256(text).hexdigest()[:HASH_LENGTH]


def owner_reference(runner: EphemeralRunner) -> Body:
    """That the runner owns and controls an object."""
    return {
        "apiVersion": EPHEMERAL_RUNNERS.api_version,
        "kind": EPHEMERAL_RUNNERS.kind,
        "name": runner.metadata.name,
        "uid": runner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _data(jit: Jit) -> dict[str, bytes]:
    return {
        JIT_TOKEN: jit.config.reveal().encode(),
        RUNNER_NAME: jit.runner_name.encode(),
        RUNNER_ID: str(jit.runner_id).encode(),
        SCALE_SET_ID: str(jit.scale_set_id).encode(),
    }
