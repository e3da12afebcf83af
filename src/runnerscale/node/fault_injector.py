"""Carries out the faults of `faults.py` on this node.

What a lost node leads to in the control plane (`Ready=Unknown`, pods told not ready, deleted and
stuck terminating) is done here too, in the place of the controllers that a real cluster has for
it. The node itself is mute meanwhile (`presence.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import structlog

from runnerscale.core.clock import Clock, format_time
from runnerscale.kube.builtin import NODES
from runnerscale.kube.client import PatchType
from runnerscale.kube.errors import KubeError
from runnerscale.node.faults import (
    Evict,
    Fault,
    FaultRefused,
    ImagePullError,
    KillContainer,
    NodeLost,
    NoRoom,
    OomKill,
)
from runnerscale.node.node_client import NodeClient
from runnerscale.node.node_object import unknown_condition
from runnerscale.node.pod_spec import NODE_PODS, NodePod, is_terminal, uid_of
from runnerscale.node.pod_view import PodOver
from runnerscale.node.pod_worker import PodWorker
from runnerscale.node.preparation import Unavailable
from runnerscale.node.presence import Presence
from runnerscale.node.scheduler import Scheduler

log = structlog.get_logger(__name__)

QUEUE_MAX = 100
SECONDS_MAX = 3600.0


class FaultInjector:
    """`inject` now; `run` carries out those that last."""

    def __init__(
        self,
        client: NodeClient,
        *,
        node: str,
        workers: Callable[[], list[PodWorker]],
        scheduler: Scheduler,
        presence: Presence,
        unavailable: Unavailable,
        clock: Clock,
    ) -> None:
        """Nothing is wrong yet."""
        self._client = client
        self._node = node
        self._workers = workers
        self._scheduler = scheduler
        self._presence = presence
        self._unavailable = unavailable
        self._clock = clock
        self._lasting: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(QUEUE_MAX)

    def inject(self, fault: Fault) -> str:
        """Begin it; the answer is the pod or the part of the node it strikes.

        Raises:
            FaultRefused: nothing here that it could strike.
        """
        log.warning("fault injected", fault=type(fault).__name__)
        match fault:
            case Evict():
                return self._evict(fault)
            case OomKill():
                return self._kill(fault, "OOMKilled")
            case KillContainer():
                return self._kill(fault, "")
            case NodeLost():
                self._last(lambda: self._lose_node(fault))
                return f"node {self._node}"
            case ImagePullError():
                self._last(lambda: self._break_images(fault))
                return f"images {fault.pattern}"
            case NoRoom():
                self._last(lambda: self._take_room(fault))
                return f"node {self._node}"

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                work = await self._lasting.get()
                group.create_task(_awaited(work))

    def _last(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            self._lasting.put_nowait(work)
        except asyncio.QueueFull:
            raise FaultRefused(f"over {QUEUE_MAX} faults are waiting; wait for them") from None

    def _evict(self, fault: Evict) -> str:
        worker = self._pick(fault, running=False)
        worker.end(PodOver("Evicted", fault.message, grace_s=fault.grace_s, disrupted=True))
        return f"pod {worker.ref}"

    def _kill(self, fault: OomKill | KillContainer, reason: str) -> str:
        worker = self._pick(fault, running=True)
        container = fault.container or worker.running()[0]
        if not worker.kill_container(container, reason=reason):
            raise FaultRefused(f"pod {worker.ref} has no running container {container}")
        return f"container {container} of pod {worker.ref}"

    def _pick(self, fault: Evict | OomKill | KillContainer, *, running: bool) -> PodWorker:
        for worker in self._workers():
            ref = worker.ref
            if fault.namespace not in ("", ref.namespace) or fault.pod not in ("", ref.name):
                continue
            labels = worker.pod.metadata.labels or {}
            if any(labels.get(name) != value for name, value in fault.labels.items()):
                continue
            if not worker.finished and (worker.running() or not running):
                return worker
        wanted = fault.pod or fault.labels or "any name"
        raise FaultRefused(f"no live pod with {wanted} is on node {self._node}")

    async def _break_images(self, fault: ImagePullError) -> None:
        self._unavailable.patterns = (*self._unavailable.patterns, fault.pattern)
        await self._clock.sleep(min(fault.seconds, SECONDS_MAX))
        left = list(self._unavailable.patterns)
        left.remove(fault.pattern)
        self._unavailable.patterns = tuple(left)

    async def _take_room(self, fault: NoRoom) -> None:
        room = self._scheduler.room
        self._scheduler.room = replace(room, pods_max=0)
        await self._clock.sleep(min(fault.seconds, SECONDS_MAX))
        self._scheduler.room = room
        self._scheduler.wake()

    # --- a lost node -----------------------------------------------------------------------

    async def _lose_node(self, fault: NodeLost) -> None:
        seconds = min(fault.seconds, SECONDS_MAX)
        unnoticed_s = min(fault.unknown_after_s, seconds)
        self._presence.leave()
        try:
            await self._clock.sleep(unnoticed_s)
            await self._notice_loss(fault)
            await self._clock.sleep(seconds - unnoticed_s)
        finally:
            self._presence.come_back()
            self._scheduler.wake()
            log.info("node is back", node=self._node)

    async def _notice_loss(self, fault: NodeLost) -> None:
        condition = unknown_condition(now_s=self._clock.now_s())
        try:
            await self._client.patch(
                NODES,
                "",
                self._node,
                {"status": {"conditions": [condition]}},
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )
            for worker in self._workers():
                if not is_terminal(worker.pod):
                    await self._tell_not_ready(worker.pod, delete=fault.delete_pods)
        except KubeError as error:
            log.warning("loss of the node not told", error=str(error))

    async def _tell_not_ready(self, pod: NodePod, *, delete: bool) -> None:
        now = format_time(self._clock.now_s())
        told: list[dict[str, Any]] = [
            {
                "type": "Ready",
                "status": "False",
                "reason": "NodeNotReady",
                "lastTransitionTime": now,
            }
        ]
        if delete:
            told.append(
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByTaintManager",
                    "message": "Taint manager: deleting due to NoExecute taint",
                    "lastTransitionTime": now,
                }
            )
        namespace, name = pod.metadata.namespace or "", pod.metadata.name or ""
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": told}}
        await self._client.patch(
            NODE_PODS,
            namespace,
            name,
            body,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )
        if delete:
            await self._client.delete(NODE_PODS, namespace, name, uid=uid_of(pod))


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()
