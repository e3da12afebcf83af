"""Scale sets at places that the runner set has moved away from.

Remembered on the object, with what is needed to go there again, until the last runner of the
old place is gone; then the scale set there is deleted, because its object moved away (ADR 0007
says why that is not healing). With the old credentials while they work; if they do not, it is
given up after a bound and its id is told. Nobody listens there any more: jobs that GitHub has given
to it, and to no runner, wait until then, and that is told.

Pure. Contract: design section 4; replaces W8.
"""

from typing import Any

import msgspec

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EphemeralRunnerSpec
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.api.values import ProxyConfig, TLSConfig, VaultConfig, as_body
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Action,
    CountLeftJobs,
    DeleteScaleSet,
    LeftJobs,
    PatchSelf,
    Snapshot,
    Spot,
    recorded_s,
)
from runnerscale.controllers.autoscaling_runner_set.wish import same_address
from runnerscale.controllers.places import place_of
from runnerscale.controllers.stages import Stage, joined
from runnerscale.core.clock import format_time
from runnerscale.credentials.place import GitHubPlace
from runnerscale.kube.patching import at_version

ENTRIES_MAX = 8  # an annotation is no archive; nobody moves so often within one job's time
GIVE_UP_AFTER_S = 3600.0  # GitHub's own outages are shorter; nobody waits for this
COUNT_EVERY_S = 45.0  # the jobs that wait there: what blocks work is to be told within a minute


class LeftBehind(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """One scale set at an old place, spelled as in a spec so that `place_of` reads it."""

    scale_set_id: int
    github_config_url: str
    github_config_secret: str
    proxy: ProxyConfig | None = None
    github_server_tls: TLSConfig | None = msgspec.field(name="githubServerTLS", default=None)
    vault_config: VaultConfig | None = None
    failing_since: str = ""

    @property
    def spot(self) -> Spot:
        """Which one it is; the id alone may be another place's too."""
        return self.github_config_url, self.scale_set_id

    def place(self, namespace: str) -> GitHubPlace:
        """Where it is."""
        return place_of(self, namespace=namespace)  # type: ignore[arg-type]  # frozen, same fields


def entry_of(spec: EphemeralRunnerSpec, *, scale_set_id: int) -> LeftBehind:
    """What to remember of the place that these runners register at."""
    return LeftBehind(
        scale_set_id=scale_set_id,
        github_config_url=spec.github_config_url,
        github_config_secret=spec.github_config_secret,
        proxy=spec.proxy,
        github_server_tls=spec.github_server_tls,
        vault_config=spec.vault_config,
    )


def entries(seen: Snapshot) -> list[LeftBehind]:
    """What is remembered; an unreadable memory is none."""
    text = seen.annotation(keys.LEFT_BEHIND)
    try:
        return msgspec.json.decode(text, type=list[LeftBehind]) if text else []
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []


def as_annotation(left: list[LeftBehind]) -> str | None:
    """For the patch; None takes the annotation away."""
    return msgspec.json.encode([as_body(item) for item in left]).decode() if left else None


def stage(seen: Snapshot) -> Stage[Action]:
    """Delete what no runner uses any more; forget what is gone, shared or given up."""
    left = entries(seen)
    if not left:
        return Stage()
    kept: list[LeftBehind] = []
    actions: list[Action] = []
    troubles: list[Trouble] = []
    leaks: list[Trouble] = []
    counts: list[Stage[Action]] = []
    for item in left:
        if _is_done(seen, item):
            continue
        refusal = seen.github.left_troubles.get(item.spot)
        if refusal is None:
            kept.append(item)
            if _is_in_use(seen, item):
                counts.append(_count(seen, item))
                continue
            if not seen.is_view_proven:
                continue
            if seen.now_s >= seen.known.left_retry_s:
                place = item.place(seen.namespace)
                actions.append(DeleteScaleSet(place, item.scale_set_id, left_behind=True))
            elif told := seen.known.left_troubles.get(item.spot):
                troubles.append(told)
        elif _failing_s(seen, item) < GIVE_UP_AFTER_S:
            known = recorded_s(item.failing_since) is not None
            stamp = item.failing_since if known else format_time(seen.now_s)
            kept.append(msgspec.structs.replace(item, failing_since=stamp))
            troubles.append(refusal)
        else:
            leaks.append(_leaked(seen, item, refusal.happened))
    if kept != left:
        actions.append(_remember(seen, kept, tuple(leaks)))
    again_s = max(1.0, seen.known.left_retry_s - seen.now_s) if troubles else None
    return joined([Stage(tuple(actions), tuple(troubles), again_s=again_s), *counts])


def _count(seen: Snapshot, item: LeftBehind) -> Stage[Action]:
    """Asked every now and then; what was known before is told until another answer comes."""
    known = seen.known.left_jobs.get(item.spot, LeftJobs())
    again_s = known.asked_s + COUNT_EVERY_S - seen.now_s
    if again_s <= 0:
        return Stage((CountLeftJobs(item.place(seen.namespace), item.scale_set_id),))
    if known.waiting == 0:
        return Stage(again_s=again_s)
    jobs = "1 job waits" if known.waiting == 1 else f"{known.waiting} jobs wait"
    what = f"{jobs} at scale set {item.scale_set_id} of {item.github_config_url}, which it has left"
    told = trouble(Reason.JOBS_LEFT_BEHIND, about=seen.about, happened=what)
    return Stage(troubles=(told,), again_s=again_s)


def _failing_s(seen: Snapshot, item: LeftBehind) -> float:
    since_s = recorded_s(item.failing_since)
    return 0.0 if since_s is None else seen.now_s - since_s


def _is_done(seen: Snapshot, item: LeftBehind) -> bool:
    if item.spot in seen.github.deleted:
        return True
    # Somebody else has it, or we came back to it: not ours to delete.
    back = item.scale_set_id == seen.scale_set_id and same_address(
        item.github_config_url, seen.issued_for
    )
    return back or seen.is_neighbours(item.github_config_url, item.scale_set_id)


def _is_in_use(seen: Snapshot, item: LeftBehind) -> bool:
    return any(
        number == item.scale_set_id and same_address(url, item.github_config_url)
        for url, number in seen.runners.places
    )


def _remember(seen: Snapshot, left: list[LeftBehind], told: tuple[Trouble, ...]) -> PatchSelf:
    annotations: dict[str, Any] = {keys.LEFT_BEHIND: as_annotation(left)}
    body = {"metadata": {"annotations": annotations}}
    return PatchSelf(at_version(body, seen.meta.resource_version), told)


def _leaked(seen: Snapshot, item: LeftBehind, why: str) -> Trouble:
    what = (
        f"scale set {item.scale_set_id} at {item.github_config_url} could not be deleted and was "
        f"given up: {why}"
    )
    return trouble(Reason.SCALE_SET_LEAKED, about=seen.about, happened=what)
