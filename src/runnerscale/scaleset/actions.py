"""The Actions service of one place: a call with an admin token that works, or a typed error.

What client and session have in common: where the tenant is, whose token goes along, what
a 401 leads to (one renewal, one repeat: weakness W19), how an answer becomes a value or an
error. Attempts and their waits are `attempts.py`, tokens `tokens.py`.

Contract: github-service-and-listener 2.1, 2.5.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from runnerscale.core.clock import Clock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import Random
from runnerscale.core.secret import SecretText
from runnerscale.scaleset import requests
from runnerscale.scaleset.answers import SeveralFound
from runnerscale.scaleset.attempts import USUAL, Attempts, Manner, Settled
from runnerscale.scaleset.config_url import ConfigUrl
from runnerscale.scaleset.credentials import Credentials
from runnerscale.scaleset.decode import DecodeError
from runnerscale.scaleset.errors import ScaleSetError
from runnerscale.scaleset.failures import (
    Subject,
    answered_failure,
    bad_answer,
    hushed_failure,
    late_failure,
    unusable_answer,
)
from runnerscale.scaleset.limits import HostLimits
from runnerscale.scaleset.retry import RetryPolicy
from runnerscale.scaleset.tokens import Connection, Tokens
from runnerscale.scaleset.transport import Request, Transport
from runnerscale.scaleset.user_agent import SystemInfo, user_agent

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call:
    """One exchange with the Actions service.

    `accepted`: the status that is success, `nothing` another one that says there is nothing.
    `scale_set_id`: what the call is about, for the User-Agent. `token`: sent instead of the admin
    token (the queue's, for acquiring).
    """

    method: str
    path: str
    subject: Subject
    accepted: int = 200
    nothing: int = 0
    query: Mapping[str, str] | None = None
    body: Any = None
    scale_set_id: int = 0
    manner: Manner = USUAL
    token: SecretText | None = None


class ActionsService:
    """Calls on behalf of one credential at one place."""

    def __init__(
        self,
        config_url: ConfigUrl,
        credentials: Credentials,
        transport: Transport,
        *,
        clock: Clock,
        random: Random,
        limits: HostLimits,
        policy: RetryPolicy,
        system_info: SystemInfo,
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        """Nothing is sent before the first call."""
        self.config_url = config_url
        self.clock = clock
        self.random = random
        self.policy = policy
        self.system_info = system_info
        self._transport = transport
        self._limits = limits
        self._on_refused = on_refused
        self._former: list[Tokens] = []
        self._credentials = credentials
        self._attempts, self._tokens = self._with(credentials)

    def use_credentials(self, credentials: Credentials) -> None:
        """Go with others from the next request on; calls under way end with what they have."""
        if credentials == self._credentials:
            return
        self._former = [tokens for tokens in (*self._former, self._tokens) if tokens.busy]
        self._credentials = credentials
        self._attempts, self._tokens = self._with(credentials)

    def _with(self, credentials: Credentials) -> tuple[Attempts, Tokens]:
        attempts = Attempts(
            self._transport,
            clock=self.clock,
            random=self.random,
            limits=self._limits,
            credential=credentials.fingerprint,
            policy=self.policy,
            on_refused=self._on_refused,
        )
        tokens = Tokens(
            self.config_url,
            credentials,
            attempts,
            clock=self.clock,
            agent=lambda: user_agent(self.system_info),
            on_refused=self._on_refused,
        )
        return attempts, tokens

    def agent(self, scale_set_id: int) -> str:
        """The User-Agent of a call about a scale set (0: about none)."""
        return user_agent(self.system_info.about(scale_set_id))

    async def call(self, call: Call, decode: Callable[[bytes], R], deadline: Deadline) -> R:
        """The decoded answer.

        Raises:
            ScaleSetError: of the class that the answer deserves.
        """
        connection = self._tokens.current() or await self._connection(call, deadline, None)
        request, settled = await self._exchange(call, connection, deadline)
        if settled.response.status == 401 and call.token is None:
            renewed = await self._connection(call, deadline, connection)
            if renewed is not connection:
                request, settled = await self._exchange(call, renewed, deadline)
        if settled.response.status not in (call.accepted, call.nothing):
            raise self.refusal(request, settled, call.subject)
        return self.decoded(request, settled, call.subject, decode)

    async def send(
        self, request: Request, subject: Subject, *, manner: Manner, deadline: Deadline
    ) -> Settled:
        """A request that is not the Actions service's own (the queue's): see `Attempts.send`."""
        return await self._attempts.send(request, subject, manner=manner, deadline=deadline)

    def refusal(self, request: Request, settled: Settled, subject: Subject) -> ScaleSetError:
        """The error for a settled answer that is not the accepted one."""
        return answered_failure(
            request,
            settled.response,
            subject,
            attempts=settled.attempts,
            now_s=self.clock.now_s(),
            doubted=settled.doubted,
        )

    @staticmethod
    def decoded(
        request: Request, settled: Settled, subject: Subject, decode: Callable[[bytes], R]
    ) -> R:
        """The value in an accepted answer; raises BadAnswer, or Refused if several were found."""
        response = settled.response
        try:
            return decode(response.body)
        except SeveralFound as error:
            raise unusable_answer(
                request, response, subject.what, str(error), subject.several
            ) from error
        except DecodeError as error:
            raise bad_answer(request, response, subject.what, str(error)) from error

    async def close(self) -> None:
        """Stop what runs in the background."""
        for tokens in (*self._former, self._tokens):
            await tokens.close()

    async def _exchange(
        self, call: Call, connection: Connection, deadline: Deadline
    ) -> tuple[Request, Settled]:
        request = requests.actions_request(
            call.method,
            connection.tenant_url,
            call.path,
            token=call.token or connection.token,
            agent=self.agent(call.scale_set_id),
            query=call.query,
            body=call.body,
        )
        settled = await self.send(request, call.subject, manner=call.manner, deadline=deadline)
        return request, settled

    async def _connection(
        self, call: Call, deadline: Deadline, refused: Connection | None
    ) -> Connection:
        hushed_s = self._attempts.hushed_s(self._registration_request().url)
        if call.manner.is_too_long(hushed_s):  # the tokens would wait for the end of it
            raise hushed_failure(self._registration_request(), call.subject, left_s=hushed_s)
        async with self._in_time(call, deadline):
            if refused is None:
                return await self._tokens.connection()
            return await self._tokens.renewed(refused)

    def _registration_request(self) -> Request:
        return Request("POST", self.config_url.api_url("/actions/runner-registration"))

    @asynccontextmanager
    async def _in_time(self, call: Call, deadline: Deadline) -> AsyncIterator[None]:
        """The tokens' own time is longer than a call may have."""
        left_s = deadline.left_s()
        try:
            async with asyncio.timeout(left_s):
                yield
        except TimeoutError as error:
            request = self._registration_request()
            hushed_s = self._attempts.hushed_s(request.url)
            if hushed_s > 0.0:  # the tokens wait for the end of a rate limit
                raise hushed_failure(request, call.subject, left_s=hushed_s) from error
            raise late_failure(
                request, call.subject, attempts=0, sent=False, timeout_s=left_s
            ) from error
