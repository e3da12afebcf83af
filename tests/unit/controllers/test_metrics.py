"""Metrics of the controllers."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from runnerscale.controllers import metrics as room
from runnerscale.controllers.metrics import ControllerMetrics, Served

SET = Served("linux", "arc-runners", "octo-repo", "octo-org", "")
LABELS = {
    "name": "linux",
    "namespace": "arc-runners",
    "repository": "octo-repo",
    "organization": "octo-org",
    "enterprise": "",
}


def value(registry: CollectorRegistry, sample: str, /, **labels: str) -> float | None:
    return registry.get_sample_value(sample, labels or LABELS)


@pytest.mark.behaviour("C1 T186", "C2 T190")
def test_the_three_gauges_of_a_scale_set() -> None:
    registry = CollectorRegistry()
    metrics = ControllerMetrics(registry)
    metrics.set_runners(SET, pending=2, running=1, failed=1)
    assert value(registry, "gha_controller_pending_ephemeral_runners") == 2
    assert value(registry, "gha_controller_running_ephemeral_runners") == 1
    assert value(registry, "gha_controller_failed_ephemeral_runners") == 1


@pytest.mark.behaviour("C1 T187")
def test_they_go_with_their_set() -> None:
    registry = CollectorRegistry()
    metrics = ControllerMetrics(registry)
    metrics.set_runners(SET, pending=2, running=1, failed=1)
    metrics.set_listener(SET, running=True)
    metrics.forget_runners(SET)
    metrics.forget_listener(SET)
    assert b'name="linux"' not in generate_latest(registry)
    metrics.forget_runners(SET)  # twice is no error


@pytest.mark.behaviour("C2 T191")
def test_a_listener_runs_or_it_does_not() -> None:
    registry = CollectorRegistry()
    metrics = ControllerMetrics(registry)
    metrics.set_listener(SET, running=True)
    assert value(registry, "gha_controller_running_listeners") == 1
    metrics.set_listener(SET, running=False)
    assert value(registry, "gha_controller_running_listeners") == 0


@pytest.mark.behaviour("C2 T192")
def test_the_help_speaks_of_jobs() -> None:
    registry = CollectorRegistry()
    ControllerMetrics(registry)
    helps = {
        line.split()[2]: line
        for line in generate_latest(registry).decode().splitlines()
        if line.startswith("# HELP")
    }
    assert "without a job" in helps["gha_controller_pending_ephemeral_runners"]
    assert "have a job" in helps["gha_controller_running_ephemeral_runners"]


def trouble(registry: CollectorRegistry, name: str, reason: str) -> float | None:
    labels = {"kind": "K", "namespace": "n", "name": name, "reason": reason}
    return value(registry, "runnerscale_trouble", **labels)


def test_trouble_is_shown_while_it_lasts() -> None:
    registry = CollectorRegistry()
    metrics = ControllerMetrics(registry)
    where = {"kind": "K", "namespace": "n", "name": "a"}
    metrics.set_troubles("K n/a", **where, reasons=["X", "Y"])
    metrics.set_troubles("K n/a", **where, reasons=["Y"])
    assert trouble(registry, "a", "X") is None
    assert trouble(registry, "a", "Y") == 1
    metrics.set_troubles("K n/a", **where, reasons=[])
    assert b"runnerscale_trouble{" not in generate_latest(registry)
    assert value(registry, "runnerscale_trouble_reported_total", kind="K", reason="Y") == 1


def test_series_are_bounded_and_the_rest_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "TROUBLE_SERIES_MAX", 2)
    registry = CollectorRegistry()
    metrics = ControllerMetrics(registry)
    for number in range(5):
        where = {"kind": "K", "namespace": "n", "name": str(number)}
        metrics.set_troubles(f"K n/{number}", **where, reasons=["X"])
    shared = {"kind": "K", "namespace": "", "name": "", "reason": "X"}
    assert value(registry, "runnerscale_trouble", **shared) == 3
    for number in range(5):
        where = {"kind": "K", "namespace": "n", "name": str(number)}
        metrics.set_troubles(f"K n/{number}", **where, reasons=[])
    assert b"runnerscale_trouble{" not in generate_latest(registry)
