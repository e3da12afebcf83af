"""A conformance case as data, how it is run over HTTP, and how its answers become comparable.

A case is a list of steps. Running it gives a transcript: for each step the status code and
the body, from which everything that differs between two runs of the same server (uids,
versions, times, generated names, addresses) has been taken out. Two servers conform when
their transcripts are equal. Nothing in here knows which server answers.
"""

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any

import aiohttp

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

WATCH_TIMEOUT_S = 20.0
UNTIL_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Step:
    """One request. `{ns}` and saved names are replaced in path, query and body."""

    method: str
    path: str
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    accept: str = "application/json"
    user: str = "admin"
    save: dict[str, str] = field(default_factory=dict)  # name: dotted path in the answer
    watch: int = 0  # read so many events, then hang up
    keep: tuple[str, ...] = ()  # only these dotted paths of the answer are compared
    until: dict[str, Any] = field(default_factory=dict)  # repeat until path has value
    until_code: int = 0  # repeat until the status code is this one
    quiet: bool = False  # only preparation: the answer is not compared


@dataclass(frozen=True, slots=True)
class Case:
    """Steps in a fresh namespace."""

    name: str
    steps: tuple[Step, ...]
    controllers: bool = False  # needs the controllers of a cluster (garbage collection, ...)


@dataclass(frozen=True, slots=True)
class Target:
    """A server to talk to."""

    url: str
    tokens: dict[str, str]
    ssl: Any = None


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
            if not step.quiet:
                name = f"{place} {step.method} {step.path}"
                lines.append({"step": name, **line})
        return lines

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
        if step.watch:
            return await self._watch(step)
        deadline_s = asyncio.get_running_loop().time() + UNTIL_TIMEOUT_S
        while True:
            code, body = await self._send(step)
            done = not step.until_code or code == step.until_code
            done = done and all(_at(body, p) == self._filled(v) for p, v in step.until.items())
            if done or asyncio.get_running_loop().time() > deadline_s:
                break
            await asyncio.sleep(0.05)
        for name, path in step.save.items():
            self._values[name] = str(_at(body, path))
        return {"code": code, "body": self._comparable(body, step)}

    def _request(self, step: Step) -> Any:
        headers = {
            "Accept": step.accept,
            "Authorization": f"Bearer {self._target.tokens[step.user]}",
        }
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
        return {"code": code, "body": [self._comparable(event, step) for event in events]}

    def _comparable(self, body: Any, step: Step) -> Any:
        if step.keep:
            return {path: self._clean(_at(body, path)) for path in step.keep}
        return self._clean(body)

    def _clean(self, value: Any) -> Any:
        if isinstance(value, dict):
            cleaned = {}
            for key in sorted(value):
                if key in _DROPPED or (key in _DROPPED_WHEN_EMPTY and not value[key]):
                    continue
                cleaned[key] = _REPLACED[key] if key in _REPLACED else self._clean(value[key])
            if isinstance(cleaned.get("causes"), list):
                # Go walks maps in no order: neither do we compare one.
                cleaned["causes"].sort(key=str)
            return cleaned
        if isinstance(value, list):
            return [self._clean(item) for item in value]
        if isinstance(value, str):
            return self._clean_text(value)
        return value

    def _clean_text(self, text: str) -> str:
        for name, value in self._values.items():
            if name.startswith("drop") and value:
                text = text.replace(value, f"<{name}>")
        text = text.replace(self._values["ns"], "<ns>")
        text = _UID.sub("<uid>", text)
        text = _TIME.sub("<time>", text)
        text = _SCHEME.sub("", text)
        text = _sorted_errors(text)
        return _AGE.sub("<age>", text) if _AGE.fullmatch(text) else text


_DROPPED = frozenset({"managedFields", "resourceVersion", "selfLink"})
_DROPPED_WHEN_EMPTY = frozenset({"creationTimestamp"})
_REPLACED = {"continue": "<token>"}
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"\d+s")


_SCHEME = re.compile(r' in scheme "[^"]*"')
_ERRORS = re.compile(r"is invalid: \[(.*)\]$")


def _sorted_errors(text: str) -> str:
    """Several errors in one message, in an order of their own."""
    match = _ERRORS.search(text)
    if match is None:
        return text
    return text[: match.start(1)] + ", ".join(sorted(match[1].split(", "))) + "]"


def _at(body: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(body, list):
            body = body[int(part)] if int(part) < len(body) else None
        elif isinstance(body, dict):
            body = body.get(part)
        else:
            return None
    return body
