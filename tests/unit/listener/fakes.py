"""What the listener talks to, small enough to read: an API server's rules and a GitHub queue."""

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from runnerscale.core.clock import LoopClock
from runnerscale.kube import errors
from runnerscale.kube.resource import Resource
from runnerscale.scaleset.errors import ScaleSetError
from runnerscale.scaleset.model import Message, RunnerScaleSet, Statistics

EPOCH_S = 1_800_000_000.0


def clock() -> LoopClock:
    return LoopClock(EPOCH_S)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class TinyApi:
    """get, create, patch and delete with versions, uids, conflicts and the status subresource."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.requests: list[tuple[str, str, Any]] = []  # verb, path, body
        self.faults: deque[tuple[str, errors.KubeError]] = deque()  # verb, what it ends with
        self.before: Callable[[str, str], None] = lambda verb, path: None
        self.delay_s = 0.0
        self._version = 40

    def put(self, resource: Resource[Any], namespace: str, name: str, **body: Any) -> None:
        meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"} | body.pop("meta", {})
        self.objects[resource.plural, namespace, name] = {"metadata": meta, **body}
        self.touch(resource, namespace, name)

    def touch(self, resource: Resource[Any], namespace: str, name: str, **status: Any) -> None:
        """Somebody else wrote."""
        item = self.objects[resource.plural, namespace, name]
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        item["status"] = item.get("status", {}) | status

    def raw(self, resource: Resource[Any], namespace: str, name: str) -> dict[str, Any]:
        return self.objects[resource.plural, namespace, name]

    def verbs(self, plural: str) -> list[str]:
        return [verb for verb, path, _ in self.requests if f"/{plural}/" in path]

    def bodies(self, plural: str) -> list[Any]:
        return [body for verb, path, body in self.requests if f"/{plural}/" in path and body]

    async def get(
        self, resource: Resource[Any], namespace: str, name: str, *, timeout_s: float | None = None
    ) -> Any:
        item = await self._found("get", resource, namespace, name, "")
        return msgspec.convert(copy.deepcopy(item), resource.type)

    async def patch(
        self,
        resource: Resource[Any],
        namespace: str,
        name: str,
        body: Any,
        *,
        subresource: str = "",
        timeout_s: float | None = None,
        **_: Any,
    ) -> Any:
        item = await self._found("patch", resource, namespace, name, subresource, body)
        asked = body.get("metadata", {}).get("resourceVersion")
        if asked is not None and asked != item["metadata"]["resourceVersion"]:
            raise errors.Conflict(409, "Conflict", "the object has been modified")
        part = {"status"} if subresource else set(body) - {"status"}
        new = merged(item, {key: body[key] for key in part if key in body})
        if new != item:
            self._version += 1
            new["metadata"] = new["metadata"] | {"resourceVersion": str(self._version)}
            self.objects[resource.plural, namespace, name] = new
        return msgspec.convert(copy.deepcopy(new), resource.type)

    async def _found(
        self,
        verb: str,
        resource: Resource[Any],
        namespace: str,
        name: str,
        subresource: str,
        body: Any = None,
    ) -> dict[str, Any]:
        path = resource.path(namespace, name, subresource)
        self.requests.append((verb, path, copy.deepcopy(body)))
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        self.before(verb, path)
        for fault in list(self.faults):
            if fault[0] in (verb, f"{verb} {resource.plural}"):
                self.faults.remove(fault)
                raise fault[1]
        item = self.objects.get((resource.plural, namespace, name))
        if item is None:
            raise errors.NotFound(404, "NotFound", f"{resource.plural} {name!r} not found")
        return item


Reply = Message | ScaleSetError | float | None  # float: hold so long, then nothing


@dataclass
class FakeSession:
    """A queue that answers what the test laid into `replies`; then it holds every poll 50 s."""

    statistics: Statistics = field(default_factory=Statistics)
    generation: int = 1
    replies: deque[Reply] = field(default_factory=deque)
    acknowledge_errors: deque[ScaleSetError] = field(default_factory=deque)
    acquire_errors: deque[ScaleSetError] = field(default_factory=deque)
    offered: list[int] = field(default_factory=list)
    log: list[tuple[str, Any]] = field(default_factory=list)
    on_close: Callable[[], None] = lambda: None
    close_error: Exception | None = None
    close_takes_s: float = 0.0

    @property
    def opening(self) -> Statistics:
        return self.statistics

    async def __aenter__(self) -> "FakeSession":
        self.log.append(("open", None))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def poll(self, last_message_id: int, max_capacity: int) -> Message | None:
        self.log.append(("poll", (last_message_id, max_capacity)))
        reply: Reply = self.replies.popleft() if self.replies else 50.0
        if isinstance(reply, float):
            await asyncio.sleep(reply)
            return None
        if isinstance(reply, ScaleSetError):
            raise reply
        return reply

    async def acknowledge(self, message_id: int) -> None:
        self.log.append(("acknowledge", message_id))
        if self.acknowledge_errors:
            raise self.acknowledge_errors.popleft()

    async def acquire_jobs(self, request_ids: Sequence[int]) -> list[int]:
        self.log.append(("acquire", list(request_ids)))
        if self.acquire_errors:
            raise self.acquire_errors.popleft()
        return list(request_ids)

    async def acquirable_jobs(self) -> list[int]:
        self.log.append(("acquirable", None))
        if self.acquire_errors:
            raise self.acquire_errors.popleft()
        return self.offered

    async def close(self) -> None:
        self.log.append(("close", None))
        await asyncio.sleep(self.close_takes_s)
        if self.close_error is not None:
            raise self.close_error
        self.on_close()

    def did(self, what: str) -> list[Any]:
        return [value for name, value in self.log if name == what]


class FakeGitHub:
    """Hands out sessions in the order laid out; an error in their place is raised on opening."""

    def __init__(self, *sessions: FakeSession | ScaleSetError) -> None:
        self.sessions: deque[FakeSession | ScaleSetError] = deque(sessions)
        self.opened: list[tuple[int, str]] = []
        self.credentials: list[Any] = []
        self.scale_set: RunnerScaleSet | ScaleSetError | None = None
        self.asked = 0

    async def get_scale_set(self, scale_set_id: int, **_: Any) -> RunnerScaleSet | None:
        self.asked += 1
        if isinstance(self.scale_set, ScaleSetError):
            raise self.scale_set
        return self.scale_set

    def open_session(self, scale_set_id: int, owner_name: str) -> Any:
        self.opened.append((scale_set_id, owner_name))
        found = self.sessions.popleft() if self.sessions else FakeSession()
        return found if isinstance(found, FakeSession) else _Refusing(found)

    def use_credentials(self, credentials: Any) -> None:
        self.credentials.append(credentials)


class _Refusing:
    def __init__(self, error: ScaleSetError) -> None:
        self._error = error

    async def __aenter__(self) -> Any:
        raise self._error

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError("never opened")
