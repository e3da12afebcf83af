"""Which outcomes of an attempt are worth another, and how long to wait before it.

A file of its own because these few rules decide how we behave when GitHub is unwell:
what is repeated (and what must not be, because it may have taken effect), what counts as
a rate limit, whose wish about waiting is obeyed. Carried out in `attempts.py`.

Pure. Contract: github-service-and-listener 3.1; replaces weaknesses W7, W8, W20.
"""

from dataclasses import dataclass

from runnerscale.core.backoff import Backoff
from runnerscale.core.randomness import Random
from runnerscale.scaleset.limits import PAUSE_MAX_S, SPREAD_S
from runnerscale.scaleset.transport import Response, TransportFault, http_date_s

RETRIES_MAX = 4
ASKED_MAX_S = 3600.0  # GitHub's windows last an hour; whoever asks for years means something else
ATTEMPT_S = 30.0
POLL_ATTEMPT_S = 65.0  # the service holds a poll for about 50
BACKOFF = Backoff(first_s=1.0, cap_s=30.0)
SECONDARY_LIMIT_S = 60.0  # GitHub's advice where a secondary rate limit names no time


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently one call is tried.

    `spread_s`: how far apart those come who waited for the same pause to end.
    """

    retries_max: int = RETRIES_MAX
    backoff: Backoff = BACKOFF
    attempt_s: float = ATTEMPT_S
    spread_s: float = SPREAD_S


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to make of one attempt.

    `settled`: this answer is the call's answer. Otherwise `again` says whether another
    attempt may do better within reason, `sent` whether this one may have taken effect,
    `wait_s` how long to wait before the next, and `hush_s` how long everybody with the same
    credential must be quiet (None: they need not).
    """

    settled: bool = False
    again: bool = False
    sent: bool = True
    wait_s: float = 0.0
    hush_s: float | None = None


SETTLED = Outcome(settled=True)


def judge_response(
    response: Response, *, attempt: int, policy: RetryPolicy, now_s: float, random: Random
) -> Outcome:
    """The outcome of an attempt that was answered; `attempt` counts from 0."""
    limited = is_rate_limited(response)
    if not (limited or response.body_fault or is_passing(response.status)):
        return SETTLED
    asked_s = asked_wait_s(response, now_s=now_s)
    wait_s = policy.backoff.delay_s(attempt, random) if asked_s is None else asked_s
    return Outcome(
        again=asked_s is None or asked_s <= PAUSE_MAX_S,
        sent=not limited,
        wait_s=wait_s,
        hush_s=wait_s if limited or asked_s is not None else None,
    )


def judge_fault(
    fault: TransportFault, *, attempt: int, policy: RetryPolicy, random: Random
) -> Outcome:
    """The outcome of an attempt that was not answered."""
    return Outcome(
        again=fault.worth_repeating,
        sent=fault.sent,
        wait_s=policy.backoff.delay_s(attempt, random),
    )


def is_passing(status: int) -> bool:
    """A failure of the service, not of the request: 429 and 5xx, but not 501."""
    return status == 429 or (500 <= status <= 599 and status != 501)


def is_rate_limited(response: Response) -> bool:
    """429; and 403 where headers or text say that it is about the rate."""
    if response.status != 403:
        return response.status == 429
    if response.header("retry-after") or response.header("x-ratelimit-remaining") == "0":
        return True
    return b"rate limit" in response.body[:4096].lower()


def asked_wait_s(response: Response, *, now_s: float) -> float | None:
    """How long GitHub asks to wait; None: it does not say, or in a way that makes no sense.

    `now_s` is our clock; a time of day is judged by the sender's, where it tells it.
    """
    asked_s = _asked_s(response, now_s=now_s)
    return None if asked_s is None else min(asked_s, ASKED_MAX_S)


def _asked_s(response: Response, *, now_s: float) -> float | None:
    if response.status not in (403, 429, 503):
        return None
    sender_now_s = response.date_s() or now_s
    asked_s = retry_after_s(response.header("retry-after"), now_s=sender_now_s)
    if asked_s is not None or response.status == 503:
        return asked_s
    reset = response.header("x-ratelimit-reset")
    if response.header("x-ratelimit-remaining") == "0" and reset.isdecimal():
        return max(0.0, float(reset) - sender_now_s)
    return SECONDARY_LIMIT_S if response.status == 403 else None


def retry_after_s(text: str, *, now_s: float) -> float | None:
    """`Retry-After`: whole seconds, or a date (a past one is 0). None for anything else."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    date_s = http_date_s(text) if text else None
    return None if date_s is None else max(0.0, date_s - now_s)
