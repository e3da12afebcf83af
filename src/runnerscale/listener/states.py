"""What state the listener is in, why, and how long it waits before it tries again.

Nothing that waiting can heal ends the process: every error of GitHub has a state here, with
a growing and capped pause and a reason that a person can look up. The state is what the gauge
`runnerscale_listener_state`, the log and `/readyz` say. Who acts on it is `loop.py`.

Pure: errors are values here. Contract: github-service-and-listener 5.2, W2, W10, W11.
"""

from dataclasses import dataclass
from enum import StrEnum

from runnerscale.api.reasons import Reason
from runnerscale.core.backoff import Backoff
from runnerscale.core.randomness import Random
from runnerscale.scaleset import errors


class State(StrEnum):
    """What the listener does."""

    STARTING = "starting"  # no session was held yet
    LISTENING = "listening"  # a session is held and the last poll succeeded
    WAITING = "waiting"  # something is wrong; the reason says what
    STOPPING = "stopping"


# How often a predecessor's session is asked for: nobody can take it over, it ends by itself some
# time after its holder died. Often in the first two minutes, because the holder may just be
# closing it, and each pause is time that jobs wait; never less often than the contract's 30 s.
HELD = Backoff(first_s=5.0, cap_s=30.0, factor=1.25, jitter=0.3)
# What may pass any moment: blind for less than a minute after it did.
PASSING = Backoff(first_s=1.0, cap_s=30.0)
# What needs a person or the controller: seldom, but well within the minutes they look.
NEEDS_SOMEBODY = Backoff(first_s=10.0, cap_s=300.0)
RATE_LIMIT_WAIT_MAX_S = 900.0


@dataclass(frozen=True, slots=True)
class Situation:
    """One moment of the listener's life."""

    state: State = State.STARTING
    reason: Reason | None = None  # why it waits
    message: str = ""
    since_s: float = 0.0  # wall time
    wait_s: float = 0.0  # before the next try
    # The same failure so often in a row. A session that opens does not end the row, only a
    # poll that succeeds does: else a session lost on every poll would be opened without pause.
    failures: int = 0
    failing: Reason | None = None

    def __str__(self) -> str:
        if self.reason is None:
            return str(self.state)
        return f"{self.state}: {self.reason}: {self.message}. {self.reason.what_you_can_do}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an error means here. `needs_session`: the session is of no use any more."""

    reason: Reason
    backoff: Backoff
    needs_session: bool


def verdict(error: errors.ScaleSetError) -> Verdict:
    """Judge an error of GitHub, the most special first."""
    match error:
        case errors.SessionConflict():
            return Verdict(Reason.SESSION_HELD_ELSEWHERE, HELD, needs_session=True)
        case errors.SessionLost() | errors.QueueTokenExpired():
            return Verdict(Reason.SESSION_LOST, PASSING, needs_session=True)
        case errors.ScaleSetNotFound():
            return Verdict(Reason.SCALE_SET_GONE, NEEDS_SOMEBODY, needs_session=True)
        case errors.ScaleSetAmbiguous():
            return Verdict(Reason.SCALE_SET_AMBIGUOUS, NEEDS_SOMEBODY, needs_session=True)
        case errors.CredentialsRefused():
            return Verdict(Reason.CREDENTIALS_REFUSED, NEEDS_SOMEBODY, needs_session=False)
        case errors.InvalidCredentials():
            return Verdict(Reason.CREDENTIALS_INVALID, NEEDS_SOMEBODY, needs_session=False)
        case errors.InvalidConfigUrl():
            return Verdict(Reason.CONFIG_URL_INVALID, NEEDS_SOMEBODY, needs_session=True)
        case errors.InvalidCertificate():
            return Verdict(Reason.CERTIFICATE_INVALID, NEEDS_SOMEBODY, needs_session=True)
        case errors.InvalidProxy():
            return Verdict(Reason.PROXY_INVALID, NEEDS_SOMEBODY, needs_session=True)
        case errors.ProxyDenied():
            return Verdict(Reason.PROXY_REFUSED, PASSING, needs_session=False)
        case errors.RateLimited():
            return Verdict(Reason.GITHUB_RATE_LIMITED, PASSING, needs_session=False)
        case errors.Refused():
            return Verdict(Reason.GITHUB_REFUSED, NEEDS_SOMEBODY, needs_session=True)
    return Verdict(Reason.GITHUB_UNAVAILABLE, PASSING, needs_session=False)


def after_failure(
    before: Situation, error: errors.ScaleSetError, *, now_s: float, random: Random | None = None
) -> Situation:
    """The situation after an error; without `random` the waits are the undisturbed ones."""
    judged = verdict(error)
    failures = before.failures + 1 if before.failing is judged.reason else 1
    wait_s = judged.backoff.delay_s(failures - 1, random)
    asked_s = error.answer.retry_after_s
    if judged.reason is Reason.GITHUB_RATE_LIMITED and asked_s is not None:
        wait_s = max(wait_s, min(asked_s, RATE_LIMIT_WAIT_MAX_S))
    shown_already = before.state is State.WAITING and before.reason is judged.reason
    return Situation(
        state=State.WAITING,
        reason=judged.reason,
        message=str(error),
        since_s=before.since_s if shown_already else now_s,
        wait_s=wait_s,
        failures=failures,
        failing=judged.reason,
    )


def after_opening(before: Situation, *, now_s: float) -> Situation:
    """The situation once a session is held."""
    return Situation(
        state=State.LISTENING, since_s=now_s, failures=before.failures, failing=before.failing
    )


def after_poll(before: Situation, *, now_s: float) -> Situation:
    """The situation after a poll that worked, with a message or without."""
    since_s = before.since_s if before.state is State.LISTENING else now_s
    return Situation(state=State.LISTENING, since_s=since_s)


def stopping(*, now_s: float) -> Situation:
    """The situation after a stop was asked for."""
    return Situation(state=State.STOPPING, since_s=now_s)


def is_route_missing(error: errors.ScaleSetError) -> bool:
    """A router's 404 without an exception: the server has no such operation (C2 Annex A)."""
    return error.answer.status == 404 and not error.answer.exception_name
