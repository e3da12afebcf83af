"""Everything a node agent consists of, made from what it is handed: one page to read it from.

What the parts do with each other is `agent.py`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client import CollectorRegistry

from runnerscale.core.bounded import Gate
from runnerscale.core.clock import Clock
from runnerscale.core.randomness import Random
from runnerscale.kube.events import EventRecorder
from runnerscale.kube.informer import Informer
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.objects import KubeObject
from runnerscale.kube.resource import Resource
from runnerscale.kube.store import Indexer
from runnerscale.node.config import NodeConfig
from runnerscale.node.heartbeat import Heartbeat
from runnerscale.node.metrics import NodeMetrics
from runnerscale.node.node_client import NodeClient
from runnerscale.node.node_object import Machine, node_labels
from runnerscale.node.placement import Room
from runnerscale.node.pod_spec import CONFIG_MAP_CHANGES, NODE_PODS, SECRET_CHANGES
from runnerscale.node.pod_worker import Surroundings
from runnerscale.node.preparation import Preparation, Unavailable, memory_bytes
from runnerscale.node.presence import Presence
from runnerscale.node.process_identity import boot_id
from runnerscale.node.processes import ProcessStarter
from runnerscale.node.questions import Network, Questions
from runnerscale.node.scheduler import PLACE_INDEX, Scheduler, place_index

T = TypeVar("T", bound=KubeObject)

CALLS_MAX = 16  # writes to the API server under way at once


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Where the agent counts."""

    kube: KubeMetrics
    node: NodeMetrics

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "Telemetry":
        """Both families in one registry."""
        return cls(KubeMetrics(registry), NodeMetrics(registry))


@dataclass(frozen=True, slots=True)
class Seams:
    """What the agent is handed: the world outside of it."""

    client: NodeClient
    config: NodeConfig
    processes: ProcessStarter
    network: Network  # what probes ask
    clock: Clock
    random: Random
    telemetry: Telemetry
    environ: Mapping[str, str]  # the agent's own environment, of which a little is passed on
    log_port: int = 0  # where this node serves logs
    version: str = ""


class Parts:
    """The parts of one agent. Nothing runs yet."""

    def __init__(self, seams: Seams) -> None:
        """Put them together."""
        self._seams = seams
        self.presence = Presence()
        self.unavailable = Unavailable()
        self.pods = self._follow(NODE_PODS, {PLACE_INDEX: place_index})
        self.secrets = self._follow(SECRET_CHANGES)
        self.config_maps = self._follow(CONFIG_MAP_CHANGES)
        self.events = EventRecorder(
            seams.client,
            component="runnerscale-node",
            instance=seams.config.node_name,
            clock=seams.clock,
            random=seams.random,
            metrics=seams.telemetry.kube,
        )
        self.around = self._surroundings()
        self.scheduler = Scheduler(
            seams.client,
            self.pods,
            node=seams.config.node_name,
            room=Room(
                node_labels(seams.config.node_name, seams.config.labels), seams.config.pods_max
            ),
            presence=self.presence,
            events=self.events,
            clock=seams.clock,
        )
        self.heartbeat = Heartbeat(
            seams.client,
            machine=self._machine(),
            config=seams.config,
            presence=self.presence,
            clock=seams.clock,
            random=seams.random,
        )

    def _follow(
        self, resource: Resource[T], indexers: Mapping[str, Indexer[T]] | None = None
    ) -> Informer[T]:
        seams = self._seams
        return Informer(
            seams.client,
            resource,
            indexers=indexers,
            clock=seams.clock,
            random=seams.random,
            metrics=seams.telemetry.kube,
        )

    def _surroundings(self) -> Surroundings:
        seams = self._seams
        preparation = Preparation(
            seams.client,
            seams.processes,
            config=seams.config,
            unavailable=self.unavailable,
            clock=seams.clock,
            environ=seams.environ,
        )
        return Surroundings(
            client=seams.client,
            processes=seams.processes,
            preparation=preparation,
            questions=Questions(seams.network, preparation),
            events=self.events,
            metrics=seams.telemetry.node,
            presence=self.presence,
            calls=Gate(CALLS_MAX),
            config=seams.config,
            clock=seams.clock,
            random=seams.random,
        )

    def _machine(self) -> Machine:
        config = self._seams.config
        return Machine(
            name=config.node_name,
            cpus=os.cpu_count() or 1,
            memory_bytes=memory_bytes(),
            pods_max=config.pods_max,
            port=self._seams.log_port,
            boot_id=boot_id(),
            version=self._seams.version,
        )
