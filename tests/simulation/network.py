"""The network of the simulated world: connections that know their two ends, and can be cut.

Real HTTP goes over it, byte for byte, from the direct transports to aiohttp's server; only the
sockets are virtual. A component reaches a server through a dial of its own, so that its death, a
cut between two parts, or a slow line are things that happen to connections and to nothing else.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from runnerscale.core.http_connection import HttpConnection
from runnerscale.core.http_dial import Address, Dial
from runnerscale.core.randomness import Random
from tests.simulation.loop import COMPONENT, Component

HOST = "127.0.0.1"


class Network:
    """Who is connected to whom."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._lines: dict[tuple[Component, int], list[asyncio.Transport]] = {}
        self._cut: dict[tuple[str, int], int] = {}  # how many cuts are in force
        self.delay_max_s = 0.0  # each new connection takes up to so long
        self.opened = 0

    def dial(self, component: Component) -> Dial:
        """Makes the connections of a component, whoever is at the other end."""

        async def dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
            connection: HttpConnection = await self.connect(component, address.port, make)
            return connection

        return dial

    def plug(self, component: Component) -> None:
        """When the component dies, its lines are cut."""
        component.on_kill.append(lambda: self.hang_up(component))

    def hang_up(self, component: Component, port: int | None = None) -> int:
        """Break the connections of a component (to one port); how many there were."""
        count = 0
        for (owner, to), lines in self._lines.items():
            if owner is component and port in (None, to):
                count += sum(_break(line, silently=component.dead) for line in lines)
                lines.clear()
        return count

    def cut(self, component: Component, port: int) -> None:
        """No connection from the component to that port from now on."""
        key = (component.name, port)
        self._cut[key] = self._cut.get(key, 0) + 1
        self.hang_up(component, port)

    def mend(self, component: Component, port: int) -> None:
        """Undo one cut."""
        key = (component.name, port)
        self._cut[key] = max(0, self._cut.get(key, 0) - 1)

    def mend_all(self) -> None:
        """Undo all cuts."""
        self._cut.clear()
        self.delay_max_s = 0.0

    async def connect(self, component: Component, port: int, factory: Any) -> Any:
        """A connection from a component to a port.

        Raises:
            OSError: nobody listens there, or the line is cut.
        """
        if self.delay_max_s:
            await asyncio.sleep(self._random.random() * self.delay_max_s)
        if self._cut.get((component.name, port)):
            raise ConnectionRefusedError(f"the line from {component.name} to {port} is cut")
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(factory, HOST, port)
        self.opened += 1
        lines = self._lines.setdefault((component, port), [])
        lines[:] = [line for line in lines if not line.is_closing()]
        lines.append(transport)
        return protocol


class VirtualServer:
    """An aiohttp application that listens on a virtual port, until stopped or killed."""

    def __init__(self, app: web.Application, component: Component, port: int) -> None:
        self._component = component
        self._port = port
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0
        )
        self._site: web.TCPSite | None = None

    async def start(self) -> None:
        """Listen."""
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, HOST, self._port)
        await self._site.start()
        self._component.on_kill.append(self._die)

    async def stop(self) -> None:
        """In order."""
        self._component.on_kill.remove(self._die)
        await self._runner.cleanup()

    def _die(self) -> None:
        assert self._site is not None
        server: Any = self._site._server
        if server is not None:
            token = COMPONENT.set(None)  # what the loop does now is not the dead one's doing
            server.close()
            COMPONENT.reset(token)
        handlers: Any = self._runner.server
        for handler in list(handlers.connections):
            if handler.transport is not None:
                _break(handler.transport, silently=True)


def _break(transport: Any, *, silently: bool) -> bool:
    """The connection is gone, at once; the other side sees its end.

    `silently`: this side is not told, because it is dead.
    """
    sock = getattr(transport, "_sock", None)
    if sock is None:
        return False
    if not silently:
        transport.abort()
        return True
    loop, fd = transport._loop, transport._sock_fd
    loop._remove_reader(fd)
    loop._remove_writer(fd)
    sock.close()
    transport._sock = None  # nothing is left to be closed when it is collected
    return True
