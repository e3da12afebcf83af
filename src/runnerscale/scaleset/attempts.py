"""One call's attempts: wait for a place, send, judge, wait, again; within one deadline.

Everything that GitHub hears from us goes through here, with or without a token, so that
limits, pauses and deadlines hold for all of it. The rules are `retry.py`, the places and
pauses `limits.py`; what a settled answer means to the caller is the caller's business.

Contract: github-service-and-listener 3.1; replaces weaknesses W3, W7, W8, W9, W17.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import Enum
from urllib.parse import urlsplit

import structlog

from runnerscale.core.clock import Clock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import Random
from runnerscale.scaleset.config_url import without_secrets
from runnerscale.scaleset.errors import ScaleSetError, Unavailable
from runnerscale.scaleset.failures import (
    Subject,
    answered_failure,
    hushed_failure,
    late_failure,
    unanswered_failure,
)
from runnerscale.scaleset.limits import FRESH_DEMAND, HostLimits, Pause
from runnerscale.scaleset.retry import Outcome, RetryPolicy, judge_fault, judge_response
from runnerscale.scaleset.transport import (
    CertificateRefused,
    ProxyRefused,
    Request,
    Response,
    Transport,
    TransportFault,
    send_following,
)

log = structlog.get_logger(__name__)


class Repeat(Enum):
    """What another attempt of the same request would do."""

    FREELY = "nothing that one attempt does not do"
    UNSENT = "harm, unless the attempts before it cannot have taken effect"


@dataclass(frozen=True, slots=True)
class Manner:
    """How a call is made. `queued` False: it takes no place at the host (the long poll).

    `quiet_max_s`: where GitHub asks for a longer pause, the caller is told at once instead of
    being kept waiting; None: it is waited for as far as the deadline allows. `told_of_silence`: the
    same after an attempt that heard nothing in all its time; whoever polls has been deaf for long
    enough by then to say so.
    """

    urgency: int = FRESH_DEMAND
    repeat: Repeat = Repeat.FREELY
    queued: bool = True
    attempt_s: float | None = None
    quiet_max_s: float | None = None
    told_of_silence: bool = False

    def is_too_long(self, hush_s: float) -> bool:
        """Whether the caller wants to know of a pause of that length."""
        return self.quiet_max_s is not None and hush_s > self.quiet_max_s


USUAL = Manner()
EARLY_S = 0.1  # alarms ring by rounded clocks
BARRED = (ProxyRefused, CertificateRefused)


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer of a call. `doubted`: an attempt before it may have taken effect."""

    response: Response
    attempts: int = 1
    doubted: bool = False


@dataclass(slots=True)
class _Course:
    """How far one call has come."""

    request: Request
    subject: Subject
    manner: Manner
    deadline: Deadline
    budget_s: float
    attempts: int = 0
    sent: bool = False
    last: Response | TransportFault | None = None


class Attempts:
    """Sends requests on behalf of one credential."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        random: Random,
        limits: HostLimits,
        credential: str,
        policy: RetryPolicy,
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        """`credential`: its fingerprint; rate limits are shared by it. `on_refused`: told when
        the way there was barred: a proxy or a certificate that may be out of date."""
        self._transport = transport
        self._clock = clock
        self._random = random
        self._limits = limits
        self._credential = credential
        self._policy = policy
        self._on_refused = on_refused

    def hushed_s(self, url: str) -> float:
        """For how long the rate limit there still asks us to be quiet; 0: not at all."""
        return self._limits.pause(_host(url), self._credential).left_s()

    async def send(
        self, request: Request, subject: Subject, *, manner: Manner, deadline: Deadline
    ) -> Settled:
        """The settled answer, whatever its status: any 2xx, 3xx or 4xx that no wait changes.

        Raises:
            Unavailable, RateLimited, BadAnswer: no settled answer in time, or none that may
                be asked for again (see `Manner.repeat`).
        """
        course = _Course(request, subject, manner, deadline, deadline.left_s())
        try:
            async with deadline.timeout():
                return await self._settle(course)
        except TimeoutError:
            raise self._failure(course) from None

    async def _settle(self, course: _Course) -> Settled:
        host = _host(course.request.url)
        pause = self._limits.pause(host, self._credential)
        while not course.deadline.passed:
            if course.manner.is_too_long(pause.left_s()) or not await pause.passed(
                course.deadline, self._random, spread_s=self._policy.spread_s
            ):
                raise self._failure(course, hushed_s=pause.left_s())
            async with self._place(host, course.manner):
                # Others may have been told to be quiet while we waited for the place.
                if pause.left_s() > 0.0:
                    continue
                doubted = course.sent
                outcome = await self._attempt(course)
            if outcome.settled and isinstance(course.last, Response):
                return Settled(course.last, course.attempts, doubted)
            await self._wait(course, outcome, pause)
        raise self._failure(course)

    async def _attempt(self, course: _Course) -> Outcome:
        number, policy, request = course.attempts, self._policy, course.request
        attempt_s = course.manner.attempt_s or policy.attempt_s
        course.attempts += 1
        log.debug(
            "request sent", method=request.method, url=without_secrets(request.url), attempt=number
        )
        sent_before, course.sent = course.sent, True  # should the deadline cut us off
        silent_s = self._clock.monotonic_s() + attempt_s
        try:
            course.last = response = await send_following(
                self._transport, request, timeout_s=course.deadline.limit_s(attempt_s)
            )
        except TransportFault as fault:
            course.last = fault
            if isinstance(fault, BARRED) and self._on_refused is not None:
                self._on_refused()
            outcome = judge_fault(fault, attempt=number, policy=policy, random=self._random)
            if course.manner.told_of_silence and self._clock.monotonic_s() >= silent_s - EARLY_S:
                outcome = replace(outcome, again=False)
        else:
            outcome = judge_response(
                response,
                attempt=number,
                policy=policy,
                now_s=self._clock.now_s(),
                random=self._random,
            )
        course.sent = sent_before or outcome.sent
        return outcome

    async def _wait(self, course: _Course, outcome: Outcome, pause: Pause) -> None:
        """Until the next attempt; raises the failure if there is to be none."""
        if outcome.hush_s is not None:
            pause.extend(outcome.hush_s)
        harm = course.sent and course.manner.repeat is Repeat.UNSENT
        spent = course.attempts > self._policy.retries_max
        spent = spent or course.manner.is_too_long(outcome.hush_s or 0.0)
        if not outcome.again or harm or spent or outcome.wait_s > course.deadline.left_s():
            raise self._failure(course)
        log.debug(  # what it comes to is told by whoever asked
            "request is tried again",
            method=course.request.method,
            url=without_secrets(course.request.url),
            attempt=course.attempts,
            because=_because(course.last),
            wait_s=round(outcome.wait_s, 3),
        )
        if outcome.hush_s is None:
            await self._clock.sleep(outcome.wait_s)

    def _place(self, host: str, manner: Manner) -> AbstractAsyncContextManager[None]:
        if not manner.queued:
            return nullcontext()
        return self._limits.gate(host).enter(manner.urgency)

    def _failure(self, course: _Course, *, hushed_s: float = 0.0) -> ScaleSetError:
        """The error that says most about why there is no settled answer."""
        request, subject = course.request, course.subject
        if isinstance(course.last, Response):
            error = answered_failure(
                request,
                course.last,
                subject,
                attempts=course.attempts,
                now_s=self._clock.now_s(),
            )
            if isinstance(error, Unavailable):
                error.sent = course.sent
            return error
        if isinstance(course.last, TransportFault):
            return unanswered_failure(
                request, course.last, subject, attempts=course.attempts, sent=course.sent
            )
        if hushed_s > 0.0:
            return hushed_failure(request, subject, left_s=hushed_s)
        return late_failure(
            request, subject, attempts=course.attempts, sent=course.sent, timeout_s=course.budget_s
        )


def _because(last: Response | TransportFault | None) -> str:
    if isinstance(last, Response):
        return last.body_fault or last.status_text
    return str(last)


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2].lower()
