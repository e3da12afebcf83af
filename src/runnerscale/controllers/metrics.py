"""Metrics of the controllers: ARC's four gauges, and what is stuck, by reason.

ARC's names, labels and help (contract: resources-and-controllers 4.0, github-service 7.5).
Series go with their object (W40). Metrics of queues, workers and the API client: `kube/`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

SCALE_SET_LABELS = ("name", "namespace", "repository", "organization", "enterprise")
TROUBLE_SERIES_MAX = 2000  # past this, objects share the series with an empty name


@dataclass(frozen=True, slots=True)
class Served:
    """Whose series it is: name and namespace, and the place at GitHub."""

    name: str
    namespace: str
    repository: str = ""
    organization: str = ""
    enterprise: str = ""

    def values(self) -> tuple[str, ...]:
        """In the order of the labels."""
        return (self.name, self.namespace, self.repository, self.organization, self.enterprise)


class ControllerMetrics:
    """All series of the controllers, in the registry handed in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """`registry`: never the global one, so that many systems may live in one process."""

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, SCALE_SET_LABELS, registry=registry)

        self._pending = gauge(
            "gha_controller_pending_ephemeral_runners",
            "Number of ephemeral runners without a job: still starting, or online and idle.",
        )
        self._running = gauge(
            "gha_controller_running_ephemeral_runners",
            "Number of ephemeral runners that have a job.",
        )
        self._failed = gauge(
            "gha_controller_failed_ephemeral_runners",
            "Number of ephemeral runners that failed and are kept as evidence.",
        )
        self._listeners = gauge(
            "gha_controller_running_listeners",
            "1 while the container of the listener runs, else 0.",
        )
        self._trouble = Gauge(
            "runnerscale_trouble",
            "Number of objects that are stuck, by what is wrong.",
            ("kind", "namespace", "name", "reason"),
            registry=registry,
        )
        self._trouble_total = Counter(
            "runnerscale_trouble_reported",
            "How often something was newly found wrong.",
            ("kind", "reason"),
            registry=registry,
        )
        self._by_object: dict[str, set[tuple[str, str, str, str]]] = {}
        self._holders: dict[tuple[str, str, str, str], int] = {}

    def set_runners(self, served: Served, *, pending: int, running: int, failed: int) -> None:
        """The counts of one scale set."""
        self._pending.labels(*served.values()).set(pending)
        self._running.labels(*served.values()).set(running)
        self._failed.labels(*served.values()).set(failed)

    def forget_runners(self, served: Served) -> None:
        """The scale set is gone: so are its series."""
        for gauge in (self._pending, self._running, self._failed):
            _remove(gauge, served.values())

    def set_listener(self, served: Served, *, running: bool) -> None:
        """Whether that listener runs."""
        self._listeners.labels(*served.values()).set(1 if running else 0)

    def forget_listener(self, served: Served) -> None:
        """The listener is gone: so is its series."""
        _remove(self._listeners, served.values())

    def set_troubles(
        self, about: str, *, kind: str, namespace: str, name: str, reasons: Iterable[str]
    ) -> None:
        """All that is wrong with one object, now (`about`: a key of its own); none clears it."""
        before = self._by_object.pop(about, set())
        now: set[tuple[str, str, str, str]] = set()
        for reason in reasons:
            series = (kind, namespace, name, reason)
            if series not in self._holders and len(self._holders) >= TROUBLE_SERIES_MAX:
                series = (kind, "", "", reason)
            now.add(series)
        for series in before - now:
            self._change(series, -1)
        for series in now - before:
            self._change(series, +1)
            self._trouble_total.labels(kind, series[3]).inc()
        if now:
            self._by_object[about] = now

    def _change(self, series: tuple[str, str, str, str], by: int) -> None:
        left = self._holders.get(series, 0) + by
        if left > 0:
            self._holders[series] = left
            self._trouble.labels(*series).set(left)
        else:
            self._holders.pop(series, None)
            _remove(self._trouble, series)


def _remove(gauge: Gauge, values: tuple[str, ...]) -> None:
    try:
        gauge.remove(*values)
    except KeyError:
        return  # never published: nothing to take away
