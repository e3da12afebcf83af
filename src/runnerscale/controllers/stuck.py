"""What lasts is on the object: condition, Event, metric, log, whatever its reconciler could say.

Two things are looked for after every pass. Passes that fail again and again come to no end that
a reconciler could tell of: a rule that raises, a call that fails in a way nobody foresaw, a
deadline, a conflict without end. And troubles that a reconciler tells of without a condition,
as on an object that is going: those become one. What passes by itself is nobody's business; what
lasts is told within a minute, and taken back when it is over, also after a restart.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from runnerscale.api.conditions import RECONCILED
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.controllers.condition_writer import ConditionWriter, Verdict
from runnerscale.controllers.conditions import find
from runnerscale.controllers.reporting import Reporter
from runnerscale.controllers.stages import worst
from runnerscale.controllers.troubles import kube_trouble
from runnerscale.core.clock import Clock
from runnerscale.core.plain_text import one_line
from runnerscale.kube.errors import ApiError, Conflict, KubeError
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import ObjectReference, split_key
from runnerscale.kube.reconcile import PassEnd

PATIENCE_S = 45.0  # visible within a minute; a restart of the API server is shorter
SAY_AGAIN_S = 600.0
SAID_CHARS_MAX = 300
EARLY_S = 0.001  # alarms ring by rounded clocks


@dataclass(slots=True)
class _Row:
    """What is wrong with one object, and since when (monotonic)."""

    failing_s: float | None = None  # without a pass in between that ended well
    told: bool = False  # that passes fail
    troubles: dict[str, float] = field(default_factory=dict)  # by reason
    said: str = ""  # the reason of the condition, and when it was written
    said_s: float = 0.0


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
            self._passed(key, end.troubles)

    def _failed(self, key: str, errors: tuple[Exception, ...]) -> None:
        now_s = self._clock.monotonic_s()
        row = self._rows.setdefault(key, _Row())
        if row.failing_s is None:
            row.failing_s = now_s
        left_s = row.failing_s + PATIENCE_S - now_s
        if left_s > EARLY_S:
            self._again(key, left_s)
            return
        row.told = True
        why = _why(errors, about=f"{self._resource.kind} {key}")
        self._reporter.report(self._reference(key), _line(key), (why,))
        self._say(key, row, why)

    def _passed(self, key: str, troubles: Sequence[Trouble]) -> None:
        row = self._rows.get(key)
        if row is not None and row.told:
            self._reporter.forget(self._resource.kind, _line(key))
        item = self._store.get(key)
        if item is None or not troubles:
            self._rows.pop(key, None)
            row = None
        if item is None:
            return
        lasting = None
        if troubles:
            row = self._rows.setdefault(key, _Row())
            row.failing_s, row.told = None, False
            lasting = self._lasting(key, row, item, troubles)
        if row is not None and lasting is not None:
            self._say(key, row, lasting)
            return
        stored = find(item.status.conditions, RECONCILED)
        if stored is None or stored.status != "False":
            return
        if row is None or stored.reason not in row.troubles:  # else: said by an earlier process
            verdict = Verdict(self._reference(key), RECONCILED, good=True, reason="Recovered")
            self._writer.say(self._resource, verdict)

    def _lasting(
        self, key: str, row: _Row, item: Any, troubles: Sequence[Trouble]
    ) -> Trouble | None:
        """The worst trouble that lasts and that no condition of the object's own speaks of."""
        now_s = self._clock.monotonic_s()
        known = item.status.conditions or ()
        shown = {each.reason for each in known if each.type != RECONCILED}
        if not known:  # an older CRD drops conditions: reason and message carry the essentials
            shown.add(item.status.reason)
        hidden = [each for each in troubles if each.reason not in shown]
        row.troubles = {each.reason: row.troubles.get(each.reason, now_s) for each in hidden}
        left_s = [row.troubles[each.reason] + PATIENCE_S - now_s for each in hidden]
        waits = [seconds for seconds in left_s if seconds > EARLY_S]
        if waits:
            self._again(key, min(waits))
        pairs = zip(hidden, left_s, strict=True)
        return worst(each for each, seconds in pairs if seconds <= EARLY_S)

    def _say(self, key: str, row: _Row, why: Trouble) -> None:
        """Have the condition written, unless it is there; where it is pruned, seldom again."""
        item = self._store.get(key)
        if item is None:
            return
        now_s = self._clock.monotonic_s()
        stored = find(item.status.conditions, RECONCILED)
        there = stored is not None and (stored.status, stored.reason) == ("False", why.reason)
        lately = row.said == why.reason and now_s - row.said_s < SAY_AGAIN_S
        if there or lately:
            return
        row.said, row.said_s = why.reason, now_s
        about = self._reference(key)
        verdict = Verdict(about, RECONCILED, good=False, reason=why.reason, message=why.message)
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
