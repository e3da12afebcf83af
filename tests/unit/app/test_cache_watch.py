"""A cache that hears of nothing is told, though no object of ours can carry it."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.app.cache_watch import watch_caches
from runnerscale.controllers.metrics import ControllerMetrics
from runnerscale.controllers.reporting import Reporter
from runnerscale.core.clock import LoopClock

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


class Cache:
    """As much of an informer as is looked at."""

    def __init__(self, plural: str) -> None:
        self.resource = SimpleNamespace(plural=plural)
        self.trouble = ""
        self.since_s: float | None = None

    def fail(self, text: str) -> None:
        self.trouble, self.since_s = text, asyncio.get_running_loop().time()

    @property
    def troubled_s(self) -> float:
        now_s = asyncio.get_running_loop().time()
        return 0.0 if self.since_s is None else now_s - self.since_s


def test_what_lasts_is_metric_and_event_within_a_minute_and_ends(run_virtual: RunVirtual) -> None:
    told: list[tuple[str, str, str, str]] = []

    class Events:
        def record(self, about: Any, *, type: str, reason: str, message: str) -> None:  # noqa: A002
            told.append((about.kind, about.name, reason, message))

    async def scenario() -> None:
        registry = CollectorRegistry()
        reporter = Reporter(Events(), ControllerMetrics(registry))
        caches: list[Any] = [Cache("pods"), Cache("roles")]
        clock = LoopClock(0.0)
        task = asyncio.create_task(
            watch_caches(caches, namespace="arc", reporter=reporter, clock=clock)
        )
        labels = {"kind": "Namespace", "namespace": "", "name": "arc", "reason": "CacheStale"}

        def gauge() -> float | None:
            return registry.get_sample_value("runnerscale_trouble", labels)

        await asyncio.sleep(100)
        caches[1].fail("GET /roles: 403 Forbidden: cannot list resource roles")
        await asyncio.sleep(30)
        assert (told, gauge()) == ([], None)  # a restart of the API server is shorter
        await asyncio.sleep(30)
        assert gauge() == 1
        [(kind, name, reason, message)] = told
        assert (kind, name, reason) == ("Namespace", "arc", "CacheStale")
        assert "no changes of roles: GET /roles: 403 Forbidden" in message
        await asyncio.sleep(600)
        assert len(told) == 1
        caches[1].since_s = None
        await asyncio.sleep(15)
        assert gauge() is None
        task.cancel()
        await asyncio.wait([task])

    run_virtual(scenario())
