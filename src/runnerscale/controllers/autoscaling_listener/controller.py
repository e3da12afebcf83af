"""The shell around the listener's rules: caches in, calls out, nothing decided.

Which events wake which listener is at the end; what is done then is `plan.py`.
Writes: AutoscalingListener status and finalizer; ServiceAccount, Role, RoleBinding, Secrets and
pod of a listener. Never: the listener's spec (`autoscaling_runner_set/`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS, AutoscalingListener
from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS, AutoscalingRunnerSet
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.autoscaling_listener import snapshot as snap
from runnerscale.controllers.autoscaling_listener.plan import plan
from runnerscale.controllers.autoscaling_listener.restarts import is_running
from runnerscale.controllers.autoscaling_listener.snapshot import (
    SECRET_CHILDREN,
    Action,
    Answer,
    Child,
    Look,
    Settings,
    Snapshot,
    learn,
)
from runnerscale.controllers.metrics import ControllerMetrics, Served
from runnerscale.controllers.places import place_labels
from runnerscale.controllers.reporting import Reporter
from runnerscale.controllers.troubles import github_trouble, kube_trouble
from runnerscale.core.clock import Clock
from runnerscale.credentials.place import Clients, PlaceTrouble
from runnerscale.kube.alive import confirm_alive
from runnerscale.kube.builtin import SECRETS, Pod, Role, RoleBinding, ServiceAccount
from runnerscale.kube.client import Client
from runnerscale.kube.errors import (
    AlreadyExists,
    BadRequest,
    Forbidden,
    Invalid,
    NotFound,
)
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import KubeObject, controller_of, is_deleting, key_of
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.reconcile import Plan
from runnerscale.kube.resource import Resource
from runnerscale.kube.store import Change
from runnerscale.scaleset.errors import ScaleSetError

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=KubeObject)

# What a server says no to in so many words; anything else (away, overloaded, a conflict) is raised.
REFUSALS = (BadRequest, Forbidden, Invalid, NotFound)

UNOWNED = (Child.ROLE, Child.ROLE_BINDING)  # they lie beside the runners
# The server looks the Role of a new binding up in a cache of its own, which lags some
# milliseconds behind the Role that was made just before.
ROLE_KNOWN_WAITS_S = (0.05, 0.1, 0.2, 0.4)

BY_RUNNER_SET = "runner-set"
KIND = AUTOSCALING_LISTENERS.kind
# The caches of rights hold only what has our labels. That of pods may be older than that of
# listeners, and a listener whose pod runs on still holds the session.
HIDDEN = (Child.ROLE, Child.ROLE_BINDING, Child.POD)


def by_runner_set(listener: AutoscalingListener) -> Iterable[str]:
    """Index of listeners by the key of the runner set that they serve."""
    spec = listener.spec
    return [f"{spec.autoscaling_runner_set_namespace}/{spec.autoscaling_runner_set_name}"]


@dataclass(frozen=True, slots=True)
class Caches:
    """What the rules see. Roles and bindings may be limited to those with our two labels."""

    listeners: Informer[AutoscalingListener]  # with the index `BY_RUNNER_SET`
    runner_sets: Informer[AutoscalingRunnerSet]
    pods: Informer[Pod]
    service_accounts: Informer[ServiceAccount]
    roles: Informer[Role]
    role_bindings: Informer[RoleBinding]

    def of(self, child: Child) -> Informer[Any] | None:
        """The cache of a child; Secrets have none."""
        found: dict[Child, Informer[Any]] = {
            Child.POD: self.pods,
            Child.SERVICE_ACCOUNT: self.service_accounts,
            Child.ROLE: self.roles,
            Child.ROLE_BINDING: self.role_bindings,
        }
        return found.get(child)


@dataclass(frozen=True, slots=True)
class Bound:
    """An action, and the listener that it is about."""

    at: Snapshot = field(repr=False)
    action: Action


class ListenerReconciler:
    """Implements `kube.reconcile.Reconciler`; keys are those of AutoscalingListeners."""

    def __init__(
        self,
        *,
        client: Client,
        clients: Clients,
        caches: Caches,
        settings: Settings,
        reporter: Reporter,
        metrics: ControllerMetrics,
        own_writes: OwnWrites,
        clock: Clock,
    ) -> None:
        """`own_writes`: the same that the Controller is given."""
        self._client = client
        self._clients = clients
        self._caches = caches
        self._settings = settings
        self._reporter = reporter
        self._metrics = metrics
        self._own_writes = own_writes
        self._clock = clock
        self._told: dict[str, tuple[str, str]] = {}  # by key: uid, fingerprint
        self._served: dict[str, Served] = {}

    def observe(self, key: str) -> Snapshot | None:
        """From the caches; None: there is no such listener."""
        listener = self._caches.listeners.store.get(key)
        if listener is None:
            return None
        uid, told = self._told.get(key, ("", ""))
        spec = listener.spec
        owner = f"{spec.autoscaling_runner_set_namespace}/{spec.autoscaling_runner_set_name}"
        seen = Snapshot(
            now_s=self._clock.now_s(),
            settings=self._settings,
            listener=listener,
            owner_exists=self._caches.runner_sets.store.get(owner) is not None,
            children={},
            told=told if uid == listener.metadata.uid else "",
        )
        children: dict[Child, KubeObject | Look] = dict.fromkeys(SECRET_CHILDREN, Look.UNASKED)
        for child in Child:
            cache = self._caches.of(child)
            if cache is not None:
                found = cache.store.get(_child_key(seen, child))
                # Before we let go of a listener the server is asked for what a cache does not show.
                ask = child in HIDDEN and is_deleting(listener)
                children[child] = found or (Look.UNASKED if ask else Look.ABSENT)
        return replace(seen, children=children)

    def plan(self, seen: Snapshot) -> Plan[Bound, Trouble]:
        """See `plan.py`."""
        made = plan(seen)
        actions = tuple(Bound(seen, action) for action in made.actions)
        return Plan(actions, made.again_s, made.failed, made.troubles, made.stale)

    def learn(self, seen: Snapshot, answers: Sequence[tuple[Bound, Answer]]) -> Snapshot:
        """See `snapshot.py`."""
        return learn(seen, [(bound.action, answer) for bound, answer in answers])

    async def apply(self, bound: Bound) -> Answer:
        """One call; a refusal in so many words is an answer, a server that is away raises."""
        at = bound.at
        match bound.action:
            case snap.PatchSelf(body):
                return await self._patch_self(at, body)
            case snap.DeleteSelf(uid):
                return await self._delete_self(at, uid)
            case snap.AskOwner(namespace, name):
                return await self._exists(namespace, name)
            case snap.ResolveMeans(place):
                try:
                    return await self._clients.resolve(place)
                except (PlaceTrouble, ScaleSetError) as error:
                    return github_trouble(error, about=at.about)
            case snap.ReadVaultProxy(namespace, name):
                return await self._read(SECRETS, namespace, name)
            case snap.Read(child):
                namespace, name = at.child_namespace(child), at.child_name(child)
                return await self._read(child.resource, namespace, name)
            case snap.Create(child, body):
                return await self._create(at, child, body)
            case snap.Patch(child, body):
                return await self._patch(at, child, body)
            case snap.Remove(child, uid, at_once):
                return await self._remove(at, child, uid, at_once=at_once)
            case snap.WriteStatus(body, told):
                return await self._write_status(at, body, told)

    def report(self, key: str, seen: Snapshot | None, troubles: Sequence[Trouble]) -> None:
        """Event, metric and log line; and the gauge of running listeners."""
        if seen is None:
            self._reporter.forget(KIND, key)
            self._told.pop(key, None)
            served = self._served.pop(key, None)
            if served is not None:
                self._metrics.forget_listener(served)
            return
        self._reporter.report(seen.reference, key, troubles)
        served = Served(
            seen.name, seen.namespace, **place_labels(seen.listener.spec.github_config_url)
        )
        before = self._served.get(key)
        if before not in (None, served):
            self._metrics.forget_listener(before)
        self._served[key] = served
        running = seen.pod is not None and is_running(seen.pod)
        self._metrics.set_listener(served, running=running)

    # --- one call each ------------------------------------------------------------------------

    async def _patch_self(self, at: Snapshot, body: Mapping[str, Any]) -> Answer:
        try:
            # Carries the version: the list of finalizers is exchanged as a whole.
            item = await self._client.patch(AUTOSCALING_LISTENERS, at.namespace, at.name, body)
        except NotFound:
            return None
        self._own_writes.answered(at.key, self._caches.listeners, at.key, item)
        return item

    async def _delete_self(self, at: Snapshot, uid: str) -> Answer:
        item = await self._client.delete(AUTOSCALING_LISTENERS, at.namespace, at.name, uid=uid)
        log.info("listener deleted, its runner set is gone", listener=at.key)
        self._own_writes.deleted(at.key, self._caches.listeners, at.key, uid)
        return item

    async def _exists(self, namespace: str, name: str) -> bool:
        try:
            await self._client.get(AUTOSCALING_RUNNER_SETS, namespace, name)
        except NotFound:
            return False
        return True

    async def _read(self, resource: Resource[Any], namespace: str, name: str) -> Answer:
        try:
            item: KubeObject = await self._client.get(resource, namespace, name)
        except NotFound:
            return Look.ABSENT
        return item

    async def _create(self, at: Snapshot, child: Child, body: Mapping[str, Any]) -> Answer:
        try:
            item = await self._create_patiently(at, child, body)
        except AlreadyExists:
            return Look.UNASKED  # a cache that lags, or somebody else: read it and compare
        except REFUSALS as error:
            return kube_trouble(error, about=at.about, doing=f"create its {child.value}")
        log.info("listener part created", listener=at.key, part=child.value)
        self._wrote(at, child, item)
        return item

    async def _create_patiently(
        self, at: Snapshot, child: Child, body: Mapping[str, Any]
    ) -> KubeObject:
        """A binding is refused as not found until the server's authorizer knows its new Role."""
        waits_s = ROLE_KNOWN_WAITS_S if child is Child.ROLE_BINDING else ()
        for wait_s in waits_s:
            try:
                return await self._create_once(at, child, body)
            except NotFound:
                await self._clock.sleep(wait_s)
        return await self._create_once(at, child, body)

    async def _create_once(self, at: Snapshot, child: Child, body: Mapping[str, Any]) -> KubeObject:
        namespace = at.child_namespace(child)
        if child in UNOWNED:
            where = (AUTOSCALING_LISTENERS, at.namespace, at.name)
            await confirm_alive(self._client, *where, uid=at.listener.metadata.uid)
        item: KubeObject = await self._client.create(child.resource, namespace, body)
        return item

    async def _patch(self, at: Snapshot, child: Child, body: Mapping[str, Any]) -> Answer:
        namespace, name = at.child_namespace(child), at.child_name(child)
        try:
            # No version: nobody else writes these keys of a satellite.
            item: KubeObject = await self._client.patch(child.resource, namespace, name, body)
        except NotFound:
            return Look.ABSENT
        except REFUSALS as error:
            return kube_trouble(error, about=at.about, doing=f"change its {child.value}")
        log.info("listener part changed", listener=at.key, part=child.value)
        self._wrote(at, child, item)
        return item

    async def _remove(self, at: Snapshot, child: Child, uid: str, *, at_once: bool) -> Answer:
        namespace, name = at.child_namespace(child), at.child_name(child)
        try:
            item: KubeObject | None = await self._client.delete(
                child.resource, namespace, name, uid=uid, grace_period_s=0 if at_once else None
            )
        except REFUSALS as error:
            return kube_trouble(error, about=at.about, doing=f"delete its {child.value}")
        log.info("listener part deleted", listener=at.key, part=child.value)
        cache = self._caches.of(child)
        if cache is not None:
            self._own_writes.deleted(at.key, cache, f"{namespace}/{name}", uid)
        return item if item is not None else Look.ABSENT

    async def _write_status(self, at: Snapshot, body: Mapping[str, Any], told: str) -> Answer:
        try:
            # No version: only this controller writes a listener's status.
            item = await self._client.patch(
                AUTOSCALING_LISTENERS, at.namespace, at.name, {"status": body}, subresource="status"
            )
        except NotFound:
            return None
        self._told[at.key] = (at.listener.metadata.uid or "", told)
        self._own_writes.answered(at.key, self._caches.listeners, at.key, item)
        return item

    def _wrote(self, at: Snapshot, child: Child, item: KubeObject) -> None:
        cache = self._caches.of(child)
        if cache is not None:
            self._own_writes.answered(at.key, cache, key_of(item), item)


# --- which events wake which listener -----------------------------------------------------------


def connect(caches: Caches, enqueue: Callable[[str], None]) -> None:
    """Have `enqueue` called with a listener's key whenever something of it changes."""

    def listener_changed(change: Change[AutoscalingListener]) -> None:
        # Our own status comes back as an event, and says nothing new.
        if change.old is None or change.new is None or _more_than_status(change.old, change.new):
            enqueue(change.key)

    caches.listeners.on_change(listener_changed)
    _wake(caches.pods, _by_owner, enqueue)
    _wake(caches.service_accounts, _by_owner, enqueue)
    _wake(caches.roles, _by_labels, enqueue)
    _wake(caches.role_bindings, _by_labels, enqueue)

    def runner_set_changed(change: Change[AutoscalingRunnerSet]) -> None:
        if change.old is None or change.new is None:  # appeared or gone: the rest comes by the spec
            for listener in caches.listeners.store.by_index(BY_RUNNER_SET, change.key):
                enqueue(key_of(listener))

    caches.runner_sets.on_change(runner_set_changed)


def _more_than_status(old: AutoscalingListener, new: AutoscalingListener) -> bool:
    def rest(item: AutoscalingListener) -> tuple[Any, ...]:
        meta = item.metadata
        stamps = (meta.uid, meta.generation, meta.deletion_timestamp)
        return (*stamps, meta.labels, meta.annotations, meta.finalizers, item.spec)

    return rest(old) != rest(new)


def _wake(
    cache: Informer[T], key: Callable[[KubeObject], str], enqueue: Callable[[str], None]
) -> None:
    def changed(change: Change[T]) -> None:
        for item in (change.new, change.old):
            found = key(item) if item is not None else ""
            if found:
                enqueue(found)
                return

    cache.on_change(changed)


def _by_owner(item: KubeObject) -> str:
    owner = controller_of(item)
    if owner is None or owner.kind != KIND:
        return ""
    return f"{item.metadata.namespace}/{owner.name}"


def _by_labels(item: KubeObject) -> str:
    found = item.metadata.labels or {}
    namespace = found.get(keys.LISTENER_NAMESPACE)
    name = found.get(keys.LISTENER_NAME)
    return f"{namespace}/{name}" if namespace and name else ""


def _child_key(seen: Snapshot, child: Child) -> str:
    return f"{seen.child_namespace(child)}/{seen.child_name(child)}"
