"""Direct connections to hosts that the internet's names lead to, of both kinds of addresses.

The dial of `core/http_dial.py` tries one address after the other, which is right for an API
server with one. GitHub's hosts have several, and half of all networks with IPv6 lose it on the
way: the next address is tried a moment after the first (RFC 8305). A burst that needs sixty
connections at once asks for the name once.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohappyeyeballs import start_connection

from runnerscale.core.http_connection import HttpConnection
from runnerscale.core.http_dial import Address, keep_watch
from runnerscale.scaleset.network import Resolver

NEXT_ADDRESS_S = 0.25  # RFC 8305's advice
NAME_S = 10.0  # so long a name's addresses are used again without asking
NAMES_MAX = 256  # known at once; then all are asked for again

Key = tuple[str, int]
AddressInfo = tuple[Any, ...]  # as `socket.getaddrinfo` has it


@dataclass(frozen=True, slots=True)
class _Known:
    infos: list[AddressInfo]
    until_s: float


class HostDial:
    """A `Dial`. Used inside one running loop."""

    def __init__(self, resolver: Resolver | None = None) -> None:
        """`resolver` None: the machine's."""
        self._resolver = resolver
        self._known: dict[Key, _Known] = {}
        self._asked: dict[Key, asyncio.Task[list[AddressInfo]]] = {}

    async def __call__(
        self, address: Address, make: Callable[[], HttpConnection]
    ) -> HttpConnection:
        """A connection to the first address that answers.

        Raises:
            OSError: no such name, nobody there, or the TLS handshake failed.
            UnicodeError: the host is a name that no resolver is asked for.
        """
        key = (address.host, address.port)
        infos = await self._infos(key)
        try:
            sock = await start_connection(infos, happy_eyeballs_delay=NEXT_ADDRESS_S)
        except (OSError, RuntimeError) as error:  # uvloop raises the latter, too
            self._known.pop(key, None)  # it may have moved
            raise error if isinstance(error, OSError) else OSError(str(error)) from error
        try:
            keep_watch(sock)
            name = address.server_name if address.tls is not None else None
            _, connection = await asyncio.get_running_loop().create_connection(
                make, sock=sock, ssl=address.tls, server_hostname=name
            )
        except BaseException:  # also when cancelled: before the loop takes it, it is ours to close
            with suppress(OSError):
                sock.close()
            raise
        return connection

    async def _infos(self, key: Key) -> list[AddressInfo]:
        loop = asyncio.get_running_loop()
        known = self._known.get(key)
        if known is not None and loop.time() < known.until_s:
            return known.infos
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = loop.create_task(self._ask(key))
            task.add_done_callback(lambda done: self._answered(key, done))
        # Whoever gives up takes the question from nobody else.
        return await asyncio.shield(task)

    async def _ask(self, key: Key) -> list[AddressInfo]:
        host, port = key
        if self._resolver is None:
            return await _infos_of(host, port)
        found: list[AddressInfo] = []
        for address in await self._resolver(host, port):
            found += _numeric(address, port)
        if not found:
            raise OSError(f"{host} has no address")
        return found

    def _answered(self, key: Key, done: "asyncio.Task[list[AddressInfo]]") -> None:
        self._asked.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            return
        if len(self._known) >= NAMES_MAX:
            self._known.clear()
        self._known[key] = _Known(done.result(), done.get_loop().time() + NAME_S)


async def _infos_of(host: str, port: int) -> list[AddressInfo]:
    with suppress(socket.gaierror):  # an address already: no thread, no question
        return _numeric(host, port)
    loop = asyncio.get_running_loop()
    return [*await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _numeric(address: str, port: int) -> list[AddressInfo]:
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return [*socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=flags)]
