"""What the demo asks of the pretended GitHub: queue work, look at it, break things.

The control API itself: docs/fake-github.md.
"""

from typing import Any

import aiohttp
import msgspec

from runnerscale.app.demo_state import JobRow
from runnerscale.app.problem import Problem
from runnerscale.core.plain_text import one_line

TIMEOUT_S = 10.0
Json = dict[str, Any]
# How a job's state and result are told in one word.
UNDER_WAY = {"waiting": "queued", "queued": "queued", "available": "queued"}
UNDER_WAY |= {"assigned": "assigned", "handed": "assigned", "running": "running"}
ENDED = {"succeeded": "succeeded", "canceled": "cancelled", "skipped": "skipped"}

NAME_CHARS_MAX = 200  # the workflow's own words


class GitHubControl:
    """A client of the control API; `async with`."""

    def __init__(self, url: str) -> None:
        """`url`: of the server."""
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "GitHubControl":
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        self._session = aiohttp.ClientSession(timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def healthy(self) -> bool:
        """It answers."""
        try:
            await self._call("GET", "healthz")
        except Problem:
            return False
        return True

    async def queue_jobs(self, count: int, *, seconds: float, label: str) -> None:
        """Equal jobs that take `seconds` each."""
        body = {"labels": [label], "count": count, "seconds": seconds}
        await self._call("POST", "jobs", body)

    async def start_workflow(self, content: str, name: str, *, label: str) -> int:
        """Start a run; its id. All its jobs are queued for `label`, whatever their `runs-on`."""
        body = {"content": content, "name": name, "runs_on": [label]}
        return int((await self._call("POST", "workflows", body))["id"])

    async def jobs(self, run_id: int | None) -> tuple[JobRow, ...]:
        """The jobs of a run (also those that wait for others), or all jobs."""
        if run_id is None:
            found = (await self._call("GET", "jobs"))["jobs"]
        else:
            found = (await self._call("GET", f"runs/{run_id}"))["jobs"]
        return tuple(job_row(view, place) for place, view in enumerate(found))

    async def job_log(self, job_id: str) -> str:
        """The kept part of a job's log."""
        return await self._text(f"jobs/{job_id}/log")

    async def state(self) -> Json:
        """Everything."""
        return await self._call("GET", "state")

    async def add_fault(self, preset: str, *, seconds: float | None, value: str = "") -> None:
        """Switch a known trouble on."""
        body: Json = {"preset": preset, "value": value}
        if seconds is not None:
            body["seconds"] = seconds
        await self._call("POST", "faults", body)

    async def clear_faults(self) -> None:
        """GitHub is healthy again."""
        await self._call("DELETE", "faults")

    async def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        assert self._session is not None
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with self._session.request(
                method, f"{self._url}/control/{path}", data=data
            ) as answer:
                raw = await answer.read()
                found: Json = msgspec.json.decode(raw) if raw else {}
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError) as error:
            raise Problem(
                f"the pretended GitHub gives no usable answer to {method} {path}: {error}",
                "See its log in the demo's folder",
            ) from error
        if status >= 400:
            raise Problem(str(found.get("message", f"{method} {path}: {status}")).rstrip("."), "")
        return found

    async def _text(self, path: str) -> str:
        assert self._session is not None
        try:
            async with self._session.get(f"{self._url}/control/{path}") as answer:
                return await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return ""


def job_row(view: Json, place: int) -> JobRow:
    """A job as the demo shows it."""
    state, result = str(view.get("state", "")), str(view.get("result", ""))
    word = ENDED.get(result, "failed") if state == "completed" else UNDER_WAY.get(state, "queued")
    return JobRow(
        id=str(view.get("id", f"{place}")),
        name=one_line(str(view.get("name", "")), NAME_CHARS_MAX),
        state=word,
        queued_s=float(view.get("queued_s", 0.0)),
        started_s=float(view.get("started_s", 0.0)),
        ended_s=float(view.get("finished_s", 0.0)),
        starts=int(view.get("starts", 0)),
    )
