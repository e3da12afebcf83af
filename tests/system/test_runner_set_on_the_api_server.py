"""The set's controller and the listener's writers on the embedded API server, over HTTP.

Real client, caches, queue and schemas, on virtual time; the server is impartial. The runners'
own controller is played by hand, so that each moment can be looked at.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from runnerscale.api import labels as keys
from runnerscale.api.crds import crd_documents
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS, EphemeralRunner
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS, EphemeralRunnerSet
from runnerscale.apiserver.authentication import Identity
from runnerscale.apiserver.server import ApiServer
from runnerscale.apiserver.store import MemoryStore
from runnerscale.controllers.ephemeral_runner_set.controller import (
    BATCH_MAX,
    EphemeralRunnerSetReconciler,
)
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.controllers.reporting import Reporter
from runnerscale.core.clock import LoopClock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.kube.builtin import NAMESPACES
from runnerscale.kube.client import KubeClient
from runnerscale.kube.controller import Controller
from runnerscale.kube.credentials import StaticToken
from runnerscale.kube.httptools_transport import HttptoolsTransport
from runnerscale.kube.informer import Informer
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.patching import owner_index
from runnerscale.kube.transport import Endpoint
from runnerscale.listener.job_started import JobStartedWriter, Outcome
from runnerscale.listener.scaler import WantedPatch, patch_body
from runnerscale.scaleset.model import JobEvent, JobEventKind
from tests.plan.ephemeral_runner_set.world import Events, GitHub
from tests.system.test_kube_runtime import Lagging
from tests.unit.kube.virtual_network import virtual_dial

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]
EPOCH_S = 1_800_000_000.0
NS, SET = "runners", "set"
TEMPLATE: dict[str, Any] = {"containers": [{"name": "runner", "image": "img:1"}]}


@dataclass
class World:
    client: KubeClient
    github: GitHub
    events: Events
    runners: Informer[EphemeralRunner]
    clock: LoopClock
    peak: int = 0

    async def make(self, replicas: int, patch_id: int = 0, template: Any = None) -> None:
        body = {
            "metadata": {"name": SET, "labels": {keys.SCALE_SET_NAME: SET}},
            "spec": {
                "replicas": replicas,
                "patchID": patch_id,
                "ephemeralRunnerSpec": {
                    "githubConfigUrl": "https://github.com/org",
                    "githubConfigSecret": "github",
                    "runnerScaleSetId": 7,
                    "spec": template or TEMPLATE,
                },
            },
        }
        await self.client.create(EPHEMERAL_RUNNER_SETS, NS, body)

    async def says(self, replicas: int, patch_id: int, *settled: str) -> None:
        """As the listener does."""
        body = patch_body(WantedPatch(replicas, patch_id, 0), settled)
        await self.client.patch(EPHEMERAL_RUNNER_SETS, NS, SET, body)

    async def set(self) -> EphemeralRunnerSet:
        return await self.client.get(EPHEMERAL_RUNNER_SETS, NS, SET)

    async def live(self) -> list[EphemeralRunner]:
        found = await self.client.list(EPHEMERAL_RUNNERS, NS)
        return [r for r in found.items if not r.metadata.deletion_timestamp]

    async def register(self) -> None:
        for number, runner in enumerate(await self.live(), 1):
            if not runner.status.runner_id:
                body = {"status": {"phase": "Pending", "runnerId": number}}
                name = runner.metadata.name or ""
                await self.client.patch(EPHEMERAL_RUNNERS, NS, name, body, subresource="status")

    async def until(self, condition: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        for _ in range(600):
            if await condition():
                return
            await asyncio.sleep(0.1)
        raise AssertionError("it never happened")

    async def until_live(self, number: int) -> None:
        async def so_many() -> bool:
            return len(await self.live()) == number

        await self.until(so_many)


@asynccontextmanager
async def world(*, lagging: bool = False) -> AsyncIterator[World]:
    clock = LoopClock(EPOCH_S)
    api = ApiServer(
        MemoryStore(),
        clock=clock,
        random=seeded(7),
        crds=crd_documents(),
        identities=[Identity("admin", SecretText("t0k"), ("system:masters",))],
        signing_key=SecretText("k" * 32),
    )
    runner = web.AppRunner(api.app, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(runner.server, "api.test", 80)
    kind = Lagging if lagging else KubeClient
    client = kind(
        HttptoolsTransport(Endpoint("http://api.test:80"), dial=virtual_dial),
        credentials=StaticToken(SecretText("t0k")),
        clock=clock,
        random=seeded(1),
    )
    await client.create(NAMESPACES, "", {"metadata": {"name": NS}})
    try:
        async with controller(client, clock) as made:
            yield made
    finally:
        await client.close()
        server.close()
        await runner.cleanup()


@asynccontextmanager
async def controller(client: KubeClient, clock: LoopClock) -> AsyncIterator[World]:
    shared: dict[str, Any] = {"clock": clock, "random": seeded(2)}
    sets = Informer(client, EPHEMERAL_RUNNER_SETS, **shared)
    runners = Informer(client, EPHEMERAL_RUNNERS, indexers={"owner": owner_index}, **shared)
    own_writes = OwnWrites(clock=clock)
    github, events = GitHub(), Events()
    reconciler = EphemeralRunnerSetReconciler(
        client=client,
        clients=github,
        sets=sets,
        runners=runners,
        own_writes=own_writes,
        reporter=Reporter(events, ControllerMetrics(CollectorRegistry())),
        metrics=None,
        build_version="0.14.2",
        **shared,
    )
    running = Controller(
        name="ephemeralrunnerset",
        reconciler=reconciler,
        keys=sets.store.keys,
        own_writes=own_writes,
        batch_max=BATCH_MAX,
        **shared,
    )
    reconciler.connect(running.enqueue, running.enqueue_after)
    this = World(client, github, events, runners, clock)

    def count(_: object) -> None:
        this.peak = max(this.peak, len(runners.store))

    runners.on_change(count)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(sets.run()), group.create_task(runners.run())]
        await sets.wait_synced()
        await runners.wait_synced()
        tasks.append(group.create_task(running.run()))
        try:
            yield this
        finally:
            for task in tasks:
                task.cancel()
            await reconciler.close()


@pytest.mark.behaviour("C1 T138")
def test_a_cache_that_lags_never_makes_one_too_many(run_virtual: RunVirtual) -> None:
    async def scene() -> None:
        async with world(lagging=True) as this:
            await this.make(0)
            await this.says(100, 1)
            await this.until_live(100)
            await asyncio.sleep(30)
            assert len(await this.live()) == 100 and this.peak == 100

    run_virtual(scene())


def test_the_schema_takes_all_that_is_written(run_virtual: RunVirtual) -> None:
    async def scene() -> None:
        async with world() as this:
            await this.make(3, 1)
            await this.until_live(3)
            await asyncio.sleep(2)
            status = (await this.set()).status
            assert (status.current_replicas, status.pending_ephemeral_runners) == (3, 3)
            assert status.phase == "Running"
            kinds = {c.type: c.status for c in status.conditions or ()}
            assert kinds == {
                "TemplateAccepted": "True",
                "CreationAllowed": "True",
                "Satisfied": "True",
            }
            await this.says(3, 2, "some-runner")
            assert (await this.set()).spec.settled_runners == ["some-runner"]
            (first, *_) = await this.live()
            assert list(first.metadata.finalizers or ()) == list(keys.EPHEMERAL_RUNNER_FINALIZERS)
            assert first.spec.github_config_url == "https://github.com/org"

    run_virtual(scene())


def test_scale_down_and_a_job_that_lands_meanwhile(run_virtual: RunVirtual) -> None:
    async def scene() -> None:
        async with world() as this:
            await this.make(2, 0)
            await this.until_live(2)
            await this.register()
            busy, idle = await this.live()
            name = busy.metadata.name or ""
            writer = JobStartedWriter(this.client, namespace=NS, clock=this.clock, random=seeded(3))
            event = JobEvent(
                kind=JobEventKind.STARTED, index=0, job_id="j", owner_name="o", runner_name=name
            )
            # GitHub has forgotten both (it does after a job), and the job is stored meanwhile.
            this.github.hangs.clear()
            await this.says(0, 0)
            await asyncio.sleep(1)
            stored = await writer.store(event, Deadline.after(this.clock, 30))
            assert stored is Outcome.RUNNING
            this.github.hangs.set()
            await this.until_live(1)
            await asyncio.sleep(120)
            (left,) = await this.live()
            assert left.metadata.name == name and left.status.phase == "Running"
            assert idle.metadata.name != name

    run_virtual(scene())


def test_the_servers_own_words_about_a_template(run_virtual: RunVirtual) -> None:
    async def scene() -> None:
        async with world() as this:
            broken = {"containers": [{"name": "runner", "image": "i", "ports": "none"}]}
            await this.make(2, 1, template=broken)
            await asyncio.sleep(5)
            assert await this.live() == []
            status = (await this.set()).status
            assert status.reason == "TemplateRefused"
            condition = next(c for c in status.conditions or () if c.type == "TemplateAccepted")
            assert condition.status == "False" and "ports" in condition.message
            fixed = {"spec": {"ephemeralRunnerSpec": {"spec": TEMPLATE}}}
            await this.client.patch(EPHEMERAL_RUNNER_SETS, NS, SET, fixed)
            await this.until_live(2)

    run_virtual(scene())


def test_a_deleted_set_ends_and_takes_its_runners_with_it(run_virtual: RunVirtual) -> None:
    async def scene() -> None:
        async with world() as this:
            await this.make(3, 1)
            await this.until_live(3)
            await this.register()
            await this.client.delete(EPHEMERAL_RUNNER_SETS, NS, SET)
            await this.until_live(0)
            assert sorted(this.github.asked) == [1, 2, 3]
            for runner in (await this.client.list(EPHEMERAL_RUNNERS, NS)).items:
                name = runner.metadata.name or ""
                free = {"metadata": {"finalizers": None}}
                await this.client.patch(EPHEMERAL_RUNNERS, NS, name, free)

            async def gone() -> bool:
                return not (await this.client.list(EPHEMERAL_RUNNER_SETS, NS)).items

            await this.until(gone)

    run_virtual(scene())
