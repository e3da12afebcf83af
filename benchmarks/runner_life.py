"""What a runner does in its container, towards the pretended GitHub: one job, then it ends."""

import asyncio
from collections.abc import Awaitable, Callable

from benchmarks.github import SECONDS, GitHub
from runnerscale.fake_github import runner_sessions
from runnerscale.fake_github.model import Job, Runner
from runnerscale.fake_github.refusals import Refused
from runnerscale.fake_github.state import runner_topic

POLL_S = 20.0


async def live(
    github: GitHub,
    pod_name: str,
    pod_uid: str,
    *,
    online: Callable[[], None],
    started: Callable[[Job], None],
    until_let_go: Callable[[], Awaitable[None]],
) -> int:
    """From the first connection to the exit code; a job of 0 s ends when it is let go."""
    known = github.runner(pod_name)
    if known is None:
        return 1
    hub = github.hub
    try:
        runner = hub.run(runner_sessions.connect, secret=known.secret, nonce=pod_uid[:60])
        online()
        job = await _next_job(github, runner)
        started(hub.run(runner_sessions.confirm, runner, job.id))
        seconds = float(dict(job.request.env)[SECONDS])
        await (asyncio.sleep(seconds) if seconds else until_let_go())
        hub.run(runner_sessions.finish, runner, job_id=job.id, result="succeeded", steps=[])
    except Refused:
        return 1
    return 0


async def _next_job(github: GitHub, runner: Runner) -> Job:
    hub = github.hub
    hub.run(runner_sessions.begin_poll, runner)
    try:
        while (job := runner_sessions.offered_job(hub.state, runner)) is None:
            await hub.wait(runner_topic(runner.session_id), POLL_S)
            runner.last_seen_s = hub.now_s()
    finally:
        hub.run(runner_sessions.end_poll, runner)
    return job
