"""The pure state with a hand on the clock: what most tests of the pretended GitHub drive."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from runnerscale.core.randomness import seeded
from runnerscale.fake_github import jobs, runner_sessions, runners, scale_sets, sessions
from runnerscale.fake_github.model import Job, JobRequest, Runner, ScaleSet, Session, Step
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.settlement import run_command
from runnerscale.fake_github.state import State
from runnerscale.fake_github.wire import statistics_json

P = ParamSpec("P")
T = TypeVar("T")

START_S = 1_800_000_000.0

REQUEST = JobRequest(
    display_name="build",
    labels=("demo",),
    steps=(Step("Say hello", "echo hello"),),
    owner="my-org",
    repository="app",
    workflow_ref="my-org/app/.github/workflows/ci.yml@refs/heads/main",
    event_name="push",
    run_id=42,
)


class World:
    """A state, the time, and shorthands; every call settles the state."""

    def __init__(self, **options: Any) -> None:
        self.state = State(replace(Options(), **options), seeded(7))
        self.now_s = START_S

    def do(
        self,
        command: Callable[Concatenate[State, float, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return run_command(self.state, self.now_s, command, *args, **kwargs)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.do(lambda _state, _now_s: None)

    def scale_set(self, name: str = "demo", tenant: str = "my-org") -> ScaleSet:
        wanted = scale_sets.Wanted(name=name)
        return self.do(scale_sets.create, self.state.tenant(tenant), wanted)

    def listen(self, scale_set: ScaleSet, capacity: int | None = 10) -> Session:
        """A session whose poll is held, so that it neither expires nor waits."""
        session = self.do(sessions.open_session, scale_set, "listener")
        self.do(sessions.begin_poll, session.token, capacity)
        return session

    def set_capacity(self, session: Session, capacity: int | None) -> None:
        self.do(sessions.begin_poll, session.token, capacity)

    def job(self, **changes: Any) -> Job:
        return self.do(jobs.queue_job, replace(REQUEST, **changes))

    def runner(self, scale_set: ScaleSet, name: str) -> Runner:
        return self.do(runners.register, scale_set, name)

    def connected(self, scale_set: ScaleSet, name: str) -> Runner:
        """A runner that was started and waits for its job."""
        runner = self.runner(scale_set, name)
        self.do(runner_sessions.connect, secret=runner.secret, nonce=name)
        self.do(runner_sessions.begin_poll, runner)
        return runner

    def confirm(self, runner: Runner) -> Job:
        self.do(lambda _state, now_s: runner_sessions.end_poll(self.state, now_s, runner))
        return self.do(runner_sessions.confirm, runner, runner.job_id)

    def finish(self, runner: Runner, result: str = "succeeded") -> None:
        self.do(runner_sessions.finish, runner, runner.job_id, result=result, steps=[])

    def messages(self, scale_set: ScaleSet) -> list[dict[str, Any]]:
        """Take all job messages that wait, acknowledging their envelopes."""
        taken: list[dict[str, Any]] = []
        while (envelope := scale_set.queue.next_after(0)) is not None:
            scale_set.queue.delete(envelope.id)
            taken.extend(json.loads(json.dumps(envelope.messages)))
        return taken

    def kinds(self, scale_set: ScaleSet) -> list[str]:
        return [message["messageType"] for message in self.messages(scale_set)]

    def statistics(self, scale_set: ScaleSet) -> dict[str, int]:
        return json.loads(json.dumps(statistics_json(scale_set)))  # type: ignore[no-any-return]
