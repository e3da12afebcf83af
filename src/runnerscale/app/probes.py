"""A small HTTP server for a process's metrics and probes; its failure stops nothing else.

`/healthz`: the process's loop turns and its workers move. `/readyz`: it can do its work now;
if not, the body says why.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from runnerscale.app.problem import UsageProblem
from runnerscale.core.few_connections import FewConnections
from runnerscale.core.whole_number import whole_number

log = structlog.get_logger(__name__)

# None: yes; a text: no, and why.
Check = Callable[[], str | None]
SHUTDOWN_S = 1.0


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


def metrics_app(registry: CollectorRegistry, path: str = "/metrics") -> web.Application:
    """The registry in Prometheus' text format."""
    plain = _Plain(registry)

    async def metrics(_request: web.Request) -> web.Response:
        body = generate_latest(plain)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    app = web.Application()
    app.router.add_get(path, metrics)
    return app


def probes_app(*, healthy: Check, ready: Check) -> web.Application:
    """`/healthz` and `/readyz`."""

    def answer(check: Check) -> Callable[[web.Request], object]:
        async def handler(_request: web.Request) -> web.Response:
            why_not = check()
            return web.Response(text="ok" if why_not is None else why_not, status=_code(why_not))

        return handler

    app = web.Application()
    app.router.add_get("/healthz", answer(healthy))  # type: ignore[arg-type]  # a handler
    app.router.add_get("/readyz", answer(ready))  # type: ignore[arg-type]  # a handler
    return app


def _code(why_not: str | None) -> int:
    return 200 if why_not is None else 503


class SideServer:
    """Serves an application beside the process's work: `async with SideServer(...)`."""

    def __init__(self, app: web.Application, address: str, *, flag: str) -> None:
        """`address` in Go's form; `flag` names it in messages."""
        self._host, self._port = split_address(address, flag)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
        self._flag = flag
        self._socket: asyncio.Server | None = None

    async def __aenter__(self) -> "SideServer":
        await self._runner.setup()
        assert self._runner.server is not None
        door = FewConnections(self._runner.server)
        host = self._host or None
        try:
            self._socket = await asyncio.get_running_loop().create_server(door, host, self._port)
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
        sockets = self._socket.sockets if self._socket else ()
        return int(sockets[0].getsockname()[1]) if sockets else 0

    async def __aexit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()
        await self._runner.cleanup()
