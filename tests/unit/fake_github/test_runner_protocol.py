"""The runner protocol over HTTP: lost answers, kills, and who may say what."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnerscale.fake_github.model import JobState
from tests.unit.fake_github.http_world import Client, github
from tests.unit.fake_github.test_presets import connect, runner_says

RunVirtual = Callable[[Coroutine[Any, Any, None]], None]
AGENTS = "/distributedtask/pools/0/agents"


async def ready(client: Client) -> None:
    await client.ready()
    assert (await client.poll()).status == 202


def test_a_runner_is_offline_until_it_connects_and_online_while_it_waits(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        async with github(runner_poll_hold_s=100, runner_offline_after_s=10) as client:
            await client.ready()
            session, secret = await connect(client, "r-1")
            await client.jit("r-2")

            async def status(runner_id: int) -> Any:
                return (await client.service("GET", f"{AGENTS}/{runner_id}")).json["status"]

            assert await status(2) == "offline"
            waiting = asyncio.create_task(runner_says(client, "GET", f"/{session}/job", secret))
            await asyncio.sleep(50)
            assert await status(1) == "online"
            waiting.cancel()  # killed: its connection closes
            await asyncio.sleep(11)
            assert await status(1) == "offline"

    run_virtual(story())


def test_a_killed_idle_runner_gets_no_job(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1) as client:
            await ready(client)
            session, secret = await connect(client, "r-1")
            waiting = asyncio.create_task(runner_says(client, "GET", f"/{session}/job", secret))
            await asyncio.sleep(0.5)
            waiting.cancel()
            await asyncio.sleep(0.1)
            (job,) = await client.queue_jobs()
            assert client.fake.state.jobs[job].state is JobState.ASSIGNED

    run_virtual(story())


def test_every_answer_may_be_lost_and_every_call_repeated(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1) as client:
            await ready(client)
            session, secret = await connect(client, "r-1")
            (job,) = await client.queue_jobs()
            path = f"/{session}/jobs/{job}"
            offers = [
                (await runner_says(client, "GET", f"/{session}/job", secret)).json["jobId"]
                for _ in range(2)
            ]
            assert offers == [job, job]
            for _ in range(2):
                told = await runner_says(client, "POST", f"{path}/start", secret, {})
                assert told.json["jobId"] == job
            for _ in range(2):
                body = {"offset": 0, "text": "YQo=", "step": "one"}
                assert (await runner_says(client, "POST", f"{path}/log", secret, body)).json == {
                    "cancel": False
                }
            for _ in range(2):
                body = {"result": "succeeded", "offset": 2, "text": "Ygo="}
                last = await runner_says(client, "POST", f"{path}/finish", secret, body)
                assert last.status == 204
            stored = client.fake.state.jobs[job]
            assert (bytes(stored.log), stored.starts) == (b"a\nb\n", 1)
            assert list(client.fake.state.violations) == []

    run_virtual(story())


def test_a_job_whose_offer_was_lost_with_its_runner_goes_to_another(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1, handover_timeout_s=10) as client:
            await ready(client)
            dead, secret = await connect(client, "dead")
            (job,) = await client.queue_jobs()
            await runner_says(client, "GET", f"/{dead}/job", secret)
            alive, other = await connect(client, "alive")
            waiting = asyncio.create_task(runner_says(client, "GET", f"/{alive}/job", other))
            await asyncio.sleep(9)
            assert not waiting.done()
            await asyncio.sleep(1.1)
            assert (await waiting).json["jobId"] == job
            late = await runner_says(client, "POST", f"/{dead}/jobs/{job}/start", secret, {})
            assert (late.status, late.json["code"]) == (409, "job-not-yours")

    run_virtual(story())


def test_a_removed_runner_hears_it_in_its_held_poll(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(runner_poll_hold_s=100) as client:
            await client.ready()
            session, secret = await connect(client, "r-1")
            waiting = asyncio.create_task(runner_says(client, "GET", f"/{session}/job", secret))
            await asyncio.sleep(5)
            await client.service("DELETE", f"{AGENTS}/1")
            reply = await waiting
            assert (reply.status, reply.json["code"]) == (410, "registration-gone")

    run_virtual(story())


def test_a_cancel_reaches_the_runner_with_its_next_report(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1) as client:
            await ready(client)
            session, secret = await connect(client, "r-1")
            (job,) = await client.queue_jobs()
            path = f"/{session}/jobs/{job}"
            await runner_says(client, "GET", f"/{session}/job", secret)
            await runner_says(client, "POST", f"{path}/start", secret, {})
            await client.send("POST", f"/control/jobs/{job}/cancel")
            told = await runner_says(client, "POST", f"{path}/log", secret, {})
            assert told.json == {"cancel": True}
            await runner_says(client, "POST", f"{path}/finish", secret, {"result": "canceled"})
            shown = (await client.send("GET", f"/control/jobs/{job}")).json
            assert shown["result"] == "canceled"

    run_virtual(story())


def test_a_runner_that_falls_silent_under_its_job_fails_it(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1, runner_lost_s=20) as client:
            await ready(client)
            session, secret = await connect(client, "r-1")
            (job,) = await client.queue_jobs()
            await runner_says(client, "GET", f"/{session}/job", secret)
            path = f"/{session}/jobs/{job}"
            await runner_says(client, "POST", f"{path}/start", secret, {})
            await asyncio.sleep(21)
            assert (await client.send("GET", f"/control/jobs/{job}")).json["result"] == "failed"
            late = await runner_says(client, "POST", f"{path}/log", secret, {})
            assert (late.status, late.json["code"]) == (410, "job-disowned")

    run_virtual(story())


@pytest.mark.parametrize("secret", ["", "jit_guess"])
def test_a_stranger_can_do_nothing(run_virtual: RunVirtual, secret: str) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            session, _ = await connect(client, "r-1")
            for method, path in (
                ("POST", ""),
                ("GET", f"/{session}/job"),
                ("DELETE", f"/{session}"),
                ("POST", f"/{session}/jobs/x/start"),
            ):
                reply = await runner_says(client, method, path, secret, {"nonce": "n"})
                assert reply.status == 401

    run_virtual(story())


def test_good_bye_ends_the_session(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            session, secret = await connect(client, "r-1")
            assert (await runner_says(client, "DELETE", f"/{session}", secret)).status == 204
            reply = await runner_says(client, "GET", f"/{session}/job", secret)
            assert (reply.status, reply.json["code"]) == (410, "session-closed")
            assert (await client.service("GET", f"{AGENTS}/1")).json["status"] == "offline"

    run_virtual(story())


@pytest.mark.parametrize(
    ("body", "says"),
    [({"text": "?"}, "base64"), ({"offset": "x"}, "offset"), ({"result": "great"}, "result")],
)
def test_a_report_that_makes_no_sense_is_refused(
    run_virtual: RunVirtual, body: dict[str, Any], says: str
) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1) as client:
            await ready(client)
            session, secret = await connect(client, "r-1")
            (job,) = await client.queue_jobs()
            await runner_says(client, "GET", f"/{session}/job", secret)
            path = f"/{session}/jobs/{job}"
            await runner_says(client, "POST", f"{path}/start", secret, {})
            call = "finish" if "result" in body else "log"
            reply = await runner_says(client, "POST", f"{path}/{call}", secret, body)
            assert reply.status == 400
            assert says in reply.json["message"]

    run_virtual(story())
