"""The page about the client is a program; here it runs."""

import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

PAGE = Path(__file__).resolve().parents[3] / "docs" / "scaleset-client.md"
ADMIN_JWT = "e30.eyJleHAiOjQxMDI0NDQ4MDB9.sig"  # exp: the year 2100


class GitHub:
    """As much of an enterprise server as the example needs."""

    def __init__(self) -> None:
        self.address = ""
        self.seen: list[tuple[str, str]] = []
        self.messages = [7]

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        method, path = request.method, request.path
        self.seen.append((method, path))
        if path == "/api/v3/orgs/my-org/actions/runners/registration-token":
            return web.json_response({"token": "r"}, status=201)
        if path == "/api/v3/actions/runner-registration":
            return web.json_response({"url": f"{self.address}/tenant", "token": ADMIN_JWT})
        if path.endswith("/runnerscalesets"):
            if method == "GET":
                return web.json_response({"count": 0, "value": []})
            return web.json_response({"id": 3, "name": "my-scale-set"})
        if path.endswith("/sessions"):
            return web.json_response(self.session())
        if path.endswith("/generatejitconfig"):
            name = (await request.json())["name"]
            runner = {"id": len(self.seen), "name": name, "runnerScaleSetId": 3}
            return web.json_response({"runner": runner, "encodedJITConfig": "eA=="})
        if path == "/queue" and self.messages:
            return web.json_response(
                {
                    "messageId": self.messages[0],
                    "messageType": "RunnerScaleSetJobMessages",
                    "statistics": {"totalAssignedJobs": 2},
                }
            )
        if path == "/queue":
            return web.Response(status=202)
        self.messages = []
        return web.Response(status=204)

    def session(self) -> dict[str, Any]:
        return {
            "sessionId": "6c7c3d6e-6d53-4b1a-9b57-3a4a4c1b1a11",
            "messageQueueUrl": f"{self.address}/queue",
            "messageQueueAccessToken": "q",
            "statistics": {"totalAssignedJobs": 0},
        }


async def test_the_example_of_the_page_works(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    example: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, str(PAGE), "exec"), example)
    github = GitHub()
    runner = web.ServerRunner(web.Server(github))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    github.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        names = await example["main"](f"{github.address}/my-org", "token", polls=2)
    finally:
        await runner.cleanup()
    assert len(set(names)) == 2
    assert all(name.startswith("my-scale-set-") for name in names)
    assert ("DELETE", "/queue/7") in github.seen
    assert github.seen[-1] == (
        "DELETE",
        "/tenant/_apis/runtime/runnerscalesets/3/sessions/6c7c3d6e-6d53-4b1a-9b57-3a4a4c1b1a11",
    )
