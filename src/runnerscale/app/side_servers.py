"""Metrics, probes and debug pages beside the controller's work, where they were asked for.

What is on the pages: `probes.py`, `profiles.py`; who serves them: `core/page_server.py`.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack

from prometheus_client import CollectorRegistry

from runnerscale.app.probes import SideServer, metrics_pages, probe_pages
from runnerscale.app.profiles import profile_pages

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
    servers = []
    if metrics_addr not in ("", OFF):
        servers.append(SideServer(metrics_pages(registry), metrics_addr, flag="--metrics-addr"))
    if probe_addr not in ("", OFF):
        probes = probe_pages(healthy=lambda: None, ready=why_not_ready)
        servers.append(SideServer(probes, probe_addr, flag="--health-probe-bind-address"))
    if pprof_addr not in ("", OFF):
        servers.append(SideServer(profile_pages(), pprof_addr, flag="--pprof-addr"))
    for server in servers:
        await stack.enter_async_context(server)
