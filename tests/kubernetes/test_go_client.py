"""GitHub's own Go client judges the fake GitHub, and is compared with ours on the wire.

The first half is `make go-client` for pytest: what is checked is in `tests/kube/scaleset-client`.
The second plays one scene with both clients against a server that writes down what arrives, and
lays the requests side by side. Needs Go; not collected by `make test`.
"""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import go_client

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.fake_github.options import AssignmentMode, Options
from runnerscale.fake_github.server import FakeGitHub
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.model import JobEventKind
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.user_agent import SystemInfo

TOKEN = "ghp_known"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it arrived, without what differs from run to run."""

    line: str  # method, path, query in order
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None


@dataclass(slots=True)
class Recorder:
    """The fake GitHub in acquire mode, and all that was said to it."""

    fake: FakeGitHub
    url: str = ""
    sent: list[Sent] = field(default_factory=list)


@asynccontextmanager
async def recording() -> AsyncIterator[Recorder]:
    options = Options(poll_hold_s=1, assignment=AssignmentMode.ACQUIRE)
    fake = FakeGitHub(options, clock=SystemClock(), random=system_random())
    recorder = Recorder(fake)

    @web.middleware
    async def write_down(request: web.Request, handler: Any) -> web.StreamResponse:
        if not request.path.startswith("/control/"):
            recorder.sent.append(_sent(request, await request.read()))
        answer: web.StreamResponse = await handler(request)
        return answer

    fake.app.middlewares.append(write_down)
    runner = web.AppRunner(fake.app, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        recorder.url = fake.hub.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield recorder
    finally:
        await runner.cleanup()


def _sent(request: web.Request, body: bytes) -> Sent:
    headers = {name.lower(): value for name, value in request.headers.items()}
    kept = ("authorization", "content-type", "accept", "user-agent", "x-scalesetmaxcapacity")
    # The token itself is another one in each run; which kind of token it is shows in its form.
    headers["authorization"] = re.sub(
        r" (AREG|queue_|ghp_|eyJ)?.*", r" \1...", headers["authorization"]
    )
    query = "&".join(sorted(request.query_string.split("&")))
    line = f"{request.method} {request.rel_url.raw_path}?{query}"
    line = UUID.sub("UUID", line)
    line = re.sub(r"/pipelines/[0-9a-f]+/", "/pipelines/TENANT/", line)
    line = re.sub(r"/(runnerscalesets|agents)/\d+", r"/\1/ID", line)
    line = re.sub(r"((?:message/|lastMessageId=)10000000)\d", r"\1N", line)
    text = body.decode().replace(str(request.url.origin()), "http://HOST")
    return Sent(
        line,
        {name: headers[name] for name in kept if name in headers},
        json.loads(text) if text else None,
    )


async def play_ours(recorder: Recorder) -> None:
    """The scene of `tests/kube/scaleset-client/wire.go`, with our client."""
    client = ScaleSetClient(
        f"{recorder.url}/scene",
        personal_access_token(TOKEN),
        transport=open_transport(),
        clock=SystemClock(),
        random=system_random(),
        system_info=SystemInfo("scene", "1", "c", 1, "play"),
    )
    async with client:
        await client.get_runner_group("default")
        assert await client.find_scale_set("the scene", 1) is None
        made = await client.create_scale_set("the scene", 1, labels=("the scene", "x64"))
        await client.get_scale_set(made.id)
        await client.update_scale_set(made.id, name="scene")
        jit = await client.generate_jit_config(made.id, "actor")
        await client.get_runner(jit.runner.id)
        await client.find_runner("actor")
        await client.remove_runner(jit.runner.id)
        async with client.open_session(made.id, "the owner") as session:
            await _play_queue(recorder, session)
        await client.delete_scale_set(made.id)


async def _play_queue(recorder: Recorder, session: Any) -> None:
    await _control(recorder, "jobs", {"labels": ["x64"], "repository": "scene/app"})
    offer = await session.poll(0, 3)
    (event,) = offer.events
    assert event.kind is JobEventKind.AVAILABLE
    assert await session.acquire_jobs([event.request_id]) == [event.request_id]
    await session.acknowledge(offer.id)
    refuse = {"match": {"operations": ["poll"]}, "action": {"status": 401}, "times": 1}
    await _control(recorder, "faults", refuse)
    assigned = await session.poll(offer.id, 3)
    await session.acknowledge(assigned.id)


async def _control(recorder: Recorder, path: str, body: Any) -> None:
    import aiohttp

    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{recorder.url}/control/{path}", json=body) as answer,
    ):
        assert answer.status == 201, await answer.text()


@pytest.fixture(scope="module")
def program() -> Path:
    return go_client.build()


async def test_github_s_own_client_finds_nothing_wrong_and_was_used_whole(
    program: Path, tmp_path: Path
) -> None:
    async with go_client.world(tmp_path) as told:
        outcomes = await go_client.run(program, tmp_path, told)
    failed = [f"{each.check}: {each.problem}" for each in outcomes if not each.ok]
    assert failed == []
    assert len(outcomes) >= 70  # none was lost on the way
    exported = [each for each in go_client.coverage(tmp_path) if each.exported]
    assert len(exported) >= 35
    assert [each.name for each in exported if not each.percent] == []


def test_our_own_program_is_formatted_and_vetted() -> None:
    for command in (["gofmt", "-l", "."], ["go", "vet", "./..."], ["go", "mod", "verify"]):
        done = subprocess.run(command, cwd=go_client.SOURCES, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout in ("", "all modules verified\n"), done.stdout


@pytest.fixture
async def both(program: Path, tmp_path: Path) -> tuple[list[Sent], list[Sent]]:
    """The scene as the Go client plays it, and as ours does."""
    async with recording() as recorder:
        told = {"acquire": recorder.url, "token": TOKEN}
        (outcome,) = await go_client.run(program, tmp_path, told, "wire")
        assert outcome.ok, outcome.problem
        theirs = recorder.sent
    async with recording() as recorder:
        await play_ours(recorder)
        return theirs, recorder.sent


async def test_both_clients_send_the_same_calls_in_the_same_order(
    both: tuple[list[Sent], list[Sent]],
) -> None:
    theirs, ours = both
    # `the scene`: Go writes a space in a query as `+`, we as `%20` (C2 2.14: percent-encode).
    assert [each.line for each in ours] == [each.line.replace("+", "%20") for each in theirs]
    # Token, group, find, make, get, change, JIT, three of a runner, the session's eight, the end.
    assert len(theirs) == 2 + 9 + 9 + 1


async def test_both_clients_send_the_same_headers(both: tuple[list[Sent], list[Sent]]) -> None:
    theirs, ours = both
    for go, python in zip(theirs, ours, strict=True):
        # Who built the client is the one thing that each says for itself.
        assert _agent(python) == _agent(go) | {
            "build_version": _agent(python)["build_version"],
            "build_commit_sha": _agent(python)["build_commit_sha"],
        }
        assert list(_agent(python)) == list(_agent(go)), go.line  # the order is part of it
        assert _others(python) == _others(go), go.line


async def test_both_clients_send_the_same_bodies(both: tuple[list[Sent], list[Sent]]) -> None:
    theirs, ours = both
    for go, python in zip(theirs, ours, strict=True):
        wanted = go.body
        if go.line.startswith(("POST", "PATCH")) and isinstance(wanted, dict):
            # The Go type cannot leave these out; they say nothing (C2 2.7 quirk, W56).
            wanted = dict(wanted)
            if wanted.get("createdOn") == "0001-01-01T00:00:00Z":
                del wanted["createdOn"]
            if wanted.get("RunnerSetting") == {}:
                del wanted["RunnerSetting"]
        assert python.body == wanted, go.line


def _agent(sent: Sent) -> dict[str, Any]:
    agent: dict[str, Any] = json.loads(sent.headers["user-agent"])
    return agent


def _others(sent: Sent) -> dict[str, str]:
    return {name: value for name, value in sent.headers.items() if name != "user-agent"}
