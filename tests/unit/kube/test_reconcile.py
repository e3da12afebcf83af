"""One pass: rounds, batches, answers, errors."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from runnerscale.kube.errors import Conflict, Unreachable
from runnerscale.kube.reconcile import BATCH_MAX, ROUNDS_MAX, Pass, PassEnd, Plan


@dataclass(frozen=True)
class Counted:
    """How far we are from where we want to be."""

    wanted: int
    made: tuple[int, ...] = ()


@dataclass
class Maker:
    """Makes what is missing, one action a number; behaves badly where a test says so."""

    wanted: int = 3
    again_s: float | None = None
    failed: bool = False
    fails: dict[int, Exception] = field(default_factory=dict)
    forgets: bool = False  # answers are not learned: the plan never empties
    observed: int = 0
    applied: list[int] = field(default_factory=list)
    inside: int = 0
    inside_max: int = 0
    reports: list[Any] = field(default_factory=list)

    def observe(self, key: str) -> Counted | None:
        self.observed += 1
        return None if key == "gone" else Counted(self.wanted)

    def plan(self, seen: Counted) -> Plan[int, str]:
        missing = tuple(n for n in range(seen.wanted) if n not in seen.made)
        return Plan(missing, self.again_s, self.failed, (f"missing {len(missing)}",))

    async def apply(self, action: int) -> str:
        self.inside += 1
        self.inside_max = max(self.inside, self.inside_max)
        await asyncio.sleep(0)
        self.inside -= 1
        if action in self.fails:
            raise self.fails[action]
        self.applied.append(action)
        return f"made {action}"

    def learn(self, seen: Counted, answers: Sequence[tuple[int, str]]) -> Counted:
        assert all(answer == f"made {action}" for action, answer in answers)
        if self.forgets:
            return seen
        return Counted(seen.wanted, (*seen.made, *(action for action, _ in answers)))

    def report(self, key: str, seen: Counted | None, troubles: Sequence[str]) -> None:
        self.reports.append((key, seen, tuple(troubles)))


async def run(maker: Maker, key: str = "key", **bounds: int) -> PassEnd:
    one = Pass(maker, key, **bounds)
    end = await one.run()
    one.report()
    return end


async def test_a_pass_plans_again_with_the_answers_until_nothing_is_left() -> None:
    maker = Maker(wanted=3, again_s=5.0)
    assert await run(maker) == PassEnd(again_s=5.0, troubles=("missing 0",))
    assert sorted(maker.applied) == [0, 1, 2]
    assert maker.observed == 1
    assert maker.reports == [("key", Counted(3, (0, 1, 2)), ("missing 0",))]


async def test_nothing_to_see_is_reported_as_no_trouble() -> None:
    maker = Maker()
    assert await run(maker, "gone") == PassEnd()
    assert maker.reports == [("gone", None, ())]


async def test_a_round_is_bounded_and_its_actions_run_together() -> None:
    maker = Maker(wanted=100)
    end = await run(maker)
    assert not end.unfinished
    assert maker.inside_max == BATCH_MAX == 32
    assert sorted(maker.applied) == [*range(100)]


async def test_a_plan_that_outlives_the_rounds_is_unfinished() -> None:
    maker = Maker(wanted=1000)
    end = await run(maker)
    assert end.unfinished
    assert len(maker.applied) == ROUNDS_MAX * BATCH_MAX
    assert maker.reports[0][2] == (f"missing {1000 - ROUNDS_MAX * BATCH_MAX}",)


async def test_an_action_that_fails_does_not_stop_its_siblings_and_ends_the_pass() -> None:
    late = Unreachable("no answer")
    maker = Maker(wanted=40, fails={0: late})
    end = await run(maker)
    assert end.errors == (late,)
    assert sorted(maker.applied) == [*range(1, 32)]  # its siblings, but no second round
    assert maker.reports[0][2] == ("missing 9",)  # with what the siblings achieved


async def test_a_single_action_that_fails_is_treated_alike() -> None:
    conflict = Conflict(409, "Conflict", "changed")
    end = await run(Maker(wanted=1, fails={0: conflict}))
    assert end.errors == (conflict,)
    assert not end.unfinished


async def test_a_failed_plan_is_a_failed_pass() -> None:
    assert (await run(Maker(failed=True))).failed


async def test_a_cancelled_pass_cancels_its_actions() -> None:
    stopped: list[int] = []

    class Slow(Maker):
        async def apply(self, action: int) -> str:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                stopped.append(action)
                raise
            return ""

    one = Pass(Slow(wanted=2), "key")
    task = asyncio.create_task(one.run())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(stopped) == [0, 1]


async def test_a_pass_that_could_not_plan_reports_nothing() -> None:
    class Broken(Maker):
        def plan(self, seen: Counted) -> Plan[int, str]:
            raise ValueError("a rule's mistake")

    maker = Broken()
    one = Pass(maker, "key")
    with pytest.raises(ValueError, match="mistake"):
        await one.run()
    one.report()  # clearing troubles now would be a lie
    assert maker.reports == []
