"""What each error of GitHub means, and how long is waited."""

import pytest

from runnerscale.api.reasons import Reason
from runnerscale.core.randomness import seeded
from runnerscale.listener.states import (
    Situation,
    State,
    after_failure,
    after_opening,
    after_poll,
    is_route_missing,
    stopping,
    verdict,
)
from runnerscale.scaleset import errors
from runnerscale.scaleset.errors import Answer

NOW = 1000.0
CASES = [
    (errors.SessionConflict, Reason.SESSION_HELD_ELSEWHERE, True, 5.0),
    (errors.SessionLost, Reason.SESSION_LOST, True, 1.0),
    (errors.QueueTokenExpired, Reason.SESSION_LOST, True, 1.0),
    (errors.ScaleSetNotFound, Reason.SCALE_SET_GONE, True, 10.0),
    (errors.ScaleSetAmbiguous, Reason.SCALE_SET_AMBIGUOUS, True, 10.0),
    (errors.CredentialsRefused, Reason.CREDENTIALS_REFUSED, False, 10.0),
    (errors.InvalidCredentials, Reason.CREDENTIALS_INVALID, False, 10.0),
    (errors.InvalidConfigUrl, Reason.CONFIG_URL_INVALID, True, 10.0),
    (errors.InvalidCertificate, Reason.CERTIFICATE_INVALID, True, 10.0),
    (errors.InvalidProxy, Reason.PROXY_INVALID, True, 10.0),
    (errors.ProxyDenied, Reason.PROXY_REFUSED, False, 1.0),
    (errors.RateLimited, Reason.GITHUB_RATE_LIMITED, False, 1.0),
    (errors.Refused, Reason.GITHUB_REFUSED, True, 10.0),
    (errors.Unavailable, Reason.GITHUB_UNAVAILABLE, False, 1.0),
    (errors.BadAnswer, Reason.GITHUB_UNAVAILABLE, False, 1.0),
]


@pytest.mark.behaviour("C2 T127")
@pytest.mark.parametrize(("error", "reason", "needs_session", "wait_s"), CASES)
def test_every_error_has_a_reason_a_pause_and_an_opinion_of_the_session(
    error: type[errors.ScaleSetError], reason: Reason, needs_session: bool, wait_s: float
) -> None:
    failure = error("said so")
    assert (verdict(failure).reason, verdict(failure).needs_session) == (reason, needs_session)
    situation = after_failure(Situation(), failure, now_s=NOW)
    assert situation == Situation(State.WAITING, reason, "said so", NOW, wait_s, 1, reason)


def test_pauses_grow_for_the_same_reason_and_are_capped() -> None:
    situation, waits = Situation(), []
    for _ in range(7):
        situation = after_failure(situation, errors.Unavailable("down"), now_s=NOW)
        waits.append(situation.wait_s)
    assert waits == [1, 2, 4, 8, 16, 30, 30]  # blind for less than a minute after it is back


def test_the_pause_for_somebody_to_act_grows_to_five_minutes() -> None:
    situation = Situation()
    for _ in range(8):
        situation = after_failure(situation, errors.ScaleSetNotFound("gone"), now_s=NOW)
    assert situation.wait_s == 300


def test_a_session_held_elsewhere_is_asked_for_soon_then_every_half_minute() -> None:
    situation, waits = Situation(), []
    for _ in range(20):
        situation = after_failure(situation, errors.SessionConflict("held"), now_s=NOW)
        waits.append(situation.wait_s)
    # A pause may be all wasted: never more than about a quarter of what was waited already.
    assert all(waits[n] <= 5 + sum(waits[:n]) / 4 + 0.001 for n in range(20))
    assert waits[10:] == [30] * 10  # contract 5.2: without limit


def test_listeners_that_wait_for_a_session_do_not_ask_in_step() -> None:
    held = Situation(failing=Reason.SESSION_HELD_ELSEWHERE, failures=9)
    waits = {
        after_failure(held, errors.SessionConflict("held"), now_s=NOW, random=seeded(n)).wait_s
        for n in range(20)
    }
    assert all(21 <= wait <= 30 for wait in waits)
    assert len(waits) > 10


def test_another_reason_begins_anew_and_the_same_keeps_since() -> None:
    first = after_failure(Situation(), errors.Unavailable("down"), now_s=NOW)
    same = after_failure(first, errors.Unavailable("still"), now_s=NOW + 5)
    other = after_failure(same, errors.SessionLost("lost"), now_s=NOW + 9)
    assert (same.since_s, same.failures) == (NOW, 2)
    assert (other.since_s, other.failures) == (NOW + 9, 1)


def test_a_session_that_opens_does_not_end_a_row_of_failures_but_a_poll_does() -> None:
    # Else a session that is lost on every poll would be opened in a tight loop.
    lost = after_failure(Situation(), errors.SessionLost("lost"), now_s=NOW)
    opened = after_opening(lost, now_s=NOW)
    assert opened.state is State.LISTENING and opened.reason is None
    assert after_failure(opened, errors.SessionLost("lost"), now_s=NOW).wait_s == 2
    polled = after_poll(opened, now_s=NOW + 1)
    assert after_failure(polled, errors.SessionLost("lost"), now_s=NOW).wait_s == 1


def test_a_poll_keeps_since_when_the_listener_listened_already() -> None:
    listening = after_opening(Situation(), now_s=NOW)
    assert after_poll(listening, now_s=NOW + 50).since_s == NOW
    waiting = after_failure(listening, errors.Unavailable("down"), now_s=NOW + 60)
    assert after_poll(waiting, now_s=NOW + 70).since_s == NOW + 70


def test_a_rate_limit_waits_as_long_as_asked_within_reason() -> None:
    def wait_s(asked_s: float | None) -> float:
        error = errors.RateLimited("slow down", Answer(status=429, retry_after_s=asked_s))
        return after_failure(Situation(), error, now_s=NOW).wait_s

    assert wait_s(120.0) == 120.0
    assert wait_s(100_000.0) == 900.0
    assert wait_s(None) == 1.0


def test_the_text_tells_state_reason_and_remedy() -> None:
    situation = after_failure(Situation(), errors.SessionConflict("held by x"), now_s=NOW)
    text = str(situation)
    assert text.startswith("waiting: SessionHeldElsewhere: held by x. ")
    assert Reason.SESSION_HELD_ELSEWHERE.what_you_can_do in text
    assert str(stopping(now_s=NOW)) == "stopping"


def test_a_bare_404_is_a_missing_route_and_a_404_with_an_exception_is_not() -> None:
    # Annex A: acquirejobs answers a router-level 404 where jobs are pushed.
    assert is_route_missing(errors.Refused("404", Answer(status=404)))
    told = Answer(status=404, exception_name="RunnerScaleSetNotFoundException")
    assert not is_route_missing(errors.ScaleSetNotFound("404", told))
