"""A process's metrics and probes as pages; a port that is taken stops nothing else.

`/healthz`: the process's loop turns and its workers move. `/readyz`: it can do its work now;
if not, the body says why.
"""

from collections.abc import Callable, Iterable, Mapping

import structlog
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from runnerscale.app.problem import UsageProblem
from runnerscale.core.page_server import Handler, Page, PageServer, text_page
from runnerscale.core.whole_number import whole_number

log = structlog.get_logger(__name__)

# None: yes; a text: no, and why.
Check = Callable[[], str | None]


def split_address(text: str, flag: str) -> tuple[str, int]:
    """Host and port of a Go listen address: `:8080`, `127.0.0.1:0`, `[::1]:8080`.

    Raises:
        UsageProblem: no port, or not a port.
    """
    host, colon, digits = text.rpartition(":")
    port = whole_number(digits)
    if not colon or port is None or port > 65535:
        raise UsageProblem(f"{flag} is {text!r}, which is no address", "Write it as :8080")
    return host.strip("[]"), port


class _Plain(Collector):
    """The families without `_created` samples, which no Go program has and which double all."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for family in self._registry.collect():
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family


def metrics_pages(registry: CollectorRegistry, path: str = "/metrics") -> dict[str, Handler]:
    """The registry in Prometheus' text format."""
    plain = _Plain(registry)

    def metrics(_query: str) -> Page:
        return Page(generate_latest(plain), content_type=CONTENT_TYPE_PLAIN_0_0_4)

    return {path: metrics}


def probe_pages(*, healthy: Check, ready: Check) -> dict[str, Handler]:
    """`/healthz` and `/readyz`."""

    def answer(check: Check) -> Handler:
        def handler(_query: str) -> Page:
            why_not = check()
            return text_page("ok") if why_not is None else text_page(why_not, 503)

        return handler

    return {"/healthz": answer(healthy), "/readyz": answer(ready)}


class SideServer:
    """Serves pages beside the process's work: `async with SideServer(...)`."""

    def __init__(self, pages: Mapping[str, Handler], address: str, *, flag: str) -> None:
        """`address` in Go's form; `flag` names it in messages."""
        self._host, self._port = split_address(address, flag)
        self._server = PageServer(pages)
        self._flag = flag

    async def __aenter__(self) -> "SideServer":
        try:
            await self._server.listen(self._host, self._port)
        except OSError as error:
            # Losing the metrics must not lose the work (contract W31).
            log.error(
                "metrics or probes are not served",
                flag=self._flag,
                port=self._port,
                error=error.strerror or str(error),
                remedy="free the port or choose another, then restart",
            )
        return self

    @property
    def port(self) -> int:
        """The port in use; 0 when nothing is served."""
        return self._server.port

    async def __aexit__(self, *_: object) -> None:
        await self._server.close()
