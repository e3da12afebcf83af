"""Passes that fail again and again over one object are told on it: condition, Event, metric, log.

A reconciler tells what it finds wrong. What it cannot tell is that it comes to no end: a rule
that raises, a call that fails in a way nobody foresaw, a deadline, a conflict without end. The
first failures are nobody's business, because they mostly pass; what lasts is told within a
minute, and taken back with the first pass that ends well, also after a restart.
"""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from runnerscale.api.conditions import RECONCILED
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.condition_writer import ConditionWriter, Verdict
from runnerscale.controllers.conditions import find
from runnerscale.controllers.reporting import Reporter
from runnerscale.controllers.troubles import kube_trouble
from runnerscale.core.clock import Clock
from runnerscale.core.plain_text import one_line
from runnerscale.kube.errors import ApiError, Conflict, KubeError
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import ObjectReference, split_key
from runnerscale.kube.reconcile import PassEnd

PATIENCE_S = 45.0  # visible within a minute; a restart of the API server is shorter
SAID_CHARS_MAX = 300


@dataclass(slots=True)
class _Row:
    """Failures without a pass in between that ended well."""

    since_s: float  # monotonic
    told: bool = False


class StuckPasses:
    """Hears of every end of a pass of one controller."""

    def __init__(
        self,
        informer: Informer[Any],
        *,
        reporter: Reporter,
        writer: ConditionWriter,
        clock: Clock,
    ) -> None:
        """`informer`: of the kind that the controller's keys are of."""
        self._store = informer.store
        self._resource = informer.resource
        self._reporter = reporter
        self._writer = writer
        self._clock = clock
        self._rows: dict[str, _Row] = {}
        self._again: Callable[[str, float], None] = _nobody

    def connect(self, enqueue_after: Callable[[str, float], None]) -> None:
        """`enqueue_after`: the controller's, for a look when patience ends."""
        self._again = enqueue_after

    def ended(self, key: str, end: PassEnd) -> None:
        """A pass on this key has ended so."""
        if end.errors:
            self._failed(key, end.errors)
        else:
            self._passed(key)

    def _failed(self, key: str, errors: tuple[Exception, ...]) -> None:
        now_s = self._clock.monotonic_s()
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row(now_s)
        lasted_s = now_s - row.since_s
        if lasted_s < PATIENCE_S:
            self._again(key, PATIENCE_S - lasted_s)
            return
        row.told = True
        about = self._reference(key)
        why = _why(errors, about=f"{self._resource.kind} {key}")
        self._reporter.report(about, _line(key), (why,))
        verdict = Verdict(about, RECONCILED, good=False, reason=why.reason, message=why.message)
        if self._store.get(key) is not None:
            self._writer.say(self._resource, verdict)

    def _passed(self, key: str) -> None:
        row = self._rows.pop(key, None)
        if row is not None and row.told:
            self._reporter.forget(self._resource.kind, _line(key))
        item = self._store.get(key)
        stored = None if item is None else find(item.status.conditions, RECONCILED)
        if stored is not None and stored.status == "False":
            verdict = Verdict(self._reference(key), RECONCILED, good=True, reason="Recovered")
            self._writer.say(self._resource, verdict)

    def _reference(self, key: str) -> ObjectReference:
        namespace, name = split_key(key)
        item = self._store.get(key)
        uid = "" if item is None else item.metadata.uid or ""
        kind = self._resource
        return ObjectReference(kind.api_version, kind.kind, namespace, name, uid)


def _why(errors: tuple[Exception, ...], *, about: str) -> Trouble:
    """What to tell of the errors of one pass: the one that nobody expected goes first."""
    unexpected = next((e for e in errors if not isinstance(e, KubeError)), None)
    if unexpected is not None:
        return trouble(Reason.RECONCILE_FAILED, about=about, happened=_place(unexpected))
    error = next((e for e in errors if not isinstance(e, Conflict)), None)
    if error is None:
        happened = "somebody else changes it so often that each change of ours meets a conflict"
        return trouble(Reason.CONTROLLERS_COMPETE, about=about, happened=happened)
    if isinstance(error, ApiError):
        return kube_trouble(error, about=about, doing="do what is due")
    said = one_line(str(error), SAID_CHARS_MAX)
    return trouble(Reason.RECONCILE_FAILED, about=about, happened=said)


def _place(error: Exception) -> str:
    """What was raised and where; not its text, which may hold anything."""
    frames = traceback.extract_tb(error.__traceback__)
    kind = type(error).__name__
    if not frames:
        return f"an unexpected {kind}"
    last = frames[-1]
    file = "/".join(PurePath(last.filename).parts[-2:])
    return f"an unexpected {kind} in {last.name} ({file}:{last.lineno})"


def _line(key: str) -> str:
    # Not the key itself: a pass that reports and then fails would clear this, and the other way.
    return f"{key} (passes)"


def _nobody(_key: str, _seconds: float) -> None:
    """Before `connect`."""
