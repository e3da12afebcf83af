"""The controller on the docs page is run as it stands there."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.builtin import CONFIG_MAPS, SECRETS
from runnerscale.kube.metrics import KubeMetrics
from tests.system.test_kube_runtime import EPOCH_S, NAMESPACE, api_server, prepared, working

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kube-runtime.md"
RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


def test_the_controller_of_the_page_works(run_virtual: RunVirtual) -> None:
    block = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    names: dict[str, Any] = {"__name__": "greeter"}
    exec(compile(block, str(PAGE), "exec"), names)

    async def scenario() -> None:
        registry = CollectorRegistry()
        async with api_server() as url:
            client = await prepared(url)
            greeter = names["Greeter"](client, LoopClock(EPOCH_S), seeded(1), KubeMetrics(registry))
            async with working(greeter.run()):
                wish = {"metadata": {"name": "wish"}, "data": {"greet": "hello"}}
                await client.create(CONFIG_MAPS, NAMESPACE, wish)
                await asyncio.sleep(1)
                found = await client.get(SECRETS, NAMESPACE, "hello")
                assert [r.name for r in found.metadata.owner_references or ()] == ["wish"]
                await client.delete(SECRETS, NAMESPACE, "hello")
                await asyncio.sleep(1)
                await client.get(SECRETS, NAMESPACE, "hello")  # made again
                await client.create(SECRETS, NAMESPACE, {"metadata": {"name": "taken"}})
                other = {"metadata": {"name": "other"}, "data": {"greet": "taken"}}
                await client.create(CONFIG_MAPS, NAMESPACE, other)
                await asyncio.sleep(150)
            labels = {"controller": "greeter", "result": "requeue_after"}
            again = registry.get_sample_value("controller_runtime_reconcile_total", labels)
            assert again is not None
            assert 3 <= again <= 8  # paced, not hot
            await client.close()

    run_virtual(scenario())


def test_the_page_names_every_module_of_the_room() -> None:
    text = PAGE.read_text()
    for name in ("client", "cluster", "informer", "own_writes", "work_queue", "controller"):
        assert f"`{name}.py`" in text
