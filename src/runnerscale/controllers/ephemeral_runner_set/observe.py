"""From the objects in the caches, and what is remembered, to what the stages decide on. Pure.

A malformed part of a hostile object becomes its zero and harms nobody else.
"""

from collections.abc import Collection
from dataclasses import replace

import msgspec

from runnerscale.api.conditions import HEALTHY, ONLINE, STARTED
from runnerscale.api.ephemeral_runner import EphemeralRunner, EphemeralRunnerSpec, has_job
from runnerscale.api.fingerprint import is_ours
from runnerscale.api.go_form import same_in_go
from runnerscale.api.labels import RUNNER_SPEC_HASH
from runnerscale.api.phase import RunnerPhase, is_terminal
from runnerscale.controllers.conditions import find
from runnerscale.controllers.ephemeral_runner_set.snapshot import Retired, Runner
from runnerscale.core.clock import parse_time
from runnerscale.kube.objects import Condition, is_deleting

# An idle runner that has been ready for so long does not fail because of its template.
PROVEN_AFTER_S = 60.0
AHEAD_MAX_S = 5.0  # replicas of a controller do not agree on the time to the second


def runner_view(item: EphemeralRunner, *, current: bool) -> Runner:
    """A live runner, but for what changes with time."""
    meta, status = item.metadata, item.status
    ready = status.ready
    online = find(status.conditions, ONLINE) or find(status.conditions, STARTED)
    return Runner(
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        created_s=time_of(meta.creation_timestamp),
        phase=status.phase,
        runner_id=status.runner_id,
        has_job=has_job(status),
        current=current,
        troubled=bool(status.reason),
        proven=has_job(status) or ready,  # `seasoned` asks for how long
        online_s=_since(online) if ready else None,
    )


def seasoned(runner: Runner, *, now_s: float) -> bool:
    """Whether the runner shows that what it is made from works."""
    return runner.has_job or (runner.proven and now_s - runner.created_s >= PROVEN_AFTER_S)


def retired_view(item: EphemeralRunner, *, current: bool) -> Retired:
    """A runner in a terminal phase."""
    meta, status = item.metadata, item.status
    healthy = find(status.conditions, HEALTHY)
    ended_s = _since(healthy) if healthy is not None and healthy.status == "False" else None
    return Retired(
        name=meta.name or "",
        uid=meta.uid or "",
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        since_s=ended_s if ended_s is not None else time_of(meta.creation_timestamp),
        created_s=time_of(meta.creation_timestamp),
        had_job=has_job(status),
        current=current,
    )


def believed(retired: Retired, *, now_s: float) -> Retired:
    """With an end that may be true: none lies in the future.

    A clock that is an hour ahead for a moment must not stop creation for an hour after it was set
    right. The runner's creation is the API server's time.
    """
    if retired.since_s <= now_s + AHEAD_MAX_S:
        return retired
    return replace(retired, since_s=min(retired.created_s, now_s))


def with_our_doing(retired: tuple[Retired, ...], forgotten: Collection[str]) -> tuple[Retired, ...]:
    """A runner ends with an error when its registration goes under it: not always after us.

    `forgotten`: the uids of those that GitHub forgot at our word.
    """
    if not forgotten:
        return retired
    return tuple(
        replace(r, forgotten=r.uid in forgotten and r.phase == RunnerPhase.FAILED and not r.had_job)
        for r in retired
    )


def is_retired(item: EphemeralRunner) -> bool:
    """In a terminal phase, and nobody deletes it yet."""
    return is_terminal(item.status.phase) and not is_deleting(item)


def is_current(item: EphemeralRunner, wished: EphemeralRunnerSpec, *, fingerprint: str) -> bool:
    """Whether the runner was made from this spec.

    One that ARC made carries no fingerprint of ours: then its contents are compared, so that
    taking over a cluster exchanges nobody.
    """
    made_from = (item.metadata.annotations or {}).get(RUNNER_SPEC_HASH, "")
    if is_ours(made_from):
        return made_from == fingerprint
    return same_in_go(_comparable(item.spec), _comparable(wished))


def _comparable(spec: EphemeralRunnerSpec) -> EphemeralRunnerSpec:
    # Every runner gets the reference to the proxies from its set, which has none itself.
    return msgspec.structs.replace(spec, proxy_secret_ref="")


def _since(condition: Condition | None) -> float | None:
    if condition is None or not condition.last_transition_time:
        return None
    return time_of(condition.last_transition_time)


def time_of(text: str | None) -> float:
    """Seconds since the epoch; 0 where there is no such time."""
    try:
        return parse_time(text) if text else 0.0
    except (ValueError, OverflowError):
        return 0.0


def must_list(
    *,
    deleting: bool,
    asked: bool,
    stale: bool,
    outdated: bool,
    target: int | None,
    alive: int,
) -> bool:
    """Whether a stage may have something to decide about single live runners.

    A set that is deleted lets all go; an answer of GitHub is about one; old templates are
    exchanged; a refused version and a surplus let idle ones go (`target`: down to how many).
    """
    too_many = target is not None and alive > target
    return deleting or asked or stale or outdated or too_many
