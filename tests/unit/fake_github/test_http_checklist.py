"""Contract C2 2.15, row by row, over HTTP: what a client needs in order to accept us."""

import asyncio
import base64
import io
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnerscale.fake_github.dispatch import HANDLERS
from runnerscale.fake_github.options import AssignmentMode, HostedBackend
from tests.unit.fake_github.http_world import ACCEPT, NIL, Client, github

RunVirtual = Callable[[Coroutine[Any, Any, None]], None]
SETS = "/runtime/runnerscalesets"
AGENTS = "/distributedtask/pools/0/agents"


def virtual_s() -> float:
    return asyncio.get_running_loop().time()


# --- row 1: URL forms -------------------------------------------------------------------------


def test_row_1_an_unknown_host_is_ghes_and_needs_the_prefix(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github("http://ghes.example:8480") as client:
            reply = await client.register()
            assert reply.json["url"].startswith("http://ghes.example:8480/_services/pipelines/")
            bare = await client.send("POST", "/orgs/o/actions/runners/registration-token")
            assert bare.status == 404
            await client.scale_set()
            await client.open()
            assert client.queue_url.startswith(client.tenant + "_apis/runtime/runnerscalesets/1/")
            assert client.queue_url.endswith(f"?sessionId={client.session_id}")

    run_virtual(story())


@pytest.mark.parametrize(
    ("api", "tenant", "queue"),
    [
        (
            "http://api.github.com",
            "http://broker.actions.githubusercontent.com/rest",
            "http://broker.actions.githubusercontent.com/scalesets/message",
        ),
        (
            "http://api.github.localhost",
            "http://broker.actions.github.localhost/rest",
            "http://broker.actions.github.localhost/scalesets/message",
        ),
        (
            "http://api.acme.ghe.com",
            "http://broker.actions.acme.ghe.com/rest",
            "http://broker.actions.acme.ghe.com/scalesets/message",
        ),
    ],
)
def test_row_1_api_hosts_have_no_prefix_and_lead_to_the_broker(
    run_virtual: RunVirtual, api: str, tenant: str, queue: str
) -> None:
    async def story() -> None:
        async with github(api) as client:
            assert (await client.register()).json["url"] == tenant
            prefixed = await client.send(
                "POST", "/api/v3/orgs/my-org/actions/runners/registration-token"
            )
            assert prefixed.status == 404
            await client.scale_set()
            await client.open()
            assert client.queue_url == queue
            await client.queue_jobs()
            first = await client.poll()
            assert first.status == 200
            assert (await client.acknowledge(first.json["messageId"])).status == 204

    run_virtual(story())


def test_row_1_api_hosts_may_lead_to_the_older_pipelines_form(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        options = {"hosted_backend": HostedBackend.PIPELINES}
        async with github("http://api.github.com", **options) as client:
            await client.ready()
            root = "http://pipelines.actions.githubusercontent.com/"
            assert client.tenant.startswith(root)
            assert client.queue_url.startswith(client.tenant)
            await client.queue_jobs()
            assert (await client.poll()).status == 200

    run_virtual(story())


# --- row 2: exact status codes ----------------------------------------------------------------


def test_row_2_every_success_has_exactly_its_status(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(poll_hold_s=5) as client:
            token = await client.send(
                "POST",
                "/api/v3/orgs/my-org/actions/runners/registration-token",
                headers={"Authorization": "Bearer pat"},
            )
            assert token.status == 201
            assert set(token.json) == {"token", "expires_at"}
            assert (await client.register()).status == 200
            created = await client.service("POST", SETS, json={"name": "demo"})
            assert created.status == 200
            client.scale_set_id = created.json["id"]
            statuses = {
                "get": await client.service("GET", f"{SETS}/1"),
                "update": await client.service("PATCH", f"{SETS}/1", json={"name": "other"}),
                "find": await client.service("GET", SETS, params={"name": "other"}),
                "groups": await client.service("GET", "/runtime/runnergroups/"),
                "session": await client.open(),
                "refresh": await client.service("PATCH", f"{SETS}/1/sessions/{client.session_id}"),
                "jit": await client.jit("r-1"),
                "runner": await client.service("GET", f"{AGENTS}/1"),
                "find runner": await client.service("GET", AGENTS, params={"agentName": "r-1"}),
            }
            assert {name: reply.status for name, reply in statuses.items()} == dict.fromkeys(
                statuses, 200
            )
            client.take_session(statuses["refresh"])
            assert (await client.poll()).status == 202
            assert (await client.acknowledge(0)).status == 204
            for path in (f"{AGENTS}/1", f"{SETS}/1/sessions/{client.session_id}", f"{SETS}/1"):
                reply = await client.service("DELETE", path)
                assert (reply.status, reply.body) == (204, b"")

    run_virtual(story())


def test_row_2_acquire_answers_200_with_the_ids_it_gave(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(assignment=AssignmentMode.ACQUIRE) as client:
            await client.ready()
            await client.queue_jobs(3)
            message = await client.poll()
            offered = json.loads(message.json["body"])
            ids = [each["runnerRequestId"] for each in offered]
            assert ids == [1, 2, 3]
            reply = await acquire(client, [1, 3])
            assert (reply.status, reply.json) == (200, {"count": 2, "value": [1, 3]})
            assert (await acquire(client, [])).json == {"count": 0, "value": []}
            assert (await acquire(client, None)).json == {"count": 0, "value": []}
            listed = await client.service("GET", f"{SETS}/1/acquirablejobs")
            assert [each["runnerRequestId"] for each in listed.json["value"]] == [2]
            await acquire(client, [2])
            assert (await client.service("GET", f"{SETS}/1/acquirablejobs")).status == 204

    run_virtual(story())


async def acquire(client: Client, ids: list[int] | None, token: str = "") -> Any:
    return await client.service(
        "POST",
        f"{SETS}/{client.scale_set_id}/acquirejobs",
        data=json.dumps(ids),
        headers={
            "Authorization": f"Bearer {token or client.queue_token}",
            "Content-Type": "application/json",
        },
    )


# --- row 3: the admin JWT ----------------------------------------------------------------------


def test_row_3_the_admin_token_is_a_jwt_with_a_numeric_exp(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(admin_token_life_s=3_600) as client:
            await client.register()
            import jwt

            claims = jwt.decode(client.admin, options={"verify_signature": False})
            assert claims["exp"] - client.fake.hub.now_s() == pytest.approx(3_600, abs=1)
            assert isinstance(claims["exp"], int)
            assert client.tenant.startswith("http://127.0.0.1:8480/")

    run_virtual(story())


def test_row_3_a_skewed_clock_shows_in_date_and_tokens(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(clock_skew_s=-600) as client:
            reply = await client.register()
            assert reply.headers["Date"] == "Fri, 15 Jan 2027 07:50:00 GMT"
            await client.scale_set()

    run_virtual(story())


# --- row 4: sessions and whose token is asked for ----------------------------------------------


def test_row_4_a_session_has_all_that_a_client_needs(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register()
            await client.scale_set()
            session = (await client.open("listener-1")).json
            assert session["sessionId"] not in ("", NIL)
            assert session["ownerName"] == "listener-1"
            assert session["runnerScaleSet"]["name"] == "demo"
            assert session["messageQueueUrl"].startswith("http://")
            assert session["messageQueueAccessToken"]
            assert session["statistics"] == {
                "totalAvailableJobs": 0,
                "totalAcquiredJobs": 0,
                "totalAssignedJobs": 0,
                "totalRunningJobs": 0,
                "totalRegisteredRunners": 0,
                "totalBusyRunners": 0,
                "totalIdleRunners": 0,
            }

    run_virtual(story())


def test_row_4_queue_calls_want_the_queue_token_and_nothing_else(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(assignment=AssignmentMode.ACQUIRE) as client:
            await client.ready()
            for token in (client.admin, "pat", ""):
                client_token, client.queue_token = client.queue_token, token
                assert (await client.poll()).status == 401
                assert (await client.acknowledge(1)).status == 401
                client.queue_token = client_token
            assert (await acquire(client, [1], token=client.admin)).status == 401

    run_virtual(story())


@pytest.mark.parametrize("token", ["", "queue token", "pat", "a.b.c"])
def test_row_4_everything_else_wants_the_admin_jwt(run_virtual: RunVirtual, token: str) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            wrong = client.queue_token if token == "queue token" else token
            headers = {"Authorization": f"Bearer {wrong}"}
            for method, path in (
                ("GET", SETS),
                ("POST", f"{SETS}/1/sessions"),
                ("PATCH", f"{SETS}/1/sessions/{client.session_id}"),
                ("POST", f"{SETS}/1/generatejitconfig"),
                ("DELETE", f"{AGENTS}/1"),
            ):
                reply = await client.service(method, path, headers=headers)
                assert (reply.status, reply.exception) == (401, "VssUnauthorizedException")

    run_virtual(story())


def test_row_4_an_expired_admin_jwt_is_refused(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(admin_token_life_s=100) as client:
            await client.register()
            await asyncio.sleep(101)
            assert (await client.service("GET", SETS)).status == 401
            await client.register()
            assert (await client.service("GET", SETS)).status == 200

    run_virtual(story())


def test_row_4_a_token_of_one_tenant_opens_no_other(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register("other-org")
            elsewhere = client.tenant
            await client.register("my-org")
            client.tenant = elsewhere
            assert (await client.service("GET", SETS)).status == 404

    run_virtual(story())


# --- row 5: one session ------------------------------------------------------------------------


def test_row_5_a_second_session_is_a_conflict_until_the_first_is_deleted(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            refused = await client.open("me")
            assert refused.status == 409
            assert refused.exception == "RunnerScaleSetSessionConflictException"
            await client.service("DELETE", f"{SETS}/1/sessions/{client.session_id}")
            assert (await client.open("other")).status == 200

    run_virtual(story())


def test_row_5_a_refresh_makes_the_old_queue_token_worthless(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1) as client:
            await client.ready()
            old = client.queue_token
            reply = await client.service("PATCH", f"{SETS}/1/sessions/{client.session_id}")
            client.queue_url = reply.json["messageQueueUrl"]
            assert (await client.poll()).status == 401
            client.take_session(reply)
            assert client.queue_token != old
            assert (await client.poll()).status == 202

    run_virtual(story())


def test_row_5_a_killed_owner_leaves_a_session_that_ends_by_itself(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(session_life_s=5) as client:
            await client.ready()
            poll = asyncio.create_task(client.poll())
            await asyncio.sleep(30)  # the held poll keeps the session alive
            poll.cancel()  # the connection closes, as that of a killed process does
            await asyncio.sleep(4)
            assert (await client.open()).status == 409
            await asyncio.sleep(1.5)
            assert (await client.open()).status == 200

    run_virtual(story())


def test_row_5_unknown_and_ended_sessions_are_expired(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            unknown = await client.service("PATCH", f"{SETS}/1/sessions/{NIL}")
            assert (unknown.status, unknown.exception) == (
                400,
                "RunnerScaleSetSessionExpiredException",
            )
            await client.service("DELETE", f"{SETS}/1/sessions/{client.session_id}")
            for reply in (await client.poll(), await client.acknowledge(1)):
                assert reply.exception == "RunnerScaleSetSessionExpiredException"

    run_virtual(story())


# --- row 6: the poll ---------------------------------------------------------------------------


def test_row_6_a_poll_is_held_and_answered_the_moment_something_comes(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        async with github(poll_hold_s=50) as client:
            await client.ready()
            began_s = virtual_s()
            assert (await client.poll()).status == 202
            assert virtual_s() - began_s == pytest.approx(50, abs=0.1)
            poll = asyncio.create_task(client.poll())
            await asyncio.sleep(7)
            began_s = virtual_s()
            await client.queue_jobs()
            message = (await poll).json
            assert virtual_s() - began_s < 0.1
            assert message["messageId"] == 100_000_001

    run_virtual(story())


def test_row_6_the_cursor_skips_and_an_undeleted_message_comes_back(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1) as client:
            await client.ready()
            await client.queue_jobs()
            first = (await client.poll()).json["messageId"]
            assert (await client.poll(cursor=first)).status == 202
            assert (await client.poll()).json["messageId"] == first
            await client.queue_jobs()
            assert (await client.poll(cursor=first)).json["messageId"] == first + 1
            assert (await client.acknowledge(first)).status == 204
            assert (await client.poll()).json["messageId"] == first + 1
            await client.acknowledge(first + 1)
            await client.service("DELETE", f"{SETS}/1/sessions/{client.session_id}")
            await client.open()
            await client.queue_jobs()
            assert (await client.poll()).json["messageId"] == first + 2  # across sessions

    run_virtual(story())


def test_row_6_a_session_that_ends_ends_its_held_poll(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(poll_hold_s=50) as client:
            await client.ready()
            poll = asyncio.create_task(client.poll())
            await asyncio.sleep(3)
            await client.service("DELETE", f"{SETS}/1/sessions/{client.session_id}")
            assert (await poll).exception == "RunnerScaleSetSessionExpiredException"
            assert virtual_s() < 10

    run_virtual(story())


def test_row_6_a_token_that_dies_while_the_poll_is_held_is_refused_at_its_end(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        async with github(poll_hold_s=50, queue_token_life_s=30) as client:
            await client.ready()
            assert (await client.poll()).status == 401

    run_virtual(story())


# --- row 7: envelopes --------------------------------------------------------------------------


def test_row_7_every_envelope_has_its_type_and_full_statistics(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.queue_jobs(60)
            first = (await client.poll(capacity=80)).json
            assert set(first) == {"messageId", "messageType", "body", "statistics"}
            assert first["messageType"] == "RunnerScaleSetJobMessages"
            assert isinstance(first["body"], str)
            assert len(json.loads(first["body"])) == 50
            assert first["statistics"]["totalAssignedJobs"] == 60  # complete, though cut at 50
            second = (await client.poll(first["messageId"], capacity=80)).json
            assert len(json.loads(second["body"])) == 10

    run_virtual(story())


def test_row_7_an_envelope_may_hold_statistics_only(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(statistics_only_envelopes=True) as client:
            await client.ready()
            await client.jit("r-1")
            message = (await client.poll()).json
            assert message["body"] == ""
            assert message["statistics"]["totalRegisteredRunners"] == 1

    run_virtual(story())


# --- row 8: errors -----------------------------------------------------------------------------


def test_row_8_errors_have_exception_bodies_and_both_correlation_headers(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register()
            reply = await client.service("GET", f"{SETS}/99")
            assert reply.status == 404
            assert reply.json["typeName"] == (
                "GitHub.Actions.Runtime.WebApi.RunnerScaleSetNotFoundException, "
                "GitHub.Actions.Runtime.WebApi"
            )
            assert reply.json["message"] == "No runner scale set found with id 99."
            assert len(reply.headers["ActivityId"]) == 36
            assert reply.headers["X-GitHub-Request-Id"].count(":") == 3
            other = await client.service("GET", f"{SETS}/99")
            assert other.headers["ActivityId"] != reply.headers["ActivityId"]

    run_virtual(story())


def test_row_8_rest_errors_look_like_githubs(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            reply = await client.send("POST", "/api/v3/orgs/o/actions/runners/registration-token")
            assert reply.status == 401
            assert reply.json["message"] == "Bad credentials"
            assert "documentation_url" in reply.json
            assert "typeName" not in reply.json

    run_virtual(story())


def test_row_8_unknown_paths_are_404_and_wrong_methods_405(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register()
            assert (await client.send("GET", "/")).status == 404
            assert (await client.service("GET", "/runtime/nothing")).status == 404
            assert (await client.service("GET", f"{SETS}/x%2Fy")).status == 404
            assert (await client.service("GET", f"{SETS}/not-a-number")).status == 404
            wrong = await client.service("PUT", f"{SETS}/1")
            assert (wrong.status, wrong.headers["Allow"]) == (405, "GET, PATCH, DELETE")

    run_virtual(story())


@pytest.mark.parametrize(
    ("preset", "status", "kind", "body"),
    [
        ("html-bodies", 502, "text/html", "<!DOCTYPE"),
        ("plain-bodies", 500, "text/plain", "internal error"),
        ("empty-bodies", 200, "application/json", ""),
        ("bom-bodies", 200, "application/json", "\ufeff{"),
        ("cut-bodies", 200, "application/json", '{"count"'),
    ],
)
def test_row_8_strange_bodies_can_be_switched_on(
    run_virtual: RunVirtual, preset: str, status: int, kind: str, body: str
) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register()
            await client.scale_set()
            await client.fault(preset=preset, seconds=5)
            reply = await client.service("GET", SETS)
            assert reply.status == status
            assert reply.headers["Content-Type"].startswith(kind)
            text = reply.body.decode()
            assert text.startswith(body) if body else text == ""
            await asyncio.sleep(5)
            assert (await client.service("GET", SETS)).json["count"] == 1

    run_virtual(story())


# --- row 9: quirks of requests -----------------------------------------------------------------


def test_row_9_the_quirks_of_existing_clients_are_accepted(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register()
            body = {
                "name": "demo",
                "runnerGroupId": 1,
                "labels": [{"type": "System", "name": "demo"}],
                "RunnerSetting": {"disableUpdate": True},
                "createdOn": "0001-01-01T00:00:00Z",
            }
            quirks = {"X-Unknown": "1", "Content-Type": "application/json"}
            created = await client.service("POST", SETS, json=body, headers=quirks)
            assert created.status == 200
            # a Content-Type on a request without a body
            assert (await client.service("GET", f"{SETS}/1", headers=quirks)).status == 200
            changed = await client.service(
                "PATCH", f"{SETS}/1", json={"RunnerSetting": {}, "createdOn": body["createdOn"]}
            )
            assert changed.json["runnerSetting"] == {"disableUpdate": True}

    run_virtual(story())


def test_row_9_what_the_real_service_refuses_is_refused(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            headers = {"Authorization": f"Bearer {client.admin}"}
            url = f"{client.tenant}_apis{SETS}"
            assert (await client.send("GET", url, headers=headers)).status == 400  # no version
            plain = {"Content-Type": "text/plain"}
            assert (await client.service("POST", SETS, data=b"{}", headers=plain)).status == 415
            as_json = {"Content-Type": "application/json"}
            assert (await client.service("POST", SETS, data=b"{", headers=as_json)).status == 400
            poll = {"Authorization": f"Bearer {client.queue_token}"}
            assert (await client.send("GET", client.queue_url, headers=poll)).status == 400
            poll |= {"Accept": ACCEPT, "X-ScaleSetMaxCapacity": "-1"}
            assert (await client.send("GET", client.queue_url, headers=poll)).status == 400

    run_virtual(story())


@pytest.mark.behaviour("C2 T34")
@pytest.mark.parametrize("name", ["a b", "a&b", "a+b", "100%", "a;b", "a#b", "ünï=?"])
def test_row_9_names_arrive_as_they_were_meant(run_virtual: RunVirtual, name: str) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register()
            await client.scale_set(name)
            found = await client.service("GET", SETS, params={"name": name, "runnerGroupId": "1"})
            assert [each["name"] for each in found.json["value"]] == [name]

    run_virtual(story())


# --- row 10: the two modes ---------------------------------------------------------------------


def test_row_10_push_mode_assigns_and_has_no_acquirejobs(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.queue_jobs(3)
            message = (await client.poll(capacity=2)).json
            kinds = [each["messageType"] for each in json.loads(message["body"])]
            assert kinds == ["JobAssigned", "JobAssigned"]
            assert {each["runnerRequestId"] for each in json.loads(message["body"])} == {0}
            reply = await acquire(client, [1])
            assert (reply.status, reply.body) == (404, b"404 page not found\n")

    run_virtual(story())


def test_row_10_acquire_mode_offers_whatever_the_capacity(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(assignment=AssignmentMode.ACQUIRE) as client:
            await client.ready()
            await client.queue_jobs(3)
            message = (await client.poll(capacity=2)).json
            kinds = {each["messageType"] for each in json.loads(message["body"])}
            assert kinds == {"JobAvailable"}
            assert message["statistics"]["totalAvailableJobs"] == 3
            assert message["statistics"]["totalAssignedJobs"] == 0

    run_virtual(story())


def test_the_urls_it_hands_out_can_be_chosen(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        options = {"public_url": "http://elsewhere:9/", "runner_url": "http://for-runners:7"}
        async with github(**options) as client:
            await client.ready()
            assert client.tenant.startswith("http://elsewhere:9/_services/pipelines/")
            assert client.queue_url.startswith("http://elsewhere:9/_services/pipelines/")
            jit = json.loads(base64.b64decode((await client.jit("r")).json["encodedJITConfig"]))
            settings = json.loads(base64.b64decode(jit[".runner"]))
            assert settings["serverUrl"] == "http://for-runners:7"

    run_virtual(story())


@pytest.mark.parametrize("backend", HostedBackend)
@pytest.mark.parametrize("base", ["", "http://api.github.com"])
def test_a_scale_set_and_an_offer_say_where_they_are_served(
    run_virtual: RunVirtual, base: str, backend: HostedBackend
) -> None:
    # Server-filled members (C2 2.7, 4.3): the Go client decodes them, and reads none of them.
    async def story() -> None:
        how = {"assignment": AssignmentMode.ACQUIRE, "hosted_backend": backend}
        async with github(base, **how) as client:
            await client.ready()
            place = f"{client.tenant.rstrip('/')}/_apis{SETS}/{client.scale_set_id}"
            made = (await client.service("GET", f"{SETS}/{client.scale_set_id}")).json
            assert made["runnerJitConfigUrl"] == f"{place}/generatejitconfig"
            await client.queue_jobs(1)
            (offer,) = json.loads((await client.poll()).json["body"])
            assert offer["acquireJobUrl"] == f"{place}/acquirejobs"

    run_virtual(story())


def test_only_an_offer_has_an_address_to_claim_it_at(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.queue_jobs(1)
            (assigned,) = json.loads((await client.poll()).json["body"])
            assert assigned["messageType"] == "JobAssigned"
            assert "acquireJobUrl" not in assigned

    run_virtual(story())


def test_synthetic_jobs_of_one_call_share_a_run_of_their_own(run_virtual: RunVirtual) -> None:
    # A job without a run does not exist at GitHub; who tells jobs apart by it must see one.
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.queue_jobs(2)
            await client.queue_jobs(1)
            messages = json.loads((await client.poll()).json["body"])
            first, second, other = (each["workflowRunId"] for each in messages)
            assert first == second != other
            assert min(first, other) > 0

    run_virtual(story())


def test_a_body_that_is_far_too_large_is_refused(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register()
            reply = await client.service("POST", SETS, data=io.BytesIO(b"x" * (9 << 20)))
            assert reply.status == 413

    run_virtual(story())


def test_a_bug_of_ours_is_a_500_and_not_the_end(
    run_virtual: RunVirtual, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register()

            async def broken(_hub: object, _call: object) -> None:
                raise RuntimeError("boom")

            monkeypatch.setitem(HANDLERS, "find-groups", broken)
            reply = await client.service("GET", "/runtime/runnergroups/")
            assert (reply.status, reply.json["message"]) == (500, "the fake GitHub has a bug")
            assert (await client.service("GET", SETS)).status == 200

    run_virtual(story())
