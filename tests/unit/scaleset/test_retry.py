import asyncio
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest
import structlog

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.errors import (
    CredentialsRefused,
    RateLimited,
    Refused,
    ScaleSetError,
    Unavailable,
)
from runnerscale.scaleset.limits import CLEAN_UP, FRESH_DEMAND, HostLimits
from runnerscale.scaleset.retry import (
    ASKED_MAX_S,
    RetryPolicy,
    asked_wait_s,
    is_passing,
    is_rate_limited,
    retry_after_s,
)
from runnerscale.scaleset.transport import (
    CertificateRefused,
    NoAnswer,
    NotReached,
    ProxyRefused,
    Request,
    Response,
    UnusableRequest,
    redirected,
    send_following,
)
from tests.unit.scaleset.stub import (
    CALM,
    ONE_RETRY,
    Seen,
    Stub,
    client_of,
    in_turn,
    reply,
    stub_with,
)

RUNNER = {"id": 5, "name": "r", "runnerScaleSetId": 1}
JIT = {"runner": RUNNER, "encodedJITConfig": "x"}
OK = reply(200, RUNNER)


async def waits_of(
    *answers: Any, policy: RetryPolicy = CALM, timeout_s: float = 600
) -> list[float]:
    stub = stub_with(in_turn(*answers))
    try:
        await client_of(stub, policy=policy).get_runner(5, timeout_s=timeout_s)
    except ScaleSetError:
        pass
    return stub.clock.slept_s  # type: ignore[attr-defined,no-any-return]


@pytest.mark.behaviour("C2 T73")
async def test_no_retries_is_one_attempt() -> None:
    stub = stub_with(lambda seen: reply(503))
    with pytest.raises(Unavailable, match="503") as caught:
        await client_of(stub, policy=replace(CALM, retries_max=0)).get_runner(5)
    assert len(stub.calls()) == 1
    assert "giving up" not in str(caught.value)


@pytest.mark.behaviour("C2 T74")
@pytest.mark.parametrize(
    ("status", "attempts"),
    [(501, 1), (400, 1), (403, 1), (404, 1), (409, 1), (429, 5), (500, 5), (502, 5), (599, 5)],
)
async def test_only_what_may_pass_is_tried_again(status: int, attempts: int) -> None:
    stub = stub_with(lambda seen: reply(status))
    with pytest.raises(ScaleSetError):
        await client_of(stub).get_runner(5, timeout_s=600)
    assert len(stub.calls()) == attempts


def test_which_statuses_pass_by_themselves() -> None:
    assert [s for s in range(200, 600) if is_passing(s)] == [429, 500, *range(502, 600)]


@pytest.mark.behaviour("C2 T75")
async def test_a_429_waits_as_long_as_it_asks() -> None:
    def dated(seconds: float) -> Response:
        return reply(429, retry_after=formatdate(1_800_000_000 + seconds, usegmt=True))

    assert await waits_of(reply(429, retry_after="2"), OK) == [2.0]
    assert await waits_of(dated(2), OK) == [2.0]
    assert await waits_of(dated(-100), OK) == []
    assert await waits_of(reply(429, retry_after="-1"), OK) == [1.0]
    assert await waits_of(reply(429, retry_after="soon"), OK) == [1.0]
    assert await waits_of(reply(503, retry_after="7"), OK) == [7.0]


@pytest.mark.behaviour("C2 T76")
async def test_other_statuses_do_not_say_how_long() -> None:
    assert await waits_of(reply(502, retry_after="60"), OK) == [1.0]


@pytest.mark.behaviour("C2 T77")
async def test_the_waits_double_up_to_a_cap() -> None:
    assert await waits_of(*[reply(503)] * 4, OK) == [1.0, 2.0, 4.0, 8.0]
    capped = replace(CALM, backoff=Backoff(first_s=1.0, cap_s=3.0, jitter=0.0))
    assert await waits_of(*[reply(503)] * 4, OK, policy=capped) == [1.0, 2.0, 3.0, 3.0]
    assert RetryPolicy().retries_max == 4
    assert RetryPolicy().backoff.jitter > 0  # weakness W7: nobody returns in step


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), (" 12 ", 12.0), ("-1", None), ("1.5", None), ("", None), ("x", None), ("²", None)],
)
def test_how_retry_after_is_read(text: str, seconds: float | None) -> None:
    assert retry_after_s(text, now_s=0.0) == seconds


@pytest.mark.parametrize(
    ("response", "limited", "asked_s"),
    [
        (reply(429), True, None),
        (reply(429, x_ratelimit_remaining="0", x_ratelimit_reset="130"), True, 30.0),
        (reply(429, x_ratelimit_remaining="0", x_ratelimit_reset="soon"), True, None),
        (reply(403), False, 60.0),
        (reply(403, retry_after="9"), True, 9.0),
        (reply(403, x_ratelimit_remaining="0", x_ratelimit_reset="90"), True, 0.0),
        (reply(403, {"message": "You have exceeded a secondary rate limit."}), True, 60.0),
        (
            reply(403, {"message": "Resource not accessible"}, x_ratelimit_remaining="4"),
            False,
            60.0,
        ),
        (reply(503, retry_after="9"), False, 9.0),
        (reply(200, retry_after="9"), False, None),
    ],
)
def test_what_is_a_rate_limit(response: Response, limited: bool, asked_s: float | None) -> None:
    assert is_rate_limited(response) is limited
    assert asked_wait_s(response, now_s=100.0) == asked_s


def test_a_time_of_reset_is_judged_by_the_senders_clock() -> None:
    sent = reply(
        429,
        x_ratelimit_remaining="0",
        x_ratelimit_reset="1030",
        Date=formatdate(1000, usegmt=True),
    )
    assert asked_wait_s(sent, now_s=5000.0) == 30.0


@pytest.mark.parametrize("seconds", ["3601", "9" * 30, "9" * 5000])
def test_nobody_is_kept_waiting_for_ever(seconds: str) -> None:
    said = reply(429, retry_after=seconds)
    reset = reply(429, x_ratelimit_remaining="0", x_ratelimit_reset=seconds)
    date = reply(503, retry_after="Fri, 31 Dec 9999 23:59:59 GMT")
    assert [asked_wait_s(each, now_s=0.0) for each in (said, reset, date)] == [ASKED_MAX_S] * 3


async def test_a_long_wait_is_not_waited_for_but_told() -> None:
    # Weakness W7: upstream waits however long it is told to, and lets everybody wait.
    stub = stub_with(lambda seen: reply(429, retry_after="3600"))
    client = client_of(stub)
    with pytest.raises(RateLimited) as caught:
        await client.get_runner(5, timeout_s=7200)
    assert caught.value.answer.retry_after_s == 3600
    assert stub.clock.slept_s == []
    # Others with the credential are not sent either, for a minute; then one may look again.
    with pytest.raises(RateLimited, match="not sent"):
        await client.get_runner(6, timeout_s=30)
    assert len(stub.calls()) == 1
    stub.clock.advance(60)
    stub.actions = lambda seen: OK
    assert (await client.get_runner(6)).id == 5


async def test_a_pause_is_shared_by_credential_and_not_beyond() -> None:
    stub = stub_with(in_turn(reply(429, retry_after="3600"), OK))
    limits = HostLimits(stub.clock)
    with pytest.raises(RateLimited):
        await client_of(stub, limits=limits).get_runner(5)
    same = client_of(stub, limits=limits, config_url="https://github.com/other")
    with pytest.raises(RateLimited):
        await same.get_runner(5, timeout_s=5)
    other = client_of(stub, limits=limits, credentials=personal_access_token("another"))
    assert (await other.get_runner(5)).id == 5


async def test_a_pause_that_fits_is_waited_for_by_everybody() -> None:
    stub = stub_with(in_turn(reply(429, retry_after="5"), OK))
    client = client_of(stub)
    await client.get_runner(5)
    assert stub.clock.slept_s == [5.0]


@pytest.mark.behaviour("C2 T78")
async def test_a_cancelled_wait_ends_at_once() -> None:
    class Sleepless(LoopClock):
        async def sleep(self, seconds: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

    waiting = asyncio.Event()
    stub = Stub(Sleepless(1_800_000_000), lambda seen: reply(503))
    call = asyncio.create_task(client_of(stub).get_runner(5))
    await waiting.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


@pytest.mark.behaviour("C2 T79")
@pytest.mark.parametrize(
    ("fault", "attempts"),
    [
        (NotReached("refused"), 2),
        (NoAnswer("reset"), 2),
        (CertificateRefused("unknown authority"), 1),
        (ProxyRefused("407"), 1),
        (UnusableRequest("scheme"), 1),
    ],
)
async def test_a_fault_is_tried_again_if_it_may_pass(fault: Exception, attempts: int) -> None:
    stub = stub_with(in_turn(fault, OK))  # type: ignore[arg-type]
    client = client_of(stub)
    if attempts == 2:
        assert (await client.get_runner(5)).id == 5
    else:
        with pytest.raises(Unavailable, match=str(fault)) as caught:
            await client.get_runner(5)
        assert caught.value.__cause__ is fault
    assert len(stub.calls()) == attempts


@pytest.mark.behaviour("C2 T83")
async def test_a_policy_of_ones_own_counts() -> None:
    stub = stub_with(in_turn(reply(503), OK))
    assert (await client_of(stub, policy=replace(CALM, retries_max=3)).get_runner(5)).id == 5
    assert len(stub.calls()) == 2
    stub = stub_with(lambda seen: reply(503))
    with pytest.raises(Unavailable, match=r"giving up after 2 attempt\(s\)"):
        await client_of(stub, policy=ONE_RETRY).get_runner(5)


@pytest.mark.behaviour("C2 T87")
async def test_an_exhausted_call_carries_its_last_answer() -> None:
    stub = stub_with(lambda seen: reply(503, {"message": "m"}, ActivityId="a"))
    with pytest.raises(Unavailable) as caught:
        await client_of(stub).get_runner(5)
    answer = caught.value.answer
    assert (answer.status, answer.attempts, answer.activity_id) == (503, 5, "a")
    assert answer.exception_message == "m"


async def test_a_body_that_breaks_off_is_read_again_where_that_is_harmless() -> None:
    broken = Response(200, "OK", body_fault="reset")
    stub = stub_with(in_turn(broken, OK))
    assert (await client_of(stub).get_runner(5)).id == 5
    stub = stub_with(lambda seen: broken)
    with pytest.raises(ScaleSetError, match="failed to read error response body: reset"):
        await client_of(stub, policy=ONE_RETRY).get_runner(5)


@pytest.mark.behaviour("C2 T85")
async def test_requests_and_retries_are_logged_and_no_secret_with_them() -> None:
    stub = stub_with(in_turn(reply(503), OK))
    client = client_of(
        stub,
        credentials=personal_access_token("ghp_hush"),
        config_url="https://user:hush@github.com/my-org",
    )
    with structlog.testing.capture_logs() as lines:
        await client.get_runner(5)
    events = [line["event"] for line in lines]
    assert events.count("request sent") == 4
    assert events.count("request is tried again") == 1
    retried = next(line for line in lines if line["event"] == "request is tried again")
    assert (retried["method"], retried["because"]) == ("GET", "503 Service Unavailable")
    assert "hush" not in str(lines)


@pytest.mark.behaviour("C2 T85")
async def test_where_logs_are_dropped_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    kept = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        await client_of(stub_with(in_turn(reply(503), OK))).get_runner(5)
    finally:
        structlog.configure(**kept)
    assert capsys.readouterr().out == ""


@pytest.mark.behaviour("C2 T86")
@pytest.mark.parametrize(
    ("status", "method", "body"),
    [
        (307, "POST", b"the-body"),
        (308, "POST", b"the-body"),
        (301, "GET", None),
        (302, "GET", None),
        (303, "GET", None),
    ],
)
async def test_a_redirect_keeps_method_and_body_where_it_says_so(
    status: int, method: str, body: bytes | None
) -> None:
    request = Request("POST", "https://h/a", {"Authorization": "Bearer t"}, b"the-body")
    answers = in_turn(reply(status, location="/b?c=d"), reply(200, RUNNER))
    stub = stub_with(answers)
    await send_following(stub, request, timeout_s=5)
    followed = stub.seen[1].request
    assert (followed.method, followed.url, followed.body) == (method, "https://h/b?c=d", body)
    assert followed.headers == {"Authorization": "Bearer t"}


@pytest.mark.parametrize(
    ("location", "kept"),
    [
        ("https://h:443/b", True),
        ("https://H/b", True),
        ("https://other/b", False),
        ("http://h/b", False),
        ("https://h:8443/b", False),
        ("//evil/b", False),
    ],
)
def test_a_token_goes_to_nobody_else(location: str, kept: bool) -> None:
    request = Request("GET", "https://h/a", {"authorization": "Bearer t", "User-Agent": "u"})
    followed = redirected(request, reply(307, location=location))
    assert followed is not None
    assert ("authorization" in followed.headers) is kept
    assert followed.headers["User-Agent"] == "u"


async def test_redirects_come_to_an_end() -> None:
    stub = stub_with(lambda seen: reply(307, location="/again"))
    with pytest.raises(Unavailable, match="stopped after 10 redirects"):
        await client_of(stub).get_runner(5)
    stub = stub_with(lambda seen: reply(307, location="https://h:x/"))
    with pytest.raises(Unavailable, match="cannot be read"):
        await client_of(stub).get_runner(5)
    stub = stub_with(lambda seen: reply(307))
    with pytest.raises(ScaleSetError, match="unexpected status code 307"):
        await client_of(stub).get_runner(5)


def virtual_client(stub: Stub, limits: HostLimits) -> ScaleSetClient:
    return ScaleSetClient(
        "https://github.com/my-org",
        personal_access_token("token"),
        transport=stub,
        clock=stub.clock,
        random=seeded(1),
        limits=limits,
    )


@pytest.mark.behaviour("C1 T185")
def test_a_hanging_call_holds_up_nobody_else(run_virtual: Any) -> None:
    # Weakness W10/W3: upstream makes one call at a time.
    async def work() -> None:
        clock = LoopClock(1_800_000_000)

        async def actions(seen: Seen) -> Response:
            if seen.method == "GET":
                return reply(200, {"count": 0, "value": []})
            if seen.json["name"] == "runner-13":
                await asyncio.sleep(100_000)
            await asyncio.sleep(0.1)
            return reply(200, JIT)

        client = virtual_client(Stub(clock, actions), HostLimits(clock))
        began_s = clock.monotonic_s()
        calls = [
            asyncio.create_task(client.generate_jit_config(1, f"runner-{number}", timeout_s=20))
            for number in range(100)
        ]
        done, hanging = await asyncio.wait(calls, timeout=1)
        assert (len(done), len(hanging)) == (99, 1)
        # 64 at once: two rounds of a tenth of a second.
        assert clock.monotonic_s() - began_s <= 1.0
        with pytest.raises(Unavailable, match="20 s"):
            await hanging.pop()
        assert clock.monotonic_s() - began_s == pytest.approx(20, abs=0.5)

    run_virtual(work())


def test_a_host_gets_so_many_calls_at_once_and_fresh_demand_first(run_virtual: Any) -> None:
    async def work() -> None:
        clock = LoopClock(1_800_000_000)
        inside, most, order = 0, 0, []

        async def actions(seen: Seen) -> Response:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            order.append(seen.method)
            await asyncio.sleep(1)
            inside -= 1
            return reply(204) if seen.method == "DELETE" else reply(200, JIT)

        client = virtual_client(Stub(clock, actions), HostLimits(clock, concurrency_per_host=4))
        async with asyncio.TaskGroup() as group:
            for number in range(12):
                group.create_task(client.remove_runner(number + 1, urgency=CLEAN_UP))
            await asyncio.sleep(0.5)  # the first four removals are under way
            for number in range(4):
                group.create_task(client.generate_jit_config(1, f"r{number}", urgency=FRESH_DEMAND))
        assert most == 4
        assert order == ["DELETE"] * 4 + ["POST"] * 4 + ["DELETE"] * 8

    run_virtual(work())


def test_an_attempt_has_its_deadline_and_the_call_its_own(run_virtual: Any) -> None:
    async def work() -> None:
        clock = LoopClock(1_800_000_000)
        asked: list[float] = []

        class Silent(Stub):
            async def send(self, request: Any, *, timeout_s: float) -> Response:
                if "tenant.example" not in request.url:
                    return await super().send(request, timeout_s=timeout_s)
                asked.append(round(timeout_s, 1))
                await asyncio.sleep(timeout_s)
                raise NoAnswer(f"no answer within {timeout_s:g} s")

        client = virtual_client(Silent(clock), HostLimits(clock))
        began_s = clock.monotonic_s()
        with pytest.raises(Unavailable, match="no answer within") as caught:
            await client.get_runner(5, timeout_s=50)
        assert clock.monotonic_s() - began_s == pytest.approx(50, abs=0.1)
        assert asked[0] == 30.0
        assert asked[1] < 20.0
        assert caught.value.sent

    run_virtual(work())


def test_a_call_that_never_got_a_place_was_not_sent(run_virtual: Any) -> None:
    async def work() -> None:
        clock = LoopClock(1_800_000_000)

        async def actions(seen: Seen) -> Response:
            await asyncio.sleep(25)
            return OK

        client = virtual_client(Stub(clock, actions), HostLimits(clock, concurrency_per_host=1))
        first = asyncio.create_task(client.get_runner(1))
        await asyncio.sleep(1)
        with pytest.raises(Unavailable, match="5 s") as caught:
            await client.get_runner(2, timeout_s=5)
        assert not caught.value.sent
        assert (await first).id == 5

    run_virtual(work())


async def test_a_403_without_a_rate_limit_is_a_refusal() -> None:
    stub = stub_with(lambda seen: reply(403, {"message": "Resource not accessible"}))
    with pytest.raises(CredentialsRefused, match="Resource not accessible"):
        await client_of(stub).get_runner(5)
    assert issubclass(CredentialsRefused, Refused)


def test_who_waits_for_a_place_heeds_a_pause_asked_for_meanwhile(run_virtual: Any) -> None:
    async def work() -> None:
        clock = LoopClock(1_800_000_000)
        times: list[float] = []

        async def actions(seen: Seen) -> Response:
            times.append(round(clock.monotonic_s()))
            await asyncio.sleep(1)
            return reply(429, retry_after="20") if len(times) == 1 else OK

        limits = HostLimits(clock, concurrency_per_host=1)
        client = client_of(Stub(clock, actions), limits=limits)
        async with asyncio.TaskGroup() as group:
            group.create_task(client.get_runner(1))
            group.create_task(client.get_runner(2))
        assert times == [0, 21, 22]

    run_virtual(work())
