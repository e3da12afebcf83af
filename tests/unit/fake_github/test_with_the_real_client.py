"""Our own client accepts the pretended GitHub, in every URL form and both modes.

The two rooms do not know each other; this is where each could prove the other wrong.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from runnerscale.fake_github.options import AssignmentMode, HostedBackend, Options
from runnerscale.fake_github.presets import PRESETS
from runnerscale.fake_github.server import FakeGitHub, serve_fake_github
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.credentials import personal_access_token
from runnerscale.scaleset.errors import (
    JobStillRunning,
    RunnerExists,
    RunnerNotFound,
    ScaleSetNotFound,
    SessionConflict,
)
from runnerscale.scaleset.model import JobEventKind
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.route import open_transport
from tests.unit.fake_github.http_world import dial_to
from tests.unit.fake_github.world import START_S

RunVirtual = Callable[[Coroutine[Any, Any, None]], None]
PORT = 8480


@asynccontextmanager
async def pair(url: str, **options: Any) -> AsyncIterator[tuple[FakeGitHub, ScaleSetClient]]:
    clock = LoopClock(START_S)
    wanted = replace(Options(port=PORT), **options)
    async with serve_fake_github(wanted, clock=clock, random=seeded(1)) as fake:
        network = NetworkOptions(dial=dial_to(PORT))
        client = ScaleSetClient(
            url,
            personal_access_token("token"),
            transport=open_transport(network),
            clock=clock,
            random=seeded(2),
        )
        async with client:
            yield fake, client


async def queue_jobs(fake: FakeGitHub, count: int = 1) -> list[Any]:
    from runnerscale.fake_github import jobs
    from tests.unit.fake_github.world import REQUEST

    return [fake.hub.run(jobs.queue_job, REQUEST) for _ in range(count)]


@pytest.mark.parametrize("backend", HostedBackend)
@pytest.mark.parametrize(
    "url",
    [
        "http://ghes.example:8480/my-org",
        "http://ghes.example:8480/my-org/app",
        "http://ghes.example:8480/enterprises/big",
        "http://github.com/my-org",
        "http://github.localhost/my-org/app",
        "http://acme.ghe.com/my-org",
    ],
)
def test_a_whole_life_in_every_url_form(
    run_virtual: RunVirtual, url: str, backend: HostedBackend
) -> None:
    async def story() -> None:
        async with pair(url, hosted_backend=backend, poll_hold_s=5) as (fake, client):
            group = await client.get_runner_group("default")
            assert (group.id, group.is_default) == (1, True)
            assert await client.find_scale_set("demo", 1) is None
            made = await client.create_scale_set("demo", 1)
            assert await client.find_scale_set("demo", 1) == made
            assert made.labels == ("demo",)
            renamed = await client.update_scale_set(made.id, labels=["demo", "gpu"])
            assert renamed.labels == ("demo", "gpu")
            jit = await client.generate_jit_config(made.id, "r-1")
            assert jit.runner.scale_set_id == made.id
            assert jit.encoded
            found = await client.find_runner("r-1")
            assert found is not None
            assert found.id == jit.runner.id
            with pytest.raises(RunnerExists):
                await client.generate_jit_config(made.id, "r-1")
            async with client.open_session(made.id, "me") as session:
                assert session.statistics.assigned_jobs == 0
                await queue_jobs(fake, 2)
                message = await session.poll(0, 10)
                assert message is not None
                assert [e.kind for e in message.events] == [JobEventKind.ASSIGNED] * 2
                assert message.statistics is not None
                assert message.statistics.assigned_jobs == 2
                await session.acknowledge(message.id)
                assert await session.poll(message.id, 10) is None
                with pytest.raises(SessionConflict):
                    async with client.open_session(made.id, "other"):
                        pass
            async with client.open_session(made.id, "next"):
                pass
            await client.remove_runner(jit.runner.id)
            await client.remove_runner(jit.runner.id)  # unknown by now: fine
            with pytest.raises(RunnerNotFound):
                await client.get_runner(jit.runner.id)
            await client.delete_scale_set(made.id)
            with pytest.raises(ScaleSetNotFound):
                await client.get_scale_set(made.id)
            assert list(fake.state.violations) == []

    run_virtual(story())


def test_acquire_mode(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        mode = AssignmentMode.ACQUIRE
        async with pair("http://h:8480/my-org", assignment=mode) as (fake, client):
            made = await client.create_scale_set("demo", 1)
            async with client.open_session(made.id, "me") as session:
                await queue_jobs(fake, 3)
                message = await session.poll(0, 10)
                assert message is not None
                ids = [event.request_id for event in message.events]
                assert {event.kind for event in message.events} == {JobEventKind.AVAILABLE}
                assert await session.acquire_jobs(ids[:2]) == ids[:2]

    run_virtual(story())


def test_a_busy_runner_is_refused_as_job_still_running(run_virtual: RunVirtual) -> None:
    async def story() -> None:
        async with pair("http://h:8480/my-org", poll_hold_s=1) as (fake, client):
            from runnerscale.fake_github import runner_sessions

            made = await client.create_scale_set("demo", 1)
            async with client.open_session(made.id, "me") as session:
                assert await session.poll(0, 10) is None
                jit = await client.generate_jit_config(made.id, "r-1")
                runner = fake.state.runners[jit.runner.id]
                fake.hub.run(runner_sessions.connect, secret=runner.secret, nonce="n")
                fake.hub.run(runner_sessions.begin_poll, runner)
                await queue_jobs(fake)
                with pytest.raises(JobStillRunning):
                    await client.remove_runner(jit.runner.id)

    run_virtual(story())


SURVIVABLE = sorted(
    set(PRESETS) - {"scale-set-deleted", "runner-version-refused", "session-held", "black-hole"}
)


# What was in such an envelope is lost for good; only the statistics tell of the jobs.
DESTROYS_CONTENT = {"malformed-envelope", "unknown-envelope-type"}


@pytest.mark.parametrize("preset", SURVIVABLE)
def test_after_every_trouble_the_client_polls_and_registers_again(
    run_virtual: RunVirtual, preset: str
) -> None:
    async def story() -> None:
        from runnerscale.fake_github import control_api
        from runnerscale.scaleset.errors import ScaleSetError

        options = {"poll_hold_s": 2.0, "session_life_s": 5.0}
        async with pair("http://h:8480/my-org", **options) as (fake, client):
            made = await client.create_scale_set("demo", 1)
            async with client.open_session(made.id, "me") as session:
                await session.poll(0, 10)
                asked = control_api.AddFault(preset=preset, seconds=10)
                for rule in control_api._preset_rules(fake.hub, asked):
                    fake.hub.faults.add(rule)
                jobs = await queue_jobs(fake, 2)
                seen: set[str] = set()
                registered = 0
                for attempt in range(60):
                    try:
                        message = await session.poll(0, 10)
                        if message is not None:
                            seen |= {event.job_id for event in message.events}
                            await session.acknowledge(message.id)
                        await client.generate_jit_config(made.id, f"r-{attempt}")
                        registered += 1
                    except ScaleSetError:
                        await asyncio.sleep(2)
                        continue
                    if attempt > 10:
                        break
                if preset not in DESTROYS_CONTENT:
                    assert {job.id for job in jobs} <= seen
                assert session.statistics.assigned_jobs == 2
                assert registered >= 1
                assert list(fake.state.violations) == []

    run_virtual(story())
