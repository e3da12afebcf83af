"""The node agent: which pods are this node's, and a worker for each.

How a pod becomes processes, in order: `scheduler.py` places it here; its worker
(`pod_worker.py`) asks `pod_plan.py` what to do, `preparation.py` gathers what a container needs,
`system_processes.py` starts it, `pod_status.py` says how it is. After the agent's own restart
what still runs is taken over before anything new is started.
"""

import asyncio
from collections.abc import Mapping

import structlog

from runnerscale.core.clock import Clock, parse_time
from runnerscale.core.randomness import Random
from runnerscale.kube.errors import KubeError, NotFound
from runnerscale.kube.objects import KubeObject, key_of
from runnerscale.kube.store import Change
from runnerscale.node.config import NodeConfig
from runnerscale.node.environment import ObjectRef
from runnerscale.node.fault_injector import FaultInjector
from runnerscale.node.node_client import NodeClient
from runnerscale.node.parts import Parts, Seams, Telemetry
from runnerscale.node.placement import takes_room
from runnerscale.node.pod_spec import (
    NODE_PODS,
    NodePod,
    uid_of,
)
from runnerscale.node.pod_view import PodOver
from runnerscale.node.pod_worker import PodWorker
from runnerscale.node.processes import ProcessStarter, RecoveredPod
from runnerscale.node.questions import Network
from runnerscale.node.scheduler import PLACE_INDEX

log = structlog.get_logger(__name__)

STUMBLE_WAIT_S = 5.0
LEFTOVER_WAIT_S = 30.0  # for processes of a pod that nobody knows any more
ASK_AGAIN_S = 2.0  # after the API server did not say whether a pod is there


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
        """The arguments are `parts.Seams`."""
        self.config = config
        seams = Seams(
            client=client,
            config=config,
            processes=processes,
            network=network,
            clock=clock,
            random=random,
            telemetry=telemetry,
            environ=environ,
            log_port=log_port,
            version=version,
        )
        parts = Parts(seams)
        self._parts = parts
        self._pods = parts.pods
        self._scheduler = parts.scheduler
        self._processes = processes
        self._clock = clock
        self._metrics = telemetry.node
        self._workers: dict[str, PodWorker] = {}
        self._done: set[str] = set()  # uids that are over here; only the API server still has them
        self._unseen: dict[str, RecoveredPod] = {}  # what runs of pods that are not in the cache
        self._asking: set[str] = set()  # uids of pods that the API server is asked about
        self._began_s = clock.now_s()
        self._adopted = False
        self._draining = False
        self._group: asyncio.TaskGroup | None = None
        self.faults = FaultInjector(
            client,
            node=config.node_name,
            workers=self.workers,
            scheduler=parts.scheduler,
            presence=parts.presence,
            unavailable=parts.unavailable,
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
        """End all containers, each within its own grace, and tell so.

        Pods that are made meanwhile (a ReplicaSet replaces what ended) are left alone.
        """
        self._draining = True
        self._scheduler.stop()
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
        self._parts.secrets.on_change(lambda change: self._mounted_changed("Secret", change))
        self._parts.config_maps.on_change(lambda change: self._mounted_changed("ConfigMap", change))
        recovered = await self._processes.recover()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._pods.run(), name="pods")
                group.create_task(self._parts.secrets.run(), name="secrets")
                group.create_task(self._parts.config_maps.run(), name="config maps")
                group.create_task(self._parts.events.run(), name="events")
                group.create_task(self._parts.heartbeat.run(), name="heartbeat")
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
        self._unseen = dict(recovered)
        for left in recovered.values():
            assert self._group is not None
            self._group.create_task(self._settle_leftover(left))
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
            elif uid_of(pod) not in self._done and not self._draining:
                self._begin(pod, self._unseen.pop(uid_of(pod), None))
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

    def _begin(
        self, pod: NodePod, recovered: RecoveredPod | None, *, is_sure: bool = False
    ) -> None:
        assert self._group is not None
        if recovered is None and not is_sure and self._may_have_run(pod):
            if uid_of(pod) not in self._asking:
                self._asking.add(uid_of(pod))
                self._group.create_task(self._begin_when_sure(pod))
            return
        worker = PodWorker(pod, self._parts.around, recovered=recovered)
        pods_max = self.config.pods_max
        if recovered is None and takes_room(pod) and len(self._workers) >= pods_max:
            used = sum(1 for other in self._workers.values() if takes_room(other.pod))
            if used >= pods_max:
                worker.refuse(_out_of_pods(used, pods_max))
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
            worker = PodWorker(worker.pod, self._parts.around, recovered=recovered)
            if gone:
                worker.gone()
            self._workers[uid] = worker
        self._workers.pop(uid, None)
        if not worker.is_gone:
            self._done.add(uid)
        self._metrics.pods.set(len(self._workers))
        self._scheduler.wake()

    def _may_have_run(self, pod: NodePod) -> bool:
        """It is older than this agent, and the cache may be older than both."""
        created = pod.metadata.creation_timestamp
        return created is None or parse_time(created) < self._began_s

    async def _begin_when_sure(self, pod: NodePod) -> None:
        """What ran once must not run again: ask the API server itself whether it is still there."""
        uid = uid_of(pod)
        fresh = await self._asked(pod.metadata.namespace or "", pod.metadata.name or "", uid)
        self._asking.discard(uid)
        known = self._pods.store.get(key_of(pod))
        if known is None or uid_of(known) != uid:
            return  # meanwhile its end has come into view
        if fresh is None:
            self._done.add(uid)
        elif uid not in self._workers and not self._draining:
            self._begin(fresh, None, is_sure=True)

    async def _asked(self, namespace: str, name: str, uid: str) -> NodePod | None:
        """The pod as the API server has it; None: that one is gone."""
        while True:
            try:
                pod = await self._parts.around.client.get(NODE_PODS, namespace, name)
            except NotFound:
                return None
            except KubeError as error:
                log.warning("pod not asked about yet", pod=f"{namespace}/{name}", error=str(error))
                await self._clock.sleep(ASK_AGAIN_S)
            else:
                return pod if uid_of(pod) == uid else None

    async def _settle_leftover(self, left: RecoveredPod) -> None:
        """End what runs of a pod that was deleted; what the cache only does not show yet stays."""
        ref = left.pod
        while await self._asked(ref.namespace, ref.name, ref.uid) is not None:
            await self._clock.sleep(LEFTOVER_WAIT_S)
            if ref.uid not in self._unseen:
                return  # it has come into view
        if self._unseen.pop(ref.uid, None) is not None:
            await self._end_leftover(left)

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
