"""Sends the status of one pod: the newest one only, in order, until it is stored.

Changes that come in quick succession become one write. A write that meets another pod of the
same name (uid), or none, ends the sending: that pod is not ours to speak of.
"""

import asyncio
from typing import Any

import structlog

from runnerscale.core.backoff import Backoff
from runnerscale.core.bounded import Gate
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.errors import BadRequest, Conflict, Invalid, KubeError, NotFound
from runnerscale.node.node_client import NodeClient
from runnerscale.node.pod_spec import NODE_PODS
from runnerscale.node.presence import Presence
from runnerscale.node.processes import PodRef

log = structlog.get_logger(__name__)

RETRY = Backoff(first_s=0.2, cap_s=10.0)
Json = dict[str, Any]


class StatusWriter:
    """One per pod; `run` sends until cancelled or the pod is no longer ours."""

    def __init__(
        self,
        client: NodeClient,
        pod: PodRef,
        *,
        gate: Gate,
        presence: Presence,
        delay_s: float,
        clock: Clock,
        random: Random,
    ) -> None:
        """`gate`: shared by all pods, bounds the calls under way."""
        self._client = client
        self._pod = pod
        self._gate = gate
        self._presence = presence
        self._delay_s = delay_s
        self._clock = clock
        self._random = random
        self._wanted: Json | None = None
        self._sent: Json | None = None
        self._urgent = False
        self._woken = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self.stranger = False  # another pod has the name, or none has

    def offer(self, status: Json, *, urgent: bool) -> None:
        """This is how it is now. `urgent`: worth a write of its own."""
        if self.stranger or status == self._wanted:
            return
        self._wanted = status
        if status == self._sent:
            return
        self._urgent = self._urgent or urgent
        self._settled.clear()
        self._woken.set()

    async def flush(self) -> None:
        """Return when the newest status is stored, or never will be."""
        self._urgent = True
        await self._settled.wait()

    async def run(self) -> None:
        """Send."""
        failures = 0
        while not self.stranger:
            await self._woken.wait()
            await self._presence.wait()
            if not self._urgent:
                await self._clock.sleep(self._delay_s)
            self._woken.clear()
            status = self._wanted
            if status is None or status == self._sent:
                self._settled.set()
                continue
            if await self._send(status):
                failures = 0
                self._urgent = self._urgent and self._wanted is not status
                if self._wanted is status or self.stranger:
                    self._settled.set()
            else:
                self._woken.set()
                await self._clock.sleep(RETRY.delay_s(failures, self._random))
                failures += 1

    async def _send(self, status: Json) -> bool:
        pod = self._pod
        # The uid is the guard: the server answers 409 if the name has another owner by now.
        body = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            async with self._gate.enter():
                await self._client.patch(
                    NODE_PODS, pod.namespace, pod.name, body, subresource="status"
                )
        except NotFound:
            self.stranger = True
            return True
        except Conflict:
            self.stranger = await self._is_stranger()
            return self.stranger
        except (Invalid, BadRequest) as error:
            # Sending the same again would be useless; the next change may be better.
            log.error("pod status refused", pod=str(pod), error=str(error))
        except KubeError as error:
            log.warning("pod status not written", pod=str(pod), error=str(error))
            return False
        self._sent = status
        return True

    async def _is_stranger(self) -> bool:
        try:
            found = await self._client.get(NODE_PODS, self._pod.namespace, self._pod.name)
        except NotFound:
            return True
        except KubeError:
            return False
        return found.metadata.uid != self._pod.uid
