import asyncio
from email.utils import formatdate
from typing import Any

import jwt as pyjwt
import pytest
from structlog.testing import capture_logs

from runnerscale.core.clock import LoopClock
from runnerscale.scaleset.credentials import app_credentials, personal_access_token
from runnerscale.scaleset.errors import (
    BadAnswer,
    CredentialsRefused,
    RateLimited,
    Refused,
    Unavailable,
)
from runnerscale.scaleset.transport import NotReached
from tests.unit.scaleset.stub import (
    TENANT,
    Seen,
    Stub,
    admin_jwt,
    client_of,
    in_turn,
    reply,
    stub_with,
)
from tests.unit.scaleset.test_scaleset_credentials import PKCS8

GROUPS = {"count": 1, "value": [{"id": 1, "name": "g"}]}
REGISTER = "/actions/runner-registration"
REGISTRATION_TOKEN = "/registration-token"


def answering(seen: Seen) -> Any:
    return reply(200, GROUPS)


def rest_paths(stub: Stub) -> list[str]:
    return [seen.path for seen in stub.calls(rest=True)]


def http_date(seconds: float) -> str:
    return formatdate(seconds, usegmt=True)


@pytest.mark.behaviour("C2 T10")
async def test_a_fresh_client_registers_once_and_uses_the_admin_token() -> None:
    stub = stub_with(answering)
    client = client_of(stub)
    await client.get_runner_group("g")
    await client.get_runner_group("g")
    assert rest_paths(stub) == [
        "/orgs/my-org/actions/runners/registration-token",
        "/actions/runner-registration",
    ]
    sent = {seen.headers["Authorization"] for seen in stub.calls()}
    assert sent == {f"Bearer {admin_jwt(exp=stub.clock.now_s() + 3600)}"}


@pytest.mark.behaviour("C2 T11", "C2 T12", "C2 T14")
async def test_a_token_is_replaced_in_the_minute_before_it_ends_and_not_earlier() -> None:
    stub = stub_with(answering)
    marks = iter(["first", "second"])
    stub.rest[REGISTER] = lambda seen: stub.registered(next(marks))
    client = client_of(stub)
    await client.get_runner_group("g")
    stub.clock.advance(3600 - 61)
    await client.get_runner_group("g")
    assert len(rest_paths(stub)) == 2
    stub.clock.advance(2)  # 59 s are left
    await client.get_runner_group("g")
    tokens = [seen.token for seen in stub.calls()]
    assert tokens[0] == tokens[1] != tokens[2]
    assert tokens[2] == admin_jwt(exp=stub.clock.now_s() + 3600, mark="second")


@pytest.mark.behaviour("C2 T13")
async def test_a_refusal_is_confirmed_once_and_changes_nothing() -> None:
    # Upstream asks five times, under a lock, and again for the next caller (weakness W20).
    stub = stub_with(answering)
    client = client_of(stub)
    await client.get_runner_group("g")
    before = stub.calls()[-1].token
    stub.rest[REGISTER] = lambda seen: reply(401, {"message": "test"})
    stub.clock.advance(3600 - 59)
    asked = len(rest_paths(stub))
    with pytest.raises(CredentialsRefused, match="test") as caught:
        await client.get_runner_group("g")
    assert caught.value.answer.status == 401
    assert rest_paths(stub)[asked:].count(REGISTER) == 2
    # Remembered for a moment: the next caller hears it without a call.
    asked = len(stub.seen)
    with pytest.raises(CredentialsRefused, match="test"):
        await client.get_runner_group("g")
    assert len(stub.seen) == asked
    stub.clock.advance(11)
    del stub.rest[REGISTER]
    await client.get_runner_group("g")
    assert stub.calls()[-1].token != before


async def test_only_tokens_that_were_got_are_told_of() -> None:
    # The line stood in the log every 16 s while GitHub refused the credentials.
    stub = stub_with(answering)
    client = client_of(stub)
    stub.rest[REGISTER] = lambda seen: reply(401, {"message": "test"})
    with capture_logs() as lines, pytest.raises(CredentialsRefused):
        await client.get_runner_group("g")
    assert [line for line in lines if line["log_level"] != "debug"] == []
    stub.clock.advance(11)
    del stub.rest[REGISTER]
    with capture_logs() as lines:
        await client.get_runner_group("g")
    told = [line["event"] for line in lines if line["log_level"] == "info"]
    assert told == ["tokens are refreshed"]


@pytest.mark.behaviour("C2 T14", "C2 T15")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_right_after_the_credential_was_made_passes(status: int) -> None:
    # GitHub is eventually consistent; the confirmation begins with a new registration token.
    stub = stub_with(answering)
    calm = iter([reply(status, {"message": "not yet"})])
    stub.rest[REGISTER] = lambda seen: next(calm, None) or stub.registered("late")
    client = client_of(stub)
    await client.get_runner_group("g")
    assert stub.calls()[-1].token == admin_jwt(exp=stub.clock.now_s() + 3600, mark="late")
    assert [path.rpartition("/")[2] for path in rest_paths(stub)] == [
        "registration-token",
        "runner-registration",
    ] * 2
    assert stub.clock.slept_s == [1.0]


@pytest.mark.behaviour("C2 T15")
async def test_a_missing_place_is_told_after_one_attempt() -> None:
    stub = stub_with(answering)
    stub.rest[REGISTER] = lambda seen: reply(404)
    with pytest.raises(Refused, match="404 Not Found") as caught:
        await client_of(stub).get_runner_group("g")
    assert not isinstance(caught.value, CredentialsRefused)
    assert rest_paths(stub).count(REGISTER) == 1


@pytest.mark.behaviour("C2 T16", "C2 T17", "C2 T18")
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"url": "", "token": "x"}, "missing url"),
        ({"url": "http://h"}, "missing token"),
        ({"url": "h/x", "token": "x"}, "no absolute http"),
        ({"url": "http://h:x/", "token": "x"}, "no absolute http"),
        ({"url": TENANT, "token": "not a jwt"}, "not a JWT"),
        ({"url": TENANT, "token": "a.!!!.c"}, "not a JWT"),
        ({"url": TENANT, "token": admin_jwt(exp=None)}, "no numeric exp"),
        ({"url": TENANT, "token": admin_jwt(exp="soon")}, "no numeric exp"),
        ([], "not a JSON object"),
    ],
)
async def test_a_registration_that_cannot_be_used_keeps_what_we_have(body: Any, said: str) -> None:
    stub = stub_with(answering)
    client = client_of(stub)
    await client.get_runner_group("g")
    good = stub.calls()[-1].token
    stub.rest[REGISTER] = lambda seen: reply(200, body)
    stub.clock.advance(3600 - 59)
    with pytest.raises(BadAnswer, match=said) as caught:
        await client.get_runner_group("g")
    assert "a.!!!.c" not in str(caught.value)
    # The old pair is still there and still consistent: a clock set back finds it valid.
    stub.clock.advance(-120)
    await client.get_runner_group("g")
    assert stub.calls()[-1].token == good


@pytest.mark.behaviour("C2 T19")
async def test_a_registration_token_must_be_created() -> None:
    stub = stub_with(answering)
    stub.rest[REGISTRATION_TOKEN] = lambda seen: reply(200, {"token": "x"})
    with pytest.raises(BadAnswer) as caught:
        await client_of(stub).get_runner_group("g")
    assert "failed to get runner registration token" in str(caught.value)
    assert "200 OK" in str(caught.value)


@pytest.mark.behaviour("C2 T20", "C2 T24", "C2 T23")
async def test_an_app_goes_by_its_installation() -> None:
    stub = stub_with(answering)
    stub.rest["/access_tokens"] = lambda seen: reply(201, {"token": "installation"})
    client = client_of(stub, credentials=app_credentials("Iv1", 123, PKCS8))
    await client.get_runner_group("g")
    first, second, third = stub.calls(rest=True)
    assert first.path == "/app/installations/123/access_tokens"
    claims = pyjwt.decode(first.token, options={"verify_signature": False})
    assert claims["iss"] == "Iv1"
    assert claims["exp"] - claims["iat"] == 540
    assert claims["iat"] <= stub.clock.now_s() - 59
    assert first.headers["Content-Type"] == "application/vnd.github+json"
    assert first.request.body is None
    assert second.headers["Authorization"] == "Bearer installation"
    assert second.headers["Content-Type"] == "application/vnd.github.v3+json"
    assert third.headers["Authorization"] == "RemoteAuth registration"
    assert third.json == {"url": "https://github.com/my-org", "runner_event": "register"}
    assert "Accept" not in third.headers


@pytest.mark.behaviour("C2 T22", "C2 T23")
@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://github.com/my-org/", "/orgs/my-org"),
        ("https://github.com/enterprises/my-e", "/enterprises/my-e"),
        ("https://github.com/my-org/my-repo", "/repos/my-org/my-repo"),
    ],
)
async def test_each_scope_has_its_path(url: str, path: str) -> None:
    stub = stub_with(answering)
    await client_of(stub, config_url=url).get_runner_group("g")
    assert rest_paths(stub)[0] == f"{path}/actions/runners/registration-token"
    assert stub.calls(rest=True)[1].json["url"] == url.strip("/")


@pytest.mark.behaviour("C2 T25")
async def test_a_token_of_one_minute_is_good_for_one_call() -> None:
    stub = stub_with(answering)
    stub.token_life_s = 60
    client = client_of(stub)
    await client.get_runner_group("g")
    await client.get_runner_group("g")
    assert rest_paths(stub).count("/actions/runner-registration") == 2


async def test_what_leads_to_the_admin_token_is_used_again_while_it_lasts() -> None:
    # Weakness W21: upstream fetches all three anew each time.
    stub = stub_with(answering)
    stub.token_life_s = 600
    ends = "2027-01-15T09:00:00Z"  # an hour after the clock's start, 1_800_000_000
    stub.rest["/access_tokens"] = lambda seen: reply(201, {"token": "i", "expires_at": ends})
    stub.rest[REGISTRATION_TOKEN] = lambda seen: reply(201, {"token": "r", "expires_at": ends})
    client = client_of(stub, credentials=app_credentials("1", 1, PKCS8))
    for _ in range(4):
        await client.get_runner_group("g")
        stub.clock.advance(600)
    names = [path.rpartition("/")[2] for path in rest_paths(stub)]
    assert names == ["access_tokens", "registration-token", *["runner-registration"] * 4]
    stub.clock.advance(1200)  # the hour is over
    await client.get_runner_group("g")
    assert len(rest_paths(stub)) == len(names) + 3


async def test_a_remembered_token_that_was_revoked_costs_one_refusal() -> None:
    stub = stub_with(answering)
    ends = "2027-01-15T09:00:00Z"
    marks = iter(["r1", "r2"])
    stub.rest[REGISTRATION_TOKEN] = lambda seen: reply(
        201, {"token": next(marks), "expires_at": ends}
    )
    stub.token_life_s = 600
    client = client_of(stub)
    await client.get_runner_group("g")
    stub.clock.advance(600)
    stub.rest[REGISTER] = lambda seen: (
        reply(403, {"message": "revoked"}) if seen.token == "r1" else stub.registered()
    )
    await client.get_runner_group("g")
    assert [s.token for s in stub.calls(rest=True) if s.path == REGISTER] == ["r1", "r1", "r2"]


@pytest.mark.behaviour("C2 T26")
async def test_twenty_calls_with_an_expired_token_refresh_once() -> None:
    stub = stub_with(answering)

    async def slowly(seen: Seen) -> Any:
        await asyncio.sleep(0)
        return stub.registered()

    stub.rest[REGISTER] = slowly
    client = client_of(stub)
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(client.get_runner_group("g"))
    assert rest_paths(stub).count(REGISTER) == 1
    assert len(stub.calls()) == 20


async def test_who_started_a_refresh_may_give_up_without_harm_to_the_others() -> None:
    stub = stub_with(answering)
    gate = asyncio.Event()

    async def held(seen: Seen) -> Any:
        await gate.wait()
        return stub.registered()

    stub.rest[REGISTER] = held
    client = client_of(stub)
    first = asyncio.create_task(client.get_runner_group("g"))
    second = asyncio.create_task(client.get_runner_group("g"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.set()
    assert (await second).id == 1
    assert rest_paths(stub).count(REGISTER) == 1


def test_a_call_whose_tokens_wait_for_a_rate_limit_says_so(run_virtual: Any) -> None:
    async def work() -> None:
        stub = Stub(LoopClock(1_800_000_000), answering)
        answers = iter([reply(429, retry_after="45")])
        stub.rest[REGISTER] = lambda seen: next(answers, None) or stub.registered()
        client = client_of(stub)
        with pytest.raises(RateLimited, match="rate limit asks to wait 15 s more") as caught:
            await client.get_runner_group("g", timeout_s=30)
        assert not caught.value.sent
        await client.get_runner_group("g", timeout_s=30)  # the tokens come when it is over

    run_virtual(work())


def test_a_call_does_not_wait_for_tokens_longer_than_it_has(run_virtual: Any) -> None:
    async def work() -> None:
        stub = Stub(LoopClock(1_800_000_000), answering)

        async def slowly(seen: Seen) -> Any:
            await asyncio.sleep(20)
            return stub.registered()

        stub.rest[REGISTER] = slowly
        client = client_of(stub)
        with pytest.raises(Unavailable, match="no answer within the 5 s") as caught:
            await client.get_runner_group("g", timeout_s=5)
        assert not caught.value.sent
        # The refresh went on, and serves the next call.
        await client.get_runner_group("g", timeout_s=16)
        assert rest_paths(stub).count(REGISTER) == 1

    run_virtual(work())


async def test_closing_the_client_ends_a_refresh_with_an_error_for_who_waits() -> None:
    stub = stub_with(answering)

    asked = asyncio.Event()

    async def never(seen: Seen) -> Any:
        asked.set()
        await asyncio.Event().wait()

    stub.rest[REGISTER] = never
    client = client_of(stub)
    call = asyncio.create_task(client.get_runner_group("g"))
    await asked.wait()
    await client.close()
    with pytest.raises(Unavailable, match="client was closed"):
        await call
    assert stub.closed


async def test_a_401_of_the_service_renews_the_token_once_and_repeats_once() -> None:
    # Weakness W19.
    stub = stub_with()
    marks = iter(["old", "new"])
    stub.rest[REGISTER] = lambda seen: stub.registered(next(marks))
    old = admin_jwt(exp=stub.clock.now_s() + 3600, mark="old")
    stub.actions = lambda seen: reply(401) if seen.token == old else answering(seen)
    client = client_of(stub)
    assert (await client.get_runner_group("g")).id == 1
    assert [seen.token == old for seen in stub.calls()] == [True, False]
    assert rest_paths(stub).count(REGISTER) == 2


@pytest.mark.behaviour("C2 T74")
async def test_a_service_that_refuses_new_tokens_too_is_believed() -> None:
    stub = stub_with(lambda seen: reply(401, {"message": "no"}))
    marks = iter("abcdefgh")
    stub.rest[REGISTER] = lambda seen: stub.registered(next(marks))
    client = client_of(stub)
    with pytest.raises(CredentialsRefused):
        await client.get_runner_group("g")
    assert len(stub.calls()) == 2
    # And it does not make us fetch tokens for ever.
    with pytest.raises(CredentialsRefused):
        await client.get_runner_group("g")
    assert rest_paths(stub).count(REGISTER) == 2
    stub.clock.advance(10)
    with pytest.raises(CredentialsRefused):
        await client.get_runner_group("g")
    assert rest_paths(stub).count(REGISTER) == 3


async def test_a_late_401_does_not_throw_away_a_newer_token() -> None:
    stub = stub_with(answering)
    marks = iter("abcdefgh")
    stub.rest[REGISTER] = lambda seen: stub.registered(next(marks))
    asked, held = asyncio.Event(), asyncio.Event()
    first = admin_jwt(exp=stub.clock.now_s() + 3600, mark="a")

    async def actions(seen: Seen) -> Any:
        if seen.token == first and seen.query["groupName"] == ["slow"]:
            asked.set()
            await held.wait()
        return reply(401) if seen.token == first else answering(seen)

    stub.actions = actions
    client = client_of(stub)
    slow = asyncio.create_task(client.get_runner_group("slow"))
    await asked.wait()
    await client.get_runner_group("quick")
    held.set()
    await slow
    assert rest_paths(stub).count(REGISTER) == 2


@pytest.mark.parametrize("ours_s", [-7200.0, 7200.0])
async def test_a_wrong_clock_of_ours_is_seen_through(ours_s: float) -> None:
    # Weakness W22. GitHub's time is `ours_s` away from ours; tokens live an hour of either.
    stub = stub_with(answering)

    def register(seen: Seen) -> Any:
        theirs_s = stub.clock.now_s() + ours_s
        token = admin_jwt(exp=theirs_s + 3600)
        return reply(200, {"url": TENANT, "token": token}, Date=http_date(theirs_s))

    stub.rest[REGISTER] = register
    client = client_of(stub)
    await client.get_runner_group("g")
    stub.clock.advance(3500)
    await client.get_runner_group("g")
    assert rest_paths(stub).count(REGISTER) == 1
    stub.clock.advance(50)
    await client.get_runner_group("g")
    assert rest_paths(stub).count(REGISTER) == 2


async def test_a_token_that_seems_to_have_ended_when_issued_gets_a_fixed_life() -> None:
    stub = stub_with(answering)
    stub.rest[REGISTER] = lambda seen: reply(200, {"url": TENANT, "token": admin_jwt(exp=5)})
    client = client_of(stub)
    await client.get_runner_group("g")
    stub.clock.advance(200)
    await client.get_runner_group("g")
    assert rest_paths(stub).count(REGISTER) == 1
    stub.clock.advance(50)
    await client.get_runner_group("g")
    assert rest_paths(stub).count(REGISTER) == 2


async def test_an_app_jwt_is_dated_by_githubs_clock_after_the_first_refusal() -> None:
    stub = stub_with(answering)
    theirs_s = stub.clock.now_s() + 3600

    def install(seen: Seen) -> Any:
        claims = pyjwt.decode(seen.token, options={"verify_signature": False, "verify_exp": False})
        late = claims["exp"] <= theirs_s
        return reply(401 if late else 201, {"token": "i"}, Date=http_date(theirs_s))

    stub.rest["/access_tokens"] = install
    await client_of(stub, credentials=app_credentials("1", 1, PKCS8)).get_runner_group("g")
    assert [p.rpartition("/")[2] for p in rest_paths(stub)][:2] == ["access_tokens"] * 2


async def test_rotated_credentials_are_used_from_the_next_call_on() -> None:
    stub = stub_with(answering)
    client = client_of(stub)
    await client.get_runner_group("g")
    client.use_credentials(personal_access_token("token"))  # the same: nothing happens
    await client.get_runner_group("g")
    assert len(rest_paths(stub)) == 2
    client.use_credentials(personal_access_token("rotated"))
    await client.get_runner_group("g")
    assert [s.token for s in stub.calls(rest=True)] == [
        "token",
        "registration",
        "rotated",
        "registration",
    ]


async def test_rotation_ends_a_remembered_refusal() -> None:
    stub = stub_with(answering)
    stub.rest[REGISTRATION_TOKEN] = lambda seen: (
        reply(401) if seen.token == "token" else reply(201, {"token": "r"})
    )
    client = client_of(stub)
    with pytest.raises(CredentialsRefused):
        await client.get_runner_group("g")
    client.use_credentials(personal_access_token("rotated"))
    assert (await client.get_runner_group("g")).id == 1


@pytest.mark.parametrize(
    "answers",
    [
        (NotReached("refused"), reply(201, {"token": "r"})),
        (reply(503), reply(201, {"token": "r"})),
        (reply(429, retry_after="3"), reply(201, {"token": "r"})),
        (reply(403, {"message": "slow down"}, retry_after="3"), reply(201, {"token": "r"})),
    ],
)
async def test_what_passes_is_waited_for(answers: Any) -> None:
    stub = stub_with(answering)
    stub.rest[REGISTRATION_TOKEN] = in_turn(*answers)
    assert (await client_of(stub).get_runner_group("g")).id == 1


async def test_a_rate_limit_is_no_refusal() -> None:
    stub = stub_with(answering)
    stub.rest[REGISTRATION_TOKEN] = lambda seen: reply(
        403,
        {"message": "slow down"},
        x_ratelimit_remaining="0",
        x_ratelimit_reset=str(int(stub.clock.now_s()) + 900),
    )
    with pytest.raises(RateLimited) as caught:
        await client_of(stub).get_runner_group("g")
    assert caught.value.answer.retry_after_s == 900
    assert len(rest_paths(stub)) == 1


async def test_no_secret_is_in_a_refusal() -> None:
    stub = stub_with(answering)
    stub.rest[REGISTRATION_TOKEN] = lambda seen: reply(401, {"message": "Bad credentials"})
    client = client_of(
        stub,
        config_url="https://user:hush@github.com/my-org",
        credentials=personal_access_token("ghp_hush"),
    )
    with pytest.raises(CredentialsRefused, match="Bad credentials") as caught:
        await client.get_runner_group("g")
    assert "hush" not in str(caught.value) + repr(caught.value)
    assert "https://github.com/my-org" in str(caught.value)
