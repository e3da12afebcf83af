"""The message session of a scale set: opened, kept alive, lost, found again, given back.

Its users see one session. Behind it the queue's token is renewed on a 401 (once, then the
call is repeated once), and a session that the service lost is opened anew in place, with
the cursor back at 0 (`generation` tells). Poll, acknowledge and acquire do not wait for
each other (weakness W4). Waiting for a session that somebody else holds is the listener's
decision: `SessionConflict` is raised.

Contract: github-service-and-listener 2.8-2.11; replaces weaknesses W4, W10, W12, W46, W47.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

import structlog

from runnerscale.core.deadline import Deadline, end_now
from runnerscale.scaleset import requests
from runnerscale.scaleset.actions import ActionsService, Call
from runnerscale.scaleset.answers import (
    Session,
    decode_acquirable,
    decode_acquired,
    decode_session,
    decode_session_id,
)
from runnerscale.scaleset.attempts import Manner, Settled
from runnerscale.scaleset.decode import DecodeError
from runnerscale.scaleset.errors import (
    BadAnswer,
    QueueTokenExpired,
    Refused,
    ScaleSetError,
    ScaleSetNotFound,
    SessionConflict,
    SessionLost,
)
from runnerscale.scaleset.failures import Subject
from runnerscale.scaleset.messages import decode_message
from runnerscale.scaleset.model import Message, Statistics
from runnerscale.scaleset.retry import POLL_ATTEMPT_S
from runnerscale.scaleset.transport import Request

log = structlog.get_logger(__name__)

SESSION_CALL_S = 60.0  # create, refresh, acknowledge, acquire
POLL_CALL_S = 150.0  # a poll, a refresh of the token, and the poll again
CLOSE_S = 10.0  # the pod's grace period must suffice for much more (weakness W12)
ABANDON_S = 5.0  # for an answer that nobody waits for, so that its session can be undone

_EXPIRED = "message queue token expired"
# Who opens a session, polls or claims holds up the whole queue: a longer pause that GitHub asks
# for is theirs to wait and to tell, not the call's.
QUIET_MAX_S = 5.0
POLL = Manner(queued=False, attempt_s=POLL_ATTEMPT_S, quiet_max_s=QUIET_MAX_S, told_of_silence=True)
PROMPT = Manner(quiet_max_s=QUIET_MAX_S)
_LOST = {404: SessionLost, 409: SessionLost, 410: SessionLost}


class MessageSession:
    """The one session of a scale set. `async with client.open_session(...) as session`."""

    def __init__(self, service: ActionsService, scale_set_id: int, owner_name: str) -> None:
        """Nothing is opened yet. `owner_name`: shown by GitHub to whoever is refused."""
        self._service = service
        self._scale_set_id = scale_set_id
        self._owner_name = owner_name
        self._path = f"{requests.SCALE_SETS}/{scale_set_id}/sessions"
        self._session: Session | None = None
        self._statistics = self._opening = Statistics()
        self._generation = 0
        self._lost_id = ""
        self._cursor_max: int | None = None  # after a re-creation: the last id it delivered
        self._push_mode = False
        self._closed = False
        self._polls: set[asyncio.Timeout] = set()
        self._no_poll = asyncio.Event()
        self._no_poll.set()
        self._renewing = asyncio.Lock()  # held only to open or refresh: once for all who need it

    async def __aenter__(self) -> Self:
        """Open it.

        Raises:
            SessionConflict: somebody holds the scale set's session; maybe our predecessor, or
                we ourselves if an answer was lost.
            ScaleSetNotFound: there is no such scale set.
        """
        await self._current()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def statistics(self) -> Statistics:
        """Of the last session object or envelope. Never waits."""
        return self._statistics

    @property
    def opening(self) -> Statistics:
        """Of the last session object: when it was opened, renewed, opened anew.

        Another object each time. It is never older than what was known, which an envelope that
        is delivered once more can be. Never waits.
        """
        return self._opening

    @property
    def session_id(self) -> str:
        """GitHub's id of the session; "" while there is none. Never waits."""
        return self._session.id if self._session else ""

    @property
    def generation(self) -> int:
        """1 after opening, one more with each re-creation: messages may come again then."""
        return self._generation

    @property
    def push_mode(self) -> bool:
        """The service assigns jobs by itself; it has no acquiring."""
        return self._push_mode

    async def poll(self, last_message_id: int, max_capacity: int) -> Message | None:
        """The next message after a cursor (0: none), or None if none came in about 50 s.

        A cursor from before a re-creation of the session is not sent.

        Raises:
            SessionConflict: the session was lost, and somebody else has one now.
            SessionLost: lost again right after it was re-created, or closed meanwhile.
            QueueTokenExpired: the queue turned down a token that was just renewed.
        """
        self._require_open()
        scope = asyncio.timeout(None)  # no time limit: what `close` ends the poll by
        self._polls.add(scope)
        self._no_poll.clear()
        try:
            async with scope:
                return await self._poll(last_message_id, max_capacity)
        except TimeoutError:
            if scope.expired():
                self._require_open()
            raise
        finally:
            self._polls.discard(scope)
            if not self._polls:
                self._no_poll.set()

    async def acknowledge(self, message_id: int) -> None:
        """Delete a message, so that it does not come again. Contract 2.10.

        A queue that does not know the message is asked whether it knows the session: then the
        message is gone, else the session is opened anew, where the message comes again if it
        is still there.
        """
        what = f"acknowledge message {message_id} of scale set {self._scale_set_id}"
        subject = Subject(what, by_status=_LOST)

        def build(session: Session) -> Request:
            return requests.acknowledge_request(
                session.queue_url, session.queue_token, message_id=message_id, agent=self._agent()
            )

        self._require_open()
        deadline = Deadline.after(self._service.clock, SESSION_CALL_S)
        session, request, settled = await self._exchange(build, subject, PROMPT, deadline)
        if settled.response.status == 204:
            return
        error = self._service.refusal(request, settled, subject)
        if not isinstance(error, SessionLost):
            raise error
        log.info("message is not known to the queue", message_id=message_id, error=str(error))
        await self._renewed(session, deadline)

    async def acquire_jobs(self, request_ids: Sequence[int]) -> list[int]:
        """Claim jobs; the ids we got. Contract 2.11, Annex A.

        Where the service has no acquiring (it assigns jobs by itself) the answer is [], and it
        is not asked again in this session.
        """
        self._require_open()
        if self._push_mode or not request_ids:
            return []
        deadline = Deadline.after(self._service.clock, SESSION_CALL_S)
        session = await self._current(deadline)
        try:
            return await self._acquire(session, request_ids, deadline)
        except QueueTokenExpired:
            session = await self._renewed(session, deadline)
            return await self._acquire(session, request_ids, deadline)

    async def acquirable_jobs(self) -> list[int]:
        """The ids of jobs that are offered and that nobody has claimed. Contract Annex A.

        Messages tell each offer once; this is for those told to a listener that died since.
        Where the service has no acquiring the answer is [], and it is not asked again in this
        session.
        """
        self._require_open()
        if self._push_mode:
            return []
        call = Call(
            "GET",
            f"{requests.SCALE_SETS}/{self._scale_set_id}/acquirablejobs",
            Subject(f"list jobs offered to scale set {self._scale_set_id}"),
            nothing=204,
            scale_set_id=self._scale_set_id,
            manner=PROMPT,
        )
        deadline = Deadline.after(self._service.clock, SESSION_CALL_S)
        try:
            return await self._service.call(call, decode_acquirable, deadline)
        except Refused as error:
            if not self._has_no_acquiring(error):
                raise
            return []

    def _has_no_acquiring(self, error: Refused) -> bool:
        """A router's 404: jobs are assigned without acquiring. Remembered for this session."""
        if error.answer.status != 404 or error.answer.exception_name:
            return False
        log.info("jobs are assigned without acquiring", scale_set_id=self._scale_set_id)
        self._push_mode = True
        return True

    async def close(self) -> None:
        """End the polls and give the session back; at most 10 s. Again: nothing happens."""
        if self._closed:
            return
        self._closed = True
        deadline = Deadline.after(self._service.clock, CLOSE_S)
        for scope in self._polls:
            end_now(scope)
        # One of them may be giving back a session that it was just opening.
        with suppress(TimeoutError):
            async with deadline.timeout():
                await self._no_poll.wait()
        session, self._session = self._session, None
        if session is not None:
            await self._give_back(session.id, within_s=max(1.0, deadline.left_s()))

    async def _poll(self, last_message_id: int, max_capacity: int) -> Message | None:
        retries_max = self._service.policy.retries_max
        reopened = False
        attempt = 0
        while True:
            try:
                return await self._poll_once(last_message_id, max_capacity)
            except SessionLost as error:
                if reopened:
                    raise
                reopened = True
                log.warning("session lost", scale_set_id=self._scale_set_id, error=str(error))
            except BadAnswer as error:
                # The service now and then answers a poll with 200 and nothing at all.
                if attempt >= retries_max:
                    raise
                log.info("poll answered with something unusable", error=str(error))
                wait_s = self._service.policy.backoff.delay_s(attempt, self._service.random)
                await self._service.clock.sleep(wait_s)
                attempt += 1

    async def _poll_once(self, last_message_id: int, max_capacity: int) -> Message | None:
        subject = Subject(f"poll messages of scale set {self._scale_set_id}", by_status=_LOST)

        def build(session: Session) -> Request:
            return requests.poll_request(
                session.queue_url,
                session.queue_token,
                last_message_id=self._cursor(last_message_id),
                capacity=max_capacity,
                agent=self._agent(),
            )

        await self._current()  # opening one has its own time
        deadline = Deadline.after(self._service.clock, POLL_CALL_S)
        session, request, settled = await self._exchange(build, subject, POLL, deadline)
        if settled.response.status == 202:
            return None
        if settled.response.status != 200:
            error = self._service.refusal(request, settled, subject)
            if isinstance(error, SessionLost):
                self._lose(session)
            raise error
        message = self._service.decoded(request, settled, subject, decode_message)
        if self._cursor_max is not None:
            self._cursor_max = max(self._cursor_max, message.id)
        self._statistics = message.statistics or self._statistics
        return message

    def _cursor(self, last_message_id: int) -> int:
        """The caller's cursor, as far as this session has delivered."""
        if self._cursor_max is None:
            return last_message_id
        return min(last_message_id, self._cursor_max)

    async def _exchange(
        self,
        build: Callable[[Session], Request],
        subject: Subject,
        manner: Manner,
        deadline: Deadline,
    ) -> tuple[Session, Request, Settled]:
        """A call of the queue; on a 401 the token is renewed and the call repeated, once."""
        session = await self._current(deadline)
        request = build(session)
        settled = await self._service.send(request, subject, manner=manner, deadline=deadline)
        if settled.response.status == 401:
            session = await self._renewed(session, deadline)
            request = build(session)
            settled = await self._service.send(request, subject, manner=manner, deadline=deadline)
        if settled.response.status == 401:
            expired = Subject(f"{subject.what}: {_EXPIRED}", decided=QueueTokenExpired)
            raise self._service.refusal(request, settled, expired)
        return session, request, settled

    async def _acquire(
        self, session: Session, request_ids: Sequence[int], deadline: Deadline
    ) -> list[int]:
        subject = Subject(
            f"acquire {len(request_ids)} jobs for scale set {self._scale_set_id}",
            by_status={401: QueueTokenExpired, 409: SessionLost, 410: SessionLost},
        )
        call = Call(
            "POST",
            f"{requests.SCALE_SETS}/{self._scale_set_id}/acquirejobs",
            subject,
            body=list(request_ids),
            scale_set_id=self._scale_set_id,
            token=session.queue_token,
            manner=PROMPT,
        )
        try:
            return await self._service.call(call, decode_acquired, deadline)
        except SessionLost:
            self._lose(session)
            raise
        except Refused as error:
            if not self._has_no_acquiring(error):
                raise
            return []

    async def _current(self, deadline: Deadline | None = None) -> Session:
        """The open session; opened now if there is none (yet, or any more)."""
        session = self._session
        if session is not None:
            return session
        async with self._renewing:
            return self._session or self._adopted(await self._opened(deadline))

    async def _renewed(self, used: Session, deadline: Deadline) -> Session:
        """Another than `used`, whose token is spent: refreshed, or else opened anew."""
        async with self._renewing:
            if self._session is used:
                try:
                    fresh = await self._refresh(used, deadline)
                except SessionLost as error:
                    log.warning("session lost", scale_set_id=self._scale_set_id, error=str(error))
                    self._lose(used)
                else:
                    if self._session is used:  # and not closed meanwhile
                        self._session = fresh
                        if fresh.statistics is not None:
                            self._statistics = self._opening = fresh.statistics
        self._require_open()
        return await self._current(deadline)

    async def _refresh(self, used: Session, deadline: Deadline) -> Session:
        call = Call(
            "PATCH",
            f"{self._path}/{used.id}",
            Subject(f"refresh message session of scale set {self._scale_set_id}", by_status=_LOST),
            scale_set_id=self._scale_set_id,
            manner=PROMPT,
        )
        return await self._service.call(call, decode_session, deadline)

    def _adopted(self, session: Session) -> Session:
        self._generation += 1
        if self._generation > 1:
            self._cursor_max = 0
        self._lost_id, self._push_mode = "", False
        self._session = session
        self._statistics = self._opening = session.statistics or Statistics()
        log.debug(
            "session opened",
            scale_set_id=self._scale_set_id,
            session_id=session.id,
            generation=self._generation,
        )
        return session

    def _lose(self, session: Session) -> None:
        if self._session is session:
            self._session, self._lost_id = None, session.id

    async def _opened(self, deadline: Deadline | None) -> Session:
        """A new session. Should we be cancelled, one that GitHub made is given back."""
        if self._lost_id:
            # It may live on at GitHub, and would then keep us out ourselves.
            await self._give_back(self._lost_id)
        deadline = deadline or Deadline.after(self._service.clock, SESSION_CALL_S)
        task = asyncio.get_running_loop().create_task(self._create(deadline), name="create session")
        try:
            session = await asyncio.shield(task)
        except asyncio.CancelledError:
            await self._abandon(task)
            raise
        if self._closed:
            await self._give_back(session.id)
            self._require_open()
        return session

    async def _create(self, deadline: Deadline) -> Session:
        seen: list[bytes] = []

        def decode(body: bytes) -> Session:
            seen.append(body)
            session = decode_session(body)
            if session.statistics is None:
                raise DecodeError("session statistics is nil")
            return session

        call = Call(
            "POST",
            self._path,
            Subject(
                f"create message session of scale set {self._scale_set_id}",
                by_status={
                    404: ScaleSetNotFound,
                    409: SessionConflict,
                    410: ScaleSetNotFound,
                },
                doubt="The answer to an earlier attempt was lost: this may be our own session",
            ),
            body=requests.session_body(self._owner_name),
            scale_set_id=self._scale_set_id,
            manner=PROMPT,
            # Repeated although it is no idempotent call: the service allows one session, so a
            # second try can make none beside a first that took effect; it is refused.
        )
        try:
            return await self._service.call(call, decode, deadline)
        except BadAnswer:
            session_id = decode_session_id(seen[-1]) if seen else ""
            if session_id:
                await self._give_back(session_id)
            raise

    async def _abandon(self, task: asyncio.Task[Session]) -> None:
        await asyncio.wait([task], timeout=ABANDON_S)
        if not task.done():
            task.cancel()
        elif not task.cancelled() and task.exception() is None:
            await self._give_back(task.result().id, within_s=ABANDON_S)

    async def _give_back(self, session_id: str, *, within_s: float = CLOSE_S) -> None:
        """Delete a session at GitHub; what cannot be deleted is only logged."""
        call = Call(
            "DELETE",
            f"{self._path}/{session_id}",
            Subject(f"delete message session of scale set {self._scale_set_id}", by_status=_LOST),
            accepted=204,
            scale_set_id=self._scale_set_id,
        )
        deadline = Deadline.after(self._service.clock, within_s)
        try:
            await self._service.call(call, lambda _: None, deadline)
        except SessionLost:
            log.debug("session was gone already", scale_set_id=self._scale_set_id)
        except ScaleSetError as error:
            log.warning("session not deleted", scale_set_id=self._scale_set_id, error=str(error))

    def _agent(self) -> str:
        return self._service.agent(self._scale_set_id)

    def _require_open(self) -> None:
        if self._closed:
            raise SessionLost(
                f"the message session of scale set {self._scale_set_id} is closed. Open another"
            )
