"""The shell around the runner set's rules: caches in, calls out, nothing decided.

Which events wake which runner set is at the end; what is done then is `plan.py`.
Writes: AutoscalingRunnerSet status, finalizer, scale-set annotations; EphemeralRunnerSet except
`replicas` and `patchID`; AutoscalingListener except its status; finalizers of chart objects.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS, AutoscalingListener
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS, AutoscalingRunnerSet
from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS, EphemeralRunnerSet
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.autoscaling_runner_set import competing, observed
from runnerscale.controllers.autoscaling_runner_set import snapshot as snap
from runnerscale.controllers.autoscaling_runner_set.learning import learn
from runnerscale.controllers.autoscaling_runner_set.observed import Caches
from runnerscale.controllers.autoscaling_runner_set.plan import plan
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Action,
    Answer,
    Known,
    Look,
    Settings,
    Snapshot,
)
from runnerscale.controllers.autoscaling_runner_set.status import COUNT_EVERY_S
from runnerscale.controllers.reporting import Reporter
from runnerscale.controllers.troubles import github_trouble, kube_trouble
from runnerscale.core.clock import Clock, FollowingClock, shifted
from runnerscale.credentials.place import Clients, GitHubPlace, PlaceTrouble
from runnerscale.kube.alive import confirm_alive
from runnerscale.kube.builtin import SECRETS
from runnerscale.kube.client import Client
from runnerscale.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import KubeObject, controller_of, key_of
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.patching import at_version, drop_finalizers
from runnerscale.kube.reconcile import Plan
from runnerscale.kube.resource import Resource
from runnerscale.kube.store import Change
from runnerscale.scaleset.config_url import without_secrets
from runnerscale.scaleset.errors import RunnerGroupNotFound, ScaleSetError, ScaleSetNotFound

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=KubeObject)

KIND = AUTOSCALING_RUNNER_SETS.kind
# What a server says no to in so many words; anything else (away, overloaded, a conflict) is raised.
REFUSALS = (BadRequest, Forbidden, Invalid, NotFound)
GITHUB_CALL_S = 30.0


@dataclass(frozen=True, slots=True)
class Bound:
    """An action, and the runner set that it is about."""

    at: Snapshot = field(repr=False)
    action: Action


class RunnerSetReconciler:
    """Implements `kube.reconcile.Reconciler`; keys are those of AutoscalingRunnerSets."""

    def __init__(
        self,
        *,
        client: Client,
        clients: Clients,
        caches: Caches,
        settings: Settings,
        reporter: Reporter,
        own_writes: OwnWrites,
        clock: Clock,
        wrote: Callable[[str | None], None] = lambda _version: None,
        found_old: Callable[[], None] = lambda: None,
        is_view_proven: Callable[[], bool] = lambda: True,
    ) -> None:
        """`own_writes`: the same that the Controller is given.

        `wrote`: hears the version of each write that changed a runner set, which is later than
        all that a predecessor did. `found_old`: that such a write was made on an old version.
        `is_view_proven`: see `kube/freshness.py`.
        """
        self._client = client
        self._clients = clients
        self._caches = caches
        self._settings = settings
        self._reporter = reporter
        self._own_writes = own_writes
        self._clock = FollowingClock(clock, jumped=self._clock_jumped)
        self._wrote = wrote
        self._found_old = found_old
        self._is_view_proven = is_view_proven
        self._notable = observed.Notable(caches.runners)
        self._known: dict[str, tuple[str, Known]] = {}  # by key: uid, memory

    def observe(self, key: str) -> Snapshot | None:
        """From the caches; None: there is no such runner set."""
        found = self._caches.runner_sets.store.get(key)
        if found is None:
            return None
        now_s = self._clock.now_s()
        uid, known = self._known.get(key, ("", Known()))
        known = known if uid == found.metadata.uid else Known()
        known = self._noticed(key, found, known, now_s)
        seen = observed.observe(
            self._caches,
            self._notable,
            found,
            settings=self._settings,
            known=known,
            now_s=now_s,
        )
        if seen.is_moving or seen.annotation(keys.LEFT_BEHIND):
            return replace(seen, is_view_proven=self._is_view_proven())
        return seen

    def _clock_jumped(self, by_s: float) -> None:
        self._known = shifted(self._known, by_s)

    def _noticed(self, key: str, found: AutoscalingRunnerSet, known: Known, now_s: float) -> Known:
        name = (found.metadata.annotations or {}).get(keys.CONTROLLER, "")
        identity = self._settings.identity
        stamp = competing.noticed(known.stamp, name, identity=identity, now_s=now_s)
        if stamp is not known.stamp:
            known = replace(known, stamp=stamp)
            self._known[key] = (found.metadata.uid or "", known)
        return known

    def plan(self, seen: Snapshot) -> Plan[Bound, Trouble]:
        """See `plan.py`."""
        made = plan(seen)
        actions = tuple(Bound(seen, action) for action in made.actions)
        return Plan(actions, made.again_s, made.failed, made.troubles, made.stale)

    def learn(self, seen: Snapshot, answers: Sequence[tuple[Bound, Answer]]) -> Snapshot:
        """See `snapshot.py`; what GitHub said is remembered even if the pass ends early."""
        learned = learn(seen, [(bound.action, answer) for bound, answer in answers])
        self._known[seen.key] = (seen.meta.uid or "", learned.known)
        return learned

    def report(self, key: str, seen: Snapshot | None, troubles: Sequence[Trouble]) -> None:
        """Event, metric and log line."""
        if seen is None:
            self._reporter.forget(KIND, key)
            self._known.pop(key, None)
            return
        self._reporter.report(seen.reference, key, troubles)

    async def apply(self, bound: Bound) -> Answer:
        """One call; a refusal in so many words is an answer, a server that is away raises."""
        at, action = bound.at, bound.action
        match action:
            case snap.PatchSelf(body):
                return await self._patch_self(at, body)
            case snap.WriteStatus(body):
                return await self._write_status(at, body)
            case snap.CreateSet(body):
                return await self._create(at, EPHEMERAL_RUNNER_SETS, at.namespace, body)
            case snap.PatchSet(name, body):
                return await self._patch(at, EPHEMERAL_RUNNER_SETS, at.namespace, name, body)
            case snap.DeleteSet(name, uid):
                return await self._delete(at, EPHEMERAL_RUNNER_SETS, at.namespace, name, uid)
            case snap.CreateListener(body):
                self._confirm_view(at)
                await self._confirm_alive(at)
                home = self._settings.namespace
                return await self._create(at, AUTOSCALING_LISTENERS, home, body)
            case snap.PatchListener(name, body):
                home = self._settings.namespace
                return await self._patch(at, AUTOSCALING_LISTENERS, home, name, body)
            case snap.DeleteListener(name, uid):
                home = self._settings.namespace
                return await self._delete(at, AUTOSCALING_LISTENERS, home, name, uid)
            case snap.Unprotect(_, resource, name):
                return await self._unprotect(at, resource, name)
            case _:
                return await self._ask_github(at, action)

    # --- GitHub -------------------------------------------------------------------------------

    def _confirm_view(self, at: Snapshot) -> None:
        """A listener that is not seen yet holds the session all the same, and its name need not
        stand in the way of another: it follows group and URL.

        Raises:
            Conflict: it is not known yet whether a predecessor made one.
        """
        if not self._is_view_proven():
            raise Conflict(409, "Conflict", f"the listeners of {at.key} may be of the past")

    async def _confirm_alive(self, at: Snapshot) -> None:
        """Before a scale set at GitHub, or a listener in our own namespace: see `kube/alive.py`."""
        where = (AUTOSCALING_RUNNER_SETS, at.namespace, at.name)
        await confirm_alive(self._client, *where, uid=at.meta.uid)

    async def _ask_github(
        self, at: Snapshot, action: snap.Call | snap.DeleteScaleSet | snap.CountLeftJobs
    ) -> Answer:
        if isinstance(action, snap.CreateScaleSet):
            await self._confirm_alive(at)
        try:
            return await self._call(action)
        except ScaleSetNotFound as error:
            if isinstance(action, snap.DeleteScaleSet):
                return None
            if isinstance(action, snap.GetScaleSet | snap.UpdateScaleSet | snap.CountLeftJobs):
                log.debug("scale set is gone at GitHub", runner_set=at.key, id=action.id)
                return Look.ABSENT
            return github_trouble(error, about=at.about)
        except RunnerGroupNotFound as error:
            if isinstance(action, snap.FindGroup) and action.is_before:
                return Look.ABSENT
            return github_trouble(error, about=at.about)
        except (PlaceTrouble, ScaleSetError) as error:
            return github_trouble(error, about=at.about)

    async def _call(self, action: snap.Call | snap.DeleteScaleSet | snap.CountLeftJobs) -> Answer:
        client = await self._clients.client_for(action.place)
        match action:
            case snap.FindGroup(name=name):
                return await client.get_runner_group(name, timeout_s=GITHUB_CALL_S)
            case snap.FindScaleSet(name=name, group_id=group_id):
                found = await client.find_scale_set(name, group_id, timeout_s=GITHUB_CALL_S)
                return found or Look.ABSENT
            case snap.GetScaleSet(_, scale_set_id) | snap.CountLeftJobs(_, scale_set_id):
                found = await client.get_scale_set(scale_set_id, timeout_s=GITHUB_CALL_S)
                return found or Look.ABSENT
            case snap.CreateScaleSet(_, name, group_id, labels):
                created = await client.create_scale_set(
                    name, group_id, labels=labels, disable_update=True, timeout_s=GITHUB_CALL_S
                )
                log.info("scale set registered", name=name, id=created.id)
                return created
            case snap.UpdateScaleSet(_, scale_set_id, name, group_id, labels, disable_update):
                log.info("scale set changed", id=scale_set_id, name=name, group=group_id)
                return await client.update_scale_set(
                    scale_set_id,
                    name=name,
                    runner_group_id=group_id,
                    labels=labels,
                    disable_update=disable_update,
                    timeout_s=GITHUB_CALL_S,
                )
            case snap.DeleteScaleSet(place, scale_set_id):
                await client.delete_scale_set(scale_set_id, timeout_s=GITHUB_CALL_S)
                log.info("scale set deleted", id=scale_set_id, url=_shown(place))
                return None

    # --- the API server -----------------------------------------------------------------------

    async def _patch_self(self, at: Snapshot, body: Mapping[str, Any]) -> Answer:
        async def call() -> AutoscalingRunnerSet:
            # Carries the version that it was planned on.
            return await self._client.patch(AUTOSCALING_RUNNER_SETS, at.namespace, at.name, body)

        doing = "change its own metadata"
        try:
            answer = await self._written(at, AUTOSCALING_RUNNER_SETS, call, doing)
        except Conflict:
            self._found_old()
            raise
        if isinstance(answer, AutoscalingRunnerSet):
            version = answer.metadata.resource_version
            if version != at.meta.resource_version:  # else nothing was written
                self._wrote(version)
        return answer

    async def _write_status(self, at: Snapshot, body: Mapping[str, Any]) -> Answer:
        async def call() -> AutoscalingRunnerSet:
            # With its version, though nobody else writes a status: a namesake that was made
            # meanwhile must not get the last words of the one before.
            return await self._client.patch(
                AUTOSCALING_RUNNER_SETS,
                at.namespace,
                at.name,
                at_version({"status": body}, at.meta.resource_version),
                subresource="status",
            )

        return await self._written(at, AUTOSCALING_RUNNER_SETS, call, "write its status")

    async def _create(
        self, at: Snapshot, resource: Resource[T], namespace: str, body: Mapping[str, Any]
    ) -> Answer:
        name = body["metadata"]["name"]

        async def call() -> T:
            try:
                return await self._client.create(resource, namespace, body)
            except AlreadyExists:
                return await self._existing(at, resource, namespace, name)

        return await self._written(at, resource, call, f"create {resource.kind} {name}")

    async def _existing(self, at: Snapshot, resource: Resource[T], namespace: str, name: str) -> T:
        """What stands in the way of a create: ours, and the cache lags; or somebody else's."""
        item = await self._client.get(resource, namespace, name)
        if resource.kind == EPHEMERAL_RUNNER_SETS.kind:
            owner = controller_of(item)
            if owner is None or owner.uid != at.meta.uid:
                raise Invalid(422, "Invalid", f"{resource.kind} {namespace}/{name} is another's")
        return item

    async def _patch(
        self, at: Snapshot, resource: Resource[T], namespace: str, name: str, body: Any
    ) -> Answer:
        async def call() -> T:
            # No version: these fields have no other writer, and the listener writes beside them.
            return await self._client.patch(resource, namespace, name, body)

        log.info("part of runner set changed", runner_set=at.key, kind=resource.kind, name=name)
        return await self._written(at, resource, call, f"change {resource.kind} {name}")

    async def _delete(
        self, at: Snapshot, resource: Resource[T], namespace: str, name: str, uid: str
    ) -> Answer:
        try:
            item = await self._client.delete(resource, namespace, name, uid=uid)
        except REFUSALS as error:
            doing = f"delete {resource.kind} {name}"
            return kube_trouble(error, about=at.about, doing=doing)
        log.info("part of runner set deleted", runner_set=at.key, kind=resource.kind, name=name)
        self._own_writes.deleted(at.key, self._cache(resource), f"{namespace}/{name}", uid)
        return item  # type: ignore[return-value]  # one of the two kinds, or None

    async def _written(
        self, at: Snapshot, resource: Resource[T], call: Callable[[], Awaitable[T]], doing: str
    ) -> Answer:
        try:
            item = await call()
        except NotFound as error:
            if resource is AUTOSCALING_RUNNER_SETS or not doing.startswith("create"):
                return None  # it is gone; the event says so too
            return kube_trouble(error, about=at.about, doing=doing)
        except REFUSALS as error:
            return kube_trouble(error, about=at.about, doing=doing)
        self._own_writes.answered(at.key, self._cache(resource), key_of(item), item)
        return item  # type: ignore[return-value]  # one of the three kinds

    async def _unprotect(self, at: Snapshot, resource: Resource[Any], name: str) -> Answer:
        doing = f"release {resource.kind} {name}"
        try:
            item = await self._protected(at.namespace, resource, name)
            patch = item and drop_finalizers(item.metadata, [keys.CLEANUP_PROTECTION_FINALIZER])
            if patch is not None:
                await self._client.patch(resource, at.namespace, name, patch)
        except NotFound:
            return None
        except Forbidden as error:
            # Where the chart gives no right to the Secret, Helm deletes it without our help.
            return None if resource is SECRETS else kube_trouble(error, about=at.about, doing=doing)
        except REFUSALS as error:
            said = kube_trouble(error, about=at.about, doing=doing)
            return trouble(Reason.CLEANUP_BLOCKED, about=at.about, happened=said.happened)
        return None

    async def _protected(
        self, namespace: str, resource: Resource[Any], name: str
    ) -> KubeObject | None:
        """As it is now. Once the manager's binding is released we may `list`, but not `get`."""
        if resource is SECRETS:
            item: KubeObject = await self._client.get(resource, namespace, name)
            return item
        by_name = f"metadata.name={name}"
        listed = await self._client.list(resource, namespace, field_selector=by_name)
        return next((item for item in listed.items if item.metadata.name == name), None)

    def _cache(self, resource: Resource[Any]) -> Informer[Any]:
        caches: dict[str, Informer[Any]] = {
            AUTOSCALING_RUNNER_SETS.plural: self._caches.runner_sets,
            EPHEMERAL_RUNNER_SETS.plural: self._caches.runner_sets_owned,
            AUTOSCALING_LISTENERS.plural: self._caches.listeners,
        }
        return caches[resource.plural]


# --- which events wake which runner set ---------------------------------------------------------


def connect(
    caches: Caches,
    enqueue: Callable[[str], None],
    enqueue_after: Callable[[str, float], None] | None = None,
) -> None:
    """Have `enqueue` called with a runner set's key whenever something of it changes.

    `enqueue_after`: for what only moves the counters, which are written once a second at most.
    """

    def own_changed(change: Change[AutoscalingRunnerSet]) -> None:
        # Our own status comes back as an event, and says nothing new.
        if change.old is None or change.new is None or _more_than_status(change.old, change.new):
            enqueue(change.key)

    def set_changed(change: Change[EphemeralRunnerSet]) -> None:
        item = change.new or change.old
        owner = controller_of(item) if item is not None else None
        if item is None or owner is None or owner.kind != KIND:
            return
        key = f"{item.metadata.namespace}/{owner.name}"
        if enqueue_after is not None and _only_counts(change):
            enqueue_after(key, COUNT_EVERY_S)
        else:
            enqueue(key)

    def listener_changed(change: Change[AutoscalingListener]) -> None:
        item = change.new or change.old
        if item is not None:
            spec = item.spec
            enqueue(f"{spec.autoscaling_runner_set_namespace}/{spec.autoscaling_runner_set_name}")

    def runner_changed(change: Change[EphemeralRunner]) -> None:
        """Only what concerns the whole set; everything else comes through the set's status."""
        old, new = change.old, change.new
        was = old is not None and observed.is_notable(old)
        item = new or old
        if item is None or was == (new is not None and observed.is_notable(new)):
            return
        owner = controller_of(item)
        found = owner and caches.runner_sets_owned.store.get(
            f"{item.metadata.namespace}/{owner.name}"
        )
        above = controller_of(found) if found else None
        if above is not None and above.kind == KIND:
            enqueue(f"{item.metadata.namespace}/{above.name}")

    caches.runner_sets.on_change(own_changed)
    caches.runner_sets_owned.on_change(set_changed)
    caches.listeners.on_change(listener_changed)
    caches.runners.on_change(runner_changed)


def _more_than_status(old: AutoscalingRunnerSet, new: AutoscalingRunnerSet) -> bool:
    def rest(item: AutoscalingRunnerSet) -> tuple[Any, ...]:
        meta = item.metadata
        return (
            meta.uid,
            meta.generation,
            meta.labels,
            meta.annotations,
            meta.finalizers,
            meta.deletion_timestamp,
            item.spec,
        )

    return rest(old) != rest(new)


def _only_counts(change: Change[EphemeralRunnerSet]) -> bool:
    """Whether nothing that a rule here reads has changed, except numbers that are copied."""

    def rest(item: EphemeralRunnerSet) -> tuple[Any, ...]:
        meta, spec, status = item.metadata, item.spec, item.status
        return (
            meta.uid,
            meta.labels,
            meta.annotations,
            meta.deletion_timestamp,
            spec.ephemeral_runner_spec,
            spec.ephemeral_runner_metadata,
            status.phase,
            status.reason,
            status.message,
            status.conditions,
        )

    return (
        change.old is not None and change.new is not None and rest(change.old) == rest(change.new)
    )


def _shown(place: GitHubPlace) -> str:
    return without_secrets(place.config_url)
