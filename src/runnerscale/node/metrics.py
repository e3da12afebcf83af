"""What the node agent counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

START_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class NodeMetrics:
    """All series of one agent; made once per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register with `registry`."""
        self.pods = Gauge(
            "runnerscale_node_pods",
            "Pods that this node has taken and that are not gone yet.",
            registry=registry,
        )
        self.starts = Counter(
            "runnerscale_node_container_starts",
            "Containers started, by result: started, or the waiting reason.",
            ("result",),
            registry=registry,
        )
        self.start_s = Histogram(
            "runnerscale_node_container_start_duration_seconds",
            "From the decision to start a container to its process.",
            buckets=START_BUCKETS_S,
            registry=registry,
        )
        self.exits = Counter(
            "runnerscale_node_container_exits",
            "Containers that ended, by reason.",
            ("reason",),
            registry=registry,
        )
