"""The direct transport's pool and requests: what is sent, on which connection, how often."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnerscale.core.http_connection import HttpConnection
from runnerscale.core.http_dial import Address
from runnerscale.kube.errors import ConfigError, Unreachable
from runnerscale.kube.httptools_transport import HttptoolsTransport
from runnerscale.kube.transport import IDLE_CONNECTION_S, Endpoint
from tests.unit.kube.virtual_network import Peers, lost_dial, virtual_dial

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


def direct(**options: Any) -> HttptoolsTransport:
    return HttptoolsTransport(Endpoint("http://api.test:80"), dial=virtual_dial, **options)


def test_a_read_on_a_stale_connection_is_asked_again_on_a_new_one_and_a_write_is_not(
    run_virtual: RunVirtual,
) -> None:
    async def scenario() -> list[int]:
        peers = Peers(requests_each=1)
        await peers.start("api.test")
        transport = direct()
        for _ in range(2):
            assert (await transport.request("GET", "/x")).body == b"hello"
        counts = [len(peers.requests), peers.connections]
        with pytest.raises(Unreachable) as caught:
            await transport.request("PATCH", "/x", body=b"{}")
        assert caught.value.sent  # nobody knows whether it took effect
        await transport.close()
        return [*counts, len(peers.requests)]

    # The second GET went out twice: unanswered on the first connection, answered on the second.
    assert run_virtual(scenario()) == [3, 2, 4]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_connection_that_is_lost_before_it_is_used_is_unreachable(method: str) -> None:
    transport = HttptoolsTransport(Endpoint("http://api.test:80"), dial=lost_dial)
    with pytest.raises(Unreachable) as caught:
        await transport.request(method, "/x")
    assert not caught.value.sent
    with pytest.raises(Unreachable):
        async with transport.stream("/x", silence_max_s=1.0):
            raise AssertionError("there is no answer")


def test_connections_that_nobody_uses_are_closed(run_virtual: RunVirtual) -> None:
    async def scenario() -> tuple[int, int]:
        peers = Peers()
        await peers.start("api.test")
        transport = direct()
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(transport.request("GET", "/x"))
        before = peers.closed
        await asyncio.sleep(IDLE_CONNECTION_S + 1)
        return before, peers.closed

    assert run_virtual(scenario()) == (0, 5)


def test_no_more_connections_than_the_bound(run_virtual: RunVirtual) -> None:
    async def scenario() -> int:
        peers = Peers()
        await peers.start("api.test")
        transport = direct(connections_max=3)
        async with asyncio.TaskGroup() as group:
            for _ in range(30):
                group.create_task(transport.request("GET", "/x"))
        await transport.close()
        return peers.connections

    assert run_virtual(scenario()) == 3


def test_new_tls_settings_are_used_from_the_next_request_on(run_virtual: RunVirtual) -> None:
    async def scenario() -> tuple[int, list[object]]:
        peers = Peers()
        await peers.start("api.test")
        seen: list[object] = []

        async def dial(address: Address, make: Any) -> HttpConnection:
            seen.append(address.tls)
            return await virtual_dial(address, make)

        transport = HttptoolsTransport(Endpoint("http://api.test:80"), dial=dial)
        await transport.request("GET", "/x")
        settings: Any = object()
        transport.use_tls(settings)
        await transport.request("GET", "/x")
        await transport.request("GET", "/x")
        await transport.close()
        return peers.connections, [tls is settings for tls in seen]

    assert run_virtual(scenario()) == (2, [False, True])


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b"])
async def test_no_header_ends_its_line_early(value: str) -> None:
    with pytest.raises(ConfigError, match=r"'X-Thing'.*line end") as caught:
        await direct().request("GET", "/x", headers={"X-Thing": value})
    assert value not in str(caught.value)  # it may be a token


def test_paths_and_queries_are_quoted(run_virtual: RunVirtual) -> None:
    async def scenario() -> bytes:
        peers = Peers()
        await peers.start("api.test")
        transport = direct()
        await transport.request(
            "GET", "/api/v1/pods/a b\r\nX: y%20z", query={"labelSelector": "a=b,c in (d)"}
        )
        await transport.close()
        return peers.requests[0].split(b"\r\n")[0]

    assert run_virtual(scenario()) == (
        b"GET /api/v1/pods/a%20b%0D%0AX:%20y%20z?labelSelector=a%3Db%2Cc%20in%20%28d%29 HTTP/1.1"
    )


@pytest.mark.parametrize("server", ["", "api.test", "ftp://api.test", "http://"])
def test_what_is_no_server_is_said_at_once(server: str) -> None:
    with pytest.raises(ConfigError):
        HttptoolsTransport(Endpoint(server))
