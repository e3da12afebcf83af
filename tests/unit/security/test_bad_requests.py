"""Requests that are none, byte by byte on the ports of the embedded servers, and what is logged."""

import asyncio
import contextlib
import io
import json
from pathlib import Path

import pytest

from runnerscale.app.library_lines import LINES_MAX
from runnerscale.app.logs import Style, configure_logging
from runnerscale.core.clock import ManualClock
from runnerscale.core.patience import Patience
from tests.unit.security.test_bodies import api_server, github, node

SECRET = b"s3cret-of-somebody"
LOGIN = b"Authorization: Bearer " + SECRET
PORTS = {"API server": api_server, "GitHub": github, "node": node}
BAD = (
    b"GET / HTTP/1.1\r\n" + LOGIN + b"\x01\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + LOGIN + b"\x00\r\n\r\n",
    b"GET / HTTP/1.1\nHost: x\n" + LOGIN + b"\nno header\n\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + SECRET + b"\r\n\r\n",
    b"GET http://[" + SECRET + b"\x1b[31m/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[" + SECRET + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /?token=" + SECRET + b" HTTP/7.x\r\n\r\n",
    SECRET + b"\xff\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\n" + LOGIN + b"\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\n" + LOGIN + b"\r\nContent-Length: 5\r\n"
    b"Content-Length: 6\r\n\r\n0\r\n\r\n",
    b"POST /control/faults HTTP/1.1\r\nHost: x\r\n" + LOGIN + b"\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n" + SECRET + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + SECRET + b"a" * 20_000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + SECRET,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SECRET,
)


async def send(port: int, data: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    try:
        async with asyncio.timeout(5):
            await reader.read()
    except ConnectionResetError:
        pass
    writer.close()


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("level", ["info", "debug"])
@pytest.mark.parametrize("port", sorted(PORTS))
async def test_a_bad_request_is_one_line_at_most_and_leaks_nothing(
    port: str, level: str, log_format: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = io.StringIO()
    style = Style.CONTROLLER
    configure_logging(level, log_format, style=style, clock=ManualClock(), stream=stream)
    async with PORTS[port](tmp_path) as (url, _):
        number = int(url.split(":")[2].split("/")[0])
        for data in BAD:
            before = stream.getvalue()
            await send(number, data)
            said = stream.getvalue().removeprefix(before)
            assert said.count("\n") <= (1 if level == "debug" else 0), said[:2000]
            assert SECRET.decode() not in said and "Traceback" not in said
            if said and log_format == "json":
                assert json.loads(said)["message"] == "a request could not be read"
        assert ("could not be read" in stream.getvalue()) == (level == "debug")
        before = stream.getvalue()
        for _ in range(2 * LINES_MAX):
            await send(number, BAD[0])
        assert stream.getvalue().removeprefix(before).count("\n") <= LINES_MAX
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("port", sorted(PORTS))
async def test_each_embedded_server_cuts_who_says_half_a_head(
    port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Patience.__init__, "__kwdefaults__", {"head_s": 0.1, "strangers_max": None})
    async with PORTS[port](tmp_path) as (url, _):
        number = int(url.split(":")[2].split("/")[0])
        for begun in (b"", b"GET / HTTP/1.1\r\n" + LOGIN):
            reader, writer = await asyncio.open_connection("127.0.0.1", number)
            writer.write(begun)
            async with asyncio.timeout(5):
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
            writer.close()
