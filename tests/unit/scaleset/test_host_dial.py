"""Names and addresses of direct connections, on real loopback sockets."""

import asyncio
import socket
from typing import Any

import pytest

from runnerscale.core.http_connection import HttpConnection
from runnerscale.core.http_dial import Address
from runnerscale.scaleset.host_dial import HostDial


def make() -> HttpConnection:
    return HttpConnection(body_bytes_max=1000)


class Names:
    """A resolver that counts; each question takes a few turns of the loop."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked = 0

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        for _ in range(3):
            await asyncio.sleep(0)
        if not self.addresses:
            raise OSError("no such name")
        return [*self.addresses]


@pytest.fixture
async def port() -> Any:
    async def until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(until_closed, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


def place(port: int) -> Address:
    return Address("github.test", port, None, "github.test")


async def test_a_burst_asks_for_its_name_once(port: int) -> None:
    names = Names("127.0.0.1")
    dial = HostDial(names)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(dial(place(port), make)) for _ in range(20)]
    for task in tasks:
        await task.result().gone()
    assert names.asked == 1
    await (await dial(place(port), make)).gone()
    assert names.asked == 1


async def test_who_gives_up_takes_the_answer_from_nobody_else(port: int) -> None:
    names = Names("127.0.0.1")
    dial = HostDial(names)
    loop = asyncio.get_running_loop()
    first, second = (loop.create_task(dial(place(port), make)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await (await second).gone()
    assert names.asked == 1


async def test_an_address_that_is_dead_does_not_keep_us_from_the_next(port: int) -> None:
    connection = await HostDial(Names("127.0.0.2", "127.0.0.1"))(place(port), make)
    assert connection.is_open
    await connection.gone()


async def test_a_name_is_asked_for_again_when_nobody_was_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        names = Names("127.0.0.1")
        dial = HostDial(names)
        for _ in range(2):
            with pytest.raises(OSError, match=r"."):
                await dial(place(unused.getsockname()[1]), make)
        assert names.asked == 2


@pytest.mark.parametrize("addresses", [(), ("no address",)])
async def test_a_name_without_addresses_is_an_error_each_time(addresses: tuple[str, ...]) -> None:
    names = Names(*addresses)
    dial = HostDial(names)
    for _ in range(2):
        with pytest.raises(OSError, match=r"."):
            await dial(place(1), make)
    assert names.asked == 2


async def test_the_machines_own_names_are_known(port: int) -> None:
    for host in ("127.0.0.1", "localhost"):
        connection = await HostDial()(Address(host, port, None, host), make)
        assert connection.is_open
        await connection.gone()
