"""Direct connections on a network that does not exist: those of the loop's own clock."""

import asyncio
from collections.abc import Callable

from runnerscale.core.http_connection import HttpConnection
from runnerscale.core.http_dial import Address


async def virtual_dial(address: Address, make: Callable[[], HttpConnection]) -> HttpConnection:
    """Connects through the loop, which is a virtual one in these tests."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(make, address.host, address.port)
    return connection
