"""The queue's promises, one by one; by machine: `test_work_queue_machine.py`."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.work_queue import RETRY, QueueShutDown, WorkQueue

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


def queue_of(metrics: KubeMetrics | None = None) -> WorkQueue:
    return WorkQueue(name="test", clock=SystemClock(), random=seeded(1), metrics=metrics)


async def taken(queue: WorkQueue) -> list[str]:
    """Everything that is ready now, done at once."""
    found = []
    while len(queue):
        key = await queue.get()
        queue.done(key)
        found.append(key)
    return found


async def test_a_key_waits_once_however_often_it_is_added() -> None:
    queue = queue_of()
    for key in ("a", "b", "a", "a", "b"):
        queue.add(key)
    assert await taken(queue) == ["a", "b"]


async def test_a_key_that_changes_during_its_pass_comes_again_after_it() -> None:
    queue = queue_of()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    assert len(queue) == 0  # never two passes on one key
    queue.done("a")
    assert await taken(queue) == ["a"]


async def test_urgent_keys_go_first_but_nobody_starves() -> None:
    queue = queue_of()
    for number in range(3):
        queue.add(f"slow{number}")
    for number in range(6):
        queue.add(f"fast{number}", urgent=True)
    assert await taken(queue) == [
        *("fast0", "fast1", "fast2", "fast3"),
        "slow0",
        *("fast4", "fast5"),
        *("slow1", "slow2"),
    ]


async def test_a_waiting_key_can_become_urgent() -> None:
    queue = queue_of()
    for key in ("a", "b", "c"):
        queue.add(key)
    queue.add("c", urgent=True)
    assert await queue.get() == "c"
    assert queue.is_urgent("c")
    queue.done("c")
    assert await taken(queue) == ["a", "b"]


async def test_a_key_made_urgent_during_its_pass_is_urgent_afterwards() -> None:
    queue = queue_of()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("a", urgent=True)
    queue.add("b")
    queue.done("a")
    assert await taken(queue) == ["a", "b"]


def test_of_several_wishes_for_later_the_earliest_counts(run_virtual: RunVirtual) -> None:
    async def scenario() -> list[tuple[str, float]]:
        queue = queue_of()
        queue.add_after("late", 30)
        queue.add_after("a", 20)
        queue.add_after("a", 5)
        queue.add_after("a", 60)
        queue.add_after("now", 0)
        found = []
        for _ in range(3):
            key = await queue.get()
            queue.done(key)
            found.append((key, asyncio.get_running_loop().time()))
        await asyncio.sleep(100)
        assert len(queue) == 0  # the replaced wishes did not come true as well
        return found

    found = run_virtual(scenario())
    assert [key for key, _ in found] == ["now", "a", "late"]
    assert [at for _, at in found] == pytest.approx([0, 5, 30])


def test_failures_wait_longer_each_time_up_to_the_cap(run_virtual: RunVirtual) -> None:
    async def scenario() -> list[float]:
        queue = queue_of()
        waits = []
        loop = asyncio.get_running_loop()
        for _ in range(18):
            begin = loop.time()
            queue.add_rate_limited("a")
            key = await queue.get()
            queue.done(key)
            waits.append(loop.time() - begin)
        assert queue.failures("a") == 18
        queue.forget("a")
        begin = loop.time()
        queue.add_rate_limited("a")
        await queue.get()
        waits.append(loop.time() - begin)
        return waits

    waits = run_virtual(scenario())
    for number, wait in enumerate(waits[:-1]):
        full = min(0.005 * 2**number, 60.0)
        assert full / 2 - 1e-6 <= wait <= full + 1e-6
    assert waits[-1] <= 0.005 + 1e-6


def test_the_cap_is_not_longer_than_the_level_pass() -> None:
    assert Backoff(first_s=0.005, cap_s=60.0) == RETRY


async def test_who_waits_is_woken_and_a_cancelled_one_hands_over() -> None:
    queue = queue_of()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()  # in the same instant in which it was woken
    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_shutting_down_ends_who_waits_and_takes_nothing_more_in() -> None:
    queue = queue_of()
    waiter = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("later", 1)
    queue.shut_down()
    with pytest.raises(QueueShutDown):
        await waiter
    queue.add("a")
    queue.add_after("b", 1)
    queue.add_rate_limited("c")
    assert len(queue) == 0


async def test_draining_finishes_what_is_ready_and_what_runs() -> None:
    queue = queue_of()
    queue.add("a")
    queue.add("b")
    await queue.get()
    drained = asyncio.create_task(queue.drain())
    await asyncio.sleep(0)
    assert await queue.get() == "b"
    queue.done("b")
    await asyncio.sleep(0)
    assert not drained.done()
    queue.done("a")
    await drained
    await queue.drain()  # and again: nothing to wait for


def test_metrics_have_the_names_of_client_go(run_virtual: RunVirtual) -> None:
    registry = CollectorRegistry()
    labels = {"name": "test", "controller": "test"}

    def value(name: str) -> float | None:
        return registry.get_sample_value(name, labels)

    async def scenario() -> None:
        queue = queue_of(KubeMetrics(registry))
        queue.add("a")
        queue.add("b", urgent=True)
        queue.add("b")
        for priority in ("0", "-100"):  # controller-runtime's words for urgent and not
            depth = {**labels, "priority": priority}
            assert registry.get_sample_value("workqueue_depth", depth) == 1
        await asyncio.sleep(1)
        await queue.get()
        await asyncio.sleep(2)
        assert value("workqueue_unfinished_work_seconds") == pytest.approx(2)
        assert value("workqueue_longest_running_processor_seconds") == pytest.approx(2)
        queue.done("b")
        queue.add_rate_limited("a")
        assert value("workqueue_adds_total") == 2
        assert value("workqueue_retries_total") == 1
        assert value("workqueue_queue_duration_seconds_sum") == pytest.approx(1)
        assert value("workqueue_work_duration_seconds_sum") == pytest.approx(2)
        assert value("workqueue_longest_running_processor_seconds") == 0

    run_virtual(scenario())
