"""What every controller of the process is given, whoever wires it."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.app.controller_manager import ControllerOptions, Manager
from runnerscale.app.problem import Problem
from runnerscale.cli.boundary import sentence
from runnerscale.controllers.stuck import StuckPasses
from runnerscale.core.clock import ManualClock
from runnerscale.core.randomness import seeded
from runnerscale.credentials.clients import ClientCache
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.objects import ObjectMeta, OwnerReference
from runnerscale.scaleset.user_agent import SystemInfo
from tests.unit.kube.scripted import Scripted, client_on

ROOT = Path(__file__).resolve().parents[3]


def made() -> Manager:
    registry, clock = CollectorRegistry(), ManualClock()
    client: Any = client_on(Scripted([]))
    return Manager(
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


def test_no_controllers_failing_passes_go_unseen() -> None:
    controllers = made()._controllers
    assert len(controllers) == 4
    for controller in controllers:
        told: Any = controller._ended
        assert isinstance(told.__self__, StuckPasses), controller.name


def test_the_sets_are_told_whom_the_runners_controller_deletes() -> None:
    # Else the end of every short job is taken for a person's deletion, and replaced too early.
    manager = made()
    runners: Any = next(c for c in manager._controllers if c.name == "ephemeralrunner")._reconciler
    owner = OwnerReference(kind="EphemeralRunnerSet", name="s", uid="u", controller=True)
    meta = ObjectMeta(namespace="demo", name="r", uid="r-1", owner_references=[owner])
    runners._hands._deletes(EphemeralRunner(metadata=meta))
    remembered = manager._set_reconciler._memory.known("demo/s")
    assert remembered is not None and [*remembered.ending] == ["r-1"]


def test_the_sets_hear_of_runners_that_cannot_be_written_on() -> None:
    manager = made()
    assert manager._conditions._speakers == {"ephemeralrunners": manager._set_reconciler.unwritable}


async def test_who_lost_the_lease_and_won_it_again_ends_and_says_that_it_is_to_be_started() -> None:
    manager = made()
    manager.worked = True
    with pytest.raises(Problem) as caught:
        await manager._work()
    code, text = sentence(caught.value)
    assert code == 1  # not 0: a supervisor that restarts on failure only must start it, too
    assert "the lease actions-runner-controller was lost and won again" in text
    assert "started anew" in text


def test_the_chart_leaves_it_to_the_kubelet_to_start_it_again() -> None:
    # A Deployment's pods are always started again, unless a template says otherwise.
    folder = ROOT / "charts/gha-runner-scale-set-controller/templates"
    text = "".join(path.read_text() for path in sorted(folder.iterdir()))
    assert "kind: Deployment" in text
    assert "restartPolicy" not in text
