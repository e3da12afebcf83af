"""What the listener tells of its troubles, and when."""

from dataclasses import replace

import pytest

from runnerscale.api.labels import LISTENER_TROUBLE
from runnerscale.api.listener_word import ListenerWord, decoded, encoded
from runnerscale.api.reasons import Reason
from runnerscale.listener import told
from runnerscale.listener.states import Situation, State
from runnerscale.listener.told import Step, Telling

NOW_S = 1_800_000_000.0
LISTENING = Situation(State.LISTENING, since_s=NOW_S)
FRESH = Telling(Situation(), {})


def waiting(reason: Reason, message: str = "GitHub said no", since_s: float = NOW_S) -> Situation:
    return Situation(State.WAITING, reason, message, since_s, failures=1, failing=reason)


def step(telling: Telling, *, after_s: float = 0.0) -> Step:
    return told.step(telling, scale_set_id=7, now_s=NOW_S + after_s, monotonic_s=100 + after_s)


def in_state(situation: Situation, telling: Telling = FRESH, *, after_s: float = 0.0) -> Telling:
    return told.now_in(telling, situation, now_s=NOW_S + after_s)


def stored(telling: Telling, word: ListenerWord | None, *, after_s: float = -60.0) -> Telling:
    value = encoded(word) if word else None
    return told.written(telling, value, monotonic_s=100 + after_s)


def test_a_listener_that_is_well_writes_nothing() -> None:
    assert step(FRESH) == Step()
    assert step(in_state(LISTENING)) == Step()


@pytest.mark.parametrize(
    "reason",
    [
        Reason.SCALE_SET_GONE,
        Reason.CREDENTIALS_REFUSED,
        Reason.SESSION_HELD_ELSEWHERE,
        Reason.GITHUB_RATE_LIMITED,
    ],
)
def test_what_waiting_does_not_heal_soon_is_told_at_once(reason: Reason) -> None:
    now = step(in_state(waiting(reason)))
    assert now.write
    assert decoded(now.value) == ListenerWord(reason, "GitHub said no", NOW_S, 7)


def test_an_outage_is_told_only_when_it_lasts() -> None:
    out = in_state(waiting(Reason.GITHUB_UNAVAILABLE))
    assert step(out, after_s=1) == Step(again_s=4.0)
    assert step(out, after_s=5).write
    # It began when it began, however often it was tried since.
    again = in_state(waiting(Reason.GITHUB_UNAVAILABLE, "still no"), out, after_s=4)
    assert step(again, after_s=5).write


def test_what_is_told_already_is_not_told_again() -> None:
    out = in_state(waiting(Reason.CREDENTIALS_REFUSED, "401, activity id a-2"))
    said = stored(out, ListenerWord(Reason.CREDENTIALS_REFUSED, "401, activity id a-1", 0, 7))
    assert step(said) == Step()
    # Of another scale set it says nothing about this one.
    of_another = ListenerWord(Reason.CREDENTIALS_REFUSED, "401, activity id a-1", 0, 6)
    assert step(stored(out, of_another)).write


def test_it_is_taken_away_when_a_poll_has_succeeded_and_not_before() -> None:
    said = stored(FRESH, ListenerWord(Reason.GITHUB_UNAVAILABLE, "503", NOW_S, 7))
    assert step(in_state(Situation(), said)) == Step()
    opened = replace(LISTENING, failures=3, failing=Reason.GITHUB_UNAVAILABLE)
    assert step(in_state(opened, said)) == Step()  # a session alone proves nothing
    assert step(in_state(LISTENING, said)) == Step(write=True, value=None)
    assert told.patch_body(None) == {"metadata": {"annotations": {LISTENER_TROUBLE: None}}}


def test_what_an_earlier_listener_left_is_taken_away() -> None:
    found = told.saw(in_state(LISTENING), "whatever it was")
    assert step(found) == Step(write=True, value=None)
    assert step(told.saw(found, None)) == Step()


def test_a_stopping_listener_leaves_it_to_the_next() -> None:
    said = stored(FRESH, ListenerWord(Reason.SESSION_LOST, "", NOW_S, 7))
    assert step(in_state(Situation(State.STOPPING), said)) == Step()


def test_a_lost_session_stays_to_be_seen_though_a_new_one_is_there() -> None:
    lost = in_state(waiting(Reason.SESSION_LOST, "404"))
    found = in_state(LISTENING, lost, after_s=1)
    now = step(found, after_s=1)
    assert decoded(now.value) == ListenerWord(Reason.SESSION_LOST, "404", NOW_S, 7)
    said = told.written(found, now.value, monotonic_s=101)
    assert step(said, after_s=59) == Step(again_s=1.0)
    assert step(said, after_s=60) == Step(write=True, value=None)


def test_one_that_comes_again_is_seen_longer_and_said_once() -> None:
    first = told.happened(in_state(LISTENING), Reason.MESSAGE_QUARANTINED, "a", now_s=NOW_S)
    said = told.written(first, step(first).value, monotonic_s=100)
    again = told.happened(said, Reason.MESSAGE_QUARANTINED, "b", now_s=NOW_S + 50)
    assert step(again, after_s=61) == Step(again_s=49.0)
    # After it was over it is another one, with another beginning.
    later = told.happened(again, Reason.MESSAGE_QUARANTINED, "c", now_s=NOW_S + 500)
    value = step(replace(later, stored=""), after_s=500).value
    assert decoded(value) == ListenerWord(Reason.MESSAGE_QUARANTINED, "c", NOW_S + 500, 7)


def test_a_job_that_is_not_stored_is_told_from_one_try_to_the_next() -> None:
    # The tries are up to two minutes apart.
    waits = told.happened(in_state(LISTENING), Reason.JOB_STARTED_NOT_STORED, "", now_s=NOW_S)
    assert step(replace(waits, stored=""), after_s=140).write


def test_what_holds_now_goes_before_what_has_passed() -> None:
    mixed = told.happened(FRESH, Reason.MESSAGE_QUARANTINED, "", now_s=NOW_S)
    mixed = in_state(waiting(Reason.CREDENTIALS_REFUSED), mixed)
    word = decoded(step(mixed).value)
    assert word is not None and word.reason is Reason.CREDENTIALS_REFUSED


def test_of_what_has_passed_the_latest_is_told() -> None:
    both = told.happened(in_state(LISTENING), Reason.SESSION_LOST, "", now_s=NOW_S - 5)
    both = told.happened(both, Reason.MESSAGE_QUARANTINED, "", now_s=NOW_S)
    word = decoded(step(both).value)
    assert word is not None and word.reason is Reason.MESSAGE_QUARANTINED


def test_while_an_outage_may_pass_what_has_passed_is_told() -> None:
    both = told.happened(FRESH, Reason.SESSION_LOST, "", now_s=NOW_S)
    both = in_state(waiting(Reason.GITHUB_UNAVAILABLE), both)
    word = decoded(step(both).value)
    assert word is not None and word.reason is Reason.SESSION_LOST


def test_there_are_seconds_between_two_writes() -> None:
    said = stored(FRESH, ListenerWord(Reason.SCALE_SET_GONE, "", NOW_S, 7), after_s=0)
    assert step(in_state(LISTENING, said), after_s=1) == Step(again_s=2.0)
    assert step(in_state(LISTENING, said), after_s=3).write


def test_a_write_that_fails_is_tried_again_more_and_more_rarely() -> None:
    out = in_state(waiting(Reason.SCALE_SET_GONE))
    waits: list[float | None] = []
    for _ in range(7):
        out = told.failed(out, monotonic_s=100)
        waits.append(step(out).again_s)
    assert waits == [3, 6, 12, 24, 48, 60, 60]
    assert step(out, after_s=60).write
