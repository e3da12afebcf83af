"""Writes one condition onto an object beside its reconciler, which cannot do it itself.

For what no pass can say: that every pass fails, or that the object cannot be read. The object
is taken from the server as it is, with its status raw, and the write is guarded by the version
that was read, so that nobody's word is lost. What is to be said, and until when: `stuck.py` and
`unreadable.py`.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import structlog

from runnerscale.controllers.conditions import as_body, find, shortened, with_condition
from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.kube.client import Client
from runnerscale.kube.errors import NotFound
from runnerscale.kube.objects import AnyObject, Condition, ObjectReference
from runnerscale.kube.patching import at_version
from runnerscale.kube.resource import Resource

log = structlog.get_logger(__name__)

CALL_TIMEOUT_S = 10.0
WAITING_MAX = 1000  # more are not said: their Event, metric and log line are
TRIES_MAX = 8
RETRY = Backoff(first_s=1.0, cap_s=30.0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One condition of one object. `good` True: only where the condition says the opposite."""

    about: ObjectReference
    type: str
    good: bool
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Waiting:
    resource: Resource[Any]
    verdict: Verdict
    due_s: float = 0.0  # monotonic
    failures: int = 0


class ConditionWriter:
    """One for all controllers of a process; one write at a time."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        """Nothing is written before `run`."""
        self._client = client
        self._clock = clock
        self._waiting: dict[tuple[str, str, str], _Waiting] = {}
        self._wake = asyncio.Event()

    def say(self, resource: Resource[Any], verdict: Verdict) -> None:
        """Write it soon; a later word about the same condition replaces an earlier. Never waits."""
        place = (resource.plural, verdict.about.key, verdict.type)
        if place not in self._waiting and len(self._waiting) >= WAITING_MAX:
            return
        self._waiting[place] = _Waiting(resource, verdict)
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._wake.clear()
            wait_s = await self._write_next()
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _write_next(self) -> float | None:
        """Write what is due first; how long to wait for the next, None: until something is said."""
        if not self._waiting:
            return None
        place, waiting = min(self._waiting.items(), key=lambda entry: entry[1].due_s)
        left_s = waiting.due_s - self._clock.monotonic_s()
        if left_s > 0:
            return left_s
        del self._waiting[place]
        try:
            await self._write(waiting.resource, waiting.verdict)
        except Exception as error:  # noqa: BLE001 - hostile content of one object stops no other
            self._again(place, waiting, error)
        return 0.0

    def _again(self, place: tuple[str, str, str], waiting: _Waiting, error: Exception) -> None:
        if place in self._waiting:
            return  # something newer is to be said
        if waiting.failures + 1 >= TRIES_MAX:
            log.info("a condition could not be written", object=place[1], error=repr(error))
            return
        due_s = self._clock.monotonic_s() + RETRY.delay_s(waiting.failures)
        self._waiting[place] = replace(waiting, due_s=due_s, failures=waiting.failures + 1)

    async def _write(self, resource: Resource[Any], verdict: Verdict) -> None:
        about = verdict.about
        kind = replace(resource, type=AnyObject)
        where = (about.namespace, about.name)
        try:
            item = await self._client.get(kind, *where, timeout_s=CALL_TIMEOUT_S)
            if about.uid and item.metadata.uid != about.uid:
                return  # a namesake: nothing was said about it
            before = _conditions(item)
            if not _is_news(before, verdict):
                return
            after = with_condition(
                before,
                type=verdict.type,
                status=verdict.good,
                reason=verdict.reason,
                message=verdict.message,
                now_s=self._clock.now_s(),
                generation=item.metadata.generation,
            )
            # A time that another's condition lacks is not made a null: schemas refuse that.
            bodies = [{k: v for k, v in c.items() if v is not None} for c in as_body(after)]
            status = {"status": {"conditions": bodies}}
            patch = at_version(status, item.metadata.resource_version)
            await self._client.patch(
                kind, *where, patch, subresource="status", timeout_s=CALL_TIMEOUT_S
            )
        except NotFound:
            return


def _is_news(before: list[Condition], verdict: Verdict) -> bool:
    stored = find(before, verdict.type)
    if verdict.good:
        return stored is not None and stored.status == "False"
    said = (verdict.reason, shortened(verdict.message))
    return stored is None or stored.status != "False" or (stored.reason, stored.message) != said


def _conditions(item: AnyObject) -> list[Condition]:
    """The conditions that can be read; what is none is not kept."""
    try:
        status = msgspec.json.decode(bytes(item.status) or b"{}")
    except (msgspec.MsgspecError, RecursionError):
        return []
    found = status.get("conditions") if isinstance(status, dict) else None
    conditions = []
    for body in found if isinstance(found, list) else []:
        try:
            conditions.append(msgspec.convert(body, Condition))
        except msgspec.ValidationError:
            continue
    return conditions
