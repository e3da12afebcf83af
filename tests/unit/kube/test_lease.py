"""Never two leaders, whatever the network does; and always one again in the end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import async_solipsism
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from runnerscale.kube.builtin import LEASES
from runnerscale.kube.errors import Unreachable
from runnerscale.kube.lease import RENEW_DEADLINE_S, LeaderLease
from runnerscale.kube.metrics import KubeMetrics
from tests.unit.kube.scripted import MiniServer, client_on

RunVirtual = Callable[[Coroutine[Any, Any, Any]], Any]
PATH = LEASES.path("ns", "lease")


class Abandoned(Exception):
    """What ending the process looks like in a test."""


class Site:
    """A server, some competitors, and a watcher that sees who works."""

    def __init__(self) -> None:
        self.server = MiniServer()
        self.working: set[str] = set()
        self.history: list[tuple[float, str, str]] = []
        self.cut_off: set[str] = set()  # by identity; neither requests nor answers pass
        self.lost_answers: set[str] = set()
        self.abandoned: list[str] = []
        self.slow_end_s = 0.0

    def lease(self, identity: str, **options: Any) -> LeaderLease:
        site = self

        class Net:
            host = "mini"

            async def request(self, method: str, path: str, **given: Any) -> Any:
                if identity in site.cut_off:
                    raise Unreachable("cut off", sent=False)
                answer = await site.server.request(method, path, **given)
                if identity in site.lost_answers or identity in site.cut_off:
                    raise Unreachable("the answer was lost")
                return answer

        def abandon() -> None:
            site.abandoned.append(identity)
            site.working.discard(identity)  # the process is gone, and its work with it

        return LeaderLease(
            client_on(Net()),
            namespace="ns",
            name="lease",
            identity=identity,
            clock=LoopClock(1_800_000_000.0),
            random=seeded(len(identity)),
            abandon=abandon,
            **options,
        )

    async def work(self, identity: str) -> None:
        now = asyncio.get_running_loop().time
        assert not self.working, f"{identity} began while {self.working} was at work"
        self.working.add(identity)
        self.history.append((now(), identity, "begin"))
        try:
            await asyncio.sleep(1_000_000)
        finally:
            if self.slow_end_s:
                await asyncio.sleep(self.slow_end_s)
            self.working.discard(identity)
            self.history.append((now(), identity, "end"))

    def start(self, identity: str, **options: Any) -> "asyncio.Task[None]":
        lease = self.lease(identity, **options)
        return asyncio.create_task(lease.run(lambda: self.work(identity)))

    def holder(self) -> str:
        found = self.server.objects[PATH]["spec"]["holderIdentity"]
        assert isinstance(found, str)
        return found


async def stop(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_the_first_one_leads_and_the_second_waits(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        site = Site()
        first = site.start("one")
        await asyncio.sleep(1)
        second = site.start("two")
        await asyncio.sleep(300)
        assert site.working == {"one"}
        spec = site.server.objects[PATH]["spec"]
        assert spec["holderIdentity"] == "one"
        assert spec["leaseDurationSeconds"] == 15
        assert spec["leaseTransitions"] == 0
        assert spec["renewTime"] > spec["acquireTime"]
        await stop(first, second)

    run_virtual(scenario())


def test_a_lease_whose_changes_are_counted_out_can_still_be_taken(run_virtual: RunVirtual) -> None:
    async def scenario() -> int:
        site = Site()
        first = site.start("one")
        await asyncio.sleep(1)
        await stop(first)
        site.server.objects[PATH]["spec"]["leaseTransitions"] = 2**31 - 1  # somebody's hand
        second = site.start("two")
        await asyncio.sleep(30)
        assert site.working == {"two"}
        await stop(second)
        return int(site.server.objects[PATH]["spec"]["leaseTransitions"])

    assert run_virtual(scenario()) == 2**31 - 1  # one more fits no int32: it would be refused


def test_only_rights_that_the_charts_grant_are_used(run_virtual: RunVirtual) -> None:
    async def scenario() -> set[str]:
        site = Site()
        first = site.start("one")
        await asyncio.sleep(60)
        await stop(first)
        return {sent.method for sent in site.server.sent}

    assert run_virtual(scenario()) == {"GET", "POST", "PUT"}  # all verbs but patch


def test_a_clean_stop_hands_over_at_once_but_after_the_work_has_ended(
    run_virtual: RunVirtual,
) -> None:
    async def scenario() -> None:
        site = Site()
        site.slow_end_s = 3.0
        first = site.start("one")
        await asyncio.sleep(1)
        second = site.start("two")
        await asyncio.sleep(10)
        await stop(first)
        ended, _, _ = site.history[-1]
        assert site.holder() == ""
        await asyncio.sleep(3)
        assert site.working == {"two"}
        assert site.history[-1][0] - ended < 2.5
        assert site.server.objects[PATH]["spec"]["leaseTransitions"] == 1
        await stop(second)

    run_virtual(scenario())


def test_a_holder_that_is_cut_off_stops_before_another_may_begin(run_virtual: RunVirtual) -> None:
    async def scenario() -> list[tuple[float, str, str]]:
        site = Site()
        first = site.start("one")
        await asyncio.sleep(1)
        second = site.start("two")
        await asyncio.sleep(59)
        site.cut_off.add("one")
        await asyncio.sleep(60)
        assert site.working == {"two"}
        site.cut_off.clear()
        await asyncio.sleep(60)
        assert site.working == {"two"}
        await stop(second)
        await asyncio.sleep(10)
        assert site.working == {"one"}  # it competes again, in the same process
        await stop(first)
        return site.history

    history = run_virtual(scenario())
    assert [(who, what) for _, who, what in history][:4] == [
        ("one", "begin"),
        ("one", "end"),
        ("two", "begin"),
        ("two", "end"),
    ]
    ended, began = history[1][0], history[2][0]
    assert ended - 60 <= 10.1  # the renew deadline
    assert began - ended >= 4.0  # the lease outlives it by its own margin


def test_being_cancelled_twice_still_waits_for_the_end_of_the_work(
    run_virtual: RunVirtual,
) -> None:
    async def scenario() -> None:
        site = Site()
        site.slow_end_s = 3.0
        first = site.start("one")
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(1)
        assert site.working == {"one"}
        assert not first.done()
        await asyncio.wait([first])
        assert site.working == set()
        assert first.cancelled()

    run_virtual(scenario())


def test_work_that_does_not_end_in_time_ends_the_process(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        site = Site()
        site.slow_end_s = 1000.0
        first = site.start("one")
        await asyncio.sleep(1)
        second = site.start("two")
        await asyncio.sleep(19)
        site.cut_off.add("one")
        await asyncio.sleep(60)
        assert site.abandoned == ["one"]
        assert isinstance(first.exception(), RuntimeError)  # a real process would be gone
        assert site.working == {"two"}
        site.slow_end_s = 0.0
        await stop(second)

    run_virtual(scenario())


def test_lost_answers_of_renewals_do_not_lose_the_lease(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        site = Site()
        first = site.start("one")
        await asyncio.sleep(10)
        for _ in range(20):
            site.lost_answers.add("one")
            await asyncio.sleep(3)
            site.lost_answers.clear()
            await asyncio.sleep(5)
        assert [what for _, _, what in site.history] == ["begin"]
        await stop(first)

    run_virtual(scenario())


def test_a_lease_taken_by_force_stops_the_work(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        site = Site()
        first = site.start("one")
        await asyncio.sleep(10)
        document = site.server.objects[PATH]
        site.server.put(PATH, {**document, "spec": {**document["spec"], "holderIdentity": "me"}})
        await asyncio.sleep(5)
        assert site.working == set()
        assert site.holder() == "me"  # and is not given back by us
        await asyncio.sleep(20)
        assert site.working == {"one"}  # nobody renewed it
        await stop(first)

    run_virtual(scenario())


def test_a_lease_that_somebody_deleted_is_competed_for_again(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        site = Site()
        first = site.start("one")
        await asyncio.sleep(10)
        site.server.drop(PATH)
        await asyncio.sleep(10)
        assert [what for _, _, what in site.history] == ["begin", "end", "begin"]
        await stop(first)

    run_virtual(scenario())


def test_a_lease_that_somebody_deleted_is_not_taken_by_a_standby_before_its_holder_has_heard(
    run_virtual: RunVirtual,
) -> None:
    # Seed 20 of the simulation: the standby made it anew while the holder was still at work.
    async def story() -> None:
        site = Site()
        tasks = [site.start("a")]
        await asyncio.sleep(1)
        tasks.append(site.start("standby"))
        await asyncio.sleep(20)
        for pause_s in (20.0, 20.3, 20.7, 21.1, 21.6, 20.0):
            site.server.drop(PATH)
            await asyncio.sleep(pause_s)
            # `work` would have raised if somebody had begun beside the other.
            assert (len(site.working), [t.done() for t in tasks]) == (1, [False, False])

    run_virtual(story())


def test_a_lease_that_another_took_just_before_it_was_deleted_is_not_made_anew_at_once(
    run_virtual: RunVirtual,
) -> None:
    # Drawn by test_lease_properties.py: the one whom we saw holding it had long gone.
    async def scenario() -> float:
        site = Site()
        site.server.put(PATH, {"spec": {"holderIdentity": "gone", "leaseDurationSeconds": 15}})
        first = site.start("one")
        await asyncio.sleep(14)
        site.server.put(PATH, {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 15}})
        site.server.drop(PATH)
        await asyncio.sleep(30)
        await stop(first)
        return site.history[0][0]

    assert 29 <= run_virtual(scenario()) <= 34


def test_a_leader_that_slept_past_its_lease_may_do_nothing_before_it_has_noticed(
    run_virtual: RunVirtual,
) -> None:
    async def scenario() -> None:
        site = Site()
        lease = site.lease("one")
        assert lease.may_work()  # nobody leads: what a standby writes is not this lease's business
        asked: list[bool] = []

        async def work() -> None:
            asked.append(lease.may_work())
            site.cut_off.add("one")
            await asyncio.sleep(RENEW_DEADLINE_S - 1)
            asked.append(lease.may_work())
            lease._renewed_s -= 2  # as if it had slept
            asked.append(lease.may_work())

        task = asyncio.create_task(lease.run(work))
        await asyncio.sleep(RENEW_DEADLINE_S)
        assert asked == [True, True, False]
        await stop(task)

    run_virtual(scenario())


def test_a_longer_lease_of_the_holder_is_respected(run_virtual: RunVirtual) -> None:
    async def scenario() -> float:
        site = Site()
        spec = {"holderIdentity": "gone", "leaseDurationSeconds": 60}
        site.server.put(PATH, {"spec": spec})
        first = site.start("one")
        await asyncio.sleep(100)
        await stop(first)
        return site.history[0][0]

    assert 60 <= run_virtual(scenario()) <= 63


def test_an_empty_lease_from_elsewhere_is_taken(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        site = Site()
        site.server.put(PATH, {})
        first = site.start("one")
        await asyncio.sleep(1)
        assert site.working == {"one"}
        await stop(first)

    run_virtual(scenario())


def test_work_that_ends_by_itself_gives_the_lease_back(run_virtual: RunVirtual) -> None:
    async def scenario() -> str:
        site = Site()
        lease = site.lease("one")

        async def short() -> None:
            assert lease.is_leader
            await asyncio.sleep(5)

        await lease.run(short)
        assert not lease.is_leader
        return site.holder()

    assert run_virtual(scenario()) == ""


def test_what_the_work_raises_comes_out(run_virtual: RunVirtual) -> None:
    async def scenario() -> str:
        site = Site()

        async def broken() -> None:
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            await site.lease("one").run(broken)
        return site.holder()

    assert run_virtual(scenario()) == ""


def test_who_leads_is_a_metric(run_virtual: RunVirtual) -> None:
    registry = CollectorRegistry()

    def value() -> float | None:
        return registry.get_sample_value("leader_election_master_status", {"name": "lease"})

    async def scenario() -> None:
        site = Site()
        first = site.start("one", metrics=KubeMetrics(registry))
        await asyncio.sleep(1)
        assert value() == 1
        await stop(first)
        assert value() == 0

    run_virtual(scenario())


def test_times_that_contradict_each_other_are_refused() -> None:
    site = Site()
    with pytest.raises(ValueError, match="renew deadline"):
        site.lease("one", duration_s=10.0, renew_deadline_s=10.0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["cut", "heal", "lose", "delay", "stop", "slow"]),
        st.sampled_from(["a", "bb", "ccc"]),
        st.integers(1, 120).map(lambda quarters: quarters / 4),
    ),
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(steps=STEPS)
def test_there_are_never_two_leaders_and_in_the_end_there_is_one(
    steps: list[tuple[str, str, float]],
) -> None:
    async def scenario() -> None:
        site = Site()
        tasks = {name: site.start(name) for name in ("a", "bb", "ccc")}
        delays: list[float] = []
        real = site.server.request

        async def delayed(method: str, path: str, **given: Any) -> Any:
            if delays:
                await asyncio.sleep(delays.pop())
            answer = await real(method, path, **given)
            if delays:
                await asyncio.sleep(delays.pop())
            return answer

        site.server.request = delayed  # type: ignore[method-assign]
        for what, who, seconds in steps:
            match what:
                case "cut":
                    site.cut_off.add(who)
                case "lose":
                    site.lost_answers.add(who)
                case "heal":
                    site.cut_off.discard(who)
                    site.lost_answers.discard(who)
                case "delay":
                    delays += [seconds / 4] * 3
                case "slow":
                    site.slow_end_s = seconds / 10
                case "stop":
                    await stop(tasks[who])
                    if not tasks[who].cancelled():
                        tasks[who].exception()
                    tasks[who] = site.start(who)
            await asyncio.sleep(seconds)
        site.cut_off.clear()
        site.lost_answers.clear()
        delays.clear()
        await asyncio.sleep(60)
        assert len(site.working) == 1
        for task in tasks.values():
            if task.done() and not task.cancelled():
                # Only an abandoned process, or the assertion of `work`, ends a competitor.
                assert isinstance(task.exception(), RuntimeError)
        await stop(*tasks.values())

    with asyncio.Runner(loop_factory=async_solipsism.EventLoop) as runner:
        runner.run(scenario())


def test_a_standby_only_reads(run_virtual: RunVirtual) -> None:
    async def scenario() -> None:
        site = Site()
        first = site.start("one")
        await asyncio.sleep(1)
        site.cut_off.add("one")  # silent: what is sent now, the standby sends
        before = len(site.server.sent)
        second = site.start("two")
        await asyncio.sleep(8)
        assert {sent.method for sent in site.server.sent[before:]} == {"GET"}
        await stop(first, second)

    run_virtual(scenario())
