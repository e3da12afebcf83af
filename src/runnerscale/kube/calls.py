"""One call to the API server: its deadline, its token, and what is repeated within it.

What may be repeated: anything that certainly had no effect (429, no connection, a 401 with a
token that has been exchanged meanwhile), and a GET after anything that may pass (5xx, a cut).
Whether a create or patch whose answer was lost took effect is for the caller to find out.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import Clock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import Random
from runnerscale.core.secret import SecretText
from runnerscale.kube.credentials import Credentials
from runnerscale.kube.errors import (
    ApiError,
    KubeError,
    ServerFault,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.status import error_from
from runnerscale.kube.transport import NO_HEADERS, Answer, Stream, Transport

TIMEOUT_S = 30.0
TRIES_MAX = 10  # client-go's bound; the deadline is usually met first
RETRY_AFTER_MAX_S = 10.0  # whoever asks for more is asked again after this, within the deadline
BACKOFF = Backoff(first_s=0.1, cap_s=5.0)
REPEATED_FAULTS = frozenset({500, 502, 503, 504})  # 501 and 505 do not pass by waiting


def _always(_path: str) -> bool:
    return True


class Calls:
    """Carries out calls; made and owned by the client."""

    def __init__(
        self,
        transport: Transport,
        *,
        credentials: Credentials,
        clock: Clock,
        random: Random,
        metrics: KubeMetrics | None,
        user_agent: str,
        timeout_s: float,
    ) -> None:
        """See `KubeClient`."""
        self._transport = transport
        self._credentials = credentials
        self._clock = clock
        self._random = random
        self._metrics = None if metrics is None else metrics.for_client(transport.host)
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json", "User-Agent": user_agent}
        self.may_write: Callable[[str], bool] = _always  # by path; see `KubeClient.guard_writes`

    def deadline(self, timeout_s: float | None) -> Deadline:
        """When a call that begins now must have ended."""
        return Deadline.after(self._clock, self._timeout_s if timeout_s is None else timeout_s)

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_HEADERS,
        body: bytes | None = None,
        media_type: str = "application/json",
        timeout_s: float | None = None,
    ) -> bytes:
        """The body of the answer with a 2xx code. `media_type`: of what is sent; of the answer,
        where nothing is sent.
        """
        deadline = self.deadline(timeout_s)
        last: KubeError | None = None
        try:
            async with deadline.timeout():
                for attempt in range(TRIES_MAX):
                    if method != "GET" and not self.may_write(path):
                        # At each try: this process may have slept in between.
                        raise Unreachable(
                            f"{method} {path}: not sent, the lease has run out", sent=False
                        )
                    try:
                        return await self._try(method, path, query, body, media_type)
                    except KubeError as error:
                        last = error
                        wait_s = self._wait_s(method, error, attempt)
                    if wait_s is None or wait_s >= deadline.left_s():
                        raise last
                    await self._clock.sleep(wait_s)
        except TimeoutError:
            # What the server said before is worth more than "it took too long".
            raise self._too_late(method, path, last) from None
        raise last if last is not None else Unreachable(f"{method} {path}: not tried")

    async def _try(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        media_type: str,
    ) -> bytes:
        used = await self._credentials.authorization()
        answer = await self._send(method, path, query, body, media_type, used)
        if answer.status == 401:
            # Had no effect. The token may have been exchanged since it was read: once more.
            self._credentials.reject(used)
            used = await self._credentials.authorization()
            answer = await self._send(method, path, query, body, media_type, used)
        if 200 <= answer.status < 300:
            return answer.body
        raise error_from(answer.status, answer.body, answer.headers, method=method, path=path)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        media_type: str,
        authorization: SecretText | None,
    ) -> Answer:
        headers = self._request_headers(authorization)
        headers["Accept" if body is None else "Content-Type"] = media_type
        begin_s = self._clock.monotonic_s()
        code = "<error>"
        try:
            answer = await self._transport.request(
                method, path, query=query, headers=headers, body=body
            )
            code = str(answer.status)
            return answer
        finally:
            if self._metrics is not None:
                self._metrics.answered(method, code, self._clock.monotonic_s() - begin_s)

    def _request_headers(self, authorization: SecretText | None) -> dict[str, str]:
        if authorization is None:
            return dict(self._headers)
        return {**self._headers, "Authorization": authorization.reveal()}

    def _wait_s(self, method: str, error: KubeError, attempt: int) -> float | None:
        """Seconds until the same call may be tried again; None: never."""
        if not may_repeat(method, error):
            return None
        wait_s = BACKOFF.delay_s(attempt, self._random)
        asked_s = error.retry_after_s if isinstance(error, ApiError) else None
        if asked_s is None:
            return wait_s
        # Never earlier than asked (but for the cap), and not all at the same instant.
        return min(asked_s, RETRY_AFTER_MAX_S) + wait_s

    def _too_late(self, method: str, path: str, last: KubeError | None) -> KubeError:
        if isinstance(last, ApiError):
            return last
        why = f" (before that: {last})" if last is not None else ""
        return Unreachable(f"{method} {path}: no answer from {self._transport.host} in time{why}")

    @asynccontextmanager
    async def open_stream(
        self, path: str, query: Mapping[str, str], silence_max_s: float
    ) -> AsyncGenerator[Stream, None]:
        """A watch that was answered with 200; any other answer is raised, after one more
        try with a fresh token where the answer was 401. The caller decides on repeats."""
        async with AsyncExitStack() as stack:
            used = await self._credentials.authorization()
            stream, error = await self._open(stack, path, query, silence_max_s, used)
            if isinstance(error, Unauthorized):
                self._credentials.reject(used)
                used = await self._credentials.authorization()
                stream, error = await self._open(stack, path, query, silence_max_s, used)
            if error is not None:
                raise error
            yield stream

    async def _open(
        self,
        stack: AsyncExitStack,
        path: str,
        query: Mapping[str, str],
        silence_max_s: float,
        authorization: SecretText | None,
    ) -> tuple[Stream, ApiError | None]:
        code = "<error>"
        try:
            async with asyncio.timeout(self._timeout_s):
                opened = self._transport.stream(
                    path,
                    query=query,
                    headers=self._request_headers(authorization),
                    silence_max_s=silence_max_s,
                )
                stream = await stack.enter_async_context(opened)
                code = str(stream.status)
                if stream.status == 200:
                    return stream, None
                body = await stream.read()
        except TimeoutError:
            raise Unreachable(f"WATCH {path}: no answer in {self._timeout_s:.0f} s") from None
        finally:
            if self._metrics is not None:
                self._metrics.watch_answered(code)
        return stream, error_from(stream.status, body, stream.headers, method="WATCH", path=path)


def may_repeat(method: str, error: KubeError) -> bool:
    """Whether the same call may be sent again after this error without asking anybody."""
    if isinstance(error, TooManyRequests):
        return True
    if isinstance(error, Unreachable):
        return not error.sent or method == "GET"
    return isinstance(error, ServerFault) and method == "GET" and error.code in REPEATED_FAULTS
