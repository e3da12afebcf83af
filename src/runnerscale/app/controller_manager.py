"""The controller process: every informer, controller and server it is made of, on one page.

What a controller decides is in its folder under `controllers/`; what each is given stands here.
With a lease, the caches are filled before it is held, so that a successor starts at once.
"""

import asyncio
import gc
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.api.autoscaling_runner_set import (
    AUTOSCALING_RUNNER_SETS,
)
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.app.api_check import OURS, ApiCheck
from runnerscale.app.cache_watch import watch_caches
from runnerscale.app.logs import FORMATS, LEVELS, Style, configure_logging
from runnerscale.app.problem import FAILURE, Problem
from runnerscale.app.process import run_process
from runnerscale.app.process_metrics import add_process_metrics
from runnerscale.app.side_servers import OFF, serve_beside
from runnerscale.app.versions import COMPATIBLE_VERSION, SYSTEM, commit_sha
from runnerscale.controllers.autoscaling_listener import controller as listener_controller
from runnerscale.controllers.autoscaling_listener import snapshot as listener_snapshot
from runnerscale.controllers.autoscaling_runner_set import controller as runner_set_controller
from runnerscale.controllers.autoscaling_runner_set import observed as runner_set_observed
from runnerscale.controllers.autoscaling_runner_set import snapshot as runner_set_snapshot
from runnerscale.controllers.condition_writer import ConditionWriter
from runnerscale.controllers.ephemeral_runner import controller as runner_controller
from runnerscale.controllers.ephemeral_runner_set import controller as set_controller
from runnerscale.controllers.ephemeral_runner_set.bounds import Bounds
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.controllers.reporting import Reporter
from runnerscale.controllers.stuck import StuckPasses
from runnerscale.controllers.unreadable import mark_unreadable, report_unreadable
from runnerscale.core.clock import Clock, SystemClock
from runnerscale.core.randomness import Random, hex_text, system_random
from runnerscale.credentials.clients import ClientCache
from runnerscale.kube.builtin import PODS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from runnerscale.kube.client import KubeClient
from runnerscale.kube.cluster import load_config, open_client
from runnerscale.kube.controller import Controller
from runnerscale.kube.events import EventRecorder
from runnerscale.kube.freshness import Freshness
from runnerscale.kube.informer import Informer
from runnerscale.kube.lease import LeaderLease
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.patching import owner_index
from runnerscale.kube.reconcile import BATCH_MAX
from runnerscale.kube.resource import Resource
from runnerscale.scaleset.user_agent import SystemInfo

log = structlog.get_logger(__name__)

SUBSYSTEM = "gha-scale-set-controller"
SET_WORKERS = 8  # sets of one host must not wait for those of another (contract W29)
RUNNER_WORKERS = 50  # measured: what a burst of runners needs on one controller
STUCK_AFTER_S = 60.0  # a restart of the API server is shorter, and nobody's business
WORKERS_MAX = 1000  # more only wait for each other


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """What flags and environment say; see `cli/controller_command.py`."""

    namespace: str
    image: str
    listener_entrypoint: str = ""
    listener_restricted: bool = False  # a listener's container passes Pod Security "restricted"
    listener_resources: Mapping[str, Mapping[str, str | int | float]] | None = None
    identity: str = ""
    kubeconfig: str = ""
    leader_election: bool = False
    leader_election_id: str = "actions-runner-controller"
    pull_secrets: tuple[str, ...] = ()
    log_level: str = "info"
    log_format: str = "text"
    watch_namespace: str = ""
    runner_set_workers: int = SET_WORKERS
    listener_workers: int = SET_WORKERS
    set_workers: int = SET_WORKERS
    runner_workers: int = RUNNER_WORKERS
    listener_metrics_addr: str = ":8080"
    listener_metrics_endpoint: str = "/metrics"
    metrics_addr: str = ":8080"
    probe_addr: str = ""
    pprof_addr: str = ""
    excluded_label_prefixes: tuple[str, ...] = ()


class Manager:
    """The parts of a controller process, and their running."""

    def __init__(
        self,
        options: ControllerOptions,
        *,
        client: KubeClient,
        clients: ClientCache,
        registry: CollectorRegistry,
        kube_metrics: KubeMetrics,
        clock: Clock,
        random: Random,
    ) -> None:
        """Wire everything; nothing runs before `run`."""
        self._options = options
        self._client = client
        self._clock = clock
        self._random = random
        self._kube_metrics = kube_metrics
        self._informers: list[Informer[Any]] = []
        self._controllers: list[Controller] = []
        self._clients = clients
        self.events = EventRecorder(
            client, component=SYSTEM, clock=clock, random=random, metrics=kube_metrics
        )
        self._metrics = ControllerMetrics(registry)
        self._reporter = Reporter(self.events, self._metrics)
        self._conditions = ConditionWriter(client, clock=clock)
        self._api = ApiCheck(client, reporter=self._reporter, clock=clock, random=random)
        self.worked = False
        where = options.watch_namespace
        home = options.namespace
        self._runner_sets = self._informer(
            AUTOSCALING_RUNNER_SETS,
            where,
            indexers={runner_set_observed.BY_CLAIM: runner_set_observed.by_claim},
        )
        owned = {set_controller.OWNER_INDEX: owner_index}
        self._sets = self._informer(EPHEMERAL_RUNNER_SETS, where, indexers=owned)
        self._runners = self._informer(EPHEMERAL_RUNNERS, where, indexers=owned)
        by_set = {listener_controller.BY_RUNNER_SET: listener_controller.by_runner_set}
        self._listeners = self._informer(AUTOSCALING_LISTENERS, home, indexers=by_set)
        label = f"{keys.EPHEMERAL_RUNNER}={keys.EPHEMERAL_RUNNER_VALUE}"
        self._runner_pods = self._informer(PODS, where, label_selector=label)
        self._listener_pods = self._informer(PODS, home)
        self._accounts = self._informer(SERVICE_ACCOUNTS, home)
        ours = keys.LISTENER_NAME
        self._roles = self._informer(ROLES, where, label_selector=ours)
        self._bindings = self._informer(ROLE_BINDINGS, where, label_selector=ours)
        made = (self._runners, self._sets, self._listeners)
        self._freshness = Freshness(*made, clock=clock, random=random)
        self._wire_runners()
        self._set_reconciler = self._wire_sets()
        self._wire_listeners()
        self._wire_runner_sets()

    def _informer(self, resource: Resource[Any], namespace: str, **more: Any) -> Informer[Any]:
        informer = Informer(
            self._client,
            resource,
            namespace=namespace,
            clock=self._clock,
            random=self._random,
            metrics=self._kube_metrics,
            **more,
        )
        self._informers.append(informer)
        if resource is not EPHEMERAL_RUNNERS:  # its reconciler tells more
            report_unreadable(informer, self._reporter)
        if resource in OURS:
            mark_unreadable(informer, self._conditions)
        return informer

    def _controller(
        self,
        name: str,
        reconciler: Any,
        keys_of: Informer[Any],
        own: OwnWrites,
        workers: int,
        *,
        batch_max: int = BATCH_MAX,
        keys: Callable[[], Iterable[str]] | None = None,
    ) -> Controller:
        stuck = StuckPasses(
            keys_of, reporter=self._reporter, writer=self._conditions, clock=self._clock
        )
        controller = Controller(
            name=name,
            reconciler=reconciler,
            keys=keys or keys_of.store.keys,
            clock=self._clock,
            random=self._random,
            metrics=self._kube_metrics,
            workers=workers,
            own_writes=own,
            batch_max=batch_max,
            ended=stuck.ended,
        )
        self._controllers.append(controller)
        return controller

    def _wire_runners(self) -> None:
        own = OwnWrites(clock=self._clock)
        reconciler = runner_controller.EphemeralRunnerReconciler(
            client=self._client,
            clients=self._clients,
            runners=self._runners,
            pods=self._runner_pods,
            runner_sets=self._sets,
            own_writes=own,
            reporter=self._reporter,
            clock=self._clock,
            build_version=COMPATIBLE_VERSION,
            excluded_labels=self._options.excluded_label_prefixes,
            deletes=lambda runner: self._set_reconciler.note_ending(runner),  # made after this
        )
        name, workers = runner_controller.NAME, self._options.runner_workers
        controller = self._controller(
            name, reconciler, self._runners, own, workers, keys=reconciler.keys
        )
        reconciler.connect(controller.enqueue)

    def _wire_sets(self) -> set_controller.EphemeralRunnerSetReconciler:
        own = OwnWrites(clock=self._clock)
        bounds = Bounds(self._runner_sets.store)
        reconciler = set_controller.EphemeralRunnerSetReconciler(
            client=self._client,
            clients=self._clients,
            sets=self._sets,
            runners=self._runners,
            own_writes=own,
            reporter=self._reporter,
            metrics=None if self._options.metrics_addr == OFF else self._metrics,
            clock=self._clock,
            random=self._random,
            build_version=COMPATIBLE_VERSION,
            min_runners=bounds.low,
            max_runners=bounds.high,
            is_view_proven=self._freshness.ask,
        )
        controller = self._controller(
            set_controller.NAME, reconciler, self._sets, own, self._options.set_workers
        )
        reconciler.connect(controller.enqueue, controller.enqueue_after)
        self._freshness.on_proven(reconciler.look_at_all)
        self._conditions.tell(EPHEMERAL_RUNNERS, reconciler.unwritable)
        return reconciler

    def _wire_listeners(self) -> None:
        own = OwnWrites(clock=self._clock)
        caches = listener_controller.Caches(
            listeners=self._listeners,
            runner_sets=self._runner_sets,
            pods=self._listener_pods,
            service_accounts=self._accounts,
            roles=self._roles,
            role_bindings=self._bindings,
        )
        reconciler = listener_controller.ListenerReconciler(
            client=self._client,
            clients=self._clients,
            caches=caches,
            settings=listener_settings(self._options),
            reporter=self._reporter,
            metrics=self._metrics,
            own_writes=own,
            clock=self._clock,
        )
        name, workers = "autoscalinglistener", self._options.listener_workers
        controller = self._controller(name, reconciler, self._listeners, own, workers)
        listener_controller.connect(caches, controller.enqueue)

    def _wire_runner_sets(self) -> None:
        own = OwnWrites(clock=self._clock)
        caches = runner_set_observed.Caches(
            runner_sets=self._runner_sets,
            runner_sets_owned=self._sets,
            listeners=self._listeners,
            runners=self._runners,
            is_said_busy=self._set_reconciler.is_said_busy,
        )
        options = self._options
        reconciler = runner_set_controller.RunnerSetReconciler(
            client=self._client,
            clients=self._clients,
            caches=caches,
            settings=runner_set_snapshot.Settings(
                namespace=options.namespace,
                image=options.image,
                build_version=COMPATIBLE_VERSION,
                image_pull_secrets=options.pull_secrets,
                excluded_prefixes=options.excluded_label_prefixes,
                identity=f"{options.identity or 'controller'}_{hex_text(self._random, 4)}",
            ),
            reporter=self._reporter,
            own_writes=own,
            clock=self._clock,
            wrote=self._freshness.wrote,
            found_old=self._freshness.found_old,
            is_view_proven=self._freshness.ask,
        )
        name, workers = "autoscalingrunnerset", options.runner_set_workers
        controller = self._controller(name, reconciler, self._runner_sets, own, workers)
        self._freshness.on_proven(controller.enqueue_all)
        runner_set_controller.connect(caches, controller.enqueue, controller.enqueue_after)

    def why_not_ready(self) -> str | None:
        """None: caches are filled and follow. (Whoever waits for the lease is ready too.)"""
        if self._api.trouble:
            return self._api.trouble
        waiting = [i for i in self._informers if not i.synced]
        if waiting:
            return _told("caches are not filled yet", waiting)
        stuck = [i for i in self._informers if i.troubled_s >= STUCK_AFTER_S]
        return _told("caches do not follow the API server", stuck) if stuck else None

    async def run(self, lease: LeaderLease | None) -> None:
        """Until cancelled.

        Raises:
            ConfigError: the way to the API server cannot be used, and waiting will not help.
        """
        try:
            await self._api.until_usable()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._api.run(), name="crds")
                for informer in self._informers:
                    group.create_task(informer.run(), name=f"informer-{informer.resource.plural}")
                group.create_task(self.events.run(), name="events")
                group.create_task(self._watch_caches(), name="caches")
                for informer in self._informers:
                    await informer.wait_synced()
                gc.freeze()  # what is cached now stays: no need to look at it again and again
                log.info("caches filled", runners=len(self._runners.store))
                await (self._work() if lease is None else lease.run(self._work))
        finally:
            await self._set_reconciler.close()

    async def _watch_caches(self) -> None:
        namespace = self._options.namespace
        await watch_caches(
            self._informers, namespace=namespace, reporter=self._reporter, clock=self._clock
        )

    async def _work(self) -> None:
        if self.worked:
            # Queues and hints of the time before the loss are worth nothing now.
            raise Problem(
                f"the lease {self._options.leader_election_id} was lost and won again",
                "The process ends with exit code 1, to be started anew with an empty memory: "
                "nothing is to be done in a cluster, where the kubelet starts it",
            )
        self.worked = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self._conditions.run(), name="conditions")
            group.create_task(self._freshness.run(), name="freshness")
            for controller in self._controllers:
                group.create_task(controller.run(), name=controller.name)


def _told(what: str, informers: Sequence[Informer[Any]]) -> str:
    said = sorted({i.trouble for i in informers if i.trouble})
    names = ", ".join(sorted({i.resource.plural for i in informers}))
    return f"{what}: {names}" + "".join(f"; {text}" for text in said)


def workers_for(wished: int, *, own: int) -> int:
    """How many passes of a kind run side by side: what was wished, but no fewer than we need."""
    return min(max(wished, own), WORKERS_MAX)


def listener_settings(options: ControllerOptions) -> listener_snapshot.Settings:
    """What listeners inherit; levels and formats that they do not know fall back to ARC's."""
    addr = options.listener_metrics_addr
    return listener_snapshot.Settings(
        image=options.image,
        entrypoint=options.listener_entrypoint or "/ghalistener",
        log_level=options.log_level if options.log_level in LEVELS else "debug",
        log_format=options.log_format if options.log_format in FORMATS else "text",
        metrics_addr="" if addr == OFF else addr,
        metrics_endpoint="" if addr == OFF else options.listener_metrics_endpoint,
        excluded_prefixes=options.excluded_label_prefixes,
        restricted=options.listener_restricted,
        resources=options.listener_resources,
    )


def run_controller_process(options: ControllerOptions) -> int:
    """Run until SIGTERM; the exit code.

    Raises:
        Problem: the options, or the way to the API server, cannot be used.
        KubeError: likewise.
    """
    clock = SystemClock()
    random = system_random()
    configure_logging(options.log_level, options.log_format, style=Style.CONTROLLER, clock=clock)

    async def work() -> int:
        await _run(options, clock=clock, random=random)
        return 0

    return run_process(work)


async def _run(options: ControllerOptions, *, clock: Clock, random: Random) -> None:
    registry = CollectorRegistry()
    add_process_metrics(registry)
    kube_metrics = KubeMetrics(registry)
    client = open_client(
        load_config(options.kubeconfig, os.environ),
        clock=clock,
        random=random,
        metrics=kube_metrics,
        user_agent=f"{SYSTEM}/{COMPATIBLE_VERSION} controller",
        environ=os.environ,
    )
    clients = ClientCache(
        client,
        clock=clock,
        random=random,
        system_info=SystemInfo(
            system=SYSTEM,
            version=COMPATIBLE_VERSION,
            commit_sha=commit_sha(),
            subsystem=SUBSYSTEM,
        ),
        environ=os.environ,
    )
    manager = Manager(
        options,
        client=client,
        clients=clients,
        registry=registry,
        kube_metrics=kube_metrics,
        clock=clock,
        random=random,
    )
    lease = leader_lease(
        options, client, kube_metrics, abandon=_end_now, clock=clock, random=random
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        stack.push_async_callback(clients.close)
        await serve_beside(
            stack,
            metrics_addr=options.metrics_addr,
            probe_addr=options.probe_addr,
            pprof_addr=options.pprof_addr,
            registry=registry,
            why_not_ready=manager.why_not_ready,
        )
        await manager.run(lease)


def leader_lease(
    options: ControllerOptions,
    client: KubeClient,
    metrics: KubeMetrics,
    *,
    abandon: Callable[[], None],
    clock: Clock,
    random: Random,
) -> LeaderLease | None:
    """The lease that `Manager.run` works under; None: it was not asked for.

    `abandon` ends the process at once: work that cannot be stopped must not outlive the lease.
    """
    if not options.leader_election:
        return None
    lease = LeaderLease(
        client,
        namespace=options.namespace,
        name=options.leader_election_id,
        identity=f"{options.identity or 'controller'}_{hex_text(random, 8)}",
        clock=clock,
        random=random,
        abandon=abandon,
        metrics=metrics,
    )
    client.guard_writes(lease.may_work)
    return lease


def _end_now() -> None:
    os._exit(FAILURE)
