"""From the objects in the caches to what the stages decide on. Pure.

Whatever of it a stage reads is here; a malformed part of a hostile object becomes its zero and
harms nobody else. What is remembered from earlier passes is handed in.
"""

from runnerscale.api.ephemeral_runner import EphemeralRunner, has_job
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.controllers.ephemeral_runner.identity import Ref
from runnerscale.controllers.ephemeral_runner.pod_view import pod_view
from runnerscale.controllers.ephemeral_runner.runner_pod import uses_hooks
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, Runner, Snapshot
from runnerscale.core.clock import parse_time
from runnerscale.kube.builtin import Pod
from runnerscale.kube.objects import controller_of, is_deleting


def ref_of(item: EphemeralRunner) -> Ref:
    """Which runner an object is."""
    meta = item.metadata
    return Ref(meta.namespace or "", meta.name or "", meta.uid or "")


def is_its_pod(item: EphemeralRunner, pod: Pod) -> bool:
    """Whether the runner made that pod; a namesake's or a stranger's is not its own."""
    owner = controller_of(pod)
    return owner is not None and owner.uid == item.metadata.uid


def observed(
    item: EphemeralRunner,
    pod: Pod | None,
    owner: EphemeralRunnerSet | None,
    *,
    hand: Hand,
    now_s: float,
    alive: int = 1,
    watching_since_s: float = 0.0,
) -> Snapshot:
    """One runner now. `owner`: its set, which knows whose job is said to be over."""
    return Snapshot(
        now_s=now_s,
        runner=runner_of(item, owner, now_s=now_s),
        pod=pod_view(pod) if pod is not None and is_its_pod(item, pod) else None,
        hand=hand,
        alive=alive,
        watching_since_s=watching_since_s,
    )


def runner_of(item: EphemeralRunner, owner: EphemeralRunnerSet | None, *, now_s: float) -> Runner:
    """What the object says."""
    meta, status = item.metadata, item.status
    job = has_job(status)
    # The template is opened only when it is needed: once, at the end of a life.
    ends = is_deleting(item) or status.phase not in ("", "Pending", "Running")
    settled = (owner.spec.settled_runners if owner is not None and job else None) or ()
    return Runner(
        ref=ref_of(item),
        resource_version=meta.resource_version or "",
        created_s=_time(meta.creation_timestamp, now_s),
        finalizers=tuple(meta.finalizers or ()),
        deleted_s=_time(meta.deletion_timestamp, now_s) if is_deleting(item) else None,
        phase=status.phase,
        has_job=job,
        runner_id=status.runner_id,
        runner_name=status.runner_name,
        ready=status.ready,
        reason=status.reason,
        message=status.message,
        failures=tuple(status.failures or ()),
        conditions=tuple(status.conditions or ()),
        generation=meta.generation,
        scale_set_id=item.spec.runner_scale_set_id,
        uses_hooks=ends and uses_hooks(item.spec),
        job_over=meta.name in settled,
    )


def _time(text: str | None, otherwise_s: float) -> float:
    try:
        return parse_time(text) if text else otherwise_s
    except (ValueError, OverflowError):
        return otherwise_s
