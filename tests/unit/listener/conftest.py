"""A listener with everything it needs, on virtual time."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from runnerscale.api.labels import LISTENER_TROUBLE
from runnerscale.api.listener_word import ListenerWord, decoded
from runnerscale.core.randomness import seeded
from runnerscale.listener.config import ListenerConfig, read_config
from runnerscale.listener.loop import Listener
from runnerscale.listener.metric_settings import MetricsFile
from runnerscale.listener.metrics import ListenerMetrics
from runnerscale.scaleset.config_url import parse_config_url
from tests.unit.listener.fakes import FakeGitHub, FakeSession, TinyApi, clock

FILE = (
    b'{"configure_url":"https://github.com/org","github_token":"t",'
    b'"ephemeral_runner_set_namespace":"default","ephemeral_runner_set_name":"set",'
    b'"max_runners":10,"min_runners":0,"runner_scale_set_id":7,"log_level":"debug",'
    b'"log_format":"text"}'
)


def config(**changes: Any) -> ListenerConfig:
    return replace(read_config(FILE), **changes)


def metrics(file: MetricsFile | None = None) -> ListenerMetrics:
    return ListenerMetrics(
        file,
        place=parse_config_url("https://github.com/org"),
        set_name="set",
        namespace="default",
        registry=CollectorRegistry(),
    )


def value(numbers: ListenerMetrics, sample_name: str, /, **labels: str) -> float | None:
    """The value of one sample, as the registry would serve it; None: there is none."""
    for family in numbers.collect():
        for sample in family.samples:
            if sample.name == sample_name and labels.items() <= sample.labels.items():
                return sample.value
    return None


@dataclass
class World:
    listener: Listener
    github: FakeGitHub
    session: FakeSession
    api: TinyApi
    metrics: ListenerMetrics

    @property
    def patches(self) -> list[tuple[int, int]]:
        """(replicas, patch id) of every patch of the set that was asked for."""
        bodies = self.api.bodies("ephemeralrunnersets")
        wishes = [body["spec"] for body in bodies if "spec" in body]
        return [(wish["replicas"], wish["patchID"]) for wish in wishes]

    @property
    def told(self) -> list[ListenerWord | None]:
        """Every word on its troubles that was to be stored; None: taken away."""
        metas = [b["metadata"] for b in self.api.bodies("ephemeralrunnersets") if "metadata" in b]
        return [decoded(meta["annotations"][LISTENER_TROUBLE]) for meta in metas]

    def runner(self, name: str, phase: str = "Pending", **meta: Any) -> None:
        self.api.put(EPHEMERAL_RUNNERS, "default", name, status={"phase": phase}, meta=meta)

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.raw(EPHEMERAL_RUNNERS, "default", name)["status"]
        return found


def world(
    *sessions: Any, settings: ListenerConfig | None = None, numbers: ListenerMetrics | None = None
) -> World:
    used = settings or config()
    github = FakeGitHub(*(sessions or (FakeSession(),)))
    api = TinyApi()
    api.put(EPHEMERAL_RUNNER_SETS, "default", "set", spec={"patchID": 0})
    counted = numbers or metrics(used.metrics)
    listener = Listener(
        used,
        scale_set_client=github,  # type: ignore[arg-type]  # a fake of the calls it makes
        kube_client=api,  # type: ignore[arg-type]
        owner_name="host",
        clock=clock(),
        random=seeded(1),
        metrics=counted,
    )
    first = next((s for s in github.sessions if isinstance(s, FakeSession)), FakeSession())
    return World(listener, github, first, api, counted)


@asynccontextmanager
async def running(this: World) -> AsyncIterator[None]:
    """The listener runs during the block and is stopped after it."""
    task = asyncio.get_running_loop().create_task(this.listener.run())
    try:
        yield
    finally:
        this.listener.stop()
        await task


async def until(condition: Callable[[], bool], within_s: float = 3600.0) -> None:
    """Virtual time passes until the condition holds."""
    end_s = asyncio.get_running_loop().time() + within_s
    while not condition():
        assert asyncio.get_running_loop().time() < end_s, "it never happened"
        await asyncio.sleep(0.1)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("asyncio").setLevel(logging.ERROR)
