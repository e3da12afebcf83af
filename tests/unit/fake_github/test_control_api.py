"""The control API: work is queued, watched, cancelled; what it shows holds no secret."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnerscale.core.secret import SecretText
from tests.unit.fake_github.http_world import Client, github
from tests.unit.fake_github.test_presets import connect, runner_says

RunVirtual = Callable[[Coroutine[Any, Any, None]], None]


async def get(client: Client, path: str) -> Any:
    reply = await client.send("GET", f"/control{path}")
    assert reply.status == 200, reply.body
    return reply.json


def test_it_asks_for_its_token_where_one_is_set(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(control_token=SecretText("hush")) as client:
            assert (await client.send("GET", "/control/healthz")).json == {"ok": True}
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "hush"}):
                reply = await client.send("GET", "/control/state", headers=headers)
                assert reply.status == 401
            right = {"Authorization": "Bearer hush"}
            assert (await client.send("GET", "/control/state", headers=right)).status == 200

    run_virtual(story())


async def work_off(client: Client, job: str, name: str, result: str = "succeeded") -> None:
    """One runner's whole life."""
    session, secret = await connect(client, name)
    offer = await runner_says(client, "GET", f"/{session}/job", secret)
    assert offer.json["jobId"] == job
    path = f"/{session}/jobs/{job}"
    assert (await runner_says(client, "POST", f"{path}/start", secret, {})).status == 200
    await asyncio.sleep(2)
    body = {"result": result, "text": "aGVsbG8K", "steps": [{"name": "s", "conclusion": "x"}]}
    assert (await runner_says(client, "POST", f"{path}/finish", secret, body)).status == 204


def test_synthetic_jobs_are_queued_run_and_summed_up(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(poll_hold_s=1) as client:
            await client.ready()
            await client.poll()
            await asyncio.sleep(1)
            ids = await client.queue_jobs(2, seconds=2.5, name="load", failing=1)
            for place, job in enumerate(ids):
                await work_off(client, job, f"r-{place}", "failed" if place == 0 else "succeeded")
            shown = await get(client, f"/jobs/{ids[0]}")
            assert (shown["name"], shown["state"], shown["result"]) == (
                "load-1",
                "completed",
                "failed",
            )
            assert shown["finished_s"] - shown["started_s"] == pytest.approx(2, abs=0.01)
            assert shown["steps"] == [{"name": "s", "conclusion": "x"}]
            log = await client.send("GET", f"/control/jobs/{ids[0]}/log")
            assert (log.body, log.headers["X-Log-Bytes-Dropped"]) == (b"hello\n", "0")
            job = client.fake.state.jobs[ids[0]]
            assert job.request.steps[0].run == "sleep 2.5; exit 1"
            summary = await get(client, "/summary")
            assert summary["by_result"] == {"failed": 1, "succeeded": 1}
            assert summary["jobs"] == 2
            assert (summary["runners_registered_peak"], summary["jobs_running_peak"]) == (1, 1)
            assert summary["queue_to_start_p50_s"] == pytest.approx(2, abs=0.1)
            assert summary["violations"] == 0
            calls = await get(client, "/calls")
            assert calls["by_operation"]["jit-config"] == {"200": 2}
            assert calls["per_job"]["jit-config"] == 1.0
            assert calls["by_client"]["other"]["jit-config"] == 2

    run_virtual(story())


def test_calls_are_counted_by_the_subsystem_that_made_them(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            client.more = {"User-Agent": json.dumps({"system": "x", "subsystem": "ghalistener"})}
            await client.register()
            for agent in ("{", '{"subsystem": 3}', "[]", "{" * 5_000, "{}"):
                client.more = {"User-Agent": agent}
                await client.scale_set(f"set-{len(agent)}-{agent[:1] == '['}")
            by_client = (await get(client, "/calls"))["by_client"]
            assert by_client["ghalistener"] == {"registration-token": 1, "runner-registration": 1}
            assert by_client["other"] == {"create-scale-set": 5}

    run_virtual(story())


def test_events_are_waited_for_and_come_in_order(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            past = await get(client, "/events")
            assert [each["id"] for each in past["events"]] == list(range(1, past["last"] + 1))
            began_s = asyncio.get_running_loop().time()
            nothing = await get(client, f"/events?after={past['last']}&timeout=5")
            assert nothing == {"events": [], "last": past["last"], "missed": False}
            assert asyncio.get_running_loop().time() - began_s == pytest.approx(5, abs=0.1)
            waiting = asyncio.create_task(get(client, f"/events?after={past['last']}&timeout=50"))
            await asyncio.sleep(1)
            await client.queue_jobs()
            (event,) = (await waiting)["events"]
            assert (event["kind"], event["state"], event["name"]) == ("job", "queued", "job")
            assert event["time_s"] == pytest.approx(client.fake.hub.now_s(), abs=0.1)

    run_virtual(story())


def test_a_follower_that_was_too_slow_is_told_that_it_missed_something(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        async with github(events_max=3) as client:
            await client.queue_jobs(10)
            answer = await get(client, "/events?after=0")
            assert [each["id"] for each in answer["events"]] == [8, 9, 10]
            assert answer["missed"] is True
            assert (await get(client, "/events?after=8"))["missed"] is False

    run_virtual(story())


WORKFLOW = """
name: CI
jobs:
  a: {runs-on: ubuntu-latest, steps: [{run: echo a}]}
  b: {runs-on: ubuntu-latest, needs: a, steps: [{run: echo b}]}
"""


def test_a_workflow_is_run_from_its_file(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            body = {"content": WORKFLOW, "name": "ci.yml", "runs_on": ["demo"],
                    "repository": "my-org/app"}  # fmt: skip
            made = await client.send("POST", "/control/workflows", json=body)
            assert made.status == 201
            run = made.json
            assert [(j["name"], j["state"]) for j in run["jobs"]] == [
                ("a", "queued"),
                ("b", "waiting"),
            ]
            listening = asyncio.create_task(client.poll())
            await work_off(client, run["jobs"][0]["id"], "r-1")
            await listening
            run = await get(client, f"/runs/{run['id']}")
            assert [(j["name"], j["state"]) for j in run["jobs"]] == [
                ("a", "completed"),
                ("b", "assigned"),
            ]
            await work_off(client, run["jobs"][1]["id"], "r-2")
            run = await get(client, f"/runs/{run['id']}")
            assert (run["state"], run["conclusion"]) == ("finished", "success")
            assert [each["id"] for each in (await get(client, "/runs"))["runs"]] == [run["id"]]
            jobs = await get(client, f"/jobs?run={run['id']}&state=completed")
            assert len(jobs["jobs"]) == 2

    run_virtual(story())


def test_a_workflow_that_cannot_be_run_is_refused_with_file_line_and_key(
    run_virtual: RunVirtual,
) -> None:
    async def story() -> None:
        async with github() as client:
            body = {"content": "on: push\njobs:\n  a:\n    container: x\n", "name": "ci.yml"}
            reply = await client.send("POST", "/control/workflows", json=body)
            assert reply.status == 400
            assert reply.json["message"].startswith("ci.yml:4: the key 'container' of job 'a'")

    run_virtual(story())


def test_jobs_and_runs_can_be_cancelled(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            (job,) = await client.queue_jobs()
            cancelled = await client.send("POST", f"/control/jobs/{job}/cancel")
            assert cancelled.json["result"] == "canceled"
            run = (
                await client.send("POST", "/control/workflows", json={"content": WORKFLOW})
            ).json["id"]
            cancelled = await client.send("POST", f"/control/runs/{run}/cancel")
            assert cancelled.json["conclusion"] == "cancelled"

    run_virtual(story())


def test_a_queued_job_says_what_it_waits_for(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.register()
            (job,) = await client.queue_jobs()
            shown = await get(client, f"/jobs/{job}")
            assert shown["repository"] == "my-org/app"
            assert shown["waits_because"] == "no scale set has the labels demo for my-org/app"
            await client.queue_jobs(repository="")
            elsewhere = (await get(client, "/jobs"))["jobs"][-1]
            assert elsewhere["repository"] == "demo-org/demo"  # as the page says
            assert elsewhere["waits_because"].endswith("for demo-org/demo")
            await client.scale_set()
            assert "no listener" in (await get(client, f"/jobs/{job}"))["waits_because"]
            await client.open()
            assert "capacity" in (await get(client, f"/jobs/{job}"))["waits_because"]

    run_virtual(story())


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/jobs", {}, 400, "labels"),
        ("POST", "/jobs", {"labels": []}, 400, "at least one label"),
        ("POST", "/jobs", {"labels": ["x"], "count": 0}, 400, "count must be between"),
        ("POST", "/jobs", {"labels": ["x"], "seconds": -1}, 400, "seconds must be"),
        ("POST", "/jobs", {"labels": ["x"], "repository": "app"}, 400, "owner/name"),
        ("POST", "/jobs", {"labels": ["x"], "secnods": 1}, 400, "secnods"),
        ("POST", "/jobs", {"labels": ["x", ""]}, 400, "labels must not hold an empty"),
        ("POST", "/jobs", {"labels": ["x"] * 101}, 400, "labels must hold at most 100"),
        ("POST", "/jobs", {"labels": ["y" * 201]}, 400, "each of labels must have at most 200"),
        ("POST", "/jobs", {"labels": ["x"], "count": 10**30}, 400, "count must be between"),
        ("POST", "/jobs", {"labels": ["x"], "timeout_seconds": -1}, 400, "timeout_seconds must be"),
        ("POST", "/jobs", {"labels": ["x"], "timeout_seconds": 1e9}, 400, "timeout_seconds must"),
        ("POST", "/jobs", {"labels": ["x"], "failing": -5}, 400, "failing must be between 0 and 1"),
        ("POST", "/jobs", {"labels": ["x"], "failing": 2}, 400, "failing must be between 0 and 1"),
        ("POST", "/jobs", {"labels": ["x"], "name": "y" * 201}, 400, "name must have at most 200"),
        ("POST", "/jobs", {"labels": ["x"], "group": "a\nb"}, 400, "group must be one line"),
        ("POST", "/jobs", {"labels": ["x"], "repository": "/"}, 400, "owner/name"),
        ("POST", "/jobs", {"labels": ["x"], "repository": "a/b\0"}, 400, "one line"),
        ("POST", "/workflows", {"content": 3}, 400, "content"),
        ("POST", "/workflows", {"content": "", "ref": "x\0"}, 400, "ref must be one line"),
        ("POST", "/workflows", {"content": "", "event": "y" * 300}, 400, "event must have"),
        ("POST", "/workflows", {"content": "", "name": "y" * 5_000}, 400, "name must have"),
        ("POST", "/workflows", {"content": "", "runs_on": [""]}, 400, "runs_on must not hold"),
        ("POST", "/workflows", {"content": "", "repository": "a/b/c"}, 400, "owner/name"),
        ("POST", "/faults", {"preset": "slow", "seconds": -1}, 400, "seconds must be between"),
        ("POST", "/faults", {"preset": "rate-limited", "seconds": 1e308}, 400, "seconds must"),
        ("POST", "/faults", {"preset": "slow", "value": "soon"}, 400, "value must be a number"),
        ("POST", "/faults", {"preset": "slow", "value": "nan"}, 400, "delay_s must be between"),
        ("POST", "/faults", {"preset": "slow", "value": "y" * 300}, 400, "value must have at most"),
        (
            "POST",
            "/faults",
            {"preset": "github-down", "times": 10**30},
            400,
            "times must be between",
        ),
        ("POST", "/faults", {"action": {}, "after": -1}, 400, "after must be between"),
        ("POST", "/faults", {"action": {"headers": {"a b": "c"}}}, 400, "name of a header"),
        ("POST", "/faults", {"action": {"headers": {"a": "b\0"}}}, 400, "control character"),
        ("POST", "/faults", {"action": {"content_type": "a\r\nb: c"}}, 400, "control character"),
        ("POST", "/faults", {"action": {"headers": {"Content-Length": "7"}}}, 400, "server's own"),
        ("POST", "/faults", {"action": {"body": "x" * 262_145}}, 400, "body must have at most"),
        ("GET", "/runs/" + "9" * 5_000, None, 404, "no run 999"),
        ("POST", "/runs/" + "9" * 5_000 + "/cancel", None, 404, "no run 999"),
        ("GET", "/jobs/" + "9" * 5_000, None, 404, "no job 999"),
        ("GET", "/jobs?state=asleep", None, 400, "there are: queued, available"),
        ("GET", "/events?after=inf", None, 400, "after must be a number"),
        ("GET", "/events?after=nan", None, 400, "after must be a number"),
        ("GET", "/events?timeout=1e999", None, 400, "timeout must be a number"),
        ("GET", "/events?limit=" + "9" * 5_000, None, 400, "limit must be a number"),
        ("GET", "/jobs/nope", None, 404, "no job nope"),
        ("GET", "/jobs/nope/log", None, 404, "no job nope"),
        ("GET", "/runs/nope", None, 404, "no run nope"),
        ("POST", "/runs/77/cancel", None, 404, "no run 77"),
        ("DELETE", "/faults/77", None, 404, "no fault rule 77"),
        ("GET", "/events?after=x", None, 400, "after must be a number"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    run_virtual: RunVirtual, method: str, path: str, body: Any, status: int, says: str
) -> None:
    async def story() -> None:
        async with github() as client:
            reply = await client.send(method, f"/control{path}", json=body)
            assert reply.status == status
            assert says in reply.json["message"]
            assert len(reply.json["message"]) < 300  # what was sent is not sent back at length

    run_virtual(story())


def test_nothing_it_shows_holds_a_token_or_a_jit_secret(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github(control_token=SecretText("")) as client:
            await client.ready()
            _, secret = await connect(client, "r-1")
            await client.queue_jobs()
            await client.fault(preset="slow")
            shown = b""
            for path in ("state", "summary", "events", "jobs", "runs", "calls", "violations"):
                shown += (await client.send("GET", f"/control/{path}")).body
            for hidden in (secret, client.queue_token, client.admin):
                assert hidden.encode() not in shown
            state = json.loads((await client.send("GET", "/control/state")).body)
            assert state["runners"][0]["state"] == "idle"
            assert state["scale_sets"][0]["session"]["owner"] == "me"

    run_virtual(story())


def test_violations_are_listed(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with github() as client:
            await client.ready()
            _, secret = await connect(client, "r-1")
            second = await runner_says(client, "POST", "", secret, {"nonce": "another process"})
            assert (second.status, second.json["code"]) == (409, "jit-config-already-used")
            (violation,) = (await get(client, "/violations"))["violations"]
            assert violation["kind"] == "JIT config started twice"
            assert violation["detail"] == "runner r-1"

    run_virtual(story())
