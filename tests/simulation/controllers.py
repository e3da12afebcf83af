"""Controller processes, made as `app/controller_manager.py` makes them: one, or two with a lease.

What keeps them running (a Deployment) is `World.start_controller`; what only one of them may do
at a time is judged in `leadership.py`.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.app import controller_manager
from runnerscale.app.api_server import CONTROLLER
from runnerscale.app.controller_manager import (
    SUBSYSTEM,
    ControllerOptions,
    Manager,
    leader_lease,
)
from runnerscale.app.manifests import (
    CONTROLLER_ACCOUNT,
    CONTROLLER_IMAGE,
    RBAC,
    SYSTEM_NAMESPACE,
    Manifest,
    rule,
)
from runnerscale.app.problem import Problem
from runnerscale.app.versions import COMPATIBLE_VERSION, SYSTEM
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.credentials.clients import ClientCache
from runnerscale.kube.builtin import ROLE_BINDINGS, ROLES
from runnerscale.kube.cluster import Login
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.user_agent import SystemInfo
from tests.simulation.loop import Component
from tests.simulation.network import Network
from tests.simulation.parts import TOKENS, kube_client, start

LEASE_ROLE = "runnerscale-leader-election"


def lease_manifests() -> list[Manifest]:
    """The right to hold the lease, as the charts give it with more than one replica."""
    home = SYSTEM_NAMESPACE
    rules = [rule("coordination.k8s.io", ["leases"], ["create", "get", "update"])]
    binding = {
        "metadata": {"name": LEASE_ROLE},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": LEASE_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": CONTROLLER_ACCOUNT, "namespace": home}],
    }
    return [
        Manifest(ROLES, home, {"metadata": {"name": LEASE_ROLE}, "rules": rules}),
        Manifest(ROLE_BINDINGS, home, binding),
    ]


class ControllerProcess:
    """The manager, as `app/controller_manager.py` runs it."""

    def __init__(
        self,
        name: str,
        network: Network,
        *,
        clock: Clock,
        random: Random,
        place: int = 0,
        lease: bool = False,
        version: str = COMPATIBLE_VERSION,
    ) -> None:
        self.component = Component(name)
        self.place = place  # which replica, and so which machine's clock
        self.version = version
        self.leaving = False  # somebody ended it: nobody starts it again
        self.abandoned = False  # it had to end itself at once
        self._over = asyncio.Event()
        self.task: asyncio.Task[Any] | None = None
        network.plug(self.component)
        self.registry = CollectorRegistry()
        kube_metrics = KubeMetrics(self.registry)
        self.client = kube_client(
            self.component,
            network,
            Login(token=TOKENS[CONTROLLER]),
            clock=clock,
            random=random,
            metrics=kube_metrics,
        )
        self._clients = ClientCache(
            self.client,
            clock=clock,
            random=random,
            system_info=SystemInfo(
                system=SYSTEM,
                version=version,
                commit_sha=name,  # so that GitHub's side can tell which process asks
                subsystem=SUBSYSTEM,
            ),
            environ={},
            transport_factory=lambda options: open_transport(
                replace(options, dial=network.dial(self.component))
            ),
        )
        options = ControllerOptions(
            namespace=SYSTEM_NAMESPACE,
            image=CONTROLLER_IMAGE,
            identity=name,
            listener_metrics_addr="0",
            leader_election=lease,
        )
        with _built_as(version):
            self.manager = Manager(
                options,
                client=self.client,
                clients=self._clients,
                registry=self.registry,
                kube_metrics=kube_metrics,
                clock=clock,
                random=random,
            )
        self.lease = leader_lease(
            options, self.client, kube_metrics, abandon=self._abandon, clock=clock, random=random
        )

    @property
    def leads(self) -> bool:
        """Whether it believes that it may work."""
        return self.lease is None or self.lease.is_leader

    def start(self) -> None:
        """Begin."""
        self.task = start(self.component, self._run())

    async def _run(self) -> None:
        try:
            await self.manager.run(self.lease)
        finally:
            await self._clients.close()
            await self.client.close()

    def terminate(self) -> None:
        """SIGTERM: it ends its work, gives the lease back and goes."""
        self.leaving = True
        if self.task is not None and not self.component.dead:
            self.task.cancel()

    def _abandon(self) -> None:
        self.abandoned = True
        self._over.set()
        self.component.kill()

    async def ended(self) -> str:
        """Wait for its end by itself; why, or "" where that was to be expected."""
        assert self.task is not None
        self.task.add_done_callback(lambda _: self._over.set())
        await self._over.wait()
        if self.abandoned or self.leaving or self.task.cancelled():
            return ""
        error = self.task.exception()
        lost = _only(error, Problem)  # the lease was lost and won again: ends by intention
        return "" if lost else f"{type(error).__name__}: {error}"


def _only(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether nothing but that kind of error is in it, however deep."""
    if isinstance(error, BaseExceptionGroup):
        return all(_only(each, kind) for each in error.exceptions)
    return isinstance(error, kind)


@contextlib.contextmanager
def _built_as(version: str) -> Iterator[None]:
    """A build of another version differs from ours in that constant."""
    ours = controller_manager.COMPATIBLE_VERSION
    controller_manager.COMPATIBLE_VERSION = version  # type: ignore[misc]
    try:
        yield
    finally:
        controller_manager.COMPATIBLE_VERSION = ours  # type: ignore[misc]
