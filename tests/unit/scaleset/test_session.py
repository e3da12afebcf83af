import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from runnerscale.core.clock import LoopClock, ManualClock
from runnerscale.core.randomness import seeded
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.errors import (
    BadAnswer,
    CredentialsRefused,
    QueueTokenExpired,
    RateLimited,
    Refused,
    ScaleSetError,
    ScaleSetNotFound,
    SessionConflict,
    SessionLost,
    Unavailable,
)
from runnerscale.scaleset.limits import HostLimits
from runnerscale.scaleset.model import Message, Statistics
from runnerscale.scaleset.session import MessageSession
from runnerscale.scaleset.transport import NoAnswer, Response
from tests.unit.scaleset.stub import (
    CALM,
    ONE_RETRY,
    Answer,
    Handler,
    Seen,
    Stub,
    client_of,
    exception,
    in_turn,
    reply,
)

SESSIONS = "/tenant/123/_apis/runtime/runnerscalesets/1/sessions"
ACQUIRABLE = "/tenant/123/_apis/runtime/runnerscalesets/1/acquirablejobs"
ACQUIRE = "/tenant/123/_apis/runtime/runnerscalesets/1/acquirejobs"
EMPTY = reply(202)
EXPIRED = "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionExpiredException, X"
CONFLICT = "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionConflictException, X"


def envelope(message_id: int = 1, assigned: int = 0) -> Response:
    return reply(
        200,
        {
            "messageId": message_id,
            "messageType": "RunnerScaleSetJobMessages",
            "statistics": {"totalAssignedJobs": assigned},
        },
    )


@dataclass
class Queue:
    """The Actions service and its queue: one session at a time, tokens t1, t2, ..."""

    poll: Handler = lambda seen: EMPTY
    acknowledge: Handler = lambda seen: reply(204)
    acquire: Handler = lambda seen: reply(200, {"count": 0, "value": []})
    acquirable: Handler = lambda seen: reply(204)
    create: Handler | None = None
    refresh: Handler | None = None
    delete: Handler = lambda seen: reply(204)
    url: str = "https://queue.example/messages"
    made: int = 0
    tokens: int = 0
    seen: list[tuple[str, Seen]] = field(default_factory=list)

    def __call__(self, seen: Seen) -> Any:
        kind = self.kind(seen)
        self.seen.append((kind, seen))
        handler: Callable[[Seen], Any] = {
            "create": self.create or self.created,
            "refresh": self.refresh or self.refreshed,
            "delete": self.delete,
            "acquire": self.acquire,
            "acquirable": self.acquirable,
            "poll": self.poll,
            "acknowledge": self.acknowledge,
        }[kind]
        return handler(seen)

    def kind(self, seen: Seen) -> str:
        if seen.path == ACQUIRE:
            return "acquire"
        if seen.path == ACQUIRABLE:
            return "acquirable"
        if seen.path.startswith(SESSIONS):
            return {"POST": "create", "PATCH": "refresh", "DELETE": "delete"}[seen.method]
        return {"GET": "poll", "DELETE": "acknowledge"}[seen.method]

    def created(self, seen: Seen) -> Response:
        self.made += 1
        return self.session(f"session-{self.made}")

    def refreshed(self, seen: Seen) -> Response:
        return self.session(seen.path.rpartition("/")[2])

    def session(self, session_id: str, **members: Any) -> Response:
        self.tokens += 1
        body = {
            "sessionId": session_id,
            "ownerName": "owner",
            "runnerScaleSet": {"id": 1, "name": "s"},
            "messageQueueUrl": self.url,
            "messageQueueAccessToken": f"t{self.tokens}",
            "statistics": {"totalAssignedJobs": 7},
        }
        return reply(200, body | members)

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.seen]

    def of(self, kind: str) -> list[Seen]:
        return [seen for k, seen in self.seen if k == kind]


def client_at(queue: Queue, **options: Any) -> ScaleSetClient:
    return client_of(Stub(ManualClock(), queue), **options)


def session_at(queue: Queue, **options: Any) -> MessageSession:
    return client_at(queue, **options).open_session(1, "owner")


@pytest.mark.behaviour("C2 T88")
async def test_a_session_is_created_with_the_nil_id_and_the_owner() -> None:
    queue = Queue()
    async with session_at(queue) as session:
        (seen,) = queue.of("create")
        assert (seen.method, seen.path) == ("POST", SESSIONS)
        assert seen.json == {
            "sessionId": "00000000-0000-0000-0000-000000000000",
            "ownerName": "owner",
        }
        assert seen.query["api-version"] == ["6.0-preview"]
        assert session.session_id == "session-1"
        assert session.statistics == Statistics(assigned_jobs=7)
        assert session.generation == 1


@pytest.mark.behaviour("C2 T89")
async def test_a_refused_creation_says_what_github_said() -> None:
    refusal = reply(
        400,
        {"typeName": "CSharpExceptionNameHere", "message": "could not do something"},
        ActivityId="X",
    )
    session = session_at(Queue(create=lambda seen: refusal))
    with pytest.raises(Refused, match="could not do something") as caught:
        await session.__aenter__()
    answer = caught.value.answer
    assert (answer.status, answer.activity_id) == (400, "X")
    assert answer.exception_name == "CSharpExceptionNameHere"
    assert session.session_id == ""


@pytest.mark.behaviour("C2 T90")
@pytest.mark.parametrize("conflict", [exception(409, CONFLICT, "held by other"), reply(409)])
async def test_a_session_that_somebody_holds_is_a_conflict_until_it_is_free(
    conflict: Response,
) -> None:
    # How long to wait is the listener's decision: listener/states.py.
    queue = Queue()
    queue.create = lambda seen: conflict if queue.made else queue.created(seen)
    client = client_at(queue)
    first, second = client.open_session(1, "a"), client.open_session(1, "b")
    async with first:
        with pytest.raises(SessionConflict) as caught:
            await second.__aenter__()
        assert len(queue.of("create")) == 2
        assert "our own session" not in str(caught.value)
    queue.create = None
    async with second:
        assert second.session_id == "session-2"


async def test_a_conflict_after_a_lost_answer_names_ourselves() -> None:
    queue = Queue(create=in_turn(NoAnswer("reset"), exception(409, CONFLICT)))
    with pytest.raises(SessionConflict, match="this may be our own session"):
        await session_at(queue).__aenter__()


async def test_a_missing_scale_set_is_told() -> None:
    with pytest.raises(ScaleSetNotFound):
        await session_at(Queue(create=lambda seen: reply(404))).__aenter__()


@pytest.mark.behaviour("C2 T71")
async def test_a_creation_is_tried_again() -> None:
    queue = Queue(create=lambda seen: reply(500))
    with pytest.raises(Unavailable, match="500"):
        await session_at(queue, policy=replace(CALM, retries_max=3)).__aenter__()
    assert len(queue.seen) == 4


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"statistics": None}, "session statistics is nil"),
        ({"messageQueueUrl": ""}, "messageQueueUrl"),
        ({"messageQueueAccessToken": None}, "messageQueueAccessToken"),
    ],
)
async def test_an_unusable_session_is_given_back(members: Any, said: str) -> None:
    queue = Queue()
    queue.create = lambda seen: queue.session("useless", **members)
    with pytest.raises(BadAnswer, match=said):
        await session_at(queue).__aenter__()
    assert [seen.path for seen in queue.of("delete")] == [f"{SESSIONS}/useless"]


async def test_a_session_without_an_id_is_an_error() -> None:
    queue = Queue()
    queue.create = lambda seen: queue.session("")
    with pytest.raises(BadAnswer, match="initial session is nil"):
        await session_at(queue).__aenter__()
    assert queue.kinds() == ["create"]


@pytest.mark.behaviour("C2 T91", "C2 T94")
async def test_a_poll_carries_cursor_and_capacity() -> None:
    queue = Queue()
    async with session_at(queue) as session:
        assert await session.poll(0, 10) is None
        assert await session.poll(1, 10) is None
    first, second = queue.of("poll")
    assert first.query == {}
    assert second.query == {"lastMessageId": ["1"]}
    assert first.headers["X-ScaleSetMaxCapacity"] == "10"
    assert first.headers["Accept"] == "application/json; api-version=6.0-preview"
    assert first.headers["Authorization"] == "Bearer t1"
    assert "Content-Type" not in first.headers
    assert json.loads(first.headers["User-Agent"])["scale_set_id"] == 1


@pytest.mark.behaviour("C2 T92")
async def test_the_queue_urls_own_query_stays() -> None:
    queue = Queue(url="https://q.example/msg?a=1")
    async with session_at(queue) as session:
        await session.poll(7, 1)
        await session.acknowledge(7)
    assert queue.of("poll")[0].request.url == "https://q.example/msg?a=1&lastMessageId=7"
    assert queue.of("acknowledge")[0].request.url == "https://q.example/msg/7?a=1"


@pytest.mark.behaviour("C2 T93")
async def test_a_capacity_of_zero_is_sent() -> None:
    queue = Queue(poll=lambda seen: reply(400, text="capacity error"))
    async with session_at(queue) as session:
        with pytest.raises(Refused, match=r"400 Bad Request.*capacity error"):
            await session.poll(0, 0)
    assert queue.of("poll")[0].headers["X-ScaleSetMaxCapacity"] == "0"


@pytest.mark.behaviour("C2 T95")
async def test_a_queue_that_refuses_a_renewed_token_is_believed() -> None:
    queue = Queue(poll=lambda seen: exception(401, "Odd", "odd"))
    async with session_at(queue) as session:
        with pytest.raises(QueueTokenExpired, match="message queue token expired") as caught:
            await session.poll(0, 1)
        assert queue.kinds() == ["create", "poll", "refresh", "poll"]
        assert caught.value.answer.exception_name == "Odd"  # weakness W25


@pytest.mark.behaviour("C2 T96", "C2 T84")
async def test_a_401_of_the_queue_renews_its_token_and_polls_again() -> None:
    queue = Queue()
    queue.poll = lambda seen: reply(401) if seen.token == "t1" else envelope(3, assigned=9)
    async with session_at(queue) as session:
        message = await session.poll(0, 1)
        assert message == Message(3, Statistics(assigned_jobs=9))
        assert [seen.token for seen in queue.of("poll")] == ["t1", "t2"]
        (refresh,) = queue.of("refresh")
        assert (refresh.method, refresh.path) == ("PATCH", f"{SESSIONS}/session-1")
        assert refresh.request.body is None
        assert session.statistics == Statistics(assigned_jobs=9)
        assert session.generation == 1


async def test_statistics_of_a_refreshed_session_are_used() -> None:
    # Weakness W46.
    queue = Queue()
    queue.poll = lambda seen: reply(401) if seen.token == "t1" else EMPTY
    queue.refresh = lambda seen: queue.session("session-1", statistics={"totalAssignedJobs": 3})
    async with session_at(queue) as session:
        await session.poll(0, 1)
        assert session.statistics == Statistics(assigned_jobs=3)
    queue.refresh = lambda seen: queue.session("session-1", statistics=None)
    queue.tokens = 0
    async with session_at(queue) as session:
        await session.poll(0, 1)
        assert session.statistics == Statistics(assigned_jobs=7)


@pytest.mark.behaviour("C2 T97")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply(404), "404 Not Found.*unknown error"),
        (reply(400, text="plain words"), "400 Bad Request.*plain words"),
    ],
)
async def test_a_refused_poll_says_what_was_said(answer: Response, said: str) -> None:
    # A 404 is first taken for a lost session; only when the new one is lost too is it told.
    async with session_at(Queue(poll=lambda seen: answer)) as session:
        with pytest.raises(Refused, match=said):
            await session.poll(0, 1)


@pytest.mark.behaviour("C2 T98")
async def test_a_refresh_that_fails_is_told_and_nothing_is_polled() -> None:
    queue = Queue(poll=lambda seen: reply(401), refresh=lambda seen: reply(400, text="no"))
    async with session_at(queue) as session:
        with pytest.raises(Refused, match="refresh message session of scale set 1"):
            await session.poll(0, 1)
        assert queue.kinds() == ["create", "poll", "refresh"]


@pytest.mark.behaviour("C2 T99")
async def test_a_message_is_acknowledged_by_204_only() -> None:
    answers = in_turn(reply(204), reply(200, b"null"), reply(400, text="plain words"))
    queue = Queue(acknowledge=answers)
    async with session_at(queue) as session:
        await session.acknowledge(1)
        with pytest.raises(BadAnswer, match="unexpected status code"):
            await session.acknowledge(1)
        with pytest.raises(Refused, match="plain words"):
            await session.acknowledge(0)
    first, _, third = queue.of("acknowledge")
    assert (first.method, first.path) == ("DELETE", "/messages/1")
    assert first.headers["Content-Type"] == "application/json"
    assert third.path == "/messages/0"


@pytest.mark.behaviour("C2 T100")
async def test_an_acknowledgement_renews_the_token_once() -> None:
    queue = Queue()
    queue.acknowledge = lambda seen: reply(401 if seen.token == "t1" else 204)
    async with session_at(queue) as session:
        await session.acknowledge(1)
        assert queue.kinds() == ["create", "acknowledge", "refresh", "acknowledge"]
        queue.acknowledge = lambda seen: reply(401)
        with pytest.raises(QueueTokenExpired):
            await session.acknowledge(1)


async def test_a_message_that_the_queue_does_not_know_is_acknowledged() -> None:
    # Perhaps by an attempt whose answer was lost. The session is asked for, and lives.
    queue = Queue(acknowledge=in_turn(NoAnswer("reset"), reply(404)))
    async with session_at(queue) as session:
        await session.acknowledge(1)
        assert queue.kinds() == ["create", "acknowledge", "acknowledge", "refresh"]
        assert session.generation == 1


async def test_a_session_lost_at_an_acknowledgement_is_opened_anew() -> None:
    queue = Queue(acknowledge=lambda seen: reply(404), refresh=lambda seen: reply(404))
    async with session_at(queue) as session:
        await session.acknowledge(1)
        assert queue.kinds() == ["create", "acknowledge", "refresh", "delete", "create"]
        assert session.generation == 2  # where the message comes again


@pytest.mark.behaviour("C2 T101", "C2 T102")
async def test_jobs_are_acquired_with_the_queues_token() -> None:
    queue = Queue(acquire=lambda seen: reply(200, {"count": 2, "value": [1, 2]}))
    async with session_at(queue) as session:
        assert await session.acquire_jobs([1, 2]) == [1, 2]
        (seen,) = queue.of("acquire")
        assert (seen.method, seen.request.body, seen.token) == ("POST", b"[1,2]", "t1")
        assert seen.query["api-version"] == ["6.0-preview"]
        assert await session.acquire_jobs([]) == []
        assert len(queue.of("acquire")) == 1
        queue.acquire = lambda seen: reply(200, {"count": 0, "value": []})
        assert await session.acquire_jobs([3]) == []


@pytest.mark.behaviour("C2 T103")
async def test_acquiring_renews_the_token_once() -> None:
    queue = Queue(acquire=lambda seen: reply(401))
    async with session_at(queue) as session:
        with pytest.raises(QueueTokenExpired):
            await session.acquire_jobs([1])
        assert queue.kinds() == ["create", "acquire", "refresh", "acquire"]
        queue.acquire = lambda seen: (
            reply(401) if seen.token == "t2" else reply(200, {"value": [1]})
        )
        assert await session.acquire_jobs([1]) == [1]
        queue.acquire = lambda seen: reply(500)
        with pytest.raises(Unavailable, match=r"giving up after 5 attempt\(s\)"):
            await session.acquire_jobs([1])


@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        (reply(204), []),
        (
            reply(200, {"count": 2, "value": [{"runnerRequestId": 5}, {"RunnerRequestID": 7}]}),
            [5, 7],
        ),
        (reply(200, [{"runnerRequestId": 5}, 6, {"runnerRequestId": "7"}, {}, None]), [5]),
        (reply(200, {"value": None}), []),
    ],
)
async def test_what_is_offered_can_be_asked_for(answer: Response, ids: list[int]) -> None:
    queue = Queue(acquirable=lambda seen: answer)
    async with session_at(queue) as session:
        assert await session.acquirable_jobs() == ids
        (seen,) = queue.of("acquirable")
        assert (seen.method, seen.query["api-version"]) == ("GET", ["6.0-preview"])


async def test_where_nothing_is_offered_it_is_asked_once_and_no_error_is_swallowed() -> None:
    queue = Queue(acquirable=lambda seen: reply(404, text="404 page not found"))
    async with session_at(queue) as session:
        assert await session.acquirable_jobs() == await session.acquirable_jobs() == []
        assert (session.push_mode, len(queue.of("acquirable"))) == (True, 1)
    for failure, kind in ((reply(403), CredentialsRefused), (reply(200, b"<html>"), BadAnswer)):
        async with session_at(Queue(acquirable=lambda seen, found=failure: found)) as session:
            with pytest.raises(kind):
                await session.acquirable_jobs()


async def test_a_service_without_acquiring_is_asked_once() -> None:
    # Annex A: today's github.com answers from its router.
    queue = Queue(acquire=lambda seen: reply(404, text="404 page not found"))
    async with session_at(queue) as session:
        assert not session.push_mode
        assert await session.acquire_jobs([1]) == []
        assert session.push_mode
        assert await session.acquire_jobs([2]) == []
        assert len(queue.of("acquire")) == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (exception(404, "X.RunnerScaleSetNotFoundException, X"), ScaleSetNotFound),
        (exception(400, EXPIRED), SessionLost),
        (reply(403), CredentialsRefused),
    ],
)
async def test_acquiring_tells_what_is_gone(answer: Response, kind: type[ScaleSetError]) -> None:
    async with session_at(Queue(acquire=lambda seen: answer)) as session:
        with pytest.raises(kind):
            await session.acquire_jobs([1])
        assert not session.push_mode


@pytest.mark.behaviour("C2 T104")
async def test_a_session_is_closed_once() -> None:
    queue = Queue()
    session = session_at(queue)
    await session.__aenter__()
    await session.close()
    await session.close()
    (seen,) = queue.of("delete")
    assert (seen.method, seen.path) == ("DELETE", f"{SESSIONS}/session-1")
    assert session.session_id == ""
    for call in (session.poll(0, 1), session.acknowledge(1), session.acquire_jobs([1])):
        with pytest.raises(SessionLost, match="is closed"):
            await call


@pytest.mark.parametrize("answer", [reply(404), reply(400), reply(500), NoAnswer("reset")])
async def test_a_session_that_cannot_be_closed_raises_nothing(answer: Answer) -> None:
    queue = Queue(delete=lambda seen: answer)
    session = session_at(queue)
    await session.__aenter__()
    await session.close()
    assert queue.of("delete")


async def test_a_session_that_was_never_opened_closes_without_a_call() -> None:
    queue = Queue()
    await session_at(queue).close()
    assert queue.seen == []


@pytest.mark.behaviour("C2 T106")
@pytest.mark.parametrize("lost", [reply(404), reply(410), reply(409), exception(400, EXPIRED)])
async def test_a_lost_session_is_opened_anew_in_place(lost: Response) -> None:
    queue = Queue()
    queue.poll = lambda seen: lost if seen.token == "t1" else envelope(40)
    async with session_at(queue) as session:
        message = await session.poll(50, 3)
        assert message is not None and message.id == 40
        # The old one is given back first: it could keep us out ourselves.
        assert queue.kinds() == ["create", "poll", "delete", "create", "poll"]
        assert session.generation == 2
        assert [seen.query.get("lastMessageId") for seen in queue.of("poll")] == [["50"], None]
        # What the caller still believes about its cursor is not believed.
        await session.poll(50, 3)
        assert queue.of("poll")[-1].query["lastMessageId"] == ["40"]
        await session.poll(40, 3)
        assert queue.of("poll")[-1].query["lastMessageId"] == ["40"]


async def test_an_empty_poll_after_a_re_creation_leaves_the_cursor_at_zero() -> None:
    queue = Queue()
    queue.poll = lambda seen: reply(404) if seen.token == "t1" else EMPTY
    async with session_at(queue) as session:
        assert await session.poll(50, 3) is None
        assert await session.poll(50, 3) is None
        assert "lastMessageId" not in queue.of("poll")[-1].query


async def test_a_session_lost_at_its_refresh_is_opened_anew() -> None:
    # Issue log 56: the service forgets sessions about every 50 minutes.
    queue = Queue(refresh=lambda seen: reply(404))
    queue.poll = lambda seen: reply(401) if seen.token == "t1" else envelope(2)
    async with session_at(queue) as session:
        message = await session.poll(1, 3)
        assert message is not None and message.id == 2
        assert queue.kinds() == ["create", "poll", "refresh", "delete", "create", "poll"]
        assert session.generation == 2


async def test_a_session_lost_again_at_once_is_told() -> None:
    queue = Queue(poll=lambda seen: reply(410))
    async with session_at(queue) as session:
        with pytest.raises(SessionLost, match="410 Gone"):
            await session.poll(0, 1)
        assert queue.kinds() == ["create", "poll", "delete", "create", "poll"]
        with pytest.raises(SessionLost):
            await session.poll(0, 1)
        assert session.generation == 4


async def test_a_poll_after_a_renewal_that_finds_the_session_lost_opens_it_anew() -> None:
    queue = Queue()
    answers = {"t1": reply(401), "t2": reply(404), "t3": envelope(5)}
    queue.poll = lambda seen: answers[seen.token]
    async with session_at(queue) as session:
        message = await session.poll(0, 1)
        assert message is not None and message.id == 5


async def test_a_conflict_at_a_re_creation_is_told_and_tried_again_by_the_next_poll() -> None:
    queue = Queue(poll=lambda seen: reply(404))
    session = session_at(queue)
    await session.__aenter__()
    queue.create = lambda seen: exception(409, CONFLICT)
    with pytest.raises(SessionConflict):
        await session.poll(0, 1)
    queue.create = None
    queue.poll = lambda seen: EMPTY
    assert await session.poll(0, 1) is None
    assert session.generation == 2


async def test_a_scale_set_that_is_gone_is_told_by_a_poll() -> None:
    gone = exception(404, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetNotFoundException, X")
    async with session_at(Queue(poll=lambda seen: gone)) as session:
        with pytest.raises(ScaleSetNotFound):
            await session.poll(0, 1)


@pytest.mark.behaviour("C2 T114")
async def test_a_200_with_nothing_in_it_is_polled_again() -> None:
    # Annex A: sporadic on github.com.
    queue = Queue(poll=in_turn(reply(200), reply(200, b"null"), envelope(6)))
    async with session_at(queue) as session:
        message = await session.poll(0, 1)
        assert message is not None and message.id == 6
        assert len(queue.of("poll")) == 3
    queue = Queue(poll=lambda seen: reply(200))
    async with session_at(queue) as session:
        with pytest.raises(BadAnswer, match="EOF"):
            await session.poll(0, 1)
        assert len(queue.of("poll")) == 5


@pytest.mark.behaviour("C2 T72")
async def test_poll_and_acknowledge_are_tried_again() -> None:
    queue = Queue(poll=lambda seen: reply(503), acknowledge=lambda seen: reply(503))
    async with session_at(queue, policy=ONE_RETRY) as session:
        for call in (session.poll(0, 1), session.acknowledge(1)):
            with pytest.raises(Unavailable, match=r"giving up after 2 attempt\(s\)"):
                await call
    assert len(queue.of("poll")) == len(queue.of("acknowledge")) == 2


@pytest.mark.parametrize("kind", ["poll", "acknowledge", "acquire"])
async def test_a_long_pause_is_told_and_not_waited_for(kind: str) -> None:
    # The demo's listener stood still for 45 s and told nobody why.
    limited = in_turn(reply(429, retry_after="45"), reply(204))
    queue = replace(Queue(), **{kind: limited})
    async with session_at(queue) as session:

        async def call() -> object:
            if kind == "acquire":
                return await session.acquire_jobs([1])
            return await (session.poll(0, 1) if kind == "poll" else session.acknowledge(1))

        with pytest.raises(RateLimited) as caught:
            await call()
        assert caught.value.answer.retry_after_s == 45.0
        # Whoever asks again at once is told the same, and GitHub is left alone.
        with pytest.raises(RateLimited) as again:
            await call()
        assert 40 < (again.value.answer.retry_after_s or 0) <= 45
        assert len(queue.of(kind)) == 1


async def test_a_session_that_cannot_be_opened_for_a_rate_limit_says_so_at_once() -> None:
    # The listener said "starting" for a minute, and nobody knew why no job was served.
    queue = Queue(create=lambda seen: reply(429, retry_after="45"))
    for _ in range(2):  # the second time nothing is sent
        with pytest.raises(RateLimited) as caught:
            await session_at(queue).__aenter__()
        assert caught.value.answer.retry_after_s == 45.0
    assert len(queue.of("create")) == 2  # two clients with limits of their own
    client = client_at(queue)
    for _ in range(2):
        with pytest.raises(RateLimited):
            await client.open_session(1, "owner").__aenter__()
    assert len(queue.of("create")) == 3


async def test_nor_does_it_wait_for_tokens_that_a_rate_limit_keeps_back() -> None:
    queue, clock = Queue(), ManualClock()
    stub = Stub(clock, queue)
    limits = HostLimits(clock)
    client = client_of(stub, limits=limits)
    limits.pause("api.github.com", personal_access_token("token").fingerprint).extend(45.0)
    with pytest.raises(RateLimited) as caught:
        await client.open_session(1, "owner").__aenter__()
    assert 40 < (caught.value.answer.retry_after_s or 0) <= 45
    assert (stub.seen, clock.monotonic_s()) == ([], ManualClock().monotonic_s())


async def test_a_poll_waits_for_a_short_pause() -> None:
    queue = Queue(poll=in_turn(reply(429, retry_after="2"), EMPTY))
    async with session_at(queue) as session:
        assert await session.poll(0, 1) is None
        assert len(queue.of("poll")) == 2


async def test_poll_and_acknowledge_renew_the_token_together() -> None:
    queue = Queue()
    queue.poll = lambda seen: reply(401) if seen.token == "t1" else EMPTY
    queue.acknowledge = lambda seen: reply(401 if seen.token == "t1" else 204)
    async with session_at(queue) as session, asyncio.TaskGroup() as group:
        group.create_task(session.poll(0, 1))
        group.create_task(session.acknowledge(1))
    assert len(queue.of("refresh")) == 1


async def test_no_secret_of_the_queue_is_in_an_error() -> None:
    queue = Queue(url="https://user:hush@q.example/msg?sig=hush", poll=lambda seen: reply(400))
    async with session_at(queue) as session:
        with pytest.raises(Refused) as caught:
            await session.poll(0, 1)
    assert "hush" not in str(caught.value)
    assert "https://q.example/msg" in str(caught.value)


# -- time ------------------------------------------------------------------------------------


async def hold(seen: Seen) -> Response:
    await asyncio.sleep(50)
    return EMPTY


def virtual(queue: Queue) -> MessageSession:
    clock = LoopClock(1_800_000_000)
    client = ScaleSetClient(
        "https://github.com/my-org",
        personal_access_token("token"),
        transport=Stub(clock, queue),
        clock=clock,
        random=seeded(1),
    )
    return client.open_session(1, "owner")


@pytest.mark.behaviour("C2 T105")
def test_nothing_waits_for_a_poll(run_virtual: Any) -> None:
    # Weakness W4: upstream queues all of these behind the poll of 50 s.
    async def work() -> None:
        loop = asyncio.get_running_loop()
        queue = Queue(poll=hold)
        async with virtual(queue) as session:
            poll = asyncio.create_task(session.poll(0, 1))
            await asyncio.sleep(1)
            began_s = loop.time()
            assert session.statistics == Statistics(assigned_jobs=7)
            assert session.session_id == "session-1"
            await session.acknowledge(1)
            await session.acquire_jobs([1])
            assert loop.time() - began_s < 0.1
            assert await poll is None
            assert loop.time() == pytest.approx(50, abs=1)

    run_virtual(work())


def test_closing_ends_a_poll_at_once(run_virtual: Any) -> None:
    async def work() -> None:
        queue = Queue(poll=hold)
        session = virtual(queue)
        await session.__aenter__()
        poll = asyncio.create_task(session.poll(0, 1))
        await asyncio.sleep(1)
        await session.close()
        with pytest.raises(SessionLost, match="is closed"):
            await poll
        assert asyncio.get_running_loop().time() < 2
        assert len(queue.of("delete")) == 1

    run_virtual(work())


def test_a_poll_can_be_cancelled(run_virtual: Any) -> None:
    async def work() -> None:
        async with virtual(Queue(poll=hold)) as session:
            poll = asyncio.create_task(session.poll(0, 1))
            await asyncio.sleep(1)
            poll.cancel()
            with pytest.raises(asyncio.CancelledError):
                await poll
            assert asyncio.get_running_loop().time() == 1

    run_virtual(work())


def test_closing_takes_ten_seconds_at_most(run_virtual: Any) -> None:
    # Weakness W12: upstream may try for 25 minutes, and is killed before.
    async def never(seen: Seen) -> Response:
        await asyncio.sleep(1000)
        return reply(204)

    async def work() -> None:
        session = virtual(Queue(delete=never))
        await session.__aenter__()
        await session.close()
        assert asyncio.get_running_loop().time() <= 10.1

    run_virtual(work())


def test_a_silent_poll_is_given_up_after_65_s_and_told(run_virtual: Any) -> None:
    # Seed 3086: GitHub swallowed all that came. Three such attempts in one poll are more than three
    # minutes in which nobody hears that the listener is deaf; it polls again by itself.
    async def work() -> None:
        asked: list[float] = []
        queue = Queue()

        class Silent(Stub):
            async def send(self, request: Any, *, timeout_s: float) -> Response:
                if "queue.example" not in request.url or asked:
                    return await super().send(request, timeout_s=timeout_s)
                asked.append(timeout_s)
                await asyncio.sleep(timeout_s)
                raise NoAnswer("no answer within 65 s")

        clock = LoopClock(1_800_000_000)
        client = ScaleSetClient(
            "https://github.com/my-org",
            personal_access_token("token"),
            transport=Silent(clock, queue),
            clock=clock,
            random=seeded(1),
        )
        async with client.open_session(1, "owner") as session:
            with pytest.raises(Unavailable, match="no answer within 65 s"):
                await session.poll(0, 1)
            assert asked == [65.0]
            assert await session.poll(0, 1) is None

    run_virtual(work())


def test_a_poll_takes_no_place_at_the_host(run_virtual: Any) -> None:
    async def work() -> None:
        clock = LoopClock(1_800_000_000)
        queue = Queue(poll=hold)
        client = ScaleSetClient(
            "https://github.com/my-org",
            personal_access_token("token"),
            transport=Stub(clock, queue),
            clock=clock,
            random=seeded(1),
            limits=HostLimits(clock, concurrency_per_host=1),
        )
        async with client.open_session(1, "owner") as session:
            poll = asyncio.create_task(session.poll(0, 1))
            await asyncio.sleep(1)
            await session.acknowledge(1)
            assert asyncio.get_running_loop().time() < 2
            await poll

    run_virtual(work())


@pytest.mark.parametrize("answered_after_s", [3, 30])
def test_a_session_whose_opening_is_cancelled_is_given_back(
    run_virtual: Any, answered_after_s: float
) -> None:
    async def work() -> None:
        queue = Queue()

        async def slowly(seen: Seen) -> Response:
            await asyncio.sleep(answered_after_s)
            return queue.created(seen)

        queue.create = slowly
        opening = asyncio.create_task(virtual(queue).__aenter__())
        await asyncio.sleep(1)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        # 3 s: the answer came in time and the session was undone; 30 s: it is left to end.
        assert len(queue.of("delete")) == (1 if answered_after_s == 3 else 0)
        assert asyncio.get_running_loop().time() <= 7

    run_virtual(work())


def test_a_session_opened_by_an_acknowledgement_while_closing_is_given_back(
    run_virtual: Any,
) -> None:
    async def work() -> None:
        queue = Queue(acknowledge=lambda seen: reply(404), refresh=lambda seen: reply(404))
        session = virtual(queue)
        await session.__aenter__()

        async def slowly(seen: Seen) -> Response:
            await asyncio.sleep(3)
            return queue.created(seen)

        queue.create = slowly
        acknowledging = asyncio.create_task(session.acknowledge(1))
        await asyncio.sleep(1)
        await session.close()
        with pytest.raises(SessionLost, match="is closed"):
            await acknowledging
        assert queue.of("delete")[-1].path.endswith("/session-2")

    run_virtual(work())


def test_closing_waits_for_the_session_that_a_poll_is_just_opening(run_virtual: Any) -> None:
    async def work() -> None:
        queue = Queue(poll=lambda seen: reply(404))
        session = virtual(queue)
        await session.__aenter__()

        async def slowly(seen: Seen) -> Response:
            await asyncio.sleep(3)
            return queue.created(seen)

        queue.create = slowly
        poll = asyncio.create_task(session.poll(0, 1))
        await asyncio.sleep(1)
        await session.close()
        with pytest.raises(SessionLost):
            await poll
        assert [seen.path.rpartition("/")[2] for seen in queue.of("delete")] == [
            "session-1",
            "session-2",
        ]

    run_virtual(work())
