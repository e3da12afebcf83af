"""The EphemeralRunner controller's shell: caches in, plans out, nothing decided.

`EphemeralRunnerReconciler` is what `kube.controller` runs; `connect` says which change in which
cache calls for a pass. The rules begin in `plan.py`, the calls are in `apply.py`.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunner
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.ephemeral_runner import learning
from runnerscale.controllers.ephemeral_runner.actions import Action, Answered
from runnerscale.controllers.ephemeral_runner.apply import Hands
from runnerscale.controllers.ephemeral_runner.memory import Memory
from runnerscale.controllers.ephemeral_runner.observe import is_its_pod, observed
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.pod_ended import omen_of
from runnerscale.controllers.ephemeral_runner.pod_view import pod_view
from runnerscale.controllers.ephemeral_runner.snapshot import Hand, PodPast, Snapshot
from runnerscale.controllers.reporting import Reporter
from runnerscale.controllers.unreadable import unreadable
from runnerscale.core.clock import Clock, FollowingClock
from runnerscale.credentials.place import Clients
from runnerscale.kube.builtin import Pod
from runnerscale.kube.client import Client
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import ObjectReference, controller_of, is_deleting, split_key
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.reconcile import Plan
from runnerscale.kube.store import Change
from runnerscale.kube.watch import Poisoned

NAME = "ephemeralrunner"  # as metrics and logs call it, as upstream does


class EphemeralRunnerReconciler:
    """See `kube.reconcile.Reconciler`."""

    def __init__(
        self,
        *,
        client: Client,
        clients: Clients,
        runners: Informer[EphemeralRunner],
        pods: Informer[Pod],
        runner_sets: Informer[EphemeralRunnerSet],
        own_writes: OwnWrites,
        reporter: Reporter,
        clock: Clock,
        build_version: str,
        excluded_labels: Sequence[str] = (),
        deletes: Callable[[EphemeralRunner], None] = lambda _: None,
    ) -> None:
        """`pods`: those labelled as runners are enough; `own_writes`: the controller's own.

        `build_version`: what runners report to GitHub; `excluded_labels`: prefixes of labels
        that are never copied to generated objects. `deletes`: told of a runner just before this
        controller deletes it; who else does so is somebody.
        """
        self._runners = runners
        self._pods = pods
        self._runner_sets = runner_sets
        self._reporter = reporter
        self._clock = FollowingClock(clock, jumped=self._clock_jumped)
        self._memory = Memory()
        self._watching_since_s: float | None = None  # a standby process watches but does not act
        self._hands = Hands(
            client=client,
            clients=clients,
            runners=runners,
            pods=pods,
            memory=self._memory,
            own_writes=own_writes,
            clock=self._clock,
            build_version=build_version,
            deletes=deletes,
            excluded_labels=tuple(excluded_labels),
        )

    def keys(self) -> Iterable[str]:
        """For the level pass; it is asked first when this process begins to act."""
        self._acting_since_s()
        return self._runners.store.keys()

    def _acting_since_s(self) -> float:
        if self._watching_since_s is None:
            self._watching_since_s = self._clock.now_s()
        return self._watching_since_s

    def _clock_jumped(self, by_s: float) -> None:
        self._memory.clock_jumped(by_s)
        if self._watching_since_s is not None:
            self._watching_since_s += by_s

    def observe(self, key: str) -> Snapshot | None:
        """From the caches, and what this process remembers."""
        item = self._runners.store.get(key)
        if item is None or key in self._runners.poisoned:
            return None  # what can no longer be read is kept out, though its last state is known
        uid = item.metadata.uid or ""
        now_s = self._clock.now_s()
        hand = self._memory.of(uid)
        if hand.let_go:
            return None
        seen = observed(
            item,
            self._pods.store.get(key),
            self._owner(item),
            hand=hand,
            now_s=now_s,
            alive=len(self._runners.store),
            watching_since_s=self._acting_since_s(),
        )
        noticed = learning.noticed(seen)
        return seen if noticed is hand else self._kept(replace(seen, hand=noticed))

    def plan(self, seen: Snapshot) -> Plan[Action, Trouble]:
        """See `plan.py`."""
        return plan(seen)

    async def apply(self, action: Action) -> Answered:
        """See `apply.py`; the answer with the time it came."""
        answer = await self._hands.apply(action)
        return Answered(self._clock.now_s(), answer)

    def learn(self, seen: Snapshot, answers: Sequence[tuple[Action, Answered]]) -> Snapshot:
        """See `learning.py`; what is to be remembered, is."""
        return self._kept(learning.learn(seen, answers))

    def report(self, key: str, seen: Snapshot | None, troubles: Sequence[Trouble]) -> None:
        """Tell what is wrong; an object that is gone takes its troubles with it."""
        if key in self._runners.poisoned:
            return  # told when it was found; it stays wrong until it can be read again
        namespace, name = split_key(key)
        if seen is not None:
            uid = seen.runner.ref.uid
            self._reporter.report(self._reference(namespace, name, uid), key, troubles)
        if seen is None or seen.gone:
            self._reporter.forget(EPHEMERAL_RUNNERS.kind, key)

    def connect(self, enqueue: Callable[..., None]) -> None:
        """Have the caches call for passes. `enqueue(key, urgent=...)`: the controller's."""

        def runner_changed(change: Change[EphemeralRunner]) -> None:
            old, new = change.old, change.new
            if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
                self._memory.forget(old.metadata.uid or "")
            fresh = new is not None and not new.status.runner_id and not is_deleting(new)
            enqueue(change.key, urgent=fresh)

        def pod_changed(change: Change[Pod]) -> None:
            pod = change.new or change.old
            if pod is None:
                return
            item = self._runners.store.get(change.key)
            if item is not None and is_its_pod(item, pod):
                self._note_pod(item.metadata.uid or "", pod)
                enqueue(change.key)

        def set_changed(change: Change[EphemeralRunnerSet]) -> None:
            before = set((change.old.spec.settled_runners if change.old else None) or ())
            now = (change.new.spec.settled_runners if change.new else None) or ()
            namespace, _ = split_key(change.key)
            for name in now:
                if name not in before:
                    enqueue(f"{namespace}/{name}")

        self._runners.on_change(runner_changed)
        self._runners.on_poison(self._report_poison)
        self._runners.on_poison_end(self._forget_poison)
        self._pods.on_change(pod_changed)
        self._runner_sets.on_change(set_changed)

    def _kept(self, seen: Snapshot) -> Snapshot:
        ref = seen.runner.ref
        if not seen.gone:
            self._memory.keep(ref.uid, seen.hand)
        elif self._runners.store.get(ref.key) is not None:
            # The cache shows it for another moment, being deleted: nothing is left to do.
            self._memory.keep(ref.uid, Hand(let_go=True))
        else:
            self._memory.forget(ref.uid)
        return seen

    def _note_pod(self, uid: str, pod: Pod) -> None:
        """A pod that comes and goes between two passes was there all the same."""
        hand = self._memory.of(uid)
        if hand.pod is PodPast.NEVER:
            hand = replace(hand, pod=PodPast.MADE)
        omen = omen_of(pod_view(pod)) if is_deleting(pod) else None
        if omen is not None:
            hand = replace(hand, omen=omen)
        self._memory.keep(uid, hand)

    def _owner(self, item: EphemeralRunner) -> EphemeralRunnerSet | None:
        owner = controller_of(item)
        if owner is None:
            return None
        found = self._runner_sets.store.get(f"{item.metadata.namespace}/{owner.name}")
        return found if found is not None and found.metadata.uid == owner.uid else None

    def _report_poison(self, found: Poisoned) -> None:
        """An object that cannot be decoded is kept out of all decisions, and told about."""
        namespace, name = split_key(found.key)
        why = unreadable(EPHEMERAL_RUNNERS, found)
        self._reporter.report(self._reference(namespace, name, found.uid), found.key, (why,))

    def _forget_poison(self, key: str) -> None:
        self._reporter.forget(EPHEMERAL_RUNNERS.kind, key)  # what else is wrong, a pass tells

    def _reference(self, namespace: str, name: str, uid: str) -> ObjectReference:
        kind = EPHEMERAL_RUNNERS
        return ObjectReference(kind.api_version, kind.kind, namespace, name, uid)
