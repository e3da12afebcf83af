"""Each known trouble, switched on by name, is seen by a client as it is in real life."""

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import pytest

from runnerscale.fake_github.dispatch import HANDLERS
from runnerscale.fake_github.model import JobState
from runnerscale.fake_github.operations import OPERATIONS, TABLE
from runnerscale.fake_github.presets import PRESETS, Ask
from runnerscale.fake_github.twists import AFTER, BEFORE
from tests.unit.fake_github.http_world import Client, Reply, github

RunVirtual = Callable[[Coroutine[Any, Any, None]], None]
SETS = "/runtime/runnerscalesets"
AGENTS = "/distributedtask/pools/0/agents"


def test_every_operation_has_a_handler_and_every_handler_an_operation() -> None:
    assert {name for name, _, _, _ in TABLE} == set(HANDLERS)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_made_of_things_that_exist(name: str) -> None:
    preset = PRESETS[name]
    assert preset.description.endswith(".")
    rules = preset.rules(Ask(now_s=0, seconds=preset.seconds, times=None, value=""))
    assert rules or preset.twist
    assert not preset.twist or preset.twist in BEFORE
    for rule in rules:
        assert set(rule.match.operations) <= OPERATIONS
        assert not rule.action.twist or rule.action.twist in BEFORE | AFTER
        assert rule.times is not None or rule.until_s is not None  # it ends by itself


def test_the_presets_are_listed_with_what_they_do(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            listed = (await client.send("GET", "/control/presets")).json["presets"]
            assert [each["name"] for each in listed] == sorted(PRESETS)
            assert all(each["description"] for each in listed)

    run_virtual(story())


async def connect(client: Client, name: str) -> tuple[str, str]:
    """A runner's session and secret."""
    jit = json.loads(base64.b64decode((await client.jit(name)).json["encodedJITConfig"]))
    secret = json.loads(base64.b64decode(jit[".credentials_rsaparams"]))["d"]
    reply = await runner_says(client, "POST", "", secret, {"nonce": name})
    return (reply.json.get("sessionId", ""), secret) if reply.status == 200 else ("", secret)


async def runner_says(
    client: Client, method: str, path: str, secret: str, body: Any = None
) -> Reply:
    headers = {"Authorization": f"Bearer {secret}"}
    return await client.send(method, f"/runner/sessions{path}", headers=headers, json=body)


@pytest.mark.parametrize(
    ("preset", "status"),
    [("github-down", 503), ("rate-limited", 429), ("rate-limited-403", 403),
     ("credentials-revoked", 401), ("html-bodies", 502), ("plain-bodies", 500)],
)  # fmt: skip
def test_a_lasting_trouble_hits_everything_and_ends_by_itself(
    run_virtual: RunVirtual, preset: str, status: int
) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1, session_life_s=500) as client:
            await client.ready()
            await client.fault(preset=preset, seconds=20)
            pat = {"Authorization": "Bearer pat"}
            path = "/api/v3/orgs/my-org/actions/runners/registration-token"
            replies = [
                await client.send("POST", path, headers=pat),
                await client.service("GET", SETS),
                await client.poll(),
                await client.jit("r"),
            ]
            assert [reply.status for reply in replies] == [status] * 4
            if preset == "rate-limited":
                assert replies[0].headers["Retry-After"] == "20"
            if preset == "rate-limited-403":
                assert replies[0].headers["x-ratelimit-remaining"] == "0"
                reset_s = float(replies[0].headers["x-ratelimit-reset"])
                assert reset_s == pytest.approx(client.fake.hub.now_s() + 20, abs=2)
            await asyncio.sleep(20)
            assert (await client.poll()).status == 202
            assert (await client.jit("r")).status == 200

    run_virtual(story())


def test_expired_tokens_can_be_renewed_at_once(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1) as client:
            await client.ready()
            await client.fault(preset="token-expired")
            assert (await client.poll()).status == 401
            assert (await client.service("GET", SETS)).status == 401
            await client.register()
            renewed = await client.service("PATCH", f"{SETS}/1/sessions/{client.session_id}")
            client.take_session(renewed)
            assert (await client.poll()).status == 202

    run_virtual(story())


def test_a_lost_session_can_be_opened_anew(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            poll = asyncio.create_task(client.poll())
            await asyncio.sleep(1)
            await client.fault(preset="session-lost", scale_set="demo")
            assert (await poll).exception == "RunnerScaleSetSessionExpiredException"
            assert (await client.open()).status == 200

    run_virtual(story())


def test_a_session_held_elsewhere_is_a_conflict_for_a_while(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(session_life_s=60) as client:
            await client.ready()
            await client.fault(preset="session-held", seconds=15)
            for _ in range(2):
                refused = await client.open()
                assert refused.exception == "RunnerScaleSetSessionConflictException"
                assert "another-listener" in refused.json["message"]
                await asyncio.sleep(7)
            await asyncio.sleep(1.1)
            assert (await client.open()).status == 200

    run_virtual(story())


def test_a_session_can_come_without_its_url(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.fault(preset="session-without-url")
            assert (await client.open()).json["messageQueueUrl"] == ""

    run_virtual(story())


def test_a_lost_session_answer_conflicts_with_oneself(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(session_life_s=5) as client:
            await client.ready()
            await client.fault(preset="session-lost-answer")
            with pytest.raises(aiohttp.ClientError):
                await client.open()
            assert (await client.open()).status == 409
            await asyncio.sleep(5)
            assert (await client.open()).status == 200

    run_virtual(story())


def test_a_deleted_scale_set_is_gone_everywhere(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.fault(preset="scale-set-deleted")
            for reply in (
                await client.service("GET", f"{SETS}/1"),
                await client.poll(),
                await client.jit("r"),
            ):
                assert reply.status == 404
                assert reply.exception == "RunnerScaleSetNotFoundException"
            found = await client.service("GET", SETS, params={"name": "demo"})
            assert found.json == {"count": 0, "value": []}
            assert await client.scale_set() == 2  # ids are never used twice

    run_virtual(story())


def test_a_taken_name_belongs_to_another_scale_set(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.fault(preset="runner-name-taken")
            assert (await client.jit("r-1")).exception == "TaskAgentExistsException"
            found = await client.service("GET", AGENTS, params={"agentName": "r-1"})
            assert found.json["count"] == 1
            assert found.json["value"][0]["runnerScaleSetId"] != client.scale_set_id
            assert (await client.jit("r-2")).status == 200

    run_virtual(story())


def test_a_look_up_can_lag(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.jit("r-1")
            await client.fault(preset="runner-lookup-lags")
            answers = [
                (await client.service("GET", AGENTS, params={"agentName": "r-1"})).json["count"]
                for _ in range(2)
            ]
            assert answers == [0, 1]

    run_virtual(story())


def test_a_removal_can_be_refused_though_the_runner_is_idle(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.jit("r-1")
            await client.fault(preset="job-still-running", times=2)
            replies = [await client.service("DELETE", f"{AGENTS}/1") for _ in range(3)]
            assert [reply.status for reply in replies] == [409, 409, 204]
            assert replies[0].exception == "TaskAgentJobStillRunningException"

    run_virtual(story())


def test_a_ghost_stays_connected_and_never_gets_a_job(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(runner_poll_hold_s=20) as client:
            await client.ready()
            session, secret = await connect(client, "r-1")
            await client.fault(preset="runner-ghost")
            poll = asyncio.create_task(client.poll())
            assert (await runner_says(client, "GET", f"/{session}/job", secret)).status == 204
            (job,) = await client.queue_jobs()
            assert (await poll).status == 200
            assert (await runner_says(client, "GET", f"/{session}/job", secret)).status == 204
            assert (await client.service("GET", f"{AGENTS}/1")).status == 404
            assert client.fake.state.jobs[job].state is JobState.ASSIGNED

    run_virtual(story())


def test_a_job_can_be_said_complete_while_its_runner_works(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            session, secret = await connect(client, "r-1")
            await client.fault(preset="job-completed-early")
            (job,) = await client.queue_jobs()
            listening = asyncio.create_task(client.poll())
            offer = await runner_says(client, "GET", f"/{session}/job", secret)
            assert offer.json["jobId"] == job
            path = f"/{session}/jobs/{job}"
            started = await runner_says(client, "POST", f"{path}/start", secret, {})
            assert started.json["steps"]
            first = (await listening).json
            kinds = [m["messageType"] for m in json.loads(first["body"])]
            kinds += [
                m["messageType"]
                for m in json.loads((await client.poll(first["messageId"])).json["body"])
            ]
            assert kinds == ["JobAssigned", "JobStarted", "JobCompleted"]
            # its runner goes on and is not told
            report = await runner_says(client, "POST", f"{path}/log", secret, {"text": ""})
            assert report.json == {"cancel": False}

    run_virtual(story())


def test_a_version_can_be_refused(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.fault(preset="runner-version-refused", seconds=10)
            session, secret = await connect(client, "r-1")
            assert session == ""
            refused = await runner_says(client, "POST", "", secret, {"nonce": "n"})
            assert refused.json["code"] == "runner-version-deprecated"
            assert "is deprecated and cannot receive messages" in refused.json["message"]

    run_virtual(story())


async def spoilt_message(client: Client, preset: str, **more: Any) -> dict[str, Any]:
    """The envelope that a connected listener gets after the fault."""
    await client.ready()
    await client.queue_jobs()
    first = (await client.poll()).json
    await client.acknowledge(first["messageId"])
    await client.fault(preset=preset, **more)
    reply = await client.poll(first["messageId"])
    assert reply.status == 200
    return dict(reply.json)


@pytest.mark.parametrize("value", ["inf", "nan", "1e308"])
def test_statistics_that_no_number_can_hold_are_told_as_none(
    run_virtual: RunVirtual, value: str
) -> None:
    async def story() -> None:
        async with github() as client:
            message = await spoilt_message(client, "lying-statistics", value=value)
            assert message["statistics"]["totalAssignedJobs"] == 0

    run_virtual(story())


def test_statistics_can_lie(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            message = await spoilt_message(client, "lying-statistics", value="99")
            assert message["statistics"]["totalAssignedJobs"] == 99
            truth = (await client.poll(message["messageId"])).json
            assert truth["statistics"]["totalAssignedJobs"] == 1

    run_virtual(story())


def test_a_message_can_be_malformed(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            message = await spoilt_message(client, "malformed-message")
            assert json.loads(message["body"])[0]["runnerId"] == "not a number"

    run_virtual(story())


def test_an_envelope_can_be_malformed(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            message = await spoilt_message(client, "malformed-envelope")
            with pytest.raises(ValueError, match="Expecting"):
                json.loads(message["body"])

    run_virtual(story())


def test_a_message_can_be_of_an_unknown_type(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            message = await spoilt_message(client, "unknown-message-type")
            assert json.loads(message["body"])[0]["messageType"] == "JobTeleported"

    run_virtual(story())


def test_an_envelope_can_be_of_an_unknown_type(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            message = await spoilt_message(client, "unknown-envelope-type")
            assert message["messageType"] == "RunnerScaleSetTeleportMessages"

    run_virtual(story())


def test_an_acknowledged_message_can_come_once_more(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            message = await spoilt_message(client, "repeated-message")
            assert message["messageId"] == 100_000_001
            assert json.loads(message["body"])[0]["messageType"] == "JobAssigned"

    run_virtual(story())


def test_messages_can_come_in_the_wrong_order(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1) as client:
            await client.ready()
            assert (await client.poll()).status == 202  # its capacity stays known
            ids = await client.queue_jobs(2)
            await client.fault(preset="reordered-messages", times=1)
            message = (await client.poll()).json
            assert [each["jobId"] for each in json.loads(message["body"])] == ids[::-1]

    run_virtual(story())


def test_an_acknowledgement_can_be_ignored(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            await client.queue_jobs()
            first = (await client.poll()).json["messageId"]
            await client.fault(preset="acknowledge-ignored")
            assert (await client.acknowledge(first)).status == 204
            assert (await client.poll()).json["messageId"] == first

    run_virtual(story())
