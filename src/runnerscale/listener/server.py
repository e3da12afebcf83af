"""The listener's small HTTP server: `/metrics` (or the configured path), `/healthz`, `/readyz`.

A taken port costs the metrics, never the jobs: the server tries again in the background
while the listener works (weakness W31). Ready means that jobs would be heard of now; healthy
means only that the process runs, because restarting it heals nothing that waiting would not.
What is in the metrics: `metrics.py`.

Contract: github-service-and-listener 7.1.
"""

from collections.abc import Callable

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.core.page_server import Handler, Page, PageServer, text_page
from runnerscale.core.randomness import Random
from runnerscale.core.whole_number import whole_number
from runnerscale.listener.readiness import Readiness

log = structlog.get_logger(__name__)

BIND_BACKOFF = Backoff(first_s=1.0, cap_s=60.0)
HANDLER_ERRORS = "promhttp_metric_handler_errors"
# Go's clients of this endpoint read the plain text format; no negotiation is offered.
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class AddressError(Exception):
    """The address is not `host:port` or `:port`."""


def parse_address(text: str) -> tuple[str, int]:
    """Host (empty: all interfaces) and port of a Go-style address.

    Raises:
        AddressError: it has no usable port.
    """
    host, colon, digits = text.rpartition(":")
    port = whole_number(digits)
    if not colon or port is None or port > 65535:
        raise AddressError(f"metrics address {text!r} is not HOST:PORT or :PORT")
    return host.strip("[]"), port


class MetricsServer:
    """Serves until cancelled; `address` changes are a new process's business."""

    def __init__(
        self,
        address: str,
        *,
        path: str,
        registry: CollectorRegistry,
        readiness: Callable[[], Readiness],
        clock: Clock,
        random: Random,
    ) -> None:
        """`readiness` is asked on every request of `/readyz`."""
        self._address = address
        self._path = path if path.startswith("/") else f"/{path}"
        self._registry = registry
        self._readiness = readiness
        self._clock = clock
        self._random = random
        self._errors = {"encoding": 0, "gathering": 0}
        self.port = 0  # the real one, once bound

    async def run(self) -> None:
        """Bind, with patience, and serve."""
        try:
            host, port = parse_address(self._address)
        except AddressError as error:
            log.error(str(error), component="metrics exporter")
            return
        attempt = 0
        while True:
            server = PageServer(self.pages())
            try:
                await server.listen(host, port)
                self.port = server.port
                log.info("metrics are served", component="metrics exporter", port=self.port)
                await self._for_ever()
            except OSError as error:
                delay_s = BIND_BACKOFF.delay_s(attempt, self._random)
                attempt += 1
                log.error(
                    "metrics cannot be served; the listener goes on without",
                    component="metrics exporter",
                    address=self._address,
                    error=str(error),
                    again_in_s=round(delay_s, 1),
                )
                await self._clock.sleep(delay_s)
            finally:
                await server.close()

    async def _for_ever(self) -> None:
        while True:
            await self._clock.sleep(3600.0)

    def pages(self) -> dict[str, Handler]:
        """What is served; every other path is 404."""
        return {"/healthz": self._healthz, "/readyz": self._readyz, self._path: self._metrics}

    def _metrics(self, _query: str) -> Page:
        try:
            body = generate_latest(self._registry) + self._own_errors()
        except Exception as error:  # noqa: BLE001 - a bad value must not take the endpoint down
            self._errors["gathering"] += 1
            log.error("metrics cannot be gathered", component="metrics exporter", error=str(error))
            return text_page(f"metrics cannot be gathered: {error}\n", 500)
        return Page(body, content_type=CONTENT_TYPE)

    def _own_errors(self) -> bytes:
        family = CounterMetricFamily(
            HANDLER_ERRORS, "Errors while the metrics were served.", labels=("cause",)
        )
        for cause, number in self._errors.items():
            family.add_metric((cause,), number)
        own = CollectorRegistry()
        own.register(_One(family))
        return generate_latest(own)

    def _healthz(self, _query: str) -> Page:
        return text_page("ok\n")

    def _readyz(self, _query: str) -> Page:
        now = self._readiness()
        return text_page(f"{now.why}\n", 200 if now.ready else 503)


class _One(Collector):
    """A collector of one family that is ready."""

    def __init__(self, family: CounterMetricFamily) -> None:
        self._family = family

    def collect(self) -> list[CounterMetricFamily]:
        return [self._family]
