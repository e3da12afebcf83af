"""The end of a set: its runners go, busy ones when their job is done, then the set itself.

The same guards as in scale-down: GitHub is asked before an idle runner goes. It ends even
where GitHub cannot be asked any more (credentials deleted, refused, or a server that is
gone): after a bound the runner object is deleted all the same, and its own controller, which
holds the pod until GitHub's word or its own bound, reports what is left there with its id.

Pure. Contract: resources-and-controllers 4.3.2; design section 5; issue log 79-81.
"""

from dataclasses import replace

from runnerscale.api.labels import EPHEMERAL_RUNNER_SET_FINALIZER
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.ephemeral_runner_set import proxy_secret
from runnerscale.controllers.ephemeral_runner_set.scale_down import in_order, questions
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Action,
    DeleteRunner,
    PatchSet,
    Removal,
    Runner,
    Snapshot,
)
from runnerscale.controllers.stages import Stage
from runnerscale.kube.patching import drop_finalizers

# Means that are missing or refused: an uninstall must end within minutes, and the runner's own
# controller has four of them.
MEANS_GIVEN_UP_AFTER_S = 30.0
MEANS = frozenset(
    {
        Reason.CREDENTIALS_MISSING,
        Reason.CREDENTIALS_INVALID,
        Reason.CREDENTIALS_REFUSED,
        Reason.VAULT_FAILED,
        Reason.PROXY_INVALID,
        Reason.CERTIFICATE_INVALID,
        Reason.CONFIG_URL_INVALID,
    }
)
# GitHub away: as long as an outage usually takes.
GITHUB_GIVEN_UP_AFTER_S = 600.0
LOOK_AGAIN_S = 5.0  # while something is waited for that makes no event


def stage(seen: Snapshot) -> Stage[Action]:
    """What goes now, and what is waited for."""
    if seen.has_children:
        return _let_go(seen)
    secret = proxy_secret.removal(seen)
    if secret is not None:
        return secret
    patch = drop_finalizers(seen.item.metadata, [EPHEMERAL_RUNNER_SET_FINALIZER])
    return Stage((PatchSet(patch),)) if patch is not None else Stage()


def _let_go(seen: Snapshot) -> Stage[Action]:
    deletes = [
        DeleteRunner(r.name, uid=r.uid, why="retired, its set is deleted") for r in seen.retired
    ]
    unanswered: list[Trouble] = []
    for runner in seen.runners:
        deletion = _deletion(seen, runner)
        if deletion is not None:
            deletes.append(deletion)
        elif runner.removal_trouble is not None:
            unanswered.append(runner.removal_trouble)
    asks = questions(seen, in_order(seen.runners), at_most=len(seen.runners))
    troubles = (*unanswered[:1], *_waits_for(seen))
    return Stage((*deletes, *asks), troubles, again_s=LOOK_AGAIN_S)


def _deletion(seen: Snapshot, runner: Runner) -> DeleteRunner | None:
    """The deletion of a runner that may go now; None: not yet."""
    if runner.has_job:
        return None
    # The version: a job that was stored meanwhile stops each of these.
    delete = DeleteRunner(runner.name, runner.uid, runner.resource_version)
    if runner.removal is Removal.FORGOTTEN:
        return replace(delete, why="GitHub has forgotten it")
    if runner.runner_id == 0:
        # Its own controller undoes a registration that it may be making.
        return replace(delete, why="its set is deleted, never registered")
    reason = runner.removal_trouble
    if runner.removal is not Removal.NO_ANSWER or reason is None:
        return None
    waited_s = seen.now_s - (seen.deleted_s or seen.now_s)
    bound_s = MEANS_GIVEN_UP_AFTER_S if reason.reason in MEANS else GITHUB_GIVEN_UP_AFTER_S
    if waited_s < bound_s:
        return None
    happened = (
        f"runner {runner.name} (id {runner.runner_id} at GitHub) is deleted though GitHub could "
        f"not be asked first: {reason.happened}"
    )
    told = trouble(reason.reason, about=seen.about, happened=happened)
    return replace(delete, why="its set is deleted, GitHub cannot be asked", told=told)


def _waits_for(seen: Snapshot) -> tuple[Trouble, ...]:
    busy = sum(1 for r in seen.runners if r.has_job or r.removal is Removal.HAS_JOB)
    going = seen.counts.deleting
    if not busy and not going:
        return ()
    parts = [f"{busy} runners still have a job"] if busy else []
    parts += [f"{going} runners are being deleted"] if going else []
    return (trouble(Reason.DELETION_WAITS, about=seen.about, happened=" and ".join(parts)),)
