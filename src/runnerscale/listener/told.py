"""What the listener tells of its troubles on its EphemeralRunnerSet, and when it writes that.

What keeps it from its work at once where waiting heals nothing, and where the controller can do
something about it; what may pass in a moment only if it did not. What is over before anybody
could look (a session that was lost, a message put aside) stays to be read for a while. Removed
once a poll has succeeded again; written seldom, because it matters less than any other write.

The writing itself is `teller.py`; the form, `api/listener_word.py`. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runnerscale.api.labels import LISTENER_TROUBLE
from runnerscale.api.listener_word import ListenerWord, decoded, encoded
from runnerscale.api.reasons import Reason
from runnerscale.core.backoff import Backoff
from runnerscale.listener.states import Situation, State

# These may be over in a moment, and then nobody need know.
MAY_PASS = frozenset({Reason.GITHUB_UNAVAILABLE})
PATIENCE_S = 5.0
# Over as soon as it happened, and still to be seen.
PASSED = frozenset({Reason.SESSION_LOST, Reason.MESSAGE_QUARANTINED, Reason.JOB_STARTED_NOT_STORED})
SHOWN_S = 60.0
# Tried again at most every two minutes, and told again with each try.
SHOWN_LONGER_S = {Reason.JOB_STARTED_NOT_STORED: 150.0}
WRITE_EVERY_S = 3.0
RETRY = Backoff(first_s=3.0, cap_s=60.0)


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happened, and is over."""

    message: str
    first_s: float  # wall time
    last_s: float


@dataclass(frozen=True, slots=True)
class Telling:
    """What is to be told, and what the set says already."""

    situation: Situation
    incidents: Mapping[Reason, Incident]
    stored: str = ""  # the annotation, as last seen; empty: there is none
    not_before_s: float = 0.0  # monotonic; no write before
    failures: int = 0  # in a row


@dataclass(frozen=True, slots=True)
class Step:
    """`value`: to be written now, None takes it away. Else look again after so long."""

    write: bool = False
    value: str | None = None
    again_s: float | None = None


def happened(told: Telling, reason: Reason, message: str, *, now_s: float) -> Telling:
    """Something that is to be seen for a while."""
    before = told.incidents.get(reason)
    is_new = before is None or _left_s(reason, before, now_s) <= 0
    first_s = now_s if is_new or before is None else before.first_s
    incidents = {**told.incidents, reason: Incident(message, first_s, now_s)}
    return replace(told, incidents=incidents)


def now_in(told: Telling, situation: Situation, *, now_s: float) -> Telling:
    """The listener's situation is another."""
    told = replace(told, situation=situation)
    if situation.state is State.WAITING and situation.reason in PASSED:
        return happened(told, situation.reason, situation.message, now_s=now_s)
    return told


def saw(told: Telling, stored: str | None) -> Telling:
    """The annotation as some answer of the API server showed it."""
    return replace(told, stored=stored or "")


def step(told: Telling, *, scale_set_id: int, now_s: float, monotonic_s: float) -> Step:
    """What to write, if anything, and when to look again."""
    word, soon_s = _word(told, scale_set_id, now_s)
    if word is None:
        works = told.situation.state is State.LISTENING and told.situation.failing is None
        if not told.stored or not works:
            return Step(again_s=soon_s)
        value = None
    elif _says(told.stored, word):
        return Step(again_s=soon_s)
    else:
        value = encoded(word)
    wait_s = told.not_before_s - monotonic_s
    if wait_s > 0:
        return Step(again_s=wait_s)
    return Step(write=True, value=value)


def quiet(told: Telling, *, monotonic_s: float) -> Step:
    """For a controller of ARC's: say nothing, and take away what was said to one of ours."""
    if not told.stored:
        return Step()
    wait_s = told.not_before_s - monotonic_s
    return Step(again_s=wait_s) if wait_s > 0 else Step(write=True, value=None)


def written(told: Telling, value: str | None, *, monotonic_s: float) -> Telling:
    """The set says so now."""
    not_before_s = monotonic_s + WRITE_EVERY_S
    return replace(told, stored=value or "", not_before_s=not_before_s, failures=0)


def failed(told: Telling, *, monotonic_s: float) -> Telling:
    """It could not be written; it is tried again, more and more rarely."""
    wait_s = RETRY.delay_s(told.failures)
    return replace(told, not_before_s=monotonic_s + wait_s, failures=told.failures + 1)


def patch_body(value: str | None) -> dict[str, Any]:
    """The merge patch."""
    return {"metadata": {"annotations": {LISTENER_TROUBLE: value}}}


def _word(
    told: Telling, scale_set_id: int, now_s: float
) -> tuple[ListenerWord | None, float | None]:
    """What is to be said now, and after how long that may change by itself."""
    now = told.situation
    soon: list[float] = []
    if now.state is State.WAITING and now.reason is not None and now.reason not in PASSED:
        left_s = now.since_s + PATIENCE_S - now_s if now.reason in MAY_PASS else 0.0
        if left_s <= 0:
            return ListenerWord(now.reason, now.message, now.since_s, scale_set_id), None
        soon.append(left_s)
    shown = {
        reason: left_s
        for reason, incident in told.incidents.items()
        if (left_s := _left_s(reason, incident, now_s)) > 0
    }
    again_s = min([*soon, *shown.values()], default=None)
    if not shown:
        return None, again_s
    reason = max(shown, key=lambda r: told.incidents[r].last_s)
    incident = told.incidents[reason]
    return ListenerWord(reason, incident.message, incident.first_s, scale_set_id), again_s


def _left_s(reason: Reason, incident: Incident, now_s: float) -> float:
    return incident.last_s + SHOWN_LONGER_S.get(reason, SHOWN_S) - now_s


def _says(stored: str, word: ListenerWord) -> bool:
    """Whether the set says it already; words that differ only in the message are the same."""
    said = decoded(stored)
    return said is not None and (said.reason, said.scale_set_id) == (
        word.reason,
        word.scale_set_id,
    )
