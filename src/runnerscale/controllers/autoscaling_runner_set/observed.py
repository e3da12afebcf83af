"""From caches to the snapshot of a runner set.

Apart from the shell, because what is looked at is a decision too: which runners count as idle
at which place, whose claim to a scale set is older. A set may have thousands of runners and
changes with each of them: they are looked at one by one only while it moves between places;
the few that concern the whole set are kept apart as they change (`Notable`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

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
    recorded_id,
)
from runnerscale.controllers.autoscaling_runner_set.wish import claim, read_wish, same_address
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import controller_of, is_deleting, key_of
from runnerscale.kube.patching import owner_index
from runnerscale.kube.store import Change

BY_OWNER = "owner"
BY_CLAIM = "claim"
BY_RUNNER_SET = "runner-set"


@dataclass(frozen=True, slots=True)
class Caches:
    """What the rules see; the indexes are those of the names above."""

    runner_sets: Informer[AutoscalingRunnerSet]  # BY_CLAIM: by_claim
    runner_sets_owned: Informer[EphemeralRunnerSet]  # BY_OWNER: kube.patching.owner_index
    listeners: Informer[AutoscalingListener]  # BY_RUNNER_SET: autoscaling_listener.by_runner_set
    runners: Informer[EphemeralRunner]
    # Whether GitHub said lately that it has a job: no listener may be left that would store it.
    is_said_busy: Callable[[EphemeralRunner], bool]


def by_claim(runner_set: AutoscalingRunnerSet) -> Iterable[str]:
    """Index of runner sets by what they want to own at GitHub."""
    return [claim(runner_set)]


class Notable:
    """The runners whose fate concerns their whole set: refused as outdated, or homeless."""

    def __init__(self, runners: Informer[EphemeralRunner]) -> None:
        """Make it before the informer runs: it hears of every runner."""
        self._by_owner: dict[str, dict[str, EphemeralRunner]] = {}
        runners.on_change(self._changed)

    def of(self, owner: EphemeralRunnerSet) -> list[EphemeralRunner]:
        """Those of one EphemeralRunnerSet."""
        found = self._by_owner.get(f"{EPHEMERAL_RUNNER_SETS.kind}/{key_of(owner)}", {})
        return [item for item in found.values() if _owner_uid(item) == owner.metadata.uid]

    def _changed(self, change: Change[EphemeralRunner]) -> None:
        if change.old is not None:
            for owner in owner_index(change.old):
                kept = self._by_owner.get(owner, {})
                kept.pop(change.key, None)
                if not kept:
                    self._by_owner.pop(owner, None)
        if change.new is not None and is_notable(change.new):
            for owner in owner_index(change.new):
                self._by_owner.setdefault(owner, {})[change.key] = change.new


def is_notable(runner: EphemeralRunner) -> bool:
    """Whether it says something about its set and not only about itself."""
    status = runner.status
    return status.phase == RunnerPhase.OUTDATED or status.reason == Reason.SCALE_SET_GONE


def observe(
    caches: Caches,
    notable: Notable,
    runner_set: AutoscalingRunnerSet,
    *,
    settings: Settings,
    known: Known,
    now_s: float,
) -> Snapshot:
    """The snapshot of this object."""
    key = key_of(runner_set)
    sets = _owned_sets(caches, runner_set)
    seen = Snapshot(
        now_s=now_s,
        settings=settings,
        runner_set=runner_set,
        wish=read_wish(runner_set, f"AutoscalingRunnerSet {key}"),
        sets=sets,
        listeners=tuple(caches.listeners.store.by_index(BY_RUNNER_SET, key)),
        runners=_verdicts(notable, sets),
        rivals=_rivals(caches, runner_set),
        known=known,
    )
    if seen.is_moving or is_deleting(runner_set) or seen.annotation(keys.LEFT_BEHIND):
        return replace(
            seen,
            runners=_with_places(seen.runners, caches),
            neighbours=_neighbours(caches, runner_set),
        )
    return seen


def _owned_sets(caches: Caches, owner: AutoscalingRunnerSet) -> tuple[EphemeralRunnerSet, ...]:
    kind, key = "AutoscalingRunnerSet", key_of(owner)
    found = caches.runner_sets_owned.store.by_index(BY_OWNER, f"{kind}/{key}")
    return tuple(item for item in found if _owner_uid(item) == owner.metadata.uid)


def _owner_uid(item: EphemeralRunnerSet | EphemeralRunner) -> str:
    owner = controller_of(item)
    return owner.uid if owner else ""


def _verdicts(notable: Notable, sets: Iterable[EphemeralRunnerSet]) -> Runners:
    outdated: set[str] = set()
    doubted: set[int] = set()
    for owner in sets:
        for runner in notable.of(owner):
            spec = runner.spec
            if runner.status.phase == RunnerPhase.OUTDATED:
                outdated.add(pod_fingerprint(PodTemplate(spec.metadata, spec.spec)))
            if runner.status.reason == Reason.SCALE_SET_GONE:
                doubted.add(spec.runner_scale_set_id)
    return Runners(outdated=frozenset(outdated), doubted=frozenset(doubted))


def _with_places(runners: Runners, caches: Caches) -> Runners:
    """Of all runners there are: one whose set was deleted by force may still have a job."""
    places: set[tuple[str, int]] = set()
    idle: set[tuple[str, int]] = set()
    busy: set[tuple[str, int]] = set()
    for runner in caches.runners.store.list():
        spec, status = runner.spec, runner.status
        if is_terminal(status.phase):
            continue  # evidence needs no scale set any more
        place = (spec.github_config_url, spec.runner_scale_set_id)
        places.add(place)
        if has_job(status) or caches.is_said_busy(runner):
            busy.add(place)
        elif not is_deleting(runner):
            idle.add(place)
    return replace(
        runners,
        places=frozenset(places),
        idle_places=frozenset(idle),
        busy_places=frozenset(busy),
    )


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
    """(URL, id) of the scale sets of all other objects: never ours to delete."""
    found = set()
    for other in caches.runner_sets.store.list():
        annotations = other.metadata.annotations or {}
        number = recorded_id(annotations.get(keys.SCALE_SET_ID, ""))
        if number and other.metadata.uid != runner_set.metadata.uid:
            url = annotations.get(keys.ISSUED_FOR) or other.spec.github_config_url
            found.add((url, number))
    return frozenset(found)
