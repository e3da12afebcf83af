"""Puts the questions of probes to containers: HTTP, TCP, a command.

The network is a seam (a simulation has none); commands run beside the container, as it sees the
machine (`preparation.py`). When an answer counts is `probe_rules.py`.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from typing import Protocol

import aiohttp

from runnerscale.node.environment import LOOPBACK
from runnerscale.node.pod_spec import Container, HttpGetAction, NodePod, Probe
from runnerscale.node.preparation import Preparation
from runnerscale.node.probe_rules import port_of
from runnerscale.node.processes import StartFailed

OUTPUT_MAX = 200


class Network(Protocol):
    """What probes need of the network. Failures are `OSError` or `TimeoutError`."""

    async def http_status(self, url: str, headers: Mapping[str, str]) -> int:
        """The status code of a GET; redirects are not followed, certificates not judged."""
        ...

    async def connect(self, host: str, port: int) -> None:
        """Open a connection and close it."""
        ...


class SystemNetwork:
    """The machine's own. Implements `Network`; close it in the end."""

    def __init__(self) -> None:
        """A session is made when first needed."""
        self._session: aiohttp.ClientSession | None = None

    async def http_status(self, url: str, headers: Mapping[str, str]) -> int:
        """See `Network`."""
        if self._session is None:
            connector = aiohttp.TCPConnector(force_close=True)
            self._session = aiohttp.ClientSession(connector=connector)
        try:
            async with self._session.get(
                url, headers=dict(headers), ssl=_unchecked(), allow_redirects=False
            ) as answer:
                return answer.status
        except aiohttp.ClientError as error:
            raise OSError(f"{url}: {error}") from error

    async def connect(self, host: str, port: int) -> None:
        """See `Network`."""
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()


class Questions:
    """Asks one question at a time; never raises for a bad answer."""

    def __init__(self, network: Network, preparation: Preparation) -> None:
        """`preparation` runs the commands."""
        self._network = network
        self._preparation = preparation

    async def ask(
        self, pod: NodePod, container: Container, probe: Probe, *, timeout_s: float
    ) -> str:
        """Empty if the container is well, else what was wrong."""
        try:
            async with asyncio.timeout(timeout_s):
                if probe.http_get:
                    return await self._http(container, probe.http_get)
                if probe.tcp_socket:
                    port = port_of(probe.tcp_socket.port, container)
                    if port is None:
                        return f"no port {probe.tcp_socket.port!r}"
                    await self._network.connect(probe.tcp_socket.host or LOOPBACK, port)
                if probe.exec:
                    return await self._command(pod, container, probe.exec.command, timeout_s)
        except TimeoutError:
            return f"no answer within {timeout_s:.0f} s"
        except OSError as error:
            return str(error)
        except (ValueError, OverflowError) as error:
            # A header with a line break, a name that no resolver takes, a port out of range: of
            # the pod's own making, and no reason to stop looking after it.
            return f"the question cannot be put: {error}"
        return ""

    async def _http(self, container: Container, action: HttpGetAction) -> str:
        port = port_of(action.port, container)
        if port is None:
            return f"no port {action.port!r}"
        scheme = (action.scheme or "HTTP").lower()
        path = (action.path or "/").lstrip("/")
        url = f"{scheme}://{action.host or LOOPBACK}:{port}/{path}"
        headers = {header.name: header.value for header in action.http_headers or ()}
        status = await self._network.http_status(url, headers)
        return "" if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"

    async def _command(
        self, pod: NodePod, container: Container, command: list[str], timeout_s: float
    ) -> str:
        try:
            result = await self._preparation.run_beside(
                pod, container, command, timeout_s=timeout_s
            )
        except StartFailed as problem:
            return problem.message
        return "" if result.code == 0 else f"{result.output[:OUTPUT_MAX]} (exit {result.code})"


def _unchecked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
