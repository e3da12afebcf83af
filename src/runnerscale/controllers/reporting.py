"""How trouble becomes visible: Event, metric and log line, once when it is new or changes.

The condition on the object is written by its own reconciler, from the same `Trouble`. A trouble
that persists is told again only by the condition and the gauge, so that nobody drowns.
"""

import re
from collections.abc import Sequence
from typing import Protocol

import structlog

from runnerscale.api.catalogue import Severity
from runnerscale.api.reasons import Trouble
from runnerscale.controllers.conditions import shortened
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.kube.events import EventType
from runnerscale.kube.objects import ObjectReference

log = structlog.get_logger(__name__)

_IDS = re.compile(r'(?:activity_id|github_request_id)="[^"]*"')
TOLD_MAX = 20_000  # objects whose troubles are remembered; past it the oldest are told again


class EventRecorder(Protocol):
    """What we need of `kube.events.EventRecorder`."""

    def record(self, about: ObjectReference, *, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        """Never blocks, aggregates, quietly off where forbidden."""
        ...


def _lasting(happened: str) -> str:
    """What happened, without the ids that GitHub gives every answer: they are no news."""
    return _IDS.sub("", happened)


def named(about: ObjectReference) -> str:
    """As a `Trouble` names an object: kind namespace/name."""
    return f"{about.kind} {about.key}"


class Reporter:
    """One for all controllers of a process."""

    def __init__(self, events: EventRecorder, metrics: ControllerMetrics) -> None:
        """`events`: best effort; `metrics`: where the gauge of troubles lives."""
        self._events = events
        self._metrics = metrics
        self._told: dict[str, dict[str, str]] = {}

    def report(self, about: ObjectReference, key: str, troubles: Sequence[Trouble]) -> None:
        """All that is wrong with an object after a pass; an empty sequence: nothing is.

        Args:
            about: the object that Events are about.
            key: unique among all objects of a controller (kind and work-queue key).
            troubles: the first of a reason counts.
        """
        key = f"{about.kind} {key}"
        now: dict[str, Trouble] = {}
        for trouble in troubles:
            now.setdefault(trouble.reason, trouble)
        before = self._told.pop(key, {})
        for reason, trouble in now.items():
            if before.get(reason) != _lasting(trouble.happened):
                self._tell(about, trouble)
        for reason in before:
            if reason not in now:
                log.info("trouble is over", object=named(about), reason=reason)
        self._remember(key, {reason: _lasting(each.happened) for reason, each in now.items()})
        self._metrics.set_troubles(
            key, kind=about.kind, namespace=about.namespace, name=about.name, reasons=now
        )

    def forget(self, kind: str, key: str) -> None:
        """The object is gone, and so is everything that was wrong with it."""
        key = f"{kind} {key}"
        self._told.pop(key, None)
        self._metrics.set_troubles(key, kind=kind, namespace="", name="", reasons=())

    def _tell(self, about: ObjectReference, trouble: Trouble) -> None:
        severity = trouble.reason.severity
        self._events.record(
            about,
            type="Normal" if severity is Severity.INFO else "Warning",
            reason=trouble.reason,
            message=shortened(trouble.message),
        )
        say = {Severity.INFO: log.info, Severity.WARNING: log.warning}.get(severity, log.error)
        reason = str(trouble.reason)
        say("trouble", object=trouble.about, reason=reason, detail=trouble.message)

    def _remember(self, key: str, told: dict[str, str]) -> None:
        if not told:
            return
        self._told[key] = told
        if len(self._told) > TOLD_MAX:
            self._told.pop(next(iter(self._told)))
