"""Keeps the Node object alive: registers it, renews its lease, refreshes its status now and then.

As kubelet: the lease is the heartbeat (small, often), the status is written when it changes and
every few minutes. While leases cannot be had, the status is the heartbeat.
"""

import structlog

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.builtin import LEASES, NODES
from runnerscale.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from runnerscale.node.config import NodeConfig
from runnerscale.node.node_client import NodeClient
from runnerscale.node.node_object import (
    LEASE_NAMESPACE,
    Machine,
    lease_body,
    node_body,
    node_labels,
    node_status,
)
from runnerscale.node.presence import Presence

log = structlog.get_logger(__name__)

STATUS_EVERY_S = 300.0
LEASE_AGAIN_S = 60.0
RETRY = Backoff(first_s=0.5, cap_s=10.0)


class Heartbeat:
    """`run` until cancelled."""

    def __init__(
        self,
        client: NodeClient,
        *,
        machine: Machine,
        config: NodeConfig,
        presence: Presence,
        clock: Clock,
        random: Random,
    ) -> None:
        """Nothing is sent yet."""
        self._client = client
        self._machine = machine
        self._config = config
        self._presence = presence
        self._clock = clock
        self._random = random
        self._leased = True  # as far as is known
        self._lease_again_s = float("-inf")  # monotonic; not asked for before
        self._began_s = clock.now_s()

    async def run(self) -> None:
        """Register, then beat; after having been lost, register again."""
        failures = 0
        while True:
            try:
                await self._register()
                await self._beat_until_lost()
                failures = 0
            except KubeError as error:
                log.warning("node heartbeat not sent", error=str(error))
                await self._clock.sleep(RETRY.delay_s(failures, self._random))
                failures += 1

    async def _register(self) -> None:
        await self._presence.wait()
        name = self._machine.name
        body = node_body(name, node_labels(name, self._config.labels))
        try:
            await self._client.create(NODES, "", body)
        except AlreadyExists:
            # No version: these labels are ours to say, and nobody else's.
            await self._client.patch(NODES, "", name, body)
        self._began_s = self._clock.now_s()
        await self._write_status()
        log.info("node registered", node=name, pods_max=self._machine.pods_max)

    async def _beat_until_lost(self) -> None:
        told_s = self._clock.monotonic_s()
        while not self._presence.lost:
            if not await self._renew_lease():
                told_s = self._clock.monotonic_s() - STATUS_EVERY_S
            if self._clock.monotonic_s() - told_s >= STATUS_EVERY_S:
                await self._write_status()
                told_s = self._clock.monotonic_s()
            await self._clock.sleep(self._config.heartbeat_s)

    async def _renew_lease(self) -> bool:
        """False: there are none to be had here, now."""
        if self._clock.monotonic_s() < self._lease_again_s:
            return False
        name = self._machine.name
        body = lease_body(name, lease_s=self._config.lease_s, now_s=self._clock.now_s())
        try:
            try:
                # No version: this lease has one holder by its name.
                await self._client.patch(LEASES, LEASE_NAMESPACE, name, body)
            except NotFound:
                await self._client.create(LEASES, LEASE_NAMESPACE, body)
        except (NotFound, Forbidden) as error:
            # Rights may come late: for some seconds after its start an API server knows no Roles.
            self._lease_again_s = self._clock.monotonic_s() + LEASE_AGAIN_S
            if self._leased:
                log.info("no node lease, the status is the heartbeat", why=str(error))
            self._leased = False
            return False
        self._leased = True
        return True

    async def _write_status(self) -> None:
        status = node_status(
            self._machine, ready=True, since_s=self._began_s, now_s=self._clock.now_s()
        )
        body = {"status": status}
        # No version: the node's status has this one writer.
        await self._client.patch(NODES, "", self._machine.name, body, subresource="status")
