"""The listener against a GitHub that behaves, through the real client, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from runnerscale.fake_github import jobs, runner_sessions, runners, scale_sets
from runnerscale.fake_github.model import Job, JobState
from runnerscale.fake_github.options import AssignmentMode, Options
from runnerscale.fake_github.server import FakeGitHub, serve_fake_github
from runnerscale.listener.loop import Listener
from runnerscale.listener.metrics import ListenerMetrics
from runnerscale.listener.scaler import Bounds
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.route import open_transport
from tests.unit.fake_github.http_world import dial_to
from tests.unit.fake_github.world import REQUEST, START_S
from tests.unit.listener.conftest import config, metrics, until, value
from tests.unit.listener.fakes import TinyApi

Run = Callable[[Coroutine[Any, Any, Any]], Any]
PORT = 8490
URL = "http://github.com/my-org"


@dataclass
class World:
    fake: FakeGitHub
    api: TinyApi
    scale_set: Any
    clock: LoopClock
    max_runners: int = 10
    kills: int = 0

    @asynccontextmanager
    async def listener(self) -> AsyncIterator[tuple[Listener, ListenerMetrics]]:
        """One process: its own client, its own memory."""
        network = NetworkOptions(dial=dial_to(PORT))
        client = ScaleSetClient(
            URL,
            personal_access_token("token"),
            transport=open_transport(network),
            clock=self.clock,
            random=seeded(2),
        )
        numbers = metrics()
        async with client:
            listener = Listener(
                config(scale_set_id=self.scale_set.id, bounds=Bounds(0, self.max_runners)),
                scale_set_client=client,
                kube_client=self.api,  # type: ignore[arg-type]
                owner_name="host",
                clock=self.clock,
                random=seeded(3 + self.kills),
                metrics=numbers,
            )
            task = asyncio.get_running_loop().create_task(listener.run())
            try:
                yield listener, numbers
            finally:
                listener.stop()
                await asyncio.wait({task})
        if not task.cancelled():
            task.result()

    def queue(self, count: int) -> list[Job]:
        return [self.fake.hub.run(jobs.queue_job, REQUEST) for _ in range(count)]

    def start_one(self, name: str) -> Any:
        """A runner registers, connects, and takes a job."""
        self.api.put(EPHEMERAL_RUNNERS, "default", name, status={"phase": "Pending"})
        self.api.touch(EPHEMERAL_RUNNERS, "default", name)
        runner = self.fake.hub.run(runners.register, self.scale_set, name)
        secret = runner.secret
        self.fake.hub.run(runner_sessions.connect, secret=secret, nonce=name)
        self.fake.hub.run(runner_sessions.begin_poll, runner)
        job = runner_sessions.offered_job(self.fake.state, runner)
        assert job is not None, "no job waits for it"
        self.fake.hub.run(runner_sessions.confirm, runner, job.id)
        return runner

    def end(self, runner: Any) -> None:
        job_id = runner.job_id
        self.fake.hub.run(
            runner_sessions.finish, runner, job_id=job_id, result="succeeded", steps=[]
        )

    def ours(self) -> int:
        """Jobs that the scale set was given, ended ones included."""
        waiting = (JobState.QUEUED, JobState.AVAILABLE)
        return sum(job.state not in waiting for job in self.fake.state.jobs.values())

    @property
    def wanted(self) -> int:
        spec = self.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")["spec"]
        return int(spec.get("replicas", 0))

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.raw(EPHEMERAL_RUNNERS, "default", name)["status"]
        return found


@asynccontextmanager
async def world(**options: Any) -> AsyncIterator[World]:
    clock = LoopClock(START_S)
    async with serve_fake_github(
        replace(Options(port=PORT, runner_lost_s=1e6), **options), clock=clock, random=seeded(1)
    ) as fake:
        api = TinyApi()
        api.put(EPHEMERAL_RUNNER_SETS, "default", "set", spec={"patchID": 0})
        wanted = scale_sets.Wanted(name="demo")
        made = fake.hub.run(scale_sets.create, fake.state.tenant("my-org"), wanted)
        yield World(fake, api, made, clock)


def test_jobs_become_wanted_runners_started_ones_are_marked_and_ended_ones_are_not_wanted(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        async with world(poll_hold_s=5) as this, this.listener() as (_, numbers):
            this.queue(3)
            await until(lambda: this.wanted == 3, within_s=2)
            runner = this.start_one("runner-1")
            await until(lambda: this.status("runner-1")["phase"] == "Running", within_s=2)
            assert this.status("runner-1")["jobId"]
            this.end(runner)
            await until(lambda: this.wanted == 2, within_s=2)
            spec = this.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")["spec"]
            assert spec["settledRunners"] == ["runner-1"]
            await until(
                lambda: spec_of(this)["patchID"] == 0, within_s=12
            )  # exact, though two wait
            assert value(numbers, "gha_completed_jobs_total", job_result="succeeded") == 1
            assert list(this.fake.state.violations) == []

    def spec_of(this: World) -> dict[str, Any]:
        found: dict[str, Any] = this.api.raw(EPHEMERAL_RUNNER_SETS, "default", "set")["spec"]
        return found

    run_virtual(scene())


@pytest.mark.behaviour("C2 T199")
def test_a_queue_token_that_ends_every_minute_loses_and_repeats_nothing(run_virtual: Run) -> None:
    async def scene() -> None:
        async with (
            world(poll_hold_s=20, queue_token_life_s=60) as this,
            this.listener() as (listener, numbers),
        ):
            for number in range(10):
                this.queue(1)
                name = f"runner-{number}"
                await until(lambda n=number: this.wanted == n + 1, within_s=25)  # type: ignore[misc]
                this.start_one(name)
                await until(
                    lambda n=name: this.status(n).get("phase") == "Running",  # type: ignore[misc]
                    within_s=25,
                )
                await asyncio.sleep(45)
            assert value(numbers, "gha_started_jobs_total") == 10  # each once
            assert listener.readiness().ready
            opened = this.fake.state.scale_sets[this.scale_set.id]
            assert opened is not None and list(this.fake.state.violations) == []

    run_virtual(scene())


@pytest.mark.behaviour("C2 T196")
def test_a_listener_that_was_killed_is_followed_by_one_that_waits_for_its_session(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        async with world(poll_hold_s=20, session_life_s=60) as this:
            network = NetworkOptions(dial=dial_to(PORT))
            dead = ScaleSetClient(
                URL,
                personal_access_token("token"),
                transport=open_transport(network),
                clock=this.clock,
                random=seeded(9),
            )
            # It took the message of the started job, and died before it acknowledged it.
            session = await dead.open_session(this.scale_set.id, "dead").__aenter__()
            this.queue(1)
            message = await session.poll(0, 10)
            assert message is not None
            await session.acknowledge(message.id)
            poll = asyncio.get_running_loop().create_task(session.poll(message.id, 10))
            await asyncio.sleep(1)
            this.start_one("runner-1")
            taken = await poll
            assert taken is not None
            began_s = asyncio.get_running_loop().time()
            async with this.listener() as (listener, numbers):
                await until(lambda: "SessionHeldElsewhere" in listener.readiness().why, within_s=5)
                await until(lambda: listener.readiness().ready, within_s=130)
                assert asyncio.get_running_loop().time() - began_s < 130
                await until(lambda: this.status("runner-1").get("phase") == "Running", within_s=5)
                assert this.wanted == 1
                await until(lambda: value(numbers, "gha_started_jobs_total") == 1, within_s=5)
            await dead.close()

    run_virtual(scene())


@pytest.mark.behaviour("C2 T200")
def test_an_older_server_that_offers_jobs_is_claimed_from_as_far_as_there_is_room(
    run_virtual: Run,
) -> None:
    async def scene() -> None:
        async with world(poll_hold_s=5, assignment=AssignmentMode.ACQUIRE) as this:
            this.max_runners = 2
            async with this.listener():
                this.queue(3)
                await until(lambda: this.wanted == 2, within_s=30)
                await asyncio.sleep(60)
                assert this.ours() == 2
                runner = this.start_one("runner-1")
                await asyncio.sleep(5)
                this.end(runner)
                await asyncio.sleep(60)
                assert this.ours() == 3  # the third was remembered, or offered again

    run_virtual(scene())


@pytest.mark.behaviour("C2 T198")
def test_an_idle_hour_costs_no_session_and_one_admin_token(run_virtual: Run) -> None:
    async def scene() -> None:
        async with world(poll_hold_s=50) as this, this.listener() as (listener, _):
            await asyncio.sleep(3500)
            assert listener.readiness().ready
            calls = {
                operation: sum(n for (_, o, _), n in this.fake.hub.calls.items() if o == operation)
                for _, operation, _ in this.fake.hub.calls
            }
            assert 68 <= sum(n for o, n in calls.items() if "poll" in o.lower()) <= 72, calls
            bodies = this.api.bodies("ephemeralrunnersets")
            assert abs(len(bodies) - 70) <= 3

    run_virtual(scene())
