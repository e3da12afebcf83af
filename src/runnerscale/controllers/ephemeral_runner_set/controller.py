"""The EphemeralRunnerSet controller's shell: caches in, plans out, nothing decided.

`EphemeralRunnerSetReconciler` is what `kube.controller` runs; `connect` says which change in
which cache calls for a pass, and how soon: a new wish at once, a runner that went a moment
later (many go together), everything else when the status may be written anyway. The rules
begin in `plan.py`, the calls are in `apply.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner import EphemeralRunner, EphemeralRunnerSpec
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS, EphemeralRunnerSet
from runnerscale.api.fingerprint import fingerprint
from runnerscale.api.phase import RunnerPhase
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.ephemeral_runner_set import (
    doubted,
    finished,
    learning,
    observe,
    unwritable,
)
from runnerscale.controllers.ephemeral_runner_set.apply import Hands
from runnerscale.controllers.ephemeral_runner_set.finished import Departure, departure, words_of
from runnerscale.controllers.ephemeral_runner_set.memory import (
    UNDECIDED_KEPT_S,
    Memory,
    Remembered,
)
from runnerscale.controllers.ephemeral_runner_set.plan import plan
from runnerscale.controllers.ephemeral_runner_set.removals import Removals
from runnerscale.controllers.ephemeral_runner_set.roster import REBUILD_EVERY_S, Roster
from runnerscale.controllers.ephemeral_runner_set.scale_up import BATCH_MAX
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Action,
    Answer,
    Proxy,
    Removal,
    Runner,
    Snapshot,
)
from runnerscale.controllers.ephemeral_runner_set.wanted import shrink_to
from runnerscale.controllers.metrics import ControllerMetrics, Served
from runnerscale.controllers.places import place_labels
from runnerscale.controllers.reporting import Reporter
from runnerscale.core.clock import Clock, FollowingClock
from runnerscale.core.randomness import Random
from runnerscale.core.whole_number import whole_number
from runnerscale.credentials.place import Clients
from runnerscale.kube.client import Client
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import ObjectReference, controller_of, is_deleting, key_of
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.reconcile import Plan
from runnerscale.kube.store import Change

__all__ = ["BATCH_MAX", "NAME", "Enqueue", "EphemeralRunnerSetReconciler"]

NAME = "ephemeralrunnerset"  # as metrics and logs call it, as upstream does
OWNER_INDEX = "owner"  # of the runners' informer: `kube.patching.owner_index`
KIND = EPHEMERAL_RUNNER_SETS.kind

# Runners go in crowds: one pass for all that go within this.
GONE_TOGETHER_S = 0.05
# Changes that only the counters show.
COUNTERS_S = 0.5

Enqueue = Callable[..., None]  # (key, *, urgent: bool = False), as kube.controller has it
EnqueueAfter = Callable[[str, float], None]


def _unknown(_item: EphemeralRunnerSet) -> int | None:
    """Nobody says how many idle runners are wished."""
    return None


@dataclass(frozen=True, slots=True)
class Bound:
    """An action, and the set as it was when it was planned."""

    at: Snapshot = field(repr=False)
    action: Action


class EphemeralRunnerSetReconciler:
    """See `kube.reconcile.Reconciler`; keys are those of EphemeralRunnerSets."""

    def __init__(
        self,
        *,
        client: Client,
        clients: Clients,
        sets: Informer[EphemeralRunnerSet],
        runners: Informer[EphemeralRunner],
        own_writes: OwnWrites,
        reporter: Reporter,
        metrics: ControllerMetrics | None,
        clock: Clock,
        random: Random,
        build_version: str,
        min_runners: Callable[[EphemeralRunnerSet], int | None] = _unknown,
        max_runners: Callable[[EphemeralRunnerSet], int | None] = _unknown,
        is_view_proven: Callable[[], bool] = lambda: True,
    ) -> None:
        """`runners`: with the index "owner"; `own_writes`: the same that the Controller is given.

        `metrics`: None where none are served. `min_runners`, `max_runners`: what the set's runner
        set asks for. `is_view_proven`: see `kube/freshness.py`.
        """
        self._sets = sets
        self._runners = runners
        self._reporter = reporter
        self._metrics = metrics
        self._min_runners = min_runners
        self._max_runners = max_runners
        self._memory = Memory()
        self._clock = FollowingClock(clock, jumped=self._memory.clock_jumped)
        self._served: dict[str, Served] = {}
        self._fingerprints: dict[str, tuple[EphemeralRunnerSpec, str]] = {}
        self._rosters: dict[str, Roster] = {}
        self._enqueue: Enqueue = _nobody
        self._enqueue_after: EnqueueAfter = _nobody
        self.removals = Removals(clients, clock=self._clock, answered=self._wake)
        self.unwritable = unwritable.Unwritable(runners.store, self._memory, wake=self._wake)
        self._hands = Hands(
            client=client,
            clients=clients,
            sets=sets,
            runners=runners,
            memory=self._memory,
            removals=self.removals,
            own_writes=own_writes,
            clock=self._clock,
            random=random,
            build_version=build_version,
            is_view_proven=is_view_proven,
        )

    # --- the five methods -----------------------------------------------------------------------

    def observe(self, key: str) -> Snapshot | None:
        """From the caches, and what this process remembers."""
        item = self._sets.store.get(key)
        if item is None:
            return None
        now_s = self._clock.now_s()
        reference = _reference(item)
        remembered = self._memory.of(key, reference.uid)
        spec_hash = self._fingerprint(key, item)
        remembered.use_fingerprint(spec_hash)
        remembered.drop_old_words(now_s=now_s)
        roster = self._roster(key, item, spec_hash, now_s)
        words = words_of(item)
        if remembered.words != words or remembered.held.since_s:
            remembered.held = finished.heard(remembered.held, remembered.words, words, alive=roster)
            remembered.words = words
        held, held_again_s = finished.still_held(remembered.held, words, now_s=now_s)
        doubt, doubts = self._doubted(item, roster, remembered, now_s)
        seen = Snapshot(
            now_s=now_s,
            item=item,
            reference=reference,
            fingerprint=spec_hash,
            replicas=max(0, item.spec.replicas - doubt) + self._beside(item, roster, remembered),
            doubts=doubts,
            exact=item.spec.patch_id == 0,
            hold=_hold(item),
            deleted_s=_deleted_s(item),
            retired=tuple(
                observe.believed(each, now_s=now_s)
                for each in observe.with_our_doing(roster.evidence(), remembered.forgotten)
            ),
            counts=roster.counts,
            held=held,
            held_again_s=held_again_s,
            disturbed_s=remembered.lately_disturbed(now_s=now_s),
            template=remembered.template,
            proxy=_due(remembered.proxy, now_s=now_s),
            had_proxy=roster.proxied > 0,
            confirmed=remembered.confirmed,
            undecided=self._undecided(remembered, reference.namespace, now_s),
            unwritable=unwritable.said(remembered.unwritable),
            status_due_s=remembered.status_due_s,
            written=remembered.written,
        )
        return self._with_runners(seen, roster, remembered)

    def _doubted(
        self, item: EphemeralRunnerSet, roster: Roster, remembered: Remembered, now_s: float
    ) -> tuple[int, tuple[Trouble, ...]]:
        """How many of the jobs are not believed in, and what is told of that."""
        low = self._min_runners(item)
        if low is None or is_deleting(item):
            return 0, ()
        busy = roster.counts.running
        waiting = doubted.waiting(replicas=item.spec.replicas, low=low, busy=busy)
        if waiting > 0 and now_s - remembered.idle_counted_s >= doubted.COUNT_EVERY_S:
            remembered.idle_long = roster.idle_since_before(now_s - doubted.IDLE_LONG_S)
            remembered.idle_counted_s = now_s
        doubt = remembered.doubt = doubted.judged(
            remembered.doubt,
            waiting=waiting,
            low=low,
            idle_long=remembered.idle_long,
            now_s=now_s,
        )
        about = f"{KIND} {key_of(item)}"
        return doubt.jobs, doubted.said(doubt, about=about, waiting=waiting)

    def _beside(self, item: EphemeralRunnerSet, roster: Roster, remembered: Remembered) -> int:
        """Runners that are wanted beside the listener's number: it counts none of the jobs that
        still run for a scale set that is gone, so those must not take the places of others.
        """
        said = {u for u, word in remembered.removals.items() if word.removal is Removal.HAS_JOB}
        served = item.spec.ephemeral_runner_spec.runner_scale_set_id
        strays = roster.strays(served, said_busy=said)
        most = self._max_runners(item) if strays else None
        return 0 if most is None else max(0, min(strays, most - item.spec.replicas))

    def _with_runners(self, seen: Snapshot, roster: Roster, remembered: Remembered) -> Snapshot:
        """The live runners one by one if a stage may decide about one, else as numbers."""
        listed = observe.must_list(
            deleting=seen.deleting,
            asked=bool(remembered.removals),
            stale=bool(roster.stale),
            outdated=any(r.phase == RunnerPhase.OUTDATED for r in seen.retired),
            target=shrink_to(seen),
            alive=roster.live,
        )
        if not listed:
            detail = bool(seen.retired or seen.disturbed_s)
            return replace(seen, unlisted=roster.unlisted(now_s=seen.now_s, in_detail=detail))
        runners = (_told(r, remembered, now_s=seen.now_s) for r in roster.runners())
        return replace(seen, runners=tuple(runners))

    def plan(self, seen: Snapshot) -> Plan[Bound, Trouble]:
        """See `plan.py`."""
        made = plan(seen)
        actions = tuple(Bound(seen, action) for action in made.actions)
        return Plan(actions, made.again_s, made.failed, made.troubles, made.stale)

    async def apply(self, bound: Bound) -> Answer:
        """See `apply.py`."""
        return await self._hands.apply(bound.at, bound.action)

    def learn(self, seen: Snapshot, answers: Sequence[tuple[Bound, Answer]]) -> Snapshot:
        """See `learning.py`; what is to be remembered, is."""
        known = learning.learn(seen, [(bound.action, answer) for bound, answer in answers])
        remembered = self._memory.of(known.key, known.reference.uid)
        remembered.template = known.template
        remembered.proxy = known.proxy
        remembered.confirmed = known.confirmed
        remembered.status_due_s = known.status_due_s
        remembered.written = known.written
        return known

    def report(self, key: str, seen: Snapshot | None, troubles: Sequence[Trouble]) -> None:
        """Event, metric and log line; and the gauges of runners by phase."""
        if seen is None or seen.gone:
            self._reporter.forget(KIND, key)
            if self._sets.store.get(key) is None:
                # As long as an old cache shows it, GitHub's answers are not to be asked for anew.
                self._memory.forget(key)
            self._fingerprints.pop(key, None)
            self._rosters.pop(key, None)
            served = self._served.pop(key, None)
            if served is not None and self._metrics is not None:
                self._metrics.forget_runners(served)
            return
        self._reporter.report(seen.reference, key, troubles)
        if self._metrics is None:
            return
        served = _served(seen)
        before = self._served.get(key)
        if before is not None and before != served:
            self._metrics.forget_runners(before)
        self._served[key] = served
        counts = seen.counts
        self._metrics.set_runners(
            served,
            pending=counts.pending + seen.made,
            running=counts.running,
            failed=counts.failed,
        )

    async def close(self) -> None:
        """Give up the questions to GitHub that are on their way."""
        await self.removals.close()

    def is_said_busy(self, runner: EphemeralRunner) -> bool:
        """Whether GitHub said lately that it has a job, when asked to forget it."""
        owner = controller_of(runner)
        key = f"{runner.metadata.namespace or ''}/{owner.name if owner else ''}"
        remembered = self._memory.known(key)
        word = remembered.removals.get(runner.metadata.uid or "") if remembered else None
        return word is not None and word.removal is Removal.HAS_JOB

    def note_ending(self, runner: EphemeralRunner) -> None:
        """Its own controller is about to delete it."""
        owner = controller_of(runner)
        if owner is not None and owner.kind == KIND:
            key = f"{runner.metadata.namespace or ''}/{owner.name}"
            self._memory.of(key, owner.uid).note_ending(runner.metadata.uid or "")

    # --- which events wake which set ----------------------------------------------------------

    def look_at_all(self) -> None:
        """What waited for a proven view goes on."""
        for key in list(self._sets.store):
            self._enqueue(key)

    def connect(self, enqueue: Enqueue, enqueue_after: EnqueueAfter) -> None:
        """Have the caches call for passes; both are the Controller's."""
        self._enqueue = enqueue
        self._enqueue_after = enqueue_after
        for item in self._runners.store.list():
            self._enter(item)
        self._sets.on_change(self._set_changed)
        self._runners.on_change(self._runner_changed)

    def _set_changed(self, change: Change[EphemeralRunnerSet]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and _same_wish(old, new):
            return  # our own status
        self._enqueue(change.key, urgent=new is not None and not is_deleting(new))

    def _runner_changed(self, change: Change[EphemeralRunner]) -> None:
        item = change.new or change.old
        owner = controller_of(item) if item is not None else None
        if item is None or owner is None or owner.kind != KIND:
            return
        namespace = item.metadata.namespace or ""
        key = f"{namespace}/{owner.name}"
        remembered = self._memory.of(key, owner.uid)
        self.unwritable.changed(key, change, remembered)
        owning = self._sets.store.get(key)
        left = self._note_departure(change, remembered, owning)
        if change.new is None:
            self._roster_of(key, owner.uid).remove(item.metadata.name or "")
            remembered.forget_runner(item.metadata.uid or "")
        else:
            self._enter(change.new)
        drains = owning is not None and is_deleting(owning)
        soon = left is not Departure.NONE or drains or change.old is None
        self._enqueue_after(key, GONE_TOGETHER_S if soon else COUNTERS_S)

    def _note_departure(
        self,
        change: Change[EphemeralRunner],
        remembered: Remembered,
        owning: EphemeralRunnerSet | None,
    ) -> Departure:
        item = change.new or change.old
        ours = item is not None and (item.metadata.uid or "") in remembered.ending
        left = departure(change.old, change.new, ours=ours)
        if item is None or left is Departure.NONE:
            return Departure.NONE
        if (item.metadata.uid or "") in remembered.let_go:
            return Departure.FAILED  # we know why it goes; worth a pass, and no more
        now_s = self._clock.now_s()
        if left is Departure.FINISHED and finished.is_counted(item, owning):
            name = item.metadata.name or ""
            remembered.held = finished.ended(remembered.held, name, now_s=now_s)
        elif left is Departure.LOST:
            remembered.disturbed_s.append(now_s)
        return left

    def _wake(self, key: str) -> None:
        self._enqueue_after(key, GONE_TOGETHER_S)

    # --- parts of a snapshot ------------------------------------------------------------------

    def _enter(self, item: EphemeralRunner) -> None:
        owner = controller_of(item)
        if owner is None or owner.kind != KIND:
            return
        key = f"{item.metadata.namespace or ''}/{owner.name}"
        known = self._sets.store.get(key)
        wished = known.spec.ephemeral_runner_spec if known is not None else None
        self._roster_of(key, owner.uid).put(item, wished)

    def _roster_of(self, key: str, uid: str) -> Roster:
        found = self._rosters.get(key)
        if found is None or found.uid != uid:
            found = self._rosters[key] = Roster(uid)
        return found

    def _roster(self, key: str, item: EphemeralRunnerSet, spec_hash: str, now_s: float) -> Roster:
        wished = item.spec.ephemeral_runner_spec
        roster = self._roster_of(key, item.metadata.uid or "")
        if now_s - roster.rebuilt_s >= REBUILD_EVERY_S:
            roster.fingerprint = spec_hash
            index = f"{KIND}/{item.metadata.namespace or ''}/{item.metadata.name}"
            found = self._runners.store.by_index(OWNER_INDEX, index)
            mine = (c for c in found if _is_child(c, roster.uid))
            roster.rebuild(mine, wished, now_s=now_s)
        roster.use_spec(spec_hash, wished, now_s=now_s)
        return roster

    def _fingerprint(self, key: str, item: EphemeralRunnerSet) -> str:
        wished = item.spec.ephemeral_runner_spec
        known = self._fingerprints.get(key)
        if known is not None and (known[0] is wished or known[0] == wished):
            return known[1]
        found = fingerprint(wished)
        self._fingerprints[key] = (wished, found)
        return found

    def _undecided(self, remembered: Remembered, namespace: str, now_s: float) -> tuple[str, ...]:
        for name, since_s in list(remembered.undecided.items()):
            known = self._runners.store.get(f"{namespace}/{name}") is not None
            if known or now_s - since_s > UNDECIDED_KEPT_S:
                del remembered.undecided[name]
        return tuple(remembered.undecided)


def _told(runner: Runner, remembered: Remembered, *, now_s: float) -> Runner:
    """A view with what changes with time: GitHub's word, and whether the runner is proven."""
    word = remembered.removals.get(runner.uid)
    proven = observe.seasoned(runner, now_s=now_s)
    if word is None:
        return runner if proven == runner.proven else replace(runner, proven=proven)
    return replace(
        runner,
        proven=proven,
        removal=word.removal,
        removal_s=word.at_s,
        removal_trouble=word.trouble,
    )


def _due(proxy: Proxy, *, now_s: float) -> Proxy:
    """What is known of the proxies; their credentials are read again when it is time."""
    return replace(proxy, data=None) if proxy.data is not None and now_s >= proxy.again_s else proxy


def _nobody(_key: str, *_: object, **__: object) -> None:
    """Before `connect`."""


def _reference(item: EphemeralRunnerSet) -> ObjectReference:
    meta = item.metadata
    return ObjectReference(
        EPHEMERAL_RUNNER_SETS.api_version,
        KIND,
        meta.namespace or "",
        meta.name or "",
        meta.uid or "",
    )


def _hold(item: EphemeralRunnerSet) -> int | None:
    text = (item.metadata.annotations or {}).get(keys.HOLD)
    if text is None:
        return None
    return whole_number(text) or 0  # unreadable: the careful reading


def _deleted_s(item: EphemeralRunnerSet) -> float | None:
    return observe.time_of(item.metadata.deletion_timestamp) if is_deleting(item) else None


def _is_child(item: EphemeralRunner, uid: str) -> bool:
    owner = controller_of(item)
    return owner is not None and owner.uid == uid


def _served(seen: Snapshot) -> Served:
    labels = seen.item.metadata.labels or {}
    return Served(
        labels.get(keys.SCALE_SET_NAME, ""),
        labels.get(keys.SCALE_SET_NAMESPACE, ""),
        **place_labels(seen.item.spec.ephemeral_runner_spec.github_config_url),
    )


def _same_wish(old: EphemeralRunnerSet, new: EphemeralRunnerSet) -> bool:
    return (
        old.metadata.uid == new.metadata.uid
        and old.metadata.generation == new.metadata.generation
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.metadata.finalizers == new.metadata.finalizers
        and old.spec == new.spec
    )
