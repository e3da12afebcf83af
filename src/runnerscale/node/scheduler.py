"""Places pods on the one node there is, and says so on those that do not fit.

The rules are `placement.py`. A pod that was bound a moment ago counts before the cache shows it,
so that a burst never overfills the node. `PodScheduled=False` is the only thing this writes on a
pod without a node; once it has one, its worker is the only writer.
"""

import asyncio
from typing import Any

import structlog

from runnerscale.core.bounded import run_bounded
from runnerscale.core.clock import Clock, format_time
from runnerscale.kube.builtin import PodCondition
from runnerscale.kube.errors import Conflict, KubeError, NotFound
from runnerscale.kube.events import EventRecorder
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import reference_to
from runnerscale.node.node_client import NodeClient
from runnerscale.node.placement import Room, in_order, may_be_placed, misfit, takes_room
from runnerscale.node.pod_spec import NODE_PODS, NodePod, uid_of
from runnerscale.node.presence import Presence

log = structlog.get_logger(__name__)

PLACE_INDEX = "place"  # pods by the node they are on; "" where they have none
CALLS_MAX = 16
GATHER_S = 0.01  # a burst of new pods is one pass
RETRY_S = 1.0


def place_index(pod: NodePod) -> tuple[str, ...]:
    """The index of the pod informer that the scheduler reads."""
    return (pod.spec.node_name or "",)


class Scheduler:
    """`wake` after anything that may let a pod in; `run` places."""

    def __init__(
        self,
        client: NodeClient,
        pods: Informer[NodePod],
        *,
        node: str,
        room: Room,
        presence: Presence,
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        """`pods` has the index `PLACE_INDEX`."""
        self._client = client
        self._pods = pods
        self._node = node
        self.room = room
        self._presence = presence
        self._events = events
        self._clock = clock
        self._woken = asyncio.Event()
        self._stopped = False
        self._bound: set[str] = set()  # uids we bound that the cache does not show on the node yet
        self._told: dict[str, str] = {}  # uid: why it does not fit, as we last wrote it

    def wake(self) -> None:
        """Look again."""
        self._woken.set()

    def stop(self) -> None:
        """Place nothing any more."""
        self._stopped = True

    async def run(self) -> None:
        """Place until cancelled, or stopped."""
        while not self._stopped:
            await self._woken.wait()
            await self._presence.wait()
            await self._clock.sleep(GATHER_S)
            self._woken.clear()
            if not (self._stopped or await self._pass()):
                await self._clock.sleep(RETRY_S)
                self.wake()

    async def _pass(self) -> bool:
        """One look at everybody; False: some call failed, look again soon."""
        self._forget_seen()
        here = self._pods.store.by_index(PLACE_INDEX, self._node)
        used = sum(1 for pod in here if takes_room(pod)) + len(self._bound)
        fitting: list[NodePod] = []
        refused: list[tuple[NodePod, str]] = []
        waiting = (pod for pod in self._pods.store.by_index(PLACE_INDEX, "") if may_be_placed(pod))
        for pod in in_order(pod for pod in waiting if uid_of(pod) not in self._bound):
            why = misfit(pod, self.room, used=used)
            if why is None:
                used += 1
                fitting.append(pod)
            elif self._told.get(uid_of(pod)) != why and not _says(pod, why):
                refused.append((pod, why))
        placed = await run_bounded(fitting, self._bind, limit=CALLS_MAX)
        told = await run_bounded(refused, lambda item: self._tell(*item), limit=CALLS_MAX)
        return all(placed) and all(told)

    def _forget_seen(self) -> None:
        unplaced = {uid_of(pod) for pod in self._pods.store.by_index(PLACE_INDEX, "")}
        self._bound &= unplaced
        self._told = {uid: why for uid, why in self._told.items() if uid in unplaced}

    async def _bind(self, pod: NodePod) -> bool:
        meta = pod.metadata
        self._bound.add(uid_of(pod))
        try:
            await self._client.bind_pod(
                meta.namespace or "", meta.name or "", node=self._node, uid=uid_of(pod)
            )
        except (NotFound, Conflict):
            self._bound.discard(uid_of(pod))  # gone, placed already, or not the same one any more
            return True
        except KubeError as error:
            self._bound.discard(uid_of(pod))
            log.warning("pod not placed", pod=meta.name, error=str(error))
            return False
        return True

    async def _tell(self, pod: NodePod, why: str) -> bool:
        meta = pod.metadata
        body = {"metadata": {"uid": uid_of(pod)}, "status": self._refusal(pod, why)}
        try:
            await self._client.patch(
                NODE_PODS, meta.namespace or "", meta.name or "", body, subresource="status"
            )
        except (NotFound, Conflict):
            return True
        except KubeError as error:
            log.warning("pod status not written", pod=meta.name, error=str(error))
            return False
        self._told[uid_of(pod)] = why
        self._events.record(
            reference_to(pod), type="Warning", reason="FailedScheduling", message=why
        )
        return True

    def _refusal(self, pod: NodePod, why: str) -> dict[str, Any]:
        existing = (pod.status.conditions if pod.status else None) or []
        before = next((c for c in existing if c.type == "PodScheduled"), None)
        same = before is not None and before.status == "False"
        since = before.last_transition_time if before and same else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
            "lastTransitionTime": since or format_time(self._clock.now_s()),
        }
        others = [_plain(c) for c in existing if c.type != "PodScheduled"]
        return {"phase": "Pending", "conditions": [condition, *others]}


def _says(pod: NodePod, why: str) -> bool:
    conditions = (pod.status.conditions if pod.status else None) or []
    return any(c.type == "PodScheduled" and c.message == why for c in conditions)


def _plain(condition: PodCondition) -> dict[str, Any]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
