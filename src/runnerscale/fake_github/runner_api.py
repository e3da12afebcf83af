"""The runner protocol over HTTP (ours; described in docs/fake-github.md).

The rules are in `runner_sessions.py`; this file decodes, waits, and encodes.
"""

import base64
import binascii

import msgspec

from runnerscale.fake_github import runner_sessions
from runnerscale.fake_github.answers import Answer, Call, json_answer, nothing
from runnerscale.fake_github.hub import Hub
from runnerscale.fake_github.model import Job, Runner, Step
from runnerscale.fake_github.refusals import bad_argument
from runnerscale.fake_github.state import runner_topic

REPORT_SHARE = 4  # a busy runner speaks this many times before it would count as lost
REPORT_EVERY_MAX_S = 5.0


class Hello(msgspec.Struct):
    """A runner process starts."""

    nonce: str
    version: str = ""


class Report(msgspec.Struct):
    """Log text (base64) from `offset` on, and where the job is."""

    offset: int = 0
    text: str = ""
    step: str = ""


class Finished(msgspec.Struct):
    """The end of a job."""

    result: str
    steps: list[dict[str, object]] = []
    offset: int = 0
    text: str = ""


async def connect(hub: Hub, call: Call) -> Answer:
    """Start a session with a JIT config's secret."""
    hello = call.decode(Hello)
    runner = hub.run(runner_sessions.connect, secret=call.bearer(), nonce=hello.nonce)
    every_s = min(REPORT_EVERY_MAX_S, hub.options.runner_lost_s / REPORT_SHARE)
    return json_answer(
        {
            "sessionId": runner.session_id,
            "name": runner.name,
            "pollSeconds": hub.options.runner_poll_hold_s,
            "reportSeconds": every_s,
        }
    )


async def disconnect(hub: Hub, call: Call) -> Answer:
    """End the session."""
    hub.run(runner_sessions.disconnect, _runner(hub, call))
    return nothing()


async def poll(hub: Hub, call: Call) -> Answer:
    """The runner's job, at once or within the hold time; 204 if there is none."""
    runner = _runner(hub, call)
    ends_s = hub.now_s() + hub.options.runner_poll_hold_s
    hub.run(runner_sessions.begin_poll, runner)
    try:
        while True:
            job = runner_sessions.offered_job(hub.state, runner)
            if job is not None:
                return json_answer({"jobId": job.id, "name": job.request.display_name})
            left_s = ends_s - hub.now_s()
            if left_s <= 0:
                return nothing()
            await hub.wait(runner_topic(runner.session_id), left_s)
    finally:
        runner_sessions.end_poll(hub.state, hub.now_s(), runner)


async def confirm(hub: Hub, call: Call) -> Answer:
    """The runner takes its job and gets all of it."""
    job = hub.run(runner_sessions.confirm, _runner(hub, call), call.params["job"])
    return json_answer(_job_json(job))


async def report(hub: Hub, call: Call) -> Answer:
    """Log text, and a sign of life."""
    told = call.decode(Report)
    canceled = hub.run(
        runner_sessions.report,
        _runner(hub, call),
        call.params["job"],
        offset=told.offset,
        text=_bytes(told.text),
        current_step=told.step[:200],
    )
    return json_answer({"cancel": canceled})


async def finish(hub: Hub, call: Call) -> Answer:
    """The rest of the log, and the result."""
    told = call.decode(Finished)
    runner, job_id = _runner(hub, call), call.params["job"]
    text = _bytes(told.text)
    hub.run(runner_sessions.report, runner, job_id, offset=told.offset, text=text)
    hub.run(runner_sessions.finish, runner, job_id, result=told.result, steps=told.steps)
    return nothing()


def _runner(hub: Hub, call: Call) -> Runner:
    return runner_sessions.authenticate(hub.state, call.params["session"], call.bearer())


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise bad_argument("text must be base64") from None


def _job_json(job: Job) -> dict[str, object]:
    request = job.request
    return {
        "jobId": job.id,
        "name": request.display_name,
        "timeoutSeconds": request.timeout_s,
        "env": dict(request.env),
        "steps": [_step_json(step) for step in request.steps],
    }


def _step_json(step: Step) -> dict[str, object]:
    return {
        "name": step.name,
        "run": step.run,
        "shell": step.shell,
        "env": dict(step.env),
        "workingDirectory": step.working_directory,
        "timeoutSeconds": step.timeout_s,
        "runWhen": dict(zip(("success", "failure", "cancelled"), step.run_when, strict=True)),
    }
