"""Writes one condition onto an object beside its reconciler, which cannot do it itself.

For what no pass can say: that every pass fails, or that the object cannot be read. The object
is taken from the server as it is, with its status raw, and the write is guarded by the version
that was read, so that nobody's word is lost. What is to be said, and until when: `stuck.py` and
`unreadable.py`. An object that nobody can write on cannot say even this: then its owner is told.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec
import structlog

from runnerscale.controllers.conditions import as_body, find, shortened, with_condition
from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.kube.client import Client
from runnerscale.kube.errors import BadRequest, Conflict, Forbidden, Invalid, KubeError, NotFound
from runnerscale.kube.objects import AnyObject, Condition, ObjectReference
from runnerscale.kube.patching import at_version
from runnerscale.kube.resource import Resource

log = structlog.get_logger(__name__)

CALL_TIMEOUT_S = 10.0
WAITING_MAX = 1000  # more are not said: their Event, metric and log line are
TRIES_MAX = 8
RETRY = Backoff(first_s=1.0, cap_s=30.0)
REFUSALS = (Forbidden, Invalid, BadRequest)  # in so many words: waiting alone changes nothing
# After so many tries (7 s) a failure is no hiccup: a webhook that cannot be called is a 500.
TRIES_PASSING = 3


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


class Speaker(Protocol):
    """Who speaks for an object that cannot be written on."""

    def refused(self, about: ObjectReference, error: KubeError) -> None:
        """The API server does not let anything be written on it. Said with each try."""
        ...

    def accepted(self, about: ObjectReference) -> None:
        """It speaks for itself again, or there is nothing to be said."""
        ...


class ConditionWriter:
    """One for all controllers of a process; one write at a time."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        """Nothing is written before `run`."""
        self._client = client
        self._clock = clock
        self._waiting: dict[tuple[str, str, str], _Waiting] = {}
        self._writing: tuple[str, str, str] | None = None
        self._speakers: dict[str, Speaker] = {}
        self._wake = asyncio.Event()

    def tell(self, resource: Resource[Any], speaker: Speaker) -> None:
        """Have `speaker` hear of the objects of this kind that cannot be written on."""
        self._speakers[resource.plural] = speaker

    def say(self, resource: Resource[Any], verdict: Verdict) -> None:
        """Write it soon; a later word about the same condition replaces an earlier. Never waits."""
        place = (resource.plural, verdict.about.key, verdict.type)
        if place not in self._waiting and len(self._waiting) >= WAITING_MAX:
            return
        self._waiting[place] = _Waiting(resource, verdict)
        self._wake.set()

    def withdraw(self, resource: Resource[Any], about: ObjectReference, type: str) -> None:  # noqa: A002
        """Nothing is to be said any more: what is not written yet is not written."""
        place = (resource.plural, about.key, type)
        self._waiting.pop(place, None)
        if self._writing == place:
            self._writing = None
        self._accepted(resource, about)

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
        self._writing = place
        try:
            await self._write(waiting)
        except Exception as error:  # noqa: BLE001 - hostile content of one object stops no other
            if self._writing == place:  # else it was withdrawn meanwhile
                if isinstance(error, REFUSALS):
                    self._refused(waiting, error)
                self._again(place, waiting, error)
        else:
            self._accepted(waiting.resource, waiting.verdict.about)
        return 0.0

    def _refused(self, waiting: _Waiting, error: KubeError) -> None:
        speaker = self._speakers.get(waiting.resource.plural)
        if speaker is not None:
            speaker.refused(waiting.verdict.about, error)

    def _accepted(self, resource: Resource[Any], about: ObjectReference) -> None:
        speaker = self._speakers.get(resource.plural)
        if speaker is not None:
            speaker.accepted(about)

    def _again(self, place: tuple[str, str, str], waiting: _Waiting, error: Exception) -> None:
        if place in self._waiting:
            return  # something newer is to be said
        if waiting.failures + 1 >= TRIES_MAX:
            log.info("a condition could not be written", object=place[1], error=repr(error))
            return
        due_s = self._clock.monotonic_s() + RETRY.delay_s(waiting.failures)
        self._waiting[place] = replace(waiting, due_s=due_s, failures=waiting.failures + 1)

    async def _write(self, waiting: _Waiting) -> None:
        kind, about = replace(waiting.resource, type=AnyObject), waiting.verdict.about
        where = (about.namespace, about.name)
        try:
            item = await self._client.get(kind, *where, timeout_s=CALL_TIMEOUT_S)
            patch = self._patch(item, waiting.verdict)
            if patch is not None:
                await self._try(kind, waiting, patch)
        except NotFound:
            return

    def _patch(self, item: AnyObject, verdict: Verdict) -> dict[str, Any] | None:
        if verdict.about.uid and item.metadata.uid != verdict.about.uid:
            return None  # a namesake: nothing was said about it
        before = _conditions(item)
        if not _is_news(before, verdict):
            return None
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
        return at_version({"status": {"conditions": bodies}}, item.metadata.resource_version)

    async def _try(self, kind: Resource[Any], waiting: _Waiting, patch: dict[str, Any]) -> None:
        about = waiting.verdict.about
        try:
            await self._client.patch(
                kind,
                about.namespace,
                about.name,
                patch,
                subresource="status",
                timeout_s=CALL_TIMEOUT_S,
            )
        except (Conflict, NotFound, *REFUSALS):
            raise
        except KubeError as error:  # it could be read
            if waiting.failures >= TRIES_PASSING and self._writing is not None:
                self._refused(waiting, error)
            raise


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
