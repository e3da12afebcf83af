"""Every body that comes from outside has a bound, also when it was packed or has no end."""

import asyncio
import gzip
import io
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry

from runnerscale.apiserver.failures import BODY_BYTES_MAX
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.store import MemoryStore
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.server import serve_fake_github
from runnerscale.kube import transport as kube_transport
from runnerscale.kube.aiohttp_transport import AiohttpTransport
from runnerscale.kube.errors import BadAnswer
from runnerscale.kube.httptools_transport import HttptoolsTransport
from runnerscale.kube.transport import Endpoint, LineSplitter
from runnerscale.kube.yaml_text import NotYaml, load_yaml
from runnerscale.node.attempt_files import NodeFolder
from runnerscale.node.node_server import NodeServer
from runnerscale.scaleset.aiohttp_transport import AiohttpTransport as ScaleSetAiohttp
from runnerscale.scaleset.httptools_transport import HttptoolsTransport as ScaleSetHttptools
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.transport import Request
from tests.unit.apiserver.harness import ADMIN, CM, KEY, serving

CONTROL = SecretText("control-token-of-the-test")
MEMORY_MAX = 10 * 1024 * 1024


def packed(mebibytes: int) -> bytes:
    """So many MiB of blanks, a thousand times smaller."""
    packer = zlib.compressobj(wbits=31)
    piece = b" " * (1024 * 1024)
    return b"".join(packer.compress(piece) for _ in range(mebibytes)) + packer.flush()


@asynccontextmanager
async def api_server(_tmp_path: Path) -> AsyncIterator[tuple[str, dict[str, str]]]:
    api = ApiServer(
        MemoryStore(), clock=SystemClock(), random=seeded(7), identities=[ADMIN], signing_key=KEY
    )
    served = await api.serve()
    try:
        yield served.url + CM, {"Authorization": f"Bearer {ADMIN.token.reveal()}"}
    finally:
        await served.stop()


@asynccontextmanager
async def github(_tmp_path: Path) -> AsyncIterator[tuple[str, dict[str, str]]]:
    async with serve_fake_github(Options(), clock=SystemClock(), random=seeded(1)) as fake:
        yield f"{fake.base_url}/control/faults", {}


@asynccontextmanager
async def node(tmp_path: Path) -> AsyncIterator[tuple[str, dict[str, str]]]:
    server = NodeServer(
        NodeFolder(tmp_path),
        token=SecretText("t" * 20),
        control_token=CONTROL,
        registry=CollectorRegistry(),
        clock=SystemClock(),
    )

    class Agent:
        ready = True

    server.serve(Agent())  # type: ignore[arg-type]
    async with server:
        headers = {"Authorization": f"Bearer {CONTROL.reveal()}"}
        yield f"http://127.0.0.1:{server.port}/faults", headers


SERVERS = [api_server, github, node]


@pytest.mark.parametrize("open_server", SERVERS)
async def test_a_packed_body_is_never_unpacked(open_server: Any, tmp_path: Path) -> None:
    bomb = packed(20)
    async with open_server(tmp_path) as (url, headers), aiohttp.ClientSession() as session:
        headers = {**headers, "Content-Encoding": "gzip", "Content-Type": "application/json"}
        tracemalloc.start()
        try:
            async with session.post(url, data=bomb, headers=headers) as answer:
                assert answer.status == 400
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes < MEMORY_MAX


@pytest.mark.parametrize("open_server", SERVERS)
async def test_a_body_larger_than_the_bound_is_refused(open_server: Any, tmp_path: Path) -> None:
    body = io.BytesIO(b" " * (9 << 20))
    async with (
        open_server(tmp_path) as (url, headers),
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers=headers) as answer,
    ):
        assert answer.status == 413


@pytest.mark.parametrize("open_server", SERVERS)
async def test_a_body_that_breaks_off_is_no_error_of_the_server(
    open_server: Any, tmp_path: Path
) -> None:
    async with open_server(tmp_path) as (url, headers), aiohttp.ClientSession() as session:
        port = int(url.split(":")[2].split("/")[0])
        path = "/" + url.split("/", 3)[3]
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        start = f"POST {path} HTTP/1.1\r\nHost: x\r\n{head}Content-Type: application/json\r\n"
        writer.write(f"{start}Transfer-Encoding: chunked\r\n\r\n5\r\n[1,2]\r\nzz\r\n".encode())
        status = (await reader.read(200)).split(b" ")[1]
        assert status == b"400"
        writer.close()
        async with session.get(url, headers=headers) as answer:  # and it goes on
            assert answer.status < 500


@pytest.mark.parametrize("open_server", SERVERS)
async def test_json_without_end_is_the_senders_mistake(open_server: Any, tmp_path: Path) -> None:
    async with open_server(tmp_path) as (url, headers), aiohttp.ClientSession() as session:
        headers = {**headers, "Content-Type": "application/json"}
        async with session.post(url, data=b"[" * 50_000, headers=headers) as answer:
            assert 400 <= answer.status < 500


@asynccontextmanager
async def answering(body: bytes, **headers: str) -> AsyncIterator[str]:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, headers=headers)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await server.close()


KUBE_TRANSPORTS = [AiohttpTransport, HttptoolsTransport]


@pytest.mark.parametrize("kind", KUBE_TRANSPORTS)
async def test_the_kube_client_reads_no_answer_without_end(kind: Any) -> None:
    assert kube_transport.BODY_BYTES_MAX <= 256 * 1024 * 1024
    async with answering(b"x" * 1001) as url:
        transport = kind(Endpoint(url), body_bytes_max=1000)
        try:
            with pytest.raises(BadAnswer, match="larger than 1000 bytes"):
                await transport.request("GET", "/x")
            async with transport.stream("/x", silence_max_s=5.0) as stream:
                with pytest.raises(BadAnswer, match="larger than 1000 bytes"):
                    await stream.read()
        finally:
            await transport.close()


@pytest.mark.parametrize("kind", KUBE_TRANSPORTS)
async def test_the_kube_client_unpacks_nothing(kind: Any) -> None:
    body = gzip.compress(b" " * 100_000)
    async with answering(body, **{"Content-Encoding": "gzip"}) as url:
        transport = kind(Endpoint(url))
        try:
            assert (await transport.request("GET", "/x")).body == body
        finally:
            await transport.close()


def test_a_line_of_a_watch_has_a_bound() -> None:
    splitter = LineSplitter(line_bytes_max=10)
    assert splitter.feed(b"12345") == []
    with pytest.raises(BadAnswer, match="longer than 10 bytes"):
        splitter.feed(b"6789012345")


@pytest.mark.parametrize("kind", [ScaleSetAiohttp, ScaleSetHttptools])
@pytest.mark.parametrize("is_packed", [False, True])
async def test_the_scale_set_client_reads_no_answer_without_end(is_packed: bool, kind: Any) -> None:
    body = packed(8) if is_packed else b" " * (2 << 20)
    headers = {"Content-Encoding": "gzip"} if is_packed else {}
    async with answering(body, **headers) as url:
        transport = kind(NetworkOptions(body_max_bytes=1 << 20))
        try:
            answer = await transport.send(Request("GET", f"{url}/x", {}), timeout_s=20.0)
            assert answer.body == b""
            assert "larger than 1048576 bytes" in answer.body_fault
        finally:
            await transport.close()


def test_the_api_server_takes_what_a_kube_apiserver_takes() -> None:
    assert BODY_BYTES_MAX == 3 * 1024 * 1024


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a0: &a0 {k: 1, l: 2}\n" + "".join(
    f"a{n + 1}: &a{n + 1} {{<<: [{','.join([f'*a{n}'] * 9)}]}}\n" for n in range(9)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: &a {b: *a}",
        "a: &a [*a, *a]",
        "[" * 5000,
        "a: " + "9" * 5000,
        "a: !!timestamp never",
        "a: !!bool perhaps",
        "a: !!int " + "1:" * 100_000 + "1",
        "a: !!float " + "1:" * 100_000 + "1.0",
        "a: !!python/object/apply:os.system ['id']",
        "a: b\n--- \nc: d",
        "\x00",
        "{a: b",
        "? {a: b}\n: c",
    ],
)
def test_yaml_that_means_no_good_is_one_error(text: str) -> None:
    with pytest.raises(NotYaml):
        load_yaml(text)


def test_yaml_of_base_60_and_merges_stays_small() -> None:
    # Read as numbers of base 60 this took half a minute (the square of its length).
    assert load_yaml("a: " + "1:" * 300_000 + "1")["a"].startswith("1:1:")
    assert load_yaml(MERGES)["a9"] == {"k": 1, "l": 2}


async def test_a_stalled_sender_is_not_read_for_ever_in_one_piece() -> None:
    """Header lines have a bound too: the server answers instead of collecting."""
    async with serving() as api:
        port = int(api.url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n")
        assert b" 400 " in (await reader.read(200)).splitlines()[0]
        writer.close()
