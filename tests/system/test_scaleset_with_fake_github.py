"""The client and the stand-in for GitHub judge each other, over HTTP, on virtual time.

Written by two people from one contract: where they disagree, one of them is wrong.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from runnerscale.fake_github.options import AssignmentMode, HostedBackend, RateLimitForm
from runnerscale.scaleset.client import ScaleSetClient
from runnerscale.scaleset.credentials import Credentials, app_credentials, personal_access_token
from runnerscale.scaleset.errors import (
    CredentialsRefused,
    JobStillRunning,
    RateLimited,
    RunnerExists,
    RunnerNotFound,
    ScaleSetNotFound,
    SessionConflict,
    Unavailable,
)
from runnerscale.scaleset.model import JobEventKind
from runnerscale.scaleset.network import NetworkOptions
from runnerscale.scaleset.route import open_transport
from runnerscale.scaleset.session import MessageSession
from tests.unit.fake_github.http_world import Client, dial_to, github
from tests.unit.fake_github.world import START_S
from tests.unit.scaleset.test_scaleset_credentials import PKCS8

RunVirtual = Callable[[Coroutine[Any, Any, None]], None]


@dataclass
class World:
    """A server, who controls it, and our client."""

    server: Client
    client: ScaleSetClient

    async def scale_set(self, name: str = "demo") -> int:
        return (await self.client.create_scale_set(name, 1)).id


@asynccontextmanager
async def world(
    config_url: str = "http://127.0.0.1:8480/my-org",
    credentials: Credentials | None = None,
    **options: Any,
) -> AsyncIterator[World]:
    async with github(**options) as server, client_at(config_url, credentials) as client:
        yield World(server, client)


@asynccontextmanager
async def client_at(
    config_url: str, credentials: Credentials | None = None
) -> AsyncIterator[ScaleSetClient]:
    transport = open_transport(NetworkOptions(dial=dial_to(8480)))
    async with ScaleSetClient(
        config_url,
        credentials or personal_access_token("pat"),
        transport=transport,
        clock=LoopClock(START_S),
        random=seeded(5),
    ) as client:
        yield client


async def next_message(session: MessageSession, cursor: int = 0, capacity: int = 10) -> Any:
    for _ in range(20):
        message = await session.poll(cursor, capacity)
        if message is not None:
            return message
    raise AssertionError("no message in 20 polls")


@pytest.mark.parametrize("backend", HostedBackend)
@pytest.mark.parametrize(
    "config_url",
    [
        "http://127.0.0.1:8480/my-org",
        "http://127.0.0.1:8480/my-org/my-repo",
        "http://127.0.0.1:8480/enterprises/my-enterprise",
        "http://github.com:8480/my-org",
    ],
)
def test_a_scale_set_lives_at_every_kind_of_place(
    run_virtual: RunVirtual, config_url: str, backend: HostedBackend
) -> None:
    async def work() -> None:
        async with world(config_url, hosted_backend=backend) as w:
            assert await w.client.find_scale_set("demo", 1) is None
            made = await w.client.create_scale_set("demo", 1, labels=["demo", "x64"])
            assert made.labels == ("demo", "x64")
            found = await w.client.find_scale_set("demo", 1)
            assert found is not None and found.id == made.id
            assert (await w.client.update_scale_set(made.id, name="renamed")).name == "renamed"
            got = await w.client.get_scale_set(made.id)
            assert got is not None and (got.name, got.disable_update) == ("renamed", True)
            async with w.client.open_session(made.id, "me") as session:
                assert await session.poll(0, 10) is None
            await w.client.delete_scale_set(made.id)
            with pytest.raises(ScaleSetNotFound):
                await w.client.get_scale_set(made.id)
            assert not w.server.fake.state.violations

    run_virtual(work())


def test_an_app_is_let_in(run_virtual: RunVirtual) -> None:
    async def work() -> None:
        credentials = app_credentials("Iv1.abc", 77, PKCS8)
        async with world(credentials=credentials, app_installation_id=77) as w:
            assert (await w.client.get_runner_group("Default")).id == 1

    run_virtual(work())


@pytest.mark.parametrize("name", ["a b", "a&b", "a+b", "100%", "a;b", "a#b", "naïve"])
def test_a_name_arrives_as_it_is(run_virtual: RunVirtual, name: str) -> None:
    async def work() -> None:
        async with world() as w:
            made = await w.client.create_scale_set(name, 1)
            found = await w.client.find_scale_set(name, 1)
            assert found is not None and (found.id, found.name) == (made.id, name)

    run_virtual(work())


def test_runners_are_registered_found_and_removed(run_virtual: RunVirtual) -> None:
    async def work() -> None:
        async with world() as w:
            scale_set = await w.scale_set()
            config = await w.client.generate_jit_config(scale_set, "runner-1", work_folder="_work")
            runner = config.runner
            assert (runner.name, runner.scale_set_id) == ("runner-1", scale_set)
            found = await w.client.find_runner("runner-1")
            assert found is not None and found.id == runner.id
            assert (await w.client.get_runner(runner.id)).status in ("offline", "")
            with pytest.raises(RunnerExists):
                await w.client.generate_jit_config(scale_set, "runner-1")
            await w.client.remove_runner(runner.id)
            assert await w.client.find_runner("runner-1") is None
            with pytest.raises(RunnerNotFound):
                await w.client.get_runner(runner.id)
            await w.client.remove_runner(runner.id)  # 204 for what it does not know

    run_virtual(work())


def test_lost_answers_are_found_out(run_virtual: RunVirtual) -> None:
    async def work() -> None:
        async with world() as w:
            scale_set = await w.scale_set()
            await w.server.fault(preset="jit-lost-answer")
            with pytest.raises(RunnerExists, match="the answer was lost"):
                await w.client.generate_jit_config(scale_set, "runner-1")
            await w.server.fault(preset="session-lost-answer")
            with pytest.raises(SessionConflict, match="this may be our own session"):
                await w.client.open_session(scale_set, "me").__aenter__()

    run_virtual(work())


def test_a_job_that_runs_is_final(run_virtual: RunVirtual) -> None:
    async def work() -> None:
        async with world() as w:
            scale_set = await w.scale_set()
            runner = (await w.client.generate_jit_config(scale_set, "runner-1")).runner
            await w.server.fault(preset="job-still-running")
            with pytest.raises(JobStillRunning):
                await w.client.remove_runner(runner.id)

    run_virtual(work())


def test_pushed_jobs_arrive_and_acquiring_is_not_known(run_virtual: RunVirtual) -> None:
    async def work() -> None:
        async with world() as w:
            scale_set = await w.scale_set()
            async with w.client.open_session(scale_set, "me") as session:
                assert session.statistics.assigned_jobs == 0
                assert await session.poll(0, 2) is None
                await w.server.queue_jobs(2)
                message = await next_message(session)
                kinds = [event.kind for event in message.events]
                assert set(kinds) == {JobEventKind.ASSIGNED}
                assert message.statistics.assigned_jobs == len(kinds)
                assert message.quarantined == ()
                await session.acknowledge(message.id)
                assert await session.acquire_jobs([1]) == []
                assert session.push_mode

    run_virtual(work())


@pytest.mark.behaviour("C2 T101")
def test_offered_jobs_are_acquired(run_virtual: RunVirtual) -> None:
    async def work() -> None:
        async with world(assignment=AssignmentMode.ACQUIRE) as w:
            scale_set = await w.scale_set()
            async with w.client.open_session(scale_set, "me") as session:
                await w.server.queue_jobs(2)
                message = await next_message(session)
                ids = [
                    event.request_id
                    for event in message.events
                    if event.kind is JobEventKind.AVAILABLE
                ]
                assert ids
                # As one that took over would see them: no message tells an offer twice.
                assert await session.acquirable_jobs() == ids
                assert sorted(await session.acquire_jobs(ids)) == sorted(ids)
                assert await session.acquirable_jobs() == []
                assert not session.push_mode

    run_virtual(work())


def test_one_session_at_a_time_and_an_abandoned_one_ends(run_virtual: RunVirtual) -> None:
    async def work() -> None:
        async with world(session_life_s=60.0) as w:
            scale_set = await w.scale_set()
            abandoned = w.client.open_session(scale_set, "dead")
            await abandoned.__aenter__()
            successor = w.client.open_session(scale_set, "alive")
            with pytest.raises(SessionConflict):
                await successor.__aenter__()
            await asyncio.sleep(61)
            async with successor:
                assert await successor.poll(0, 1) is None

    run_virtual(work())


def test_an_unacknowledged_message_comes_again_after_the_session_was_lost(
    run_virtual: RunVirtual,
) -> None:
    async def work() -> None:
        async with world() as w:
            scale_set = await w.scale_set()
            async with w.client.open_session(scale_set, "me") as session:
                await w.server.queue_jobs(1)
                first = await next_message(session)
                await w.server.fault(preset="session-lost")
                again = await next_message(session, cursor=first.id)
                assert (again.id, session.generation) == (first.id, 2)
                await session.acknowledge(again.id)
                assert await session.poll(again.id, 1) is None

    run_virtual(work())


@pytest.mark.behaviour("C2 T96", "C2 T10")
def test_short_lived_tokens_are_renewed_for_hours(run_virtual: RunVirtual) -> None:
    async def work() -> None:
        async with world(queue_token_life_s=60.0, admin_token_life_s=300.0) as w:
            scale_set = await w.scale_set()
            async with w.client.open_session(scale_set, "me") as session:
                cursor, seen = 0, []
                for number in range(150):  # of 50 s each: two hours
                    if number % 10 == 0:
                        await w.server.queue_jobs(1)
                    message = await session.poll(cursor, 100)
                    if message is not None:
                        seen.append(message.id)
                        await session.acknowledge(message.id)
                        cursor = message.id
                assert len(seen) == len(set(seen)) >= 15
                assert session.generation == 1
            assert not w.server.fake.state.violations

    run_virtual(work())


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0])
def test_a_clock_that_is_an_hour_off_changes_nothing(
    run_virtual: RunVirtual, skew_s: float
) -> None:
    async def work() -> None:
        credentials = app_credentials("Iv1.abc", 77, PKCS8)
        async with world(credentials=credentials, clock_skew_s=skew_s) as w:
            for _ in range(5):
                await w.client.get_runner_group("Default")
                await asyncio.sleep(60)
            # An hour's token was not fetched again each time because it seemed to have ended.
            calls = w.server.fake.hub.calls
            assert sum(count for name, count in calls.items() if "registration" in str(name)) == 2

    run_virtual(work())


@pytest.mark.parametrize("form", RateLimitForm)
def test_a_rate_limit_is_told_apart_in_every_form(
    run_virtual: RunVirtual, form: RateLimitForm
) -> None:
    async def work() -> None:
        async with world(rate_limit_calls=1, rate_limit_window_s=3600.0, rate_limit_form=form) as w:
            await w.client.get_runner_group("Default")
            async with client_at("http://127.0.0.1:8480/other-org") as second:
                with pytest.raises(RateLimited) as caught:
                    await second.get_runner_group("Default")
            assert (caught.value.answer.retry_after_s or 0) > 60

    run_virtual(work())


def test_revoked_credentials_are_told(run_virtual: RunVirtual) -> None:
    async def work() -> None:
        async with world() as w:
            await w.server.fault(preset="credentials-revoked")
            with pytest.raises(CredentialsRefused):
                await w.client.get_runner_group("Default")

    run_virtual(work())


@pytest.mark.parametrize("preset", ["github-down", "github-unreachable", "black-hole"])
def test_an_outage_is_survived(run_virtual: RunVirtual, preset: str) -> None:
    async def work() -> None:
        async with world() as w:
            scale_set = await w.scale_set()
            await w.server.fault(preset=preset, seconds=15)
            with pytest.raises(Unavailable):
                await w.client.get_scale_set(scale_set, timeout_s=10)
            assert await w.client.get_scale_set(scale_set) is not None

    run_virtual(work())


@pytest.mark.parametrize(
    "preset", ["bom-bodies", "slow", "acknowledge-ignored", "repeated-message"]
)
def test_oddities_of_the_service_change_nothing(run_virtual: RunVirtual, preset: str) -> None:
    async def work() -> None:
        async with world() as w:
            await w.server.fault(preset=preset)
            scale_set = await w.scale_set()
            async with w.client.open_session(scale_set, "me") as session:
                await w.server.queue_jobs(1)
                message = await next_message(session)
                await session.acknowledge(message.id)
                assert message.events

    run_virtual(work())


@pytest.mark.parametrize(
    "preset",
    ["malformed-message", "malformed-envelope", "unknown-message-type", "unknown-envelope-type"],
)
def test_a_message_that_cannot_be_read_does_not_stop_the_queue(
    run_virtual: RunVirtual, preset: str
) -> None:
    async def work() -> None:
        async with world() as w:
            scale_set = await w.scale_set()
            async with w.client.open_session(scale_set, "me") as session:
                await w.server.fault(preset=preset)
                await w.server.queue_jobs(1)
                bad = await next_message(session)
                await session.acknowledge(bad.id)
                await w.server.queue_jobs(1)
                good = await next_message(session, cursor=bad.id)
                assert good.id > bad.id and good.events

    run_virtual(work())
