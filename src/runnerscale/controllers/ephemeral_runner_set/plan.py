"""In which order a set is looked at: the stages, one line each.

Each stage looks at one thing and wants nothing once that is settled; trouble in one does not
stop the others. The status comes last, when nothing else is to be done in this pass.

Pure: time, answers and memory are in the snapshot. Contract: resources-and-controllers 4.3.
"""

from runnerscale.api.fingerprint import fingerprint
from runnerscale.api.labels import EPHEMERAL_RUNNER_SET_FINALIZER, INTEGRITY_HASH
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.ephemeral_runner_set import (
    drain,
    evidence,
    proxy_secret,
    replace_outdated,
    scale_down,
    scale_up,
    status,
    template_check,
    waiting,
)
from runnerscale.controllers.ephemeral_runner_set.failure_policy import Verdict, judge
from runnerscale.controllers.ephemeral_runner_set.snapshot import Action, PatchSet, Snapshot
from runnerscale.controllers.stages import Stage, as_plan, joined
from runnerscale.kube.patching import add_finalizers, at_version
from runnerscale.kube.reconcile import Plan


def plan(seen: Snapshot) -> Plan[Action, Trouble]:
    """What to do about a set now, and when to look again."""
    if seen.gone:
        return Plan()
    if seen.stale:
        return Plan(stale=True, troubles=(*seen.failures, *seen.last_words))
    verdict = Verdict()
    if seen.deleting:
        so_far = drain.stage(seen)
    else:
        unready = prepare(seen)
        if unready is not None:
            return as_plan(unready)
        verdict = judge(seen)
        so_far = live(seen, verdict)
    actions = tuple(a for a in so_far.actions if a not in seen.failed_actions)
    mute = () if seen.unwritable is None else (seen.unwritable,)
    troubles = (*so_far.troubles, *seen.doubts, *mute, *seen.failures, *seen.last_words)
    if not actions:
        last = status.stage(seen, verdict, (*troubles, *waiting.shared(seen)))
        so_far = joined([so_far, last])
        actions = tuple(a for a in last.actions if a not in seen.failed_actions)
    return Plan(actions, so_far.again_s, failed=seen.failed or so_far.failed, troubles=troubles)


def prepare(seen: Snapshot) -> Stage[Action] | None:
    """The finalizer, before the set owns anything; and the hash that older versions look for."""
    meta = seen.item.metadata
    patch = add_finalizers(meta, [EPHEMERAL_RUNNER_SET_FINALIZER]) or {}
    if not (meta.annotations or {}).get(INTEGRITY_HASH):
        value = fingerprint(seen.item.spec.ephemeral_runner_spec)
        metadata = {**patch.get("metadata", {}), "annotations": {INTEGRITY_HASH: value}}
        patch = at_version({"metadata": metadata}, meta.resource_version)
    return Stage((PatchSet(patch),)) if patch else None


def live(seen: Snapshot, verdict: Verdict) -> Stage[Action]:
    """All stages of a set that is to live."""
    proxies = proxy_secret.stage(seen)
    makes = [scale_up.stage(seen, verdict)] if proxy_secret.is_ready(seen) else []
    return joined(
        [
            proxies,
            evidence.stage(seen, verdict),
            scale_down.stage(seen, cap=verdict.cap),
            template_check.stage(seen, verdict),
            *makes,
            replace_outdated.stage(seen, verdict),
        ]
    )
