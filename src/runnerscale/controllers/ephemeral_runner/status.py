"""What the status of a living runner says, in as few writes as possible.

One write when the registration exists (id, name and `Pending` together), one more if the pod
becomes ready before there is a job; further ones only when something is wrong or no longer is.
`Running` is the listener's: a `Pending` is only written over nothing or over the legacy
`Unknown`, and every write carries the version it was decided on, so that a `Running` stored in
between makes a conflict and survives. A write about readiness alone carries no phase.

Conditions ride along with these writes and never cause one: CRDs of older releases drop them,
and `reason` and `message` then say the essential.

Pure. Contract: resources-and-controllers 1.7, 1.8, 4.4.3 P7; design sections 4 and 6.
"""

from collections.abc import Sequence

from runnerscale.api import conditions as kinds
from runnerscale.api.phase import RunnerPhase, Writer, may_move
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.conditions import with_condition
from runnerscale.controllers.ephemeral_runner.actions import NOTHING, PatchStatus, Step
from runnerscale.controllers.ephemeral_runner.snapshot import Snapshot, Where, where
from runnerscale.kube.objects import Condition


def look(seen: Snapshot, troubles: Sequence[Trouble], failed_pod: str = "") -> Step:
    """The one write that is due, if one is."""
    runner, jit = seen.runner, seen.hand.jit
    found_id = 0 if runner.runner_id == seen.registered_id else seen.registered_id
    if jit is not None and jit.runner_id != runner.runner_id:
        found_id = jit.runner_id  # registered anew: the stored id is of a registration that is gone
    known = bool(runner.runner_id or found_id)
    pending = known and may_move(runner.phase, RunnerPhase.PENDING, Writer.CONTROLLER)
    ready = _ready(seen)
    worst = troubles[0] if troubles else None
    reason = str(worst.reason) if worst else ""
    told = reason != runner.reason
    if not (found_id or pending or ready is not None or told or failed_pod):
        return NOTHING
    return Step(
        (
            PatchStatus(
                runner.ref,
                runner.resource_version,
                phase=RunnerPhase.PENDING if pending else None,
                runner_id=found_id or None,
                runner_name=(jit.runner_name if jit else runner.ref.name) if found_id else None,
                ready=ready,
                reason=reason if told else None,
                message=(worst.happened if worst else "") if told else None,
                failed_pod=failed_pod or None,
                conditions=tuple(_conditions(seen, worst, registered=known)),
            ),
        )
    )


def verdict(seen: Snapshot, why: Trouble, *, phase: RunnerPhase | None) -> PatchStatus:
    """The write that ends a life: with a terminal phase, or before the object is deleted."""
    runner = seen.runner
    found_id = 0 if runner.runner_id == seen.registered_id else seen.registered_id
    registered = bool(runner.runner_id or found_id)
    return PatchStatus(
        runner.ref,
        runner.resource_version,
        phase=phase,
        runner_id=found_id or None,
        runner_name=runner.ref.name if found_id else None,
        ready=False if runner.ready else None,
        reason=str(why.reason),
        message=why.happened,
        conditions=tuple(_conditions(seen, why, registered=registered)),
    )


def told(seen: Snapshot) -> tuple[Trouble, ...]:
    """What the stored status says is wrong, as it was told when it was written."""
    runner = seen.runner
    if not runner.reason:
        return ()
    try:
        return (trouble(Reason(runner.reason), about=seen.about, happened=runner.message),)  # type: ignore[call-arg]
    except ValueError:
        return ()  # a word of another release


def _ready(seen: Snapshot) -> bool | None:
    """What to write about readiness; None: nothing."""
    pod, runner = seen.pod, seen.runner
    if pod is None or where(seen) in (Where.GOING, Where.LOST, Where.REFUSED):
        return None
    if pod.ready == runner.ready:
        return None
    # A busy runner that turns ready is no news worth a write; one that turns unready is.
    return None if runner.has_job and pod.ready else pod.ready


def _conditions(seen: Snapshot, worst: Trouble | None, *, registered: bool) -> list[Condition]:
    pod, verdicts = seen.pod, list(seen.runner.conditions)

    def say(kind: str, status: bool, reason: str, message: str) -> None:
        nonlocal verdicts
        verdicts = with_condition(
            verdicts,
            type=kind,
            status=status,
            reason=reason,
            message=message,
            now_s=seen.now_s,
            generation=seen.runner.generation,
        )

    if registered:
        say(kinds.REGISTERED, True, "Registered", f"GitHub's id is {seen.registered_id}")
    if pod is not None and pod.placed_s is not None:
        say(kinds.POD_PLACED, True, "Placed", "")
    if pod is not None and pod.started_s is not None:
        say(kinds.STARTED, True, "Started", "")
    if seen.hand.talk.online:
        say(kinds.ONLINE, True, "Online", "")
    if worst is not None:
        say(kinds.HEALTHY, False, str(worst.reason), worst.message)
    elif seen.runner.reason:
        say(kinds.HEALTHY, True, "Recovered", "")
    return verdicts
