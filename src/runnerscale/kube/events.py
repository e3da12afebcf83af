"""Events about objects: what a person sees in `kubectl describe`. Best effort, always.

`record` never blocks and never raises. What is recorded again while it waits, or within an
hour of being written, becomes a higher count on the same Event. The queue is bounded, writes
are rate bounded, and a namespace in which we may not write Events (the right is missing in
ARC's charts) is left alone after one log line, and tried again after a while.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

import structlog

from runnerscale.core.clock import Clock, format_time
from runnerscale.core.plain_text import one_line
from runnerscale.core.randomness import Random, hex_text
from runnerscale.kube.builtin import EVENTS
from runnerscale.kube.client import Client
from runnerscale.kube.errors import Forbidden, KubeError, NotFound
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.objects import ObjectReference

log = structlog.get_logger(__name__)

EventType = Literal["Normal", "Warning"]

MESSAGE_BYTES_MAX = 1024  # the API server refuses more
QUEUE_MAX = 1000
WRITTEN_MAX = 4096  # Events whose counts can still be raised
WRITTEN_AGE_MAX_S = 50 * 60.0  # the API server forgets Events after an hour
WRITES_PER_S = 10.0
BURST = 25
WAIT_MIN_S = 0.001  # a wait too short to move a clock would be repeated for ever
FORBIDDEN_PAUSE_S = 600.0
CALL_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class _Said:
    """What makes two Events the same."""

    about: ObjectReference
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Waiting:
    count: int
    first_s: float
    last_s: float


@dataclass(slots=True)
class _Written:
    name: str
    count: int
    first_s: float


class EventRecorder:
    """Writes Events in the background; `run` is the writer."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        clock: Clock,
        random: Random,
        instance: str = "",
        metrics: KubeMetrics | None = None,
        writes_per_s: float = WRITES_PER_S,
    ) -> None:
        """`component`: who speaks, as `kubectl` shows it; `instance`: which process of it."""
        self._client = client
        self._component = component
        self._instance = instance or component
        self._clock = clock
        self._random = random
        self._pause_s = 1.0 / writes_per_s
        self._waiting: OrderedDict[_Said, _Waiting] = OrderedDict()
        self._written: OrderedDict[_Said, _Written] = OrderedDict()
        self._forbidden_until_s: dict[str, float] = {}
        self._told_forbidden = False
        self._something = asyncio.Event()
        self._outcomes = None if metrics is None else metrics.events

    def record(self, about: ObjectReference, *, type: EventType, reason: str, message: str) -> None:  # noqa: A002 - the field's own word
        """Say something about an object. Dropped (and counted) where it cannot be said."""
        namespace = about.namespace or "default"
        if self._is_forbidden(namespace):
            self._count("forbidden")
            return
        said = _Said(about, type, reason, cut(message))
        now_s = self._clock.now_s()
        waiting = self._waiting.get(said)
        if waiting is not None:
            waiting.count += 1
            waiting.last_s = now_s
            return
        if len(self._waiting) >= QUEUE_MAX:
            self._count("dropped")
            return
        self._waiting[said] = _Waiting(1, now_s, now_s)
        self._something.set()

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        tokens = float(BURST)
        then_s = self._clock.monotonic_s()
        while True:
            await self._something.wait()
            now_s = self._clock.monotonic_s()
            tokens = min(float(BURST), tokens + (now_s - then_s) / self._pause_s)
            then_s = now_s
            if tokens < 1.0:
                await self._clock.sleep(max(WAIT_MIN_S, (1.0 - tokens) * self._pause_s))
                continue
            tokens -= 1.0
            await self._write_next()

    async def flush(self) -> None:
        """Write what waits now, without pauses: for the end of a process. Bound it yourself."""
        while self._waiting:
            await self._write_next()

    async def _write_next(self) -> None:
        if not self._waiting:
            self._something.clear()
            return
        said, waiting = self._waiting.popitem(last=False)
        namespace = said.about.namespace or "default"
        if self._is_forbidden(namespace):
            self._count("forbidden")
            return
        try:
            await self._write(namespace, said, waiting)
            self._count("written")
        except Forbidden as error:
            self._forbid(namespace, error)
        except KubeError as error:
            self._count("failed")
            log.debug("event not written", error=str(error), reason=said.reason)

    async def _write(self, namespace: str, said: _Said, waiting: _Waiting) -> None:
        written = self._written.get(said)
        if written is not None and waiting.last_s - written.first_s < WRITTEN_AGE_MAX_S:
            count = written.count + waiting.count
            patch = {"count": count, "lastTimestamp": format_time(waiting.last_s)}
            try:
                # No version: the count is this process's own, and nobody else writes this Event.
                await self._client.patch(
                    EVENTS, namespace, written.name, patch, timeout_s=CALL_TIMEOUT_S
                )
            except NotFound:
                del self._written[said]
            else:
                written.count = count
                self._written.move_to_end(said)
                return
        name = f"{said.about.name[:200]}.{hex_text(self._random, 16)}"
        body = self._body(namespace, name, said, waiting)
        await self._client.create(EVENTS, namespace, body, timeout_s=CALL_TIMEOUT_S)
        self._written[said] = _Written(name, waiting.count, waiting.first_s)
        self._written.move_to_end(said)
        if len(self._written) > WRITTEN_MAX:
            self._written.popitem(last=False)

    def _body(self, namespace: str, name: str, said: _Said, waiting: _Waiting) -> dict[str, object]:
        about = said.about
        involved = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "uid": about.uid,
        }
        if about.namespace:
            involved["namespace"] = about.namespace
        return {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "type": said.type,
            "reason": said.reason,
            "message": said.message,
            "count": waiting.count,
            "firstTimestamp": format_time(waiting.first_s),
            "lastTimestamp": format_time(waiting.last_s),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }

    def _is_forbidden(self, namespace: str) -> bool:
        until_s = self._forbidden_until_s.get(namespace)
        return until_s is not None and self._clock.monotonic_s() < until_s

    def _forbid(self, namespace: str, error: Forbidden) -> None:
        self._count("forbidden")
        self._forbidden_until_s[namespace] = self._clock.monotonic_s() + FORBIDDEN_PAUSE_S
        if not self._told_forbidden:
            self._told_forbidden = True
            log.info("events may not be written, going on without", why=error.message)

    def _count(self, outcome: str) -> None:
        if self._outcomes is not None:
            self._outcomes.labels(outcome).inc()


def cut(message: str) -> str:
    """The message as one line of at most as many bytes as the API server takes."""
    # Whoever reads it may be a terminal. A byte or more for each character.
    shown = one_line(message, MESSAGE_BYTES_MAX + 1)
    encoded = shown.encode()
    if len(encoded) <= MESSAGE_BYTES_MAX:
        return shown
    mark = "..."
    kept = encoded[: MESSAGE_BYTES_MAX - len(mark)]
    return kept.decode("utf-8", errors="ignore") + mark
