"""What the controller's side server answers."""

from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from runnerscale.app.probes import add_process_metrics, metrics_app
from runnerscale.kube.metrics import KubeMetrics


async def test_metrics_are_those_of_a_go_process_and_carry_no_created_series() -> None:
    registry = CollectorRegistry()
    add_process_metrics(registry)
    KubeMetrics(registry).for_controller("c")
    async with TestClient(TestServer(metrics_app(registry))) as client:
        answer = await client.get("/metrics")
        text = await answer.text()
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert (await client.get("/other")).status == 404
    assert 'controller_runtime_reconcile_errors_total{controller="c"} 0.0' in text
    assert "_created" not in text
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "start_time_seconds"):
        assert f"\nprocess_{name} " in text
    assert "\npython_info{" in text
