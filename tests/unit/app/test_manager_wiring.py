"""What every controller of the process is given, whoever wires it."""

from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.app.controller_manager import ControllerOptions, Manager
from runnerscale.controllers.stuck import StuckPasses
from runnerscale.core.clock import ManualClock
from runnerscale.core.randomness import seeded
from runnerscale.credentials.clients import ClientCache
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.scaleset.user_agent import SystemInfo
from tests.unit.kube.scripted import Scripted, client_on


def test_no_controllers_failing_passes_go_unseen() -> None:
    registry, clock = CollectorRegistry(), ManualClock()
    client: Any = client_on(Scripted([]))
    manager = Manager(
        ControllerOptions(namespace="home", image="image"),
        client=client,
        clients=ClientCache(
            client, clock=clock, random=seeded(1), system_info=SystemInfo(), environ={}
        ),
        registry=registry,
        kube_metrics=KubeMetrics(registry),
        clock=clock,
        random=seeded(1),
    )
    controllers = manager._controllers
    assert len(controllers) == 4
    for controller in controllers:
        told: Any = controller._ended
        assert isinstance(told.__self__, StuckPasses), controller.name
        assert told.__self__._again == controller.enqueue_after
