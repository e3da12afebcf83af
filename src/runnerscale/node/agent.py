"""The node agent: which pods are this node's, and a worker for each.

How a pod becomes processes, in order: `scheduler.py` places it here; its worker
(`pod_worker.py`) asks `pod_plan.py` what to do, `preparation.py` gathers what a container needs,
`system_processes.py` starts it, `pod_status.py` says how it is. After the agent's own restart
what still runs is taken over before anything new is started.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import structlog
from prometheus_client import CollectorRegistry

from runnerscale.core.bounded import Gate
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.events import EventRecorder
from runnerscale.kube.informer import Informer
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.objects import KubeObject
from runnerscale.kube.resource import Resource
from runnerscale.kube.store import Change, Indexer
from runnerscale.node.config import NodeConfig
from runnerscale.node.environment import ObjectRef
from runnerscale.node.fault_injector import FaultInjector
from runnerscale.node.heartbeat import Heartbeat
from runnerscale.node.metrics import NodeMetrics
from runnerscale.node.node_client import NodeClient
from runnerscale.node.node_object import Machine, node_labels
from runnerscale.node.placement import Room, takes_room
from runnerscale.node.pod_spec import (
    CONFIG_MAP_CHANGES,
    NODE_PODS,
    SECRET_CHANGES,
    NodePod,
    uid_of,
)
from runnerscale.node.pod_view import PodOver
from runnerscale.node.pod_worker import PodWorker, Surroundings
from runnerscale.node.preparation import Preparation, Unavailable, memory_bytes
from runnerscale.node.presence import Presence
from runnerscale.node.process_identity import boot_id
from runnerscale.node.processes import ProcessStarter, RecoveredPod
from runnerscale.node.questions import Network, Questions
from runnerscale.node.scheduler import PLACE_INDEX, Scheduler, place_index

T = TypeVar("T", bound=KubeObject)

log = structlog.get_logger(__name__)

CALLS_MAX = 16  # writes to the API server under way at once
STUMBLE_WAIT_S = 5.0
LEFTOVER_WAIT_S = 30.0  # for processes of a pod that nobody knows any more


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Where the agent counts."""

    kube: KubeMetrics
    node: NodeMetrics

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "Telemetry":
        """Both families in one registry."""
        return cls(KubeMetrics(registry), NodeMetrics(registry))


class NodeAgent:
    """`run` until cancelled. Containers go on when it ends, unless `drain` was awaited before."""

    def __init__(
        self,
        client: NodeClient,
        *,
        config: NodeConfig,
        processes: ProcessStarter,
        network: Network,
        clock: Clock,
        random: Random,
        telemetry: Telemetry,
        environ: Mapping[str, str],
        log_port: int = 0,
        version: str = "",
    ) -> None:
        """`log_port`: where this node serves logs; `environ`: the agent's own environment;
        `network`: what probes ask."""
        self.config = config
        self._client = client
        self._processes = processes
        self._clock = clock
        self._metrics = telemetry.node
        self._presence = Presence()
        self._unavailable = Unavailable()
        self._workers: dict[str, PodWorker] = {}
        self._done: set[str] = set()  # uids that are over here; only the API server still has them
        self._adopted = False
        self._group: asyncio.TaskGroup | None = None

        def follow(
            resource: Resource[T], indexers: Mapping[str, Indexer[T]] | None = None
        ) -> Informer[T]:
            return Informer(
                client,
                resource,
                indexers=indexers,
                clock=clock,
                random=random,
                metrics=telemetry.kube,
            )

        self._pods = follow(NODE_PODS, {PLACE_INDEX: place_index})
        self._secrets = follow(SECRET_CHANGES)
        self._config_maps = follow(CONFIG_MAP_CHANGES)
        self._events = EventRecorder(
            client,
            component="runnerscale-node",
            instance=config.node_name,
            clock=clock,
            random=random,
            metrics=telemetry.kube,
        )
        preparation = Preparation(
            client,
            processes,
            config=config,
            unavailable=self._unavailable,
            clock=clock,
            environ=environ,
        )
        self._around = Surroundings(
            client=client,
            processes=processes,
            preparation=preparation,
            questions=Questions(network, preparation),
            events=self._events,
            metrics=telemetry.node,
            presence=self._presence,
            calls=Gate(CALLS_MAX),
            config=config,
            clock=clock,
            random=random,
        )
        labels = node_labels(config.node_name, config.labels)
        self._scheduler = Scheduler(
            client,
            self._pods,
            node=config.node_name,
            room=Room(labels, config.pods_max),
            presence=self._presence,
            events=self._events,
            clock=clock,
        )
        machine = Machine(
            name=config.node_name,
            cpus=os.cpu_count() or 1,
            memory_bytes=memory_bytes(),
            pods_max=config.pods_max,
            port=log_port,
            boot_id=boot_id(),
            version=version,
        )
        self._heartbeat = Heartbeat(
            client,
            machine=machine,
            config=config,
            presence=self._presence,
            clock=clock,
            random=random,
        )
        self.faults = FaultInjector(
            client,
            node=config.node_name,
            workers=self.workers,
            scheduler=self._scheduler,
            presence=self._presence,
            unavailable=self._unavailable,
            clock=clock,
        )

    # --- what others ask -------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """It knows its pods and has taken over what ran."""
        return self._adopted

    def workers(self) -> list[PodWorker]:
        """Of all pods that are here."""
        return list(self._workers.values())

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """The worker of a pod by its name: the newest of that name."""
        found = [w for w in self.workers() if (w.ref.namespace, w.ref.name) == (namespace, name)]
        return found[-1] if found else None

    async def drain(self, *, timeout_s: float) -> None:
        """End all containers, each within its own grace, and tell so."""
        for worker in self.workers():
            worker.leave()
        try:
            async with asyncio.timeout(timeout_s):
                while any(not worker.finished for worker in self.workers()):
                    await self._clock.sleep(0.05)
        except TimeoutError:
            left = [str(worker.ref) for worker in self.workers() if not worker.finished]
            log.warning("containers did not end in time", pods=left[:20], count=len(left))

    # --- the loop --------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve this node."""
        self._pods.on_change(self._pod_changed)
        self._secrets.on_change(lambda change: self._mounted_changed("Secret", change))
        self._config_maps.on_change(lambda change: self._mounted_changed("ConfigMap", change))
        recovered = await self._processes.recover()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._pods.run(), name="pods")
                group.create_task(self._secrets.run(), name="secrets")
                group.create_task(self._config_maps.run(), name="config maps")
                group.create_task(self._events.run(), name="events")
                group.create_task(self._heartbeat.run(), name="heartbeat")
                group.create_task(self.faults.run(), name="faults")
                await self._pods.wait_synced()
                self._adopt({item.pod.uid: item for item in recovered})
                group.create_task(self._scheduler.run(), name="scheduler")
                self._scheduler.wake()
        finally:
            await self._processes.close()

    def _adopt(self, recovered: dict[str, RecoveredPod]) -> None:
        """Take over what an earlier agent left, end what nobody wants any more, begin the rest."""
        mine = self._pods.store.by_index(PLACE_INDEX, self.config.node_name)
        for pod in mine:
            found = recovered.pop(uid_of(pod), None)
            if found is not None:
                self._begin(pod, found)
        self._adopted = True
        for pod in mine:
            if uid_of(pod) not in self._workers:
                self._begin(pod, None)
        for left in recovered.values():
            assert self._group is not None
            self._group.create_task(self._end_leftover(left))
        log.info("node agent ready", pods=len(self._workers), leftovers=len(recovered))

    def _pod_changed(self, change: Change[NodePod]) -> None:
        if not self._adopted:
            return
        pod, old = change.new, change.old
        if pod is None:
            if old is not None:
                self._done.discard(uid_of(old))
                worker = self._workers.get(uid_of(old))
                if worker is not None:
                    worker.gone()
            self._scheduler.wake()
            return
        if pod.spec.node_name == self.config.node_name:
            worker = self._workers.get(uid_of(pod))
            if worker is not None:
                worker.update(pod)
            elif uid_of(pod) not in self._done:
                self._begin(pod, None)
        if not pod.spec.node_name or not takes_room(pod):
            self._scheduler.wake()

    def _mounted_changed(self, kind: str, change: Change[KubeObject]) -> None:
        item = change.new or change.old
        if item is None or not self._adopted:
            return
        ref = ObjectRef(kind, item.metadata.name or "")
        for worker in self._workers.values():
            if ref in worker.volumes.refs and worker.ref.namespace == item.metadata.namespace:
                worker.refresh_volumes()

    def _begin(self, pod: NodePod, recovered: RecoveredPod | None) -> None:
        assert self._group is not None
        worker = PodWorker(pod, self._around, recovered=recovered)
        used = sum(1 for other in self._workers.values() if takes_room(other.pod))
        if recovered is None and takes_room(pod) and used >= self.config.pods_max:
            worker.refuse(_out_of_pods(used, self.config.pods_max))
        self._workers[worker.ref.uid] = worker
        self._metrics.pods.set(len(self._workers))
        self._group.create_task(self._run_worker(worker), name=f"pod {worker.ref}")

    async def _run_worker(self, worker: PodWorker) -> None:
        uid = worker.ref.uid
        while True:
            try:
                await worker.run()
                break
            except Exception:  # a mistake of ours in one pod must not stop the others
                log.exception("pod worker stumbled, taking the pod over anew", pod=str(worker.ref))
            await self._clock.sleep(STUMBLE_WAIT_S)
            # What it had started is found again by its files, never by what it believed.
            recovered = await self._processes.recover_pod(worker.ref)
            gone = worker.is_gone
            worker = PodWorker(worker.pod, self._around, recovered=recovered)
            if gone:
                worker.gone()
            self._workers[uid] = worker
        self._workers.pop(uid, None)
        if not worker.is_gone:
            self._done.add(uid)
        self._metrics.pods.set(len(self._workers))
        self._scheduler.wake()

    async def _end_leftover(self, left: RecoveredPod) -> None:
        """The pod was deleted while no agent was there: its processes end, its folder goes."""
        ended = [asyncio.Event() for _ in left.containers]
        for event, container in zip(ended, left.containers.values(), strict=True):
            if container.latest is None:
                event.set()
                continue
            container.latest.on_exit(event.set)
            container.latest.kill()
        try:
            async with asyncio.timeout(LEFTOVER_WAIT_S):
                for event in ended:
                    await event.wait()
        except TimeoutError:
            log.warning("processes of a deleted pod do not end", pod=str(left.pod))
            return
        await self._processes.remove(left.pod)
        log.info("leftovers of a deleted pod removed", pod=str(left.pod))


def _out_of_pods(used: int, pods_max: int) -> PodOver:
    message = (
        "Pod was rejected: Node didn't have enough resource: pods, "
        f"requested: 1, used: {used}, capacity: {pods_max}"
    )
    return PodOver("OutOfpods", message, grace_s=0)
