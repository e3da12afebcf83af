"""What the server counts, under a kube-apiserver's names."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from runnerscale.apiserver.paths import Request

_LABELS = ("verb", "group", "version", "resource", "subresource", "code")


class ServerMetrics:
    """Counters of requests; labels are bounded: verbs, served resources, codes."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        """Without a registry of the caller they count into one of their own."""
        where = registry or CollectorRegistry()
        self._requests = Counter(
            "apiserver_request_total",
            "Requests answered, by verb, resource and code.",
            _LABELS,
            registry=where,
        )
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Time from request to answer, watches and logs excluded.",
            ("verb",),
            registry=where,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self._watches = Gauge(
            "apiserver_longrunning_requests",
            "Open watches.",
            ("verb", "group", "version", "resource"),
            registry=where,
        )
        self._known: dict[tuple[str, ...], Counter] = {}
        self._seconds_of: dict[str, Histogram] = {}

    def served(self, request: Request, code: int, seconds: float) -> None:
        """Count one answer."""
        # Paths that do not exist must not become label values.
        resource = "" if code == 404 and not request.name else request.plural
        key = (
            request.verb.upper() or request.method,
            request.group if resource else "",
            request.version if resource else "",
            resource,
            request.subresource if resource and "/" not in request.subresource else "",
            str(code),
        )
        child = self._known.get(key)
        if child is None:
            if len(self._known) > SERIES_MAX:
                return
            child = self._known[key] = self._requests.labels(*key)
        child.inc()
        if request.verb != "watch" and request.subresource != "log":
            verb = key[0]
            took = self._seconds_of.get(verb)
            if took is None:
                took = self._seconds_of[verb] = self._seconds.labels(verb)
            took.observe(seconds)

    def watch_started(self, request: Request) -> None:
        """A watch opened."""
        self._watches.labels("WATCH", request.group, request.version, request.plural).inc()

    def watch_ended(self, request: Request) -> None:
        """A watch closed."""
        self._watches.labels("WATCH", request.group, request.version, request.plural).dec()


SERIES_MAX = 2000
