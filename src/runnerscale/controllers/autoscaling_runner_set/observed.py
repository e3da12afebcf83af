"""From caches to the snapshot of a runner set.

Apart from the shell, because what is looked at is a decision too: which runners count as idle
at which place, whose claim to a scale set is older. Pure, given the caches.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AutoscalingListener
from runnerscale.api.autoscaling_runner_set import AutoscalingRunnerSet
from runnerscale.api.ephemeral_runner import EphemeralRunner, has_job
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS, EphemeralRunnerSet
from runnerscale.api.phase import RunnerPhase, is_terminal
from runnerscale.api.reasons import Reason
from runnerscale.api.values import PodTemplate
from runnerscale.controllers.autoscaling_runner_set.outdated import pod_fingerprint
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Known,
    Runners,
    Settings,
    Snapshot,
)
from runnerscale.controllers.autoscaling_runner_set.wish import claim, read_wish, same_address
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import controller_of, is_deleting, key_of

BY_OWNER = "owner"
BY_CLAIM = "claim"
BY_RUNNER_SET = "runner-set"


@dataclass(frozen=True, slots=True)
class Caches:
    """What the rules see; the indexes are those of the names above."""

    runner_sets: Informer[AutoscalingRunnerSet]  # BY_CLAIM: by_claim
    runner_sets_owned: Informer[EphemeralRunnerSet]  # BY_OWNER: kube.patching.owner_index
    listeners: Informer[AutoscalingListener]  # BY_RUNNER_SET: autoscaling_listener.by_runner_set
    runners: Informer[EphemeralRunner]  # BY_OWNER: kube.patching.owner_index


def by_claim(runner_set: AutoscalingRunnerSet) -> Iterable[str]:
    """Index of runner sets by what they want to own at GitHub."""
    return [claim(runner_set)]


def observe(
    caches: Caches,
    runner_set: AutoscalingRunnerSet,
    *,
    settings: Settings,
    known: Known,
    now_s: float,
) -> Snapshot:
    """The snapshot of this object."""
    key = key_of(runner_set)
    sets = _owned_sets(caches, runner_set)
    return Snapshot(
        now_s=now_s,
        settings=settings,
        runner_set=runner_set,
        wish=read_wish(runner_set, f"AutoscalingRunnerSet {key}"),
        sets=sets,
        listeners=tuple(caches.listeners.store.by_index(BY_RUNNER_SET, key)),
        runners=_runners(caches, sets),
        rivals=_rivals(caches, runner_set),
        neighbours=_neighbours(caches, runner_set),
        known=known,
    )


def _owned_sets(caches: Caches, owner: AutoscalingRunnerSet) -> tuple[EphemeralRunnerSet, ...]:
    kind, key = "AutoscalingRunnerSet", key_of(owner)
    found = caches.runner_sets_owned.store.by_index(BY_OWNER, f"{kind}/{key}")
    return tuple(item for item in found if _owner_uid(item) == owner.metadata.uid)


def _owner_uid(item: EphemeralRunnerSet | EphemeralRunner) -> str:
    owner = controller_of(item)
    return owner.uid if owner else ""


def _runners(caches: Caches, sets: Iterable[EphemeralRunnerSet]) -> Runners:
    places: set[tuple[str, int]] = set()
    idle: set[tuple[str, int]] = set()
    outdated: set[str] = set()
    doubted: set[int] = set()
    for owner in sets:
        index = f"{EPHEMERAL_RUNNER_SETS.kind}/{key_of(owner)}"
        for runner in caches.runners.store.by_index(BY_OWNER, index):
            if _owner_uid(runner) != owner.metadata.uid:
                continue
            spec, status = runner.spec, runner.status
            place = (spec.github_config_url, spec.runner_scale_set_id)
            if not is_terminal(status.phase):  # evidence needs no scale set any more
                places.add(place)
            if status.phase == RunnerPhase.OUTDATED:
                outdated.add(pod_fingerprint(PodTemplate(spec.metadata, spec.spec)))
            if status.reason == Reason.SCALE_SET_GONE:
                doubted.add(spec.runner_scale_set_id)
            busy = has_job(status)
            if not busy and not is_terminal(status.phase) and not is_deleting(runner):
                idle.add(place)
    return Runners(frozenset(places), frozenset(idle), frozenset(outdated), frozenset(doubted))


def _rivals(caches: Caches, runner_set: AutoscalingRunnerSet) -> tuple[str, ...]:
    """Objects that want the same scale set, and wanted it first."""
    others = caches.runner_sets.store.by_index(BY_CLAIM, claim(runner_set))
    return tuple(
        sorted(
            key_of(other)
            for other in others
            if other.metadata.uid != runner_set.metadata.uid
            and not is_deleting(other)
            and _rank(other) < _rank(runner_set)
        )
    )


def _rank(runner_set: AutoscalingRunnerSet) -> tuple[bool, str, str]:
    """Who is registered at that place already goes first, then who is older."""
    meta = runner_set.metadata
    annotations = meta.annotations or {}
    url = runner_set.spec.github_config_url
    here = same_address(annotations.get(keys.ISSUED_FOR) or url, url)
    registered = here and bool(annotations.get(keys.SCALE_SET_ID))
    return (not registered, meta.creation_timestamp or "", meta.uid or "")


def _neighbours(caches: Caches, runner_set: AutoscalingRunnerSet) -> frozenset[tuple[str, int]]:
    """(URL, id) of the scale sets of all other objects: never ours to delete.

    Only asked for where something was left behind; then it costs a look at every object.
    """
    if not (runner_set.metadata.annotations or {}).get(keys.LEFT_BEHIND):
        return frozenset()
    found = set()
    for other in caches.runner_sets.store.list():
        annotations = other.metadata.annotations or {}
        text = annotations.get(keys.SCALE_SET_ID, "")
        if other.metadata.uid != runner_set.metadata.uid and text.isdecimal():
            url = annotations.get(keys.ISSUED_FOR) or other.spec.github_config_url
            found.add((url, int(text)))
    return frozenset(found)
