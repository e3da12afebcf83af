"""What the runtime counts, under the names that client-go and controller-runtime use.

Dashboards and alerts made for a Go controller keep working. The families are made once for a
registry that was handed in; queues, controllers and clients take their labelled children when
they are built, because a look-up per observation costs more than the observation.
"""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

QUEUE_BUCKETS_S = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
# controller-runtime's two priorities: what changed, and what is looked at only to be sure.
URGENT, NOT_URGENT = "0", "-100"
PASS_BUCKETS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7),
    *(0.8, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15),
    *(20, 25, 30, 40, 50, 60),
)
CALL_BUCKETS_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
RESULTS = ("success", "error", "requeue", "requeue_after")


class KubeMetrics:
    """All families of `kube/` in one registry; make one per process (or per test)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the families with `registry`."""
        queue = ("name", "controller")
        self.registry = registry
        self._depth = Gauge(
            "workqueue_depth",
            "Keys that wait in the queue; priority 0 before priority -100.",
            (*queue, "priority"),
            registry=registry,
        )
        self._adds = Counter("workqueue_adds", "Keys added to the queue.", queue, registry=registry)
        self._queue_s = Histogram(
            "workqueue_queue_duration_seconds",
            "Time a key waits in the queue before its pass starts.",
            queue,
            buckets=QUEUE_BUCKETS_S,
            registry=registry,
        )
        self._work_s = Histogram(
            "workqueue_work_duration_seconds",
            "Time a pass on a key takes.",
            queue,
            buckets=QUEUE_BUCKETS_S,
            registry=registry,
        )
        self._retries = Counter(
            "workqueue_retries", "Keys added again with backoff.", queue, registry=registry
        )
        self._unfinished_s = Gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds of work in progress, over all passes that have not ended.",
            queue,
            registry=registry,
        )
        self._longest_s = Gauge(
            "workqueue_longest_running_processor_seconds",
            "Age of the longest pass that has not ended.",
            queue,
            registry=registry,
        )
        self._add_controllers(registry)
        self._add_client(registry)

    def _add_controllers(self, registry: CollectorRegistry) -> None:
        self._passes = Counter(
            "controller_runtime_reconcile",
            "Passes by how they ended.",
            ("controller", "result"),
            registry=registry,
        )
        self._errors = Counter(
            "controller_runtime_reconcile_errors",
            "Passes that ended with an error.",
            ("controller",),
            registry=registry,
        )
        self._terminal = Counter(
            "controller_runtime_terminal_reconcile_errors",
            "Always 0: here no error is final, a pass that failed is tried again.",
            ("controller",),
            registry=registry,
        )
        self._timeouts = Counter(
            "controller_runtime_reconcile_timeouts",
            "Passes that did not end within their deadline.",
            ("controller",),
            registry=registry,
        )
        self._panics = Counter(
            "controller_runtime_reconcile_panics",
            "Passes that ended with an error nobody expected.",
            ("controller",),
            registry=registry,
        )
        self._pass_s = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a pass takes.",
            ("controller",),
            buckets=PASS_BUCKETS_S,
            registry=registry,
        )
        self._workers_max = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "How many passes may run at once.",
            ("controller",),
            registry=registry,
        )
        self._workers = Gauge(
            "controller_runtime_active_workers",
            "How many passes run now.",
            ("controller",),
            registry=registry,
        )
        self.leader = Gauge(
            "leader_election_master_status",
            "1 while this process holds the lease.",
            ("name",),
            registry=registry,
        )

    def _add_client(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests",
            "Calls to the API server by code, method and host; code <error>: no answer.",
            ("code", "method", "host"),
            registry=registry,
        )
        self._request_s = Histogram(
            "rest_client_request_duration_seconds",
            "How long a call to the API server takes, waits between tries not counted.",
            ("verb", "host"),
            buckets=CALL_BUCKETS_S,
            registry=registry,
        )
        resource = ("resource",)
        self._lists = Counter(
            "reflector_lists", "Lists made to fill a cache.", resource, registry=registry
        )
        self._watches = Counter(
            "reflector_watches", "Watches opened to follow a cache.", resource, registry=registry
        )
        self._poisoned = Counter(
            "reflector_poisoned_objects",
            "Objects kept out of a cache because they do not fit their type.",
            resource,
            registry=registry,
        )
        self.events = Counter(
            "event_recorder_events",
            "Events by what became of them.",
            ("outcome",),
            registry=registry,
        )

    def for_queue(self, name: str) -> "QueueMetrics":
        """The children of one queue."""
        return QueueMetrics(self, name)

    def for_controller(self, name: str) -> "ControllerRuntimeMetrics":
        """The children of one controller."""
        return ControllerRuntimeMetrics(self, name)

    def for_client(self, host: str) -> "ClientMetrics":
        """The children of one client."""
        return ClientMetrics(self, host)

    def for_informer(self, resource: str) -> "InformerMetrics":
        """The children of one informer."""
        return InformerMetrics(self, resource)


class QueueMetrics:
    """Children of one queue."""

    def __init__(self, families: KubeMetrics, name: str) -> None:
        """Of `families`, with `name` as both labels."""
        labels = (name, name)
        self.adds = families._adds.labels(*labels)
        self.retries = families._retries.labels(*labels)
        self.queue_s = families._queue_s.labels(*labels)
        self.work_s = families._work_s.labels(*labels)
        self._depth = families._depth
        self._labels = labels
        self._unfinished_s = families._unfinished_s.labels(*labels)
        self._longest_s = families._longest_s.labels(*labels)

    def read_from(
        self,
        *,
        depth: Mapping[str, Callable[[], float]],
        unfinished_s: Callable[[], float],
        longest_s: Callable[[], float],
    ) -> None:
        """These are asked for when somebody scrapes, and cost nothing otherwise.

        `depth`: by priority.
        """
        for priority, waiting in depth.items():
            self._depth.labels(*self._labels, priority).set_function(waiting)
        self._unfinished_s.set_function(unfinished_s)
        self._longest_s.set_function(longest_s)


class ControllerRuntimeMetrics:
    """Children of one controller."""

    def __init__(self, families: KubeMetrics, name: str) -> None:
        """Of `families`, with `name` as the label."""
        self.results = {result: families._passes.labels(name, result) for result in RESULTS}
        self.errors = families._errors.labels(name)
        self.terminal = families._terminal.labels(name)
        self.timeouts = families._timeouts.labels(name)
        self.panics = families._panics.labels(name)
        self.pass_s = families._pass_s.labels(name)
        self.workers_max = families._workers_max.labels(name)
        self.workers = families._workers.labels(name)


class ClientMetrics:
    """Children of one client, made as codes turn up (few: methods times status codes)."""

    def __init__(self, families: KubeMetrics, host: str) -> None:
        """Of `families`, for calls to `host`."""
        self._families = families
        self._host = host
        self._requests: dict[tuple[str, str], Counter] = {}
        self._seconds: dict[str, Histogram] = {}

    def answered(self, method: str, code: str, seconds: float) -> None:
        """Count one try."""
        self._count(method, code)
        duration = self._seconds.get(method)
        if duration is None:
            duration = self._families._request_s.labels(method, self._host)
            self._seconds[method] = duration
        duration.observe(seconds)

    def watch_answered(self, code: str) -> None:
        """Count a watch: client-go calls it a GET, and does not time it."""
        self._count("GET", code)

    def _count(self, method: str, code: str) -> None:
        request = self._requests.get((method, code))
        if request is None:
            request = self._families._requests.labels(code, method, self._host)
            self._requests[method, code] = request
        request.inc()


class InformerMetrics:
    """Children of one informer."""

    def __init__(self, families: KubeMetrics, resource: str) -> None:
        """Of `families`, for one resource (its plural)."""
        self.lists = families._lists.labels(resource)
        self.watches = families._watches.labels(resource)
        self.poisoned = families._poisoned.labels(resource)
