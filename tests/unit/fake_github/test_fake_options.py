"""Options that cannot work are refused in a sentence, and so is a server that cannot start."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.fake_github.options import Options, OptionsInvalid
from runnerscale.fake_github.server import FakeGitHub, FakeGitHubFailed, run_fake_github


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"poll_hold_s": -1}, "poll_hold_s is -1"),
        ({"port": -1}, "port is -1"),
        ({"host": "0.0.0.0"}, "only listens on 127.0.0.1"),
        ({"repository": "app"}, "owner/name"),
        ({"certificate_file": "c.pem"}, "go together"),
        ({"unknown_runner_removal_status": 500}, "204 or 404"),
    ],
)
def test_an_option_that_cannot_work_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionsInvalid, match=says):
        Options(**changes)


def test_a_skew_may_be_negative() -> None:
    assert Options(clock_skew_s=-30).clock_skew_s == -30


async def fail(options: Options) -> str:
    with pytest.raises(FakeGitHubFailed) as failed:
        await run_fake_github(options, clock=SystemClock(), random=seeded(1))
    return str(failed.value)


async def test_a_port_in_use_is_one_clear_sentence() -> None:
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        text = await fail(Options(port=port))
    assert text == (
        f"Port {port} on 127.0.0.1 is already in use. Give another port, or 0 to take a free one."
    )


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "cert.pem"
    bad.write_text("no certificate")
    text = await fail(Options(certificate_file=str(bad), key_file=str(bad)))
    assert str(bad) in text
    assert "two PEM files that belong together" in text


async def test_it_serves_until_cancelled_and_says_when_it_is_ready() -> None:
    ready: asyncio.Future[FakeGitHub] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        run_fake_github(Options(), clock=SystemClock(), random=seeded(1), on_ready=ready.set_result)
    )
    fake = await ready
    assert fake.base_url.startswith("http://127.0.0.1:")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
