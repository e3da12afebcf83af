"""What lasts is on the object: condition, Event, metric, log, whatever its reconciler could say.

Two things are looked for after every pass. Passes that fail again and again come to no end that
a reconciler could tell of: a rule that raises, a call that fails in a way nobody foresaw or has
no answer, a deadline, a conflict without end. And troubles that a reconciler tells of without a
condition, as on an object that is going: those become one. What passes by itself is nobody's
business; what lasts is told within a minute, and taken back when it is over, also after a restart.
"""

import asyncio
import traceback
from collections.abc import Container, Sequence
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


@dataclass(slots=True, eq=False)
class _Row:
    """What is wrong with one object, and since when (monotonic)."""

    failing_s: float | None = None  # without a pass in between that ended well
    why: Trouble | None = None  # what the last failure was
    told: bool = False  # that passes fail
    troubles: dict[str, tuple[float, Trouble]] = field(default_factory=dict)  # by reason
    said: str = ""  # the reason of the condition, and when it was written
    said_s: float = 0.0
    alarm: asyncio.TimerHandle | None = None


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

    def ended(self, key: str, end: PassEnd, took_s: float) -> None:
        """A pass on this key has ended so."""
        row = self._rows.get(key)
        if end.errors or (end.failed and not end.troubles):
            row = row or self._rows.setdefault(key, _Row())
            if row.failing_s is None:  # what hangs began before it failed
                row.failing_s = self._clock.monotonic_s() - took_s
            row.why = _why(end, about=f"{self._resource.kind} {key}")
            self._look(key, row)
            return
        if row is not None and row.told:
            self._reporter.forget(self._resource.kind, _line(key))
        if end.troubles and self._store.get(key) is not None:
            row = row or self._rows.setdefault(key, _Row())
            self._note(row, end.troubles)
            self._look(key, row)
            return
        if row is not None:
            del self._rows[key]
            if row.alarm is not None:
                row.alarm.cancel()
            self._writer.withdraw(self._resource, self._reference(key), RECONCILED)
        self._take_back(key, ())

    def _note(self, row: _Row, troubles: Sequence[Trouble]) -> None:
        """What takes the place of another trouble, or of passes that failed, lasts since then:
        the work has been blocked as long, and nobody is to wait for the new word anew.
        """
        before, row.troubles = row.troubles, {}
        there = {each.reason for each in troubles}
        ended = [since_s for reason, (since_s, _) in before.items() if reason not in there]
        ended += [] if row.failing_s is None else [row.failing_s]
        new_s = min(ended, default=self._clock.monotonic_s())
        row.failing_s, row.why, row.told = None, None, False
        for each in troubles:
            since_s = before.get(each.reason, (new_s, each))[0]
            row.troubles.setdefault(each.reason, (since_s, each))

    def _look(self, key: str, row: _Row) -> None:
        """Say what has lasted; ring again when the next of it will have."""
        now_s = self._clock.monotonic_s()
        if row.failing_s is not None and row.why is not None:
            left_s = row.failing_s + PATIENCE_S - now_s
            if left_s > EARLY_S:
                self._ring_in(key, row, left_s)
                return
            row.told = True
            self._reporter.report(self._reference(key), _line(key), (row.why,))
            self._say(key, row, row.why)
            return
        hidden = self._hidden(key, row)
        left = {each.reason: since_s + PATIENCE_S - now_s for since_s, each in hidden}
        waits = [left_s for left_s in left.values() if left_s > EARLY_S]
        if waits:
            self._ring_in(key, row, min(waits))
        lasting = worst(each for _, each in hidden if left[each.reason] <= EARLY_S)
        if lasting is not None:
            self._say(key, row, lasting)
        else:
            self._writer.withdraw(self._resource, self._reference(key), RECONCILED)
            self._take_back(key, left)

    def _hidden(self, key: str, row: _Row) -> list[tuple[float, Trouble]]:
        """The troubles that no condition of the object's own speaks of."""
        item = self._store.get(key)
        if item is None:
            return []
        known = item.status.conditions or ()
        shown = {each.reason for each in known if each.type != RECONCILED}
        if not known:  # an older CRD drops conditions: reason and message carry the essentials
            shown.add(item.status.reason)
        return [
            (since_s, each) for since_s, each in row.troubles.values() if each.reason not in shown
        ]

    def _ring_in(self, key: str, row: _Row, seconds: float) -> None:
        # Not with the next pass: that may hang as long as the last one did.
        if row.alarm is not None:
            row.alarm.cancel()
        row.alarm = asyncio.get_running_loop().call_later(seconds, self._ring, key, row)

    def _ring(self, key: str, row: _Row) -> None:
        row.alarm = None
        if self._rows.get(key) is row:
            self._look(key, row)

    def _take_back(self, key: str, soon: Container[str]) -> None:
        """All is told by others, or nothing is wrong. `soon`: reasons that are about to be said."""
        item = self._store.get(key)
        stored = None if item is None else find(item.status.conditions, RECONCILED)
        if stored is None or stored.status != "False" or stored.reason in soon:
            return
        verdict = Verdict(self._reference(key), RECONCILED, good=True, reason="Recovered")
        self._writer.say(self._resource, verdict)

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


def _why(end: PassEnd, *, about: str) -> Trouble:
    """What to tell of the errors of one pass: the one that nobody expected goes first."""
    errors = end.errors
    if not errors:
        said = one_line(end.unanswered, SAID_CHARS_MAX) or "something it needs is not answered"
        return trouble(Reason.RECONCILE_FAILED, about=about, happened=said)
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
