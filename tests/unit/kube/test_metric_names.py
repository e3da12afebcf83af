"""Names, types, labels and buckets as controller-runtime 0.25 and client-go 0.37 publish them.

Written down here from their definitions (controller-runtime pkg/metrics, pkg/internal/metrics and
pkg/internal/controller/metrics), so that dashboards and alerts made for a Go controller work.
"""

from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.kube.metrics import KubeMetrics

QUEUE = {"name", "controller"}
CONTROLLER = {"controller"}
FAMILIES = {
    "workqueue_depth": ("gauge", {*QUEUE, "priority"}),
    "workqueue_adds_total": ("counter", QUEUE),
    "workqueue_queue_duration_seconds": ("histogram", QUEUE),
    "workqueue_work_duration_seconds": ("histogram", QUEUE),
    "workqueue_unfinished_work_seconds": ("gauge", QUEUE),
    "workqueue_longest_running_processor_seconds": ("gauge", QUEUE),
    "workqueue_retries_total": ("counter", QUEUE),
    "controller_runtime_reconcile_total": ("counter", {"controller", "result"}),
    "controller_runtime_reconcile_errors_total": ("counter", CONTROLLER),
    "controller_runtime_terminal_reconcile_errors_total": ("counter", CONTROLLER),
    "controller_runtime_reconcile_panics_total": ("counter", CONTROLLER),
    "controller_runtime_reconcile_timeouts_total": ("counter", CONTROLLER),
    "controller_runtime_reconcile_time_seconds": ("histogram", CONTROLLER),
    "controller_runtime_max_concurrent_reconciles": ("gauge", CONTROLLER),
    "controller_runtime_active_workers": ("gauge", CONTROLLER),
    "rest_client_requests_total": ("counter", {"code", "method", "host"}),
    "rest_client_request_duration_seconds": ("histogram", {"verb", "host"}),
    "leader_election_master_status": ("gauge", {"name"}),
}
# prometheus.ExponentialBuckets(10e-9, 10, 12)
QUEUE_BUCKETS = [f"{number:g}" for number in (10.0**power for power in range(-8, 4))]


def published() -> dict[str, Any]:
    registry = CollectorRegistry()
    families = KubeMetrics(registry)
    families.for_queue("q").read_from(
        depth={"0": lambda: 1.0}, unfinished_s=lambda: 0.0, longest_s=lambda: 0.0
    )
    families.for_controller("c")
    families.for_client("https://h").answered("GET", "200", 0.1)
    families.leader.labels("lease")
    found = {}
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = family
    return found


def test_names_types_and_labels_are_those_of_a_go_controller() -> None:
    found = published()
    for name, (kind, labels) in FAMILIES.items():
        family = found[name]
        assert family.type == kind, name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels, name


def test_every_ending_of_a_pass_is_there_before_the_first_pass() -> None:
    # As in controller-runtime: a rate needs the zero before the one.
    results = published()["controller_runtime_reconcile_total"].samples
    counted = {s.labels["result"]: s.value for s in results if s.name.endswith("_total")}
    assert counted == {"success": 0, "error": 0, "requeue": 0, "requeue_after": 0}


def test_the_buckets_of_the_queues_are_client_gos() -> None:
    for name in ("workqueue_queue_duration_seconds", "workqueue_work_duration_seconds"):
        samples = published()[name].samples
        uppers = [s.labels["le"] for s in samples if "le" in s.labels]
        assert [f"{float(upper):g}" for upper in uppers] == [*QUEUE_BUCKETS, "inf"]
