"""What runs: sets, runners and listeners of ARC's making, and what becomes of each.

The point of the whole check: nothing busy is touched, idle runners stay where ARC made them of the
very wish that stands there now, listeners are exchanged once because their image is. Pure.
Contract: resources-and-controllers 1.7, 2.8, W9, W32, W42.
"""

from collections.abc import Iterator

import msgspec

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_runner_set import AutoscalingRunnerSet
from runnerscale.api.ephemeral_runner import EphemeralRunnerSpec
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.api.fingerprint import is_ours
from runnerscale.api.go_form import same_in_go
from runnerscale.api.phase import RunnerPhase, is_terminal
from runnerscale.core.plain_text import counted
from runnerscale.core.whole_number import whole_number
from runnerscale.migration.findings import Finding, changes, guarded, in_the_way, note
from runnerscale.migration.runner_sets import stuck
from runnerscale.migration.snapshot import (
    LISTENERS,
    RUNNER_SETS,
    RUNNERS,
    SETS,
    Json,
    Snapshot,
    annotations,
    meta,
    name_of,
    part,
    status_of,
)

JOB_FIELDS = ("jobId", "jobRequestId", "workflowRunId")


def findings(seen: Snapshot) -> Iterator[Finding]:
    """Set by set."""
    for item in seen.of(RUNNER_SETS):
        about = f"AutoscalingRunnerSet {name_of(item)}"
        yield from guarded(_sets(seen, item, about), about)
        yield from guarded(_listeners(seen, item, about), about)
    for item in seen.of(SETS):
        yield from guarded(_runners(seen, item), f"EphemeralRunnerSet {name_of(item)}")
    for kind, what in (("EphemeralRunnerSet", SETS), ("AutoscalingListener", LISTENERS)):
        for item in seen.of(what):
            if meta(item).get("deletionTimestamp"):
                yield from stuck(seen, item, f"{kind} {name_of(item)}")


def has_job(runner: Json) -> bool:
    """Whether a job was assigned to it."""
    return any(status_of(runner).get(field) for field in JOB_FIELDS)


def _sets(seen: Snapshot, item: Json, about: str) -> Iterator[Finding]:
    for found in seen.children(SETS, item):
        if meta(found).get("deletionTimestamp"):
            continue
        if meta(found).get("name") != meta(item).get("name"):
            what = f"its EphemeralRunnerSet {meta(found).get('name')} has a name of older releases"
            yield changes("old-set", about, what, "Its idle runners go, busy ones finish")
            continue
        yield from _adoption(item, found, about)


def _adoption(item: Json, found: Json, about: str) -> Iterator[Finding]:
    stamp = str(annotations(found).get(keys.INTEGRITY_HASH, ""))
    try:
        agree = same_in_go(_wished(item), _stored(found))
    except msgspec.MsgspecError as error:
        what = f"it or its EphemeralRunnerSet cannot be read: {error}"
        yield in_the_way("unreadable", about, what, "Correct the field that is named")
        return
    if not agree:
        what = "its runners were made of another spec than it has now"
        yield changes("spec", about, what, "Idle runners are exchanged a few at a time")
    elif stamp and not is_ours(stamp):
        yield note("adopted", about, "its set and idle runners are taken over as they are")


def _wished(item: Json) -> EphemeralRunnerSpec:
    spec = msgspec.json.decode(msgspec.json.encode(item), type=AutoscalingRunnerSet).spec
    text = str(annotations(item).get(keys.SCALE_SET_ID, ""))
    return EphemeralRunnerSpec(
        github_config_url=spec.github_config_url,
        github_config_secret=spec.github_config_secret,
        runner_scale_set_id=whole_number(text) or 0,
        github_server_tls=spec.github_server_tls,
        proxy=spec.proxy,
        vault_config=spec.vault_config,
        ephemeral_runner_config_secret_metadata=spec.ephemeral_runner_config_secret_metadata,
        metadata=spec.template.metadata,
        spec=spec.template.spec,
    )


def _stored(item: Json) -> EphemeralRunnerSpec:
    found = msgspec.json.decode(msgspec.json.encode(item), type=EphemeralRunnerSet)
    return found.spec.ephemeral_runner_spec


def _listeners(seen: Snapshot, item: Json, about: str) -> Iterator[Finding]:
    found = seen.listeners_of(item)
    if len(found) > 1:
        names = ", ".join(sorted(str(meta(each).get("name")) for each in found))
        what = f"several listeners fight for its one session: {names}"
        yield changes("listeners", about, what, "All but one are taken away")
    for each in found:
        image = part(each, "spec").get("image")
        if image != seen.ours.image:
            name = meta(each).get("name")
            what = f"its listener {name} is restarted once, with our image instead of {image}"
            yield changes("listener-restart", about, what, "It gives its session back first")


def _runners(seen: Snapshot, item: Json) -> Iterator[Finding]:
    about = f"EphemeralRunnerSet {name_of(item)}"
    runners = list(seen.children(RUNNERS, item))
    busy = sum(has_job(r) and not is_terminal(_phase(r)) for r in runners)
    legacy = sum(_phase(r) == RunnerPhase.RUNNING and not has_job(r) for r in runners)
    unknown = sum(_phase(r) == RunnerPhase.UNKNOWN for r in runners)
    dead = sum(is_terminal(_phase(r)) for r in runners)
    if busy:
        yield note("busy", about, f"{counted(busy, 'runner', 'runners')} with a job, left alone")
    if legacy:
        left = counted(legacy, "runner", "runners")
        what = f"older controllers left {left} in phase Running without a job"
        yield note("legacy-running", about, what, "Such runners count as idle here")
    if unknown:
        what = f"{counted(unknown, 'runner', 'runners')} of phase Unknown"
        yield changes("legacy-unknown", about, what, "Their phase becomes Pending")
    if dead:
        failed = counted(dead, "runner", "runners")
        what = f"{failed} failed, which ARC keeps until somebody deletes them"
        yield changes("failed", about, what, "We delete them ten minutes after they failed")
    for runner in runners:
        if meta(runner).get("deletionTimestamp"):
            yield from stuck(seen, runner, f"EphemeralRunner {name_of(runner)}")


def _phase(runner: Json) -> str:
    return str(status_of(runner).get("phase", ""))
