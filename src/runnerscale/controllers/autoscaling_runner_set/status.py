"""What the runner set says of itself: counters, phase, conditions, and the first thing wrong.

Counters are the EphemeralRunnerSet's own and are copied whenever any differs (W11), but not more
often than once a second: they change with every runner. What keeps the listener or the runners
from working is shown here too, because this is the object that a person looks at first.

Pure. Contract: resources-and-controllers 1.7, 1.8, 4.1 A15.
"""

from collections.abc import Sequence
from typing import Any

from runnerscale.api import conditions as types
from runnerscale.api.catalogue import Severity
from runnerscale.api.fingerprint import canonical, fingerprint
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.autoscaling_runner_set import (
    ephemeral_set,
    heard,
    listener,
    outdated,
    registration,
    version,
)
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Action,
    Snapshot,
    WriteStatus,
    once,
)
from runnerscale.controllers.conditions import as_body, find, with_condition, without_condition
from runnerscale.controllers.stages import Stage, worst
from runnerscale.kube.objects import Condition, is_deleting

COUNT_EVERY_S = 1.0
COUNTERS = (
    "currentRunners",
    "pendingEphemeralRunners",
    "runningEphemeralRunners",
    "failedEphemeralRunners",
    "finishedEphemeralRunners",
    "deletingEphemeralRunners",
)
# Told, but jobs are served all the same.
HARMLESS = (
    Reason.VERSION_SKEW,
    Reason.SETTINGS_IGNORED,
    Reason.SESSION_LOST,
    Reason.MESSAGE_QUARANTINED,
    Reason.JOB_STARTED_NOT_STORED,
)
# With one of these on what is below, nothing is done about it any more.
STUCK = (
    Reason.RECONCILE_FAILED,
    Reason.CONTROLLERS_COMPETE,
    Reason.API_SERVER_REFUSED,
    Reason.RIGHTS_MISSING,
)
AT_GITHUB = (
    Reason.CREDENTIALS_MISSING,
    Reason.CREDENTIALS_INVALID,
    Reason.CREDENTIALS_REFUSED,
    Reason.VAULT_FAILED,
    Reason.PROXY_INVALID,
    Reason.PROXY_REFUSED,
    Reason.CERTIFICATE_INVALID,
    Reason.GITHUB_UNAVAILABLE,
    Reason.GITHUB_RATE_LIMITED,
    Reason.GITHUB_REFUSED,
    Reason.RUNNER_GROUP_NOT_FOUND,
    Reason.SCALE_SET_AMBIGUOUS,
    Reason.SCALE_SET_GONE,
    Reason.SETTINGS_IGNORED,
)


def stage(seen: Snapshot, troubles: Sequence[Trouble]) -> Stage[Action]:
    """Write it if it is not so already."""
    body = wished(seen, troubles)
    now = _stored(seen)
    told = fingerprint(_timeless(body))
    if told == seen.known.status_told or canonical(now) == canonical(body):
        return Stage()
    wait_s = seen.known.counted_s + COUNT_EVERY_S - seen.now_s
    if wait_s > 0 and canonical(_uncounted(now)) == canonical(_uncounted(body)):
        return Stage(again_s=wait_s)
    return Stage((WriteStatus(body, told),))


def wished(seen: Snapshot, troubles: Sequence[Trouble]) -> dict[str, Any]:
    """The whole status."""
    found = seen.current_set
    counts = found.status if found else None
    reason, message = _first_wrong(seen, troubles)
    return {
        "currentRunners": counts.current_replicas if counts else 0,
        "pendingEphemeralRunners": counts.pending_ephemeral_runners if counts else 0,
        "runningEphemeralRunners": counts.running_ephemeral_runners if counts else 0,
        "failedEphemeralRunners": counts.failed_ephemeral_runners if counts else 0,
        "finishedEphemeralRunners": counts.finished_ephemeral_runners if counts else 0,
        "deletingEphemeralRunners": counts.deleting_ephemeral_runners if counts else 0,
        "phase": phase(seen),
        "reason": reason,
        "message": message,
        "conditions": as_body(_conditions(seen, troubles)),
    }


@once
def phase(seen: Snapshot) -> str:
    """Outdated, Running or Pending, derived and never remembered (W38)."""
    if is_deleting(seen.runner_set):
        return seen.runner_set.status.phase
    if outdated.is_outdated(seen):
        return "Outdated"
    settled = (
        seen.registered_id > 0 and ephemeral_set.is_settled(seen) and listener.is_settled(seen)
    )
    return "Running" if settled else "Pending"


def _first_wrong(seen: Snapshot, troubles: Sequence[Trouble]) -> tuple[str, str]:
    first = worst(troubles)
    if first is not None:
        return first.reason, first.message
    kept = listener.current(seen)
    if kept is not None and kept.status.reason:
        return kept.status.reason, kept.status.message
    found = seen.current_set
    return (found.status.reason, found.status.message) if found else ("", "")


def _conditions(seen: Snapshot, troubles: Sequence[Trouble]) -> list[Condition]:
    conditions = list(seen.runner_set.status.conditions or ())

    def say(kind: str, good: bool, why: Trouble | None, otherwise: tuple[str, str]) -> None:
        nonlocal conditions
        reason, message = (why.reason, why.message) if why else otherwise
        conditions = with_condition(
            conditions,
            type=kind,
            status=good,
            reason=reason,
            message=message,
            now_s=seen.now_s,
            generation=seen.meta.generation,
        )

    wrong_wish = worst(seen.wish.troubles)
    say(types.SPEC_ACCEPTED, wrong_wish is None, wrong_wish, ("Accepted", ""))
    registered = seen.registered_id > 0
    anew = registration.registered_anew(seen)
    others = (heard.its_trouble(seen), anew)
    at_github = worst(t for t in troubles if t.reason in AT_GITHUB and t not in others)
    good = registered and at_github is None
    say(types.REGISTERED, good, at_github or anew, _registered_word(seen))
    listens, word = _listener_ready(seen)
    say(types.LISTENER_READY, listens, None, word)
    refused = next((t for t in troubles if t.reason is Reason.OUTDATED), None)
    say(types.RUNNER_VERSION_ACCEPTED, refused is None, refused, ("Accepted", ""))
    skew = version.skew(seen)
    say(types.VERSION_SKEW, skew is not None, skew, ("SameVersion", ""))
    conditions = _mirrored(seen, conditions, types.TEMPLATE_ACCEPTED)
    open_troubles = [t for t in troubles if t != anew]
    ready, why = _ready(seen, open_troubles, listens=listens, conditions=conditions)
    say(types.READY, ready, why, ("Ready" if ready else "InProgress", ""))
    if is_deleting(seen.runner_set):
        held = worst(troubles)
        say(types.DELETION_BLOCKED, held is not None, held, ("Deleting", ""))
    return conditions


def _ready(
    seen: Snapshot, troubles: Sequence[Trouble], *, listens: bool, conditions: Sequence[Condition]
) -> tuple[bool, Trouble | None]:
    serious = [
        t for t in troubles if t.reason not in HARMLESS and t.reason.severity is not Severity.INFO
    ]
    if serious:
        return False, worst(serious)
    stuck = _stuck_below(seen)
    if stuck is not None:
        return False, stuck
    template = find(conditions, types.TEMPLATE_ACCEPTED)
    accepted = template is None or template.status != "False"
    return phase(seen) == "Running" and listens and accepted, None


def _stuck_below(seen: Snapshot) -> Trouble | None:
    """What keeps our controllers from the set, its runners or the listener, as these say."""
    for item in (seen.current_set, listener.current(seen)):
        for kind in (types.RECONCILED, types.RUNNERS_WRITABLE):
            said = find(item.status.conditions, kind) if item else None
            if item is None or said is None or said.status != "False" or said.reason not in STUCK:
                continue
            reason = Reason(said.reason)  # type: ignore[call-arg]
            happened = f"{item.kind} {item.metadata.name}: {reason.happened_in(said.message)}"
            return trouble(reason, about=seen.about, happened=happened)
    return None


def _registered_word(seen: Snapshot) -> tuple[str, str]:
    if seen.registered_id > 0:
        return "Registered", ""
    when = "any more" if is_deleting(seen.runner_set) else "yet"
    return "InProgress", f"not registered at GitHub {when}"


def _listener_ready(seen: Snapshot) -> tuple[bool, tuple[str, str]]:
    """Its pod runs, and it says nothing that keeps it from its work."""
    runs, word = heard.pod_state(seen)
    said = heard.its_trouble(seen)
    if said is None:
        return runs, word
    return said.reason in HARMLESS, (said.reason, said.message)


def _mirrored(seen: Snapshot, conditions: list[Condition], kind: str) -> list[Condition]:
    """The EphemeralRunnerSet's verdict, as it is."""
    found = seen.current_set
    theirs = find(found.status.conditions, kind) if found else None
    if theirs is None or theirs.status == "Unknown":
        return without_condition(conditions, kind)
    return with_condition(
        conditions,
        type=kind,
        status=theirs.status == "True",
        reason=theirs.reason or "Accepted",
        message=theirs.message,
        now_s=seen.now_s,
        generation=seen.meta.generation,
    )


def _stored(seen: Snapshot) -> dict[str, Any]:
    status = seen.runner_set.status
    return {
        "currentRunners": status.current_runners,
        "pendingEphemeralRunners": status.pending_ephemeral_runners,
        "runningEphemeralRunners": status.running_ephemeral_runners,
        "failedEphemeralRunners": status.failed_ephemeral_runners,
        "finishedEphemeralRunners": status.finished_ephemeral_runners,
        "deletingEphemeralRunners": status.deleting_ephemeral_runners,
        "phase": status.phase,
        "reason": status.reason,
        "message": status.message,
        "conditions": as_body(status.conditions),
    }


def _uncounted(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in COUNTERS}


def _timeless(body: dict[str, Any]) -> dict[str, Any]:
    # Where an older CRD prunes conditions, each pass would give them a new time.
    conditions = [{**item, "lastTransitionTime": None} for item in body["conditions"]]
    return {**body, "conditions": conditions}
