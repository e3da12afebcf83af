"""What the set's status says: counters that are always true, the phase, and what is wrong.

Written at most every other second, because in a burst it would change with every runner; what
is wrong, and the phase, are told at once. `Outdated` is a verdict on one runner spec: it goes
when the spec changes or when a later runner works (W5). What the stored schema drops (ARC's has no
conditions) is not written again and again.

Pure. Contract: resources-and-controllers 1.5, 4.3.3.
"""

from collections.abc import Sequence
from typing import Any

from runnerscale.api.conditions import (
    CREATION_ALLOWED,
    RUNNERS_WRITABLE,
    SATISFIED,
    TEMPLATE_ACCEPTED,
)
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSetStatus
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.conditions import (
    as_body,
    find,
    is_true,
    shortened,
    with_condition,
)
from runnerscale.controllers.ephemeral_runner_set.failure_policy import Verdict, outdated
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Action,
    Check,
    Snapshot,
    StatusView,
    WriteStatus,
)
from runnerscale.controllers.ephemeral_runner_set.wanted import alive, wanted
from runnerscale.controllers.stages import Stage, worst
from runnerscale.kube.objects import Condition

STATUS_EVERY_S = 2.0  # each write also makes one of the runner set's status
PHASE_RUNNING = "Running"
PHASE_OUTDATED = "Outdated"


def stage(seen: Snapshot, verdict: Verdict, troubles: Sequence[Trouble]) -> Stage[Action]:
    """The one write that is due, if one is."""
    words = _words(seen, troubles)
    verdicts = _verdicts(seen, verdict)
    counters = _counters(seen)
    stored = seen.item.status
    now = view(stored)
    enough = has_enough(seen, verdict)
    numbers = (*counters.values(), int(enough))
    wished = StatusView((*words.values(), *_essence(verdicts)), numbers)
    known = seen.written if seen.written and seen.written.stored == now else None
    if wished == now or (known is not None and wished == known.wished):
        return Stage()
    is_news = wished.news != (known.wished.news if known else now.news)
    wait_s = seen.status_due_s - seen.now_s
    if wait_s > 0 and not is_news:
        return Stage(again_s=wait_s)
    before = {"phase": stored.phase, "reason": stored.reason, "message": stored.message}
    told = {key: words[key] for key in words if words[key] != before[key]}
    body: dict[str, Any] = {**counters, **told}
    conditions = as_body(_satisfied(seen, verdicts, enough=enough))
    if conditions != as_body(stored.conditions):
        body["conditions"] = conditions
    return Stage((WriteStatus(body, wished),))


def view(status: EphemeralRunnerSetStatus) -> StatusView:
    """What of a stored status is compared with what it should be."""
    counters = (
        status.current_replicas,
        status.pending_ephemeral_runners,
        status.running_ephemeral_runners,
        status.failed_ephemeral_runners,
        status.finished_ephemeral_runners,
        status.deleting_ephemeral_runners,
        int(is_true(status.conditions, SATISFIED)),
    )
    words = (status.phase, status.reason, status.message)
    return StatusView((*words, *_essence(status.conditions)), counters)


def _counters(seen: Snapshot) -> dict[str, int]:
    counts = seen.counts
    return {
        "currentReplicas": counts.current + seen.made,
        "pendingEphemeralRunners": counts.pending + seen.made,
        "runningEphemeralRunners": counts.running,
        "failedEphemeralRunners": counts.failed,
        "finishedEphemeralRunners": counts.finished,
        "deletingEphemeralRunners": counts.deleting,
    }


def _words(seen: Snapshot, troubles: Sequence[Trouble]) -> dict[str, str]:
    """Phase, reason and message."""
    first = worst(troubles)
    return {
        "phase": PHASE_OUTDATED if outdated(seen) else PHASE_RUNNING,
        "reason": str(first.reason) if first else "",
        "message": shortened(first.message) if first else "",
    }


def _essence(conditions: Sequence[Condition] | None) -> list[tuple[str, str, str, str]]:
    """What is worth a write at once: not the generation, and not whether there are enough."""
    return [
        (c.type, c.status, c.reason, c.message) for c in conditions or () if c.type != SATISFIED
    ]


def _verdicts(seen: Snapshot, verdict: Verdict) -> list[Condition]:
    conditions = list(seen.item.status.conditions or ())
    template = seen.template
    if template.check is Check.ACCEPTED:
        said = "the API server takes the pod of a runner"
        conditions = _with(seen, conditions, TEMPLATE_ACCEPTED, None, said)
    elif template.check is Check.REFUSED:
        conditions = _with(seen, conditions, TEMPLATE_ACCEPTED, template.trouble, "")
    mute = seen.unwritable
    if mute is not None or find(conditions, RUNNERS_WRITABLE) is not None:
        said = "the API server takes what is to be said of each runner"
        conditions = _with(seen, conditions, RUNNERS_WRITABLE, mute, said)
    said = "no failure stops or slows the making of runners"
    return _with(seen, conditions, CREATION_ALLOWED, verdict.trouble, said)


def has_enough(seen: Snapshot, verdict: Verdict) -> bool:
    """Whether nobody is missing; a place that waits for the listener's word is not empty."""
    return alive(seen) + seen.held + seen.made >= wanted(seen, cap=verdict.cap)


def _satisfied(seen: Snapshot, conditions: Sequence[Condition], *, enough: bool) -> list[Condition]:
    """Flips with every scaling: written as seldom as the counters are, and right at rest."""
    return with_condition(
        conditions,
        type=SATISFIED,
        status=enough,
        reason="AsManyAsWanted" if enough else "TooFew",
        message="",
        now_s=seen.now_s,
        generation=seen.item.metadata.generation,
    )


def _with(
    seen: Snapshot,
    conditions: Sequence[Condition],
    kind: str,
    trouble: Trouble | None,
    well: str,
) -> list[Condition]:
    return with_condition(
        conditions,
        type=kind,
        status=trouble is None,
        reason=str(trouble.reason) if trouble else "Well",
        message=trouble.message if trouble else well,
        now_s=seen.now_s,
        generation=seen.item.metadata.generation,
    )
