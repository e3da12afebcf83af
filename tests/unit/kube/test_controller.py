"""How passes end, what is counted, and what never stops the workers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.controller import Controller
from runnerscale.kube.errors import Conflict, ServerFault, Unreachable
from runnerscale.kube.metrics import KubeMetrics
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.reconcile import Plan
from tests.unit.kube.scripted import WIDGETS, MiniServer, client_on
from tests.unit.kube.test_informer import informer_on, running

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]


class Recorder:
    """A reconciler whose plan is a function of the key; notes when passes begin."""

    def __init__(self, plan: Callable[[str], Plan[Any, str]]) -> None:
        self.passes: list[tuple[str, float]] = []
        self.reported: list[tuple[str, tuple[str, ...]]] = []
        self.running: set[str] = set()
        self.together_max = 0
        self.context: dict[str, Any] = {}
        self._plan = plan

    def observe(self, key: str) -> tuple[str, bool]:
        self.passes.append((key, asyncio.get_running_loop().time()))
        self.context = structlog.contextvars.get_contextvars()
        return key, False

    def plan(self, seen: tuple[str, bool]) -> Plan[Any, str]:
        key, done = seen
        plan = self._plan(key)
        return Plan((), plan.again_s, plan.failed, plan.troubles) if done else plan

    async def apply(self, action: Any) -> None:
        if isinstance(action, Exception):
            raise action
        if callable(action):
            await action()

    def learn(self, seen: tuple[str, bool], answers: Sequence[Any]) -> tuple[str, bool]:
        return seen[0], bool(answers)

    def report(self, key: str, seen: Any, troubles: Sequence[str]) -> None:
        self.reported.append((key, tuple(troubles)))

    def times(self, key: str) -> list[float]:
        return [at for name, at in self.passes if name == key]


def controller_of(reconciler: Any, **options: Any) -> Controller:
    given: dict[str, Any] = {
        "name": "widget",
        "keys": list,
        "clock": SystemClock(),
        "random": seeded(1),
        **options,
    }
    return Controller(reconciler=reconciler, **given)


@asynccontextmanager
async def working(controller: Controller) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(controller.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def play(
    run_virtual: RunVirtual, reconciler: Any, *keys: str, seconds: float = 1.0, **options: Any
) -> Controller:
    async def scenario() -> Controller:
        controller = controller_of(reconciler, **options)
        async with working(controller):
            for key in keys:
                controller.enqueue(key)
            await asyncio.sleep(seconds)
        return controller

    found = run_virtual(scenario())
    assert isinstance(found, Controller)
    return found


def results(registry: CollectorRegistry) -> dict[str, float]:
    found = {}
    for result in ("success", "error", "requeue", "requeue_after"):
        labels = {"controller": "widget", "result": result}
        found[result] = registry.get_sample_value("controller_runtime_reconcile_total", labels)
    return {result: count for result, count in found.items() if count}


def test_a_pass_with_nothing_more_to_do_waits_for_events(run_virtual: RunVirtual) -> None:
    registry = CollectorRegistry()
    recorder = Recorder(lambda _: Plan(troubles=("something",)))
    play(run_virtual, recorder, "a", seconds=50, metrics=KubeMetrics(registry))
    assert len(recorder.passes) == 1
    assert recorder.reported == [("a", ("something",))]
    assert results(registry) == {"success": 1}


def test_again_s_is_kept(run_virtual: RunVirtual) -> None:
    registry = CollectorRegistry()
    recorder = Recorder(lambda _: Plan(again_s=7.0))
    play(run_virtual, recorder, "a", seconds=22, metrics=KubeMetrics(registry))
    assert recorder.times("a") == pytest.approx([0, 7, 14, 21], abs=0.01)
    assert results(registry) == {"requeue_after": 4}


@pytest.mark.parametrize(
    "plan",
    [
        Plan(failed=True),
        Plan((Unreachable("gone"),)),
        Plan((ServerFault(500, "InternalError", "no"),)),
        Plan((ValueError("mistake"),)),
        Plan((Conflict(409, "Conflict", "x"), Unreachable("gone"))),
    ],
)
def test_a_failed_pass_comes_back_with_backoff(run_virtual: RunVirtual, plan: Any) -> None:
    registry = CollectorRegistry()
    recorder = Recorder(lambda _: plan)
    play(run_virtual, recorder, "a", metrics=KubeMetrics(registry))
    gaps = [b - a for a, b in zip(recorder.times("a"), recorder.times("a")[1:], strict=False)]
    assert 6 <= len(gaps) <= 9  # 5 ms doubling (with jitter) fills a second after about eight
    assert gaps[-1] > 8 * gaps[0]
    assert set(results(registry)) == {"error"}
    errors = registry.get_sample_value(
        "controller_runtime_reconcile_errors_total", {"controller": "widget"}
    )
    assert errors == len(recorder.passes)


def test_a_failed_pass_also_keeps_a_nearer_again_s(run_virtual: RunVirtual) -> None:
    recorder = Recorder(lambda _: Plan(failed=True, again_s=1.0))
    play(run_virtual, recorder, "a", seconds=40)
    gaps = [b - a for a, b in zip(recorder.times("a"), recorder.times("a")[1:], strict=False)]
    assert max(gaps) <= 1.01


def test_a_plan_that_wants_to_go_on_at_once_does_not_spin_while_it_fails(
    run_virtual: RunVirtual,
) -> None:
    # The status could not be written while runners were still to be made. Simulation, seed 299.
    recorder = Recorder(lambda _: Plan((ServerFault(500, "InternalError", "no"),), again_s=0.0))
    play(run_virtual, recorder, "a", seconds=40)
    # About eight tries fill the first second, as without `again_s`; then one a second.
    assert 40 <= len(recorder.passes) <= 55


def test_success_ends_the_row_of_failures(run_virtual: RunVirtual) -> None:
    fails = [True] * 7 + [False] + [True] * 100
    recorder = Recorder(lambda _: Plan(failed=fails.pop(0), again_s=2.0))
    play(run_virtual, recorder, "a", seconds=3.0)
    times = recorder.times("a")
    assert times[7] - times[6] > 0.1
    assert times[8] - times[7] == pytest.approx(2.0, abs=0.01)
    assert times[9] - times[8] <= 0.006  # the first wait of a new row


def test_a_conflict_comes_back_soon_and_without_noise(run_virtual: RunVirtual) -> None:
    registry = CollectorRegistry()
    conflicts = [Conflict(409, "Conflict", "x")]

    def plan(_: str) -> Plan[Any, str]:
        return Plan((conflicts.pop(),)) if conflicts else Plan()

    recorder = Recorder(plan)
    with capture_logs() as logs:
        play(run_virtual, recorder, "a", metrics=KubeMetrics(registry))
    assert recorder.times("a") == pytest.approx([0, 0], abs=0.006)
    assert results(registry) == {"requeue": 1, "success": 1}
    assert [e for e in logs if e["log_level"] in ("warning", "error")] == []


def test_a_cache_that_lags_behind_a_conflict_is_asked_less_and_less_often(
    run_virtual: RunVirtual,
) -> None:
    # Seed 0 of the simulation: the watch was cut, and each 50 ms met a conflict.
    registry = CollectorRegistry()
    recorder = Recorder(lambda _: Plan(stale=True))
    with capture_logs() as logs:
        play(run_virtual, recorder, "a", seconds=10.0, metrics=KubeMetrics(registry))
    times = recorder.times("a")
    assert times[1] <= 0.006
    assert 8 <= len(times) <= 14
    assert set(results(registry)) == {"requeue"}
    assert [e for e in logs if e["log_level"] in ("warning", "error")] == []


def test_a_plan_that_never_empties_comes_back_at_once_but_does_not_spin(
    run_virtual: RunVirtual,
) -> None:
    registry = CollectorRegistry()

    class Endless(Recorder):
        def learn(self, seen: Any, answers: Any) -> Any:
            return seen

    recorder = Endless(lambda _: Plan(("again",)))
    play(run_virtual, recorder, "a", seconds=10.0, metrics=KubeMetrics(registry))
    times = recorder.times("a")
    assert times[1] <= 0.006
    assert 8 <= len(times) <= 14
    assert set(results(registry)) == {"requeue"}


@pytest.mark.parametrize("where", ["observe", "plan", "learn", "report"])
def test_a_mistake_anywhere_costs_its_pass_and_no_worker(
    run_virtual: RunVirtual, where: str
) -> None:
    registry = CollectorRegistry()

    class Broken(Recorder):
        pass

    recorder = Broken(lambda _: Plan((None,)))
    real = getattr(recorder, where)

    def broken(*arguments: Any) -> Any:
        subject = arguments[0] if isinstance(arguments[0], str) else arguments[0][0]
        if subject == "bad":
            raise RuntimeError("a mistake")
        return real(*arguments)

    setattr(recorder, where, broken)
    with capture_logs() as logs:
        play(run_virtual, recorder, "bad", "good", workers=1, metrics=KubeMetrics(registry))
    assert ("good", ()) in recorder.reported
    panics = registry.get_sample_value(
        "controller_runtime_reconcile_panics_total", {"controller": "widget"}
    )
    assert panics is not None
    assert panics >= 6  # it came back with backoff, too
    loud = [e for e in logs if e["log_level"] == "error"]
    assert all(isinstance(e["exc_info"], RuntimeError) for e in loud)


def test_a_pass_has_a_deadline_and_still_reports(run_virtual: RunVirtual) -> None:
    async def hang() -> None:
        await asyncio.sleep(10_000)

    registry = CollectorRegistry()
    recorder = Recorder(lambda _: Plan((hang,), troubles=("waiting",)))
    with capture_logs() as logs:
        play(
            run_virtual,
            recorder,
            "a",
            seconds=100,
            deadline_s=30.0,
            metrics=KubeMetrics(registry),
        )
    late = registry.get_sample_value(
        "controller_runtime_reconcile_timeouts_total", {"controller": "widget"}
    )
    assert late == 3
    assert recorder.times("a")[1] == pytest.approx(30, abs=0.1)
    assert recorder.reported[0] == ("a", ("waiting",))
    assert "within 30 s" in logs[0]["error"]


def test_one_pass_per_key_and_as_many_keys_as_workers(run_virtual: RunVirtual) -> None:
    registry = CollectorRegistry()
    metrics = KubeMetrics(registry)
    running_keys: list[str] = []
    seen_together: list[int] = []

    def plan(key: str) -> Plan[Any, str]:
        async def work() -> None:
            assert key not in running_keys
            running_keys.append(key)
            seen_together.append(len(running_keys))
            await asyncio.sleep(1)
            running_keys.remove(key)

        return Plan((work,))

    async def scenario() -> None:
        controller = controller_of(Recorder(plan), workers=3, metrics=metrics)
        async with working(controller):
            for _ in range(20):
                for key in "abcde":
                    controller.enqueue(key)
                await asyncio.sleep(0.3)
            active = registry.get_sample_value(
                "controller_runtime_active_workers", {"controller": "widget"}
            )
            assert active == 3

    run_virtual(scenario())
    assert max(seen_together) == 3
    workers = registry.get_sample_value(
        "controller_runtime_max_concurrent_reconciles", {"controller": "widget"}
    )
    assert workers == 3


def test_every_key_gets_a_level_pass_once_a_period_spread_over_it(run_virtual: RunVirtual) -> None:
    recorder = Recorder(lambda _: Plan())
    names = [f"k{number}" for number in range(20)]
    play(run_virtual, recorder, seconds=179, keys=lambda: names, level_period_s=60.0)
    for name in names:
        times = recorder.times(name)
        assert times[0] == 0.0
        assert len([at for at in times if 60 <= at < 120]) == 1
    second = sorted(at for _, at in recorder.passes if 60 <= at < 120)
    assert second[-1] - second[0] > 30  # not all in one instant


def test_keys_that_cannot_be_listed_do_not_end_the_level_passes(run_virtual: RunVirtual) -> None:
    answers: list[Any] = [RuntimeError("no"), RuntimeError("no"), ["a"]]

    def keys() -> list[str]:
        answer = answers.pop(0) if answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer

    recorder = Recorder(lambda _: Plan())
    play(run_virtual, recorder, seconds=200, keys=keys)
    assert len(recorder.times("a")) == 1


def test_all_log_lines_of_a_pass_share_its_id(run_virtual: RunVirtual) -> None:
    recorder = Recorder(lambda _: Plan())
    play(run_virtual, recorder, "ns/a")
    assert recorder.context["controller"] == "widget"
    assert recorder.context["key"] == "ns/a"
    assert recorder.context["pass_id"].endswith("-1")
    assert structlog.contextvars.get_contextvars() == {}


def test_draining_finishes_what_is_there_and_returns(run_virtual: RunVirtual) -> None:
    async def slow() -> None:
        await asyncio.sleep(2)

    recorder = Recorder(lambda _: Plan((slow,)))

    async def scenario() -> float:
        controller = controller_of(recorder, workers=1)
        async with working(controller) as task:
            controller.enqueue("a")
            controller.enqueue("b")
            await asyncio.sleep(0.1)
            await controller.drain()
            await task
            return asyncio.get_running_loop().time()

    assert run_virtual(scenario()) == pytest.approx(4.0)
    assert len(recorder.reported) == 2


def test_cancelling_ends_passes_at_once(run_virtual: RunVirtual) -> None:
    async def slow() -> None:
        await asyncio.sleep(1000)

    async def scenario() -> float:
        controller = controller_of(Recorder(lambda _: Plan((slow,))))
        async with working(controller):
            controller.enqueue("a")
            await asyncio.sleep(1)
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario()) == pytest.approx(1.0)


def test_no_pass_begins_before_the_cache_shows_the_last_ones_write(
    run_virtual: RunVirtual,
) -> None:
    """A create in each pass as long as the cache shows no child: exactly one must be made."""

    async def scenario() -> tuple[int, list[float]]:
        server = MiniServer()
        client = client_on(server)
        informer = informer_on(server)
        own = OwnWrites(clock=SystemClock())

        def plan(key: str) -> Plan[Any, str]:
            async def create() -> None:
                number = len(server.objects)
                made = await client.create(WIDGETS, "ns", {"metadata": {"name": f"child{number}"}})
                own.wrote(key, informer, f"ns/child{number}", made.metadata.resource_version)

            return Plan() if len(informer.store) else Plan((create,))

        recorder = Recorder(plan)
        controller = controller_of(recorder, own_writes=own)
        async with running(informer), working(controller):
            await informer.wait_synced()
            server.frozen = True
            controller.enqueue("a")
            for _ in range(20):
                await asyncio.sleep(0.1)
                controller.enqueue("a")  # events keep coming
            server.thaw()
            await asyncio.sleep(0.05)
            return len(server.objects), recorder.times("a")

    children, times = run_virtual(scenario())
    assert children == 1
    assert times == pytest.approx([0.0, 2.0], abs=0.01)  # and the second the moment it showed


def test_a_parked_key_costs_no_extra_pass(run_virtual: RunVirtual) -> None:
    async def scenario() -> int:
        server = MiniServer()
        informer = informer_on(server)
        own = OwnWrites(clock=SystemClock())
        recorder = Recorder(lambda _: Plan())
        controller = controller_of(recorder, own_writes=own)
        async with running(informer), working(controller):
            await informer.wait_synced()
            server.frozen = True
            made = server.put("/apis/example.com/v1/namespaces/ns/widgets/x", {})
            own.wrote("a", informer, "ns/x", made["metadata"]["resourceVersion"])
            controller.enqueue("a")
            controller.enqueue("free")
            await asyncio.sleep(1)
            assert [key for key, _ in recorder.passes] == ["free"]
            server.thaw()
            await asyncio.sleep(50)
            return len(recorder.times("a"))

    assert run_virtual(scenario()) == 1
