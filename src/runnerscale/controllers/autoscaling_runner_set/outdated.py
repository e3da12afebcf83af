"""GitHub refused the version of the runner: no more runners until the runner's pod changes.

The verdict is bound to the fingerprint of the pod that it is about, so that a late runner of an
old template cannot undo a correction (W5), and is written on the object, so that the evidence
may go. The set is held, the listener goes on, and the scale set stays.

Pure. Contract: resources-and-controllers 4.1 A6, A11; 6 W5.
"""

from functools import lru_cache

import msgspec

from runnerscale.api import labels as keys
from runnerscale.api.fingerprint import fingerprint
from runnerscale.api.go_form import go_form
from runnerscale.api.reasons import Reason, trouble
from runnerscale.api.values import PodTemplate
from runnerscale.controllers.autoscaling_runner_set.snapshot import Action, PatchSelf, Snapshot
from runnerscale.controllers.stages import Stage
from runnerscale.kube.patching import at_version


def is_outdated(seen: Snapshot) -> bool:
    """Whether the runner that is wished for now was refused."""
    now = pod_fingerprint(seen.runner_set.spec.template)
    return now in seen.runners.outdated or seen.annotation(keys.OUTDATED_FOR) == now


def pod_fingerprint(template: PodTemplate) -> str:
    """Of what decides which runner version starts, also if ARC made the runner."""
    return _fingerprint(bytes(template.metadata), bytes(template.spec))


@lru_cache(maxsize=256)  # asked several times in a pass, for as many sets as there are
def _fingerprint(metadata: bytes, spec: bytes) -> str:
    parts = {"metadata": msgspec.Raw(metadata), "spec": msgspec.Raw(spec)}
    return fingerprint(go_form(parts))


def stage(seen: Snapshot) -> Stage[Action]:
    """Write the verdict down, or strike out one about a pod that is no longer wished."""
    written = seen.annotation(keys.OUTDATED_FOR)
    if not is_outdated(seen):
        return Stage((_write(seen, None),)) if written else Stage()
    what = "GitHub refused the runner: its version is too old (exit code 7)"
    told = trouble(Reason.OUTDATED, about=seen.about, happened=what)
    now = pod_fingerprint(seen.runner_set.spec.template)
    return Stage((_write(seen, now),) if written != now else (), (told,))


def _write(seen: Snapshot, verdict: str | None) -> PatchSelf:
    body = {"metadata": {"annotations": {keys.OUTDATED_FOR: verdict}}}
    return PatchSelf(at_version(body, seen.meta.resource_version))
