"""A conformance case as data, how it is run over HTTP, and how its answers become comparable.

A case is a list of steps. Running it gives a transcript: for each step the status code and
the whole body, from which `comparable.py` has taken what differs between two runs of the same
server. Two servers conform when their transcripts are equal. Nothing in here knows which
server answers.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.conformance.comparable import Comparer

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

WATCH_TIMEOUT_S = 20.0
UNTIL_TIMEOUT_S = 90.0  # garbage collection learns of a new kind within 30 s


@dataclass(frozen=True, slots=True)
class Step:
    """One request. `{ns}` and saved names are replaced in path, query and body.

    The method COMPACT is no request: the server forgets its history.
    """

    method: str
    path: str
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    accept: str = "application/json"
    user: str = "admin"  # or `bob`, a saved token's name, `nobody` (no token), `wrong`
    save: dict[str, str] = field(default_factory=dict)  # name: dotted path in the answer
    watch: int = 0  # read so many events, then hang up
    until: dict[str, Any] = field(default_factory=dict)  # repeat until path has value
    until_code: int = 0  # repeat until the status code is this one


@dataclass(frozen=True, slots=True)
class Case:
    """Steps in a fresh namespace."""

    name: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A server to talk to."""

    url: str
    tokens: dict[str, str]
    ssl: Any = None
    compact: Callable[[], Awaitable[None]] | None = None


class Runner:
    """Runs the steps of one case."""

    def __init__(self, session: aiohttp.ClientSession, target: Target, namespace: str) -> None:
        self._session = session
        self._target = target
        self._values = {"ns": namespace}

    async def run(self, case: Case) -> list[Json]:
        """The transcript."""
        lines = []
        for place, step in enumerate(case.steps):
            line = await self._step(step)
            lines.append({"step": f"{place} {step.method} {step.path}", **line})
        return lines

    def _cleaned(self, body: Any) -> Any:
        address = self._target.url.partition("://")[2]
        return Comparer(self._values, address).clean(body)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            for name, text in self._values.items():
                value = value.replace("{" + name + "}", text)
            return value
        if isinstance(value, dict):
            return {self._filled(k): self._filled(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._filled(v) for v in value]
        return value

    async def _step(self, step: Step) -> Json:
        if step.method == "COMPACT":
            assert self._target.compact is not None, "this server cannot be told to forget"
            await self._target.compact()
            return {"code": 0, "body": None}
        if step.watch:
            return await self._watch(step)
        deadline_s = asyncio.get_running_loop().time() + UNTIL_TIMEOUT_S
        while True:
            code, body = await self._send(step)
            done = not step.until_code or code == step.until_code
            done = done and all(_at(body, p) == self._filled(v) for p, v in step.until.items())
            if done:
                break
            late = asyncio.get_running_loop().time() > deadline_s
            assert not late, f"{step.method} {step.path}: not within {UNTIL_TIMEOUT_S} s: {body}"
            await asyncio.sleep(0.05)
        for name, path in step.save.items():
            self._values[name] = str(_at(body, path))
        return {"code": code, "body": self._cleaned(body)}

    def _request(self, step: Step) -> Any:
        headers = {"Accept": step.accept}
        if step.user != "nobody":
            tokens = {"wrong": "no.such.token", **self._values, **self._target.tokens}
            headers["Authorization"] = f"Bearer {tokens[step.user]}"
        data: bytes | None = None
        if step.body is not None:
            headers["Content-Type"] = step.content_type
            filled = self._filled(step.body)
            data = filled.encode() if isinstance(filled, str) else json.dumps(filled).encode()
        return self._session.request(
            step.method,
            self._target.url + self._filled(step.path),
            params=self._filled(step.query),
            data=data,
            headers=headers,
            ssl=self._target.ssl,
        )

    async def _send(self, step: Step) -> tuple[int, Any]:
        async with self._request(step) as response:
            text = await response.text()
            try:
                return response.status, json.loads(text)
            except ValueError:
                return response.status, text.strip()

    async def _watch(self, step: Step) -> Json:
        events: list[Any] = []
        async with self._request(step) as response:
            code = response.status
            try:
                async with asyncio.timeout(WATCH_TIMEOUT_S):
                    while len(events) < step.watch:
                        line = await response.content.readline()
                        if not line:
                            break
                        events.append(json.loads(line))
            except TimeoutError:
                events.append("nothing more came in time")
        return {"code": code, "body": self._cleaned(events)}


def _at(body: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(body, list):
            body = body[int(part)] if int(part) < len(body) else None
        elif isinstance(body, dict):
            body = body.get(part)
        else:
            return None
    return body
