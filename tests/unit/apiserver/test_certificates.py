"""The server's certificates over time: expired, not valid yet, half written, renewed."""

import asyncio
import contextlib
import shutil
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from runnerscale.apiserver.certificates import UnusableFile, ensure_certificates
from runnerscale.apiserver.server import (
    CERTIFICATE_LOOK_S,
    ApiServerOptions,
    Serving,
    run_api_server,
)
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded

NOW_S = 1_800_000_000.0
DAY_S = 86400.0


def serial(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def test_a_certificate_that_is_not_valid_yet_is_made_anew(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, now_s=NOW_S)
    (tmp_path / "server.crt").unlink()
    ahead = serial(ensure_certificates(tmp_path, now_s=NOW_S + 20 * DAY_S).certificate)
    corrected = ensure_certificates(tmp_path, now_s=NOW_S + DAY_S)
    assert serial(corrected.certificate) != ahead


def test_a_key_without_its_certificate_is_no_reason_not_to_start(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    made = ensure_certificates(first, now_s=NOW_S)
    shutil.copytree(first, second)
    (second / "server.crt").unlink()
    other = ensure_certificates(second, now_s=NOW_S)
    shutil.copy(other.key, made.key)  # the machine went down between the two files
    before = serial(made.certificate)
    again = ensure_certificates(first, now_s=NOW_S)
    assert serial(again.certificate) != before
    again.server_context()  # they belong together


def test_an_authority_out_of_its_time_is_said_with_what_to_do(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, now_s=NOW_S)
    with pytest.raises(UnusableFile, match=r"ca\.crt has expired on 2037-01-12"):
        ensure_certificates(tmp_path, now_s=NOW_S + 3651 * DAY_S)
    with pytest.raises(UnusableFile, match="by the clock of this machine it is 2027-01-05") as told:
        ensure_certificates(tmp_path, now_s=NOW_S - 10 * DAY_S)
    assert told.value.remedy == "correct the clock, then start again"


class Years(SystemClock):
    """A clock that a test may put forward; long waits end when it does."""

    def __init__(self) -> None:
        self.ahead_s = -200 * DAY_S
        self.forward = asyncio.Event()

    def now_s(self) -> float:
        return super().now_s() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        if seconds < CERTIFICATE_LOOK_S:
            await super().sleep(seconds)
            return
        await self.forward.wait()
        self.forward.clear()


async def test_a_server_that_runs_for_years_renews_its_certificate(tmp_path: Path) -> None:
    clock = Years()
    ready: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
    options = ApiServerOptions(data_dir=tmp_path, on_ready=ready.set_result)
    running = asyncio.create_task(run_api_server(options, clock=clock, random=seeded(1)))
    try:
        serving = await ready
        trusting = ssl.create_default_context(cafile=str(tmp_path / "certificates" / "ca.crt"))

        async def shown() -> int:
            _, writer = await asyncio.open_connection(serving.host, serving.port, ssl=trusting)
            found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return x509.load_der_x509_certificate(found).serial_number

        first = await shown()
        clock.ahead_s = 0.0
        clock.forward.set()
        async with asyncio.timeout(10):
            while clock.forward.is_set() or await shown() == first:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await shown() == serial(tmp_path / "certificates" / "server.crt")
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
