"""Metrics, probes and debug pages beside the controller's work, where they were asked for.

What serves them is aiohttp, which is large (10 MiB): it is loaded here, and only when an address
says so.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack

from prometheus_client import CollectorRegistry

OFF = "0"  # an address that means: nowhere, as the empty one does


async def serve_beside(
    stack: AsyncExitStack,
    *,
    metrics_addr: str,
    probe_addr: str,
    pprof_addr: str,
    registry: CollectorRegistry,
    why_not_ready: Callable[[], str | None],
) -> None:
    """Serve what has an address, until the stack is closed.

    Raises:
        UsageProblem: an address is none.
    """
    if all(address in ("", OFF) for address in (metrics_addr, probe_addr, pprof_addr)):
        return
    from runnerscale.app.probes import SideServer, metrics_app, probes_app
    from runnerscale.app.profiles import profiles_app

    servers = []
    if metrics_addr not in ("", OFF):
        servers.append(SideServer(metrics_app(registry), metrics_addr, flag="--metrics-addr"))
    if probe_addr not in ("", OFF):
        probes = probes_app(healthy=lambda: None, ready=why_not_ready)
        servers.append(SideServer(probes, probe_addr, flag="--health-probe-bind-address"))
    if pprof_addr not in ("", OFF):
        servers.append(SideServer(profiles_app(), pprof_addr, flag="--pprof-addr"))
    for server in servers:
        await stack.enter_async_context(server)
