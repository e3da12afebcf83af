"""From our credentials to an admin token of the Actions service, kept fresh.

    PAT, or App key -> installation token  -> registration token -> tenant URL + admin token

Each step's result is used again until shortly before it ends. One refresh at a time, and
everybody who needs it waits for that one; nothing is replaced before all of the new is
known; a refusal is confirmed once with everything made afresh (GitHub is eventually
consistent, and what we remembered may have been revoked), then remembered for a moment,
so that a thousand calls do not repeat it (weaknesses W16, W18, W20-W22).

Contract: github-service-and-listener 2.2-2.5, 3.2.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from runnerscale.core.clock import Clock
from runnerscale.core.deadline import Deadline
from runnerscale.core.secret import SecretText
from runnerscale.scaleset import requests
from runnerscale.scaleset.answers import decode_connection, decode_token, jwt_expiry_s
from runnerscale.scaleset.attempts import USUAL, Attempts
from runnerscale.scaleset.config_url import ConfigUrl
from runnerscale.scaleset.credentials import AppCredentials, Credentials
from runnerscale.scaleset.decode import DecodeError
from runnerscale.scaleset.errors import CredentialsRefused, Refused, Unavailable
from runnerscale.scaleset.failures import Subject, answered_failure, bad_answer
from runnerscale.scaleset.transport import Request, Response

log = structlog.get_logger(__name__)

REFRESH_S = 60.0  # for all steps together, their waits included
EARLY_S = 60.0  # a token is replaced this long before it ends
CONFIRM_AFTER_S = 1.0  # between a refusal and its confirmation
REFUSAL_KEPT_S = 10.0  # how long a confirmed refusal answers for GitHub
RENEWALS_APART_S = 10.0  # a service that refuses new tokens too must not make us fetch for ever
FIXED_LIFE_S = 300.0  # of a token that seems to have ended when it was issued
SKEW_IGNORED_S = 2.0  # `Date` has whole seconds, and travelled


@dataclass(frozen=True, slots=True, eq=False)
class Connection:
    """Where the Actions service of this place is, and what lets us in."""

    tenant_url: str
    token: SecretText
    due_s: float  # on the monotonic clock: replace it from then on


@dataclass(frozen=True, slots=True)
class _Kept:
    """A token to be used again until `due_s` on the monotonic clock."""

    token: SecretText
    due_s: float


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: Refused
    until_s: float


class Tokens:
    """The tokens of one credential at one place."""

    def __init__(
        self,
        config_url: ConfigUrl,
        credentials: Credentials,
        attempts: Attempts,
        *,
        clock: Clock,
        agent: Callable[[], str],
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        """Fetch nothing yet. `agent`: the User-Agent of the moment. `on_refused`: told when
        GitHub has refused the credentials."""
        self._config_url = config_url
        self._credentials = credentials
        self._attempts = attempts
        self._clock = clock
        self._agent = agent
        self._on_refused = on_refused
        self._connection: Connection | None = None
        self._installation: _Kept | None = None
        self._registration: _Kept | None = None
        self._refusal: _Refusal | None = None
        self._refreshing: asyncio.Task[Connection] | None = None
        self._renewed_s = float("-inf")
        self._skew_s = 0.0  # GitHub's clock minus ours

    def current(self) -> Connection | None:
        """The one we have, if it is good for at least another minute."""
        found = self._connection
        if found is not None and self._clock.monotonic_s() < found.due_s:
            return found
        return None

    async def connection(self) -> Connection:
        """One that is good for at least another minute.

        Raises:
            CredentialsRefused, Refused: GitHub does not let us in, for good.
            Unavailable, RateLimited, BadAnswer: it could not be found out.
        """
        return self.current() or await self._refreshed()

    async def renewed(self, refused: Connection) -> Connection:
        """Another than `refused`, whose token the service has just turned down.

        The same again if the last renewal was a moment ago: it would not help.
        """
        current, now_s = self._connection, self._clock.monotonic_s()
        if current is not None and current is not refused:
            return current  # somebody else was faster
        if now_s - self._renewed_s < RENEWALS_APART_S and self._refreshing is None:
            return refused
        self._connection, self._renewed_s = None, now_s
        return await self._refreshed()

    @property
    def busy(self) -> bool:
        """A refresh is under way."""
        return self._refreshing is not None

    async def close(self) -> None:
        """Stop a refresh that is under way."""
        task = self._refreshing
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _refreshed(self) -> Connection:
        refusal = self._refusal
        if refusal is not None and self._clock.monotonic_s() < refusal.until_s:
            raise type(refusal.error)(str(refusal.error), refusal.error.answer)
        if self._refreshing is None:
            # A task of its own: whoever asked first may give up, the others still wait.
            loop = asyncio.get_running_loop()
            self._refreshing = loop.create_task(self._refresh(), name="refresh of tokens")
            self._refreshing.add_done_callback(self._refresh_done)
        task = self._refreshing
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and not _being_cancelled():
                raise Unavailable(
                    f"tokens for {self._config_url}: the client was closed meanwhile. "
                    "Make the call with a client that is open",
                    sent=False,
                ) from None
            raise

    def _refresh_done(self, task: asyncio.Task[Connection]) -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()  # seen, even if nobody waits any more

    async def _refresh(self) -> Connection:
        log.info("tokens are refreshed", githubConfigUrl=str(self._config_url))
        deadline = Deadline.after(self._clock, REFRESH_S)
        try:
            try:
                connection = await self._chain(deadline)
            except CredentialsRefused:
                self._installation = self._registration = None
                await self._clock.sleep(CONFIRM_AFTER_S)
                connection = await self._chain(deadline)
        except Refused as error:
            self._refusal = _Refusal(error, self._clock.monotonic_s() + REFUSAL_KEPT_S)
            if self._on_refused is not None:
                self._on_refused()
            raise
        self._refusal = None
        self._connection = connection
        return connection

    async def _chain(self, deadline: Deadline) -> Connection:
        token = await self._registration_token(deadline)
        request = requests.registration_request(self._config_url, token, self._agent())
        what = f"register with {self._config_url}"
        response = await self._ask(request, what, deadline, range(200, 300))
        try:
            tenant_url, admin_token = decode_connection(response.body)
            life_s = self._life_s(jwt_expiry_s(admin_token), response)
        except DecodeError as error:
            raise bad_answer(request, response, what, str(error)) from error
        return Connection(tenant_url, admin_token, self._due_s(life_s))

    async def _registration_token(self, deadline: Deadline) -> SecretText:
        kept = self._still_good(self._registration)
        if kept is None:
            bearer = await self._bearer(deadline)
            request = requests.registration_token_request(self._config_url, bearer, self._agent())
            what = f"failed to get runner registration token for {self._config_url}"
            kept = await self._fetch_token(request, what, deadline)
            self._registration = kept
        return kept.token

    async def _bearer(self, deadline: Deadline) -> SecretText:
        """The PAT, or a token of the App's installation."""
        credentials = self._credentials
        if not isinstance(credentials, AppCredentials):
            return credentials.token
        kept = self._still_good(self._installation)
        if kept is None:
            jwt = credentials.jwt(now_s=self._clock.now_s() + self._skew_s)
            request = requests.installation_token_request(
                self._config_url, credentials.installation_id, jwt, self._agent()
            )
            what = (
                "failed to get access token for GitHub App auth "
                f"(app {credentials.client_id}, installation {credentials.installation_id})"
            )
            kept = await self._fetch_token(request, what, deadline)
            self._installation = kept
        return kept.token

    async def _fetch_token(self, request: Request, what: str, deadline: Deadline) -> _Kept:
        response = await self._ask(request, what, deadline, range(201, 202))
        try:
            token, ends_s = decode_token(response.body)
        except DecodeError as error:
            raise bad_answer(request, response, what, str(error)) from error
        life_s = self._life_s(ends_s, response) if ends_s else 0.0
        return _Kept(token, self._due_s(life_s))

    async def _ask(
        self, request: Request, what: str, deadline: Deadline, accepted: range
    ) -> Response:
        subject = Subject(what)
        settled = await self._attempts.send(request, subject, manner=USUAL, deadline=deadline)
        response = settled.response
        self._learn_skew(response)
        if response.status not in accepted:
            raise answered_failure(
                request, response, subject, attempts=settled.attempts, now_s=self._clock.now_s()
            )
        return response

    def _learn_skew(self, response: Response) -> None:
        date_s = response.date_s()
        if date_s is not None:
            skew_s = date_s - self._clock.now_s()
            self._skew_s = skew_s if abs(skew_s) > SKEW_IGNORED_S else 0.0

    def _life_s(self, ends_s: float, response: Response) -> float:
        """Seconds until a token ends, by the clock of who issued it."""
        life_s = ends_s - (self._clock.now_s() + self._skew_s)
        if life_s <= 0.0 and response.date_s() is None:
            return FIXED_LIFE_S  # it was issued just now: our clock is wrong, not the token
        return life_s

    def _due_s(self, life_s: float) -> float:
        return self._clock.monotonic_s() + life_s - EARLY_S

    def _still_good(self, kept: _Kept | None) -> _Kept | None:
        if kept is None or self._clock.monotonic_s() >= kept.due_s:
            return None
        return kept


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
