"""Runners that finished, and when their places may be filled (W49)."""

from typing import Any

import msgspec
import pytest

from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.controllers.ephemeral_runner_set.finished import (
    FINISHES_MAX,
    HELD_MAX_S,
    HELD_UNNAMED_MAX_S,
    Departure,
    Held,
    Words,
    departure,
    ended,
    heard,
    still_held,
    words_of,
)
from tests.plan.ephemeral_runner_set.values import NOW, item
from tests.plan.ephemeral_runner_set.world import World

NAMES = Words(replicas=2, patch_id=3, settled=("x",))
SILENT = Words(replicas=2, patch_id=3, settled=None)


def runner(*, going: bool = False, **status: Any) -> EphemeralRunner:
    meta = {"name": "r", "uid": "u"}
    if going:
        meta["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    return msgspec.convert({"metadata": meta, "status": status}, EphemeralRunner)


LIVE = runner(phase="Pending", runnerId=7)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, LIVE, Departure.NONE),
        (LIVE, runner(phase="Running", runnerId=7, jobId="j"), Departure.NONE),
        (runner(going=True), None, Departure.NONE),  # it did not count before
        (runner(phase="Failed"), runner(phase="Failed", going=True), Departure.NONE),
        (runner(runnerId=7, jobId="j"), None, Departure.FINISHED),
        (LIVE, runner(runnerId=7, jobRequestId=3, going=True), Departure.FINISHED),
        (runner(runnerId=7, workflowRunId=3), runner(runnerId=7, going=True), Departure.FINISHED),
        (runner(runnerId=7, jobId="j"), runner(phase="Failed", jobId="j"), Departure.FINISHED),
        # A job that was stored once is not undone by whoever writes the status last.
        (runner(runnerId=7, jobId="j"), runner(phase="Failed", runnerId=7), Departure.FINISHED),
        (LIVE, runner(phase="Failed", runnerId=7), Departure.FAILED),
        (LIVE, runner(phase="Outdated", runnerId=7), Departure.FAILED),
        (LIVE, runner(runnerId=7, reason="Evicted", going=True), Departure.LOST),
        (runner(), runner(going=True), Departure.LOST),  # never registered
        (LIVE, runner(runnerId=7, going=True), Departure.FINISHED),  # a short job
        (LIVE, runner(runnerId=7, reason="a word of ARC", going=True), Departure.FINISHED),
    ],
)
def test_what_a_change_means_for_the_capacity(
    old: EphemeralRunner | None, new: EphemeralRunner | None, expected: Departure
) -> None:
    assert departure(old, new, ours=True) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (LIVE, runner(runnerId=7, going=True), Departure.LOST),
        (LIVE, runner(runnerId=7, reason="a word of ARC", going=True), Departure.LOST),
        (LIVE, None, Departure.LOST),
        (LIVE, runner(runnerId=7, jobId="j", going=True), Departure.FINISHED),
        (LIVE, runner(phase="Failed", runnerId=7), Departure.FAILED),
    ],
)
def test_an_idle_runner_that_somebody_else_deletes_is_lost(
    old: EphemeralRunner, new: EphemeralRunner | None, expected: Departure
) -> None:
    assert departure(old, new, ours=False) is expected


def test_the_words_of_a_set() -> None:
    assert words_of(item()) == Words(0, 0, None)
    spoken = item(spec={"replicas": 2, "patchID": 3, "settledRunners": ["a"]})
    assert words_of(spoken) == Words(2, 3, ("a",))


def test_a_finish_holds_its_place_until_its_bound() -> None:
    held = ended(Held(), "a", now_s=NOW)
    assert still_held(held, NAMES, now_s=NOW + 1) == (1, HELD_MAX_S - 1)
    assert still_held(held, NAMES, now_s=NOW + HELD_MAX_S) == (0, None)
    assert still_held(held, SILENT, now_s=NOW) == (1, HELD_UNNAMED_MAX_S)
    assert still_held(Held(), NAMES, now_s=NOW) == (0, None)


def test_a_name_releases_its_own_place_only() -> None:
    held = ended(ended(Held(), "a", now_s=NOW), "b", now_s=NOW)
    now = Words(2, 4, ("a",))
    assert heard(held, NAMES, now, alive=frozenset()).since_s == (("b", NOW),)


def test_a_name_that_came_first_is_remembered_until_the_runner_ends() -> None:
    held = heard(Held(), NAMES, Words(2, 4, ("a",)), alive=frozenset({"a", "b"}))
    assert held.named == {"a"}
    # Newer completions have pushed it out of the bounded list meanwhile.
    held = heard(held, Words(2, 4, ("a",)), Words(2, 5, ("z",)), alive=frozenset({"a", "b"}))
    assert held.named == {"a"}
    held = ended(held, "a", now_s=NOW)
    assert held == Held()
    gone = heard(Held(named=frozenset({"a"})), NAMES, NAMES, alive=frozenset())
    assert gone.named == frozenset()


def test_an_exact_word_or_one_of_a_silent_listener_releases_all() -> None:
    held = ended(Held(), "a", now_s=NOW)
    for now in (Words(2, 0, ("x",)), Words(3, 4, None)):
        assert heard(held, NAMES, now, alive=frozenset()).since_s == ()
    assert heard(held, NAMES, Words(3, 4, ("x",)), alive=frozenset()) == held
    assert heard(held, NAMES, NAMES, alive=frozenset()) == held  # said nothing new
    assert heard(held, None, Words(2, 0, None), alive=frozenset()) == held  # only now seen


def test_the_memory_is_bounded() -> None:
    held = Held(since_s=tuple((str(n), NOW) for n in range(FINISHES_MAX)))
    held = ended(held, "last", now_s=NOW)
    assert len(held.since_s) == FINISHES_MAX and held.since_s[-1] == ("last", NOW)


class TestFinished:
    """W49, design section 5: no replacement before the listener has spoken."""

    async def ready(self, replicas: int = 2, patch_id: int = 3) -> World:
        this = World()
        this.make(replicas=replicas, patch_id=patch_id, settledRunners=["before"])
        await this.settle()
        this.register()
        for name in this.names:
            this.take_job(name)
        await this.later(1)
        return this

    async def test_a_finished_runner_is_not_replaced_before_the_listener_has_spoken(self) -> None:
        this = await self.ready()
        first, second = this.names
        this.finish(first)
        await this.later(30)
        assert this.names == [second]
        this.says(1, 4, [first])
        await this.later(200)
        assert this.names == [second]  # its job is gone, and so is its place

    async def test_it_is_replaced_when_the_listener_says_that_another_job_waits(self) -> None:
        this = await self.ready()
        first, _ = this.names
        this.finish(first)
        await this.settle()
        this.says(2, 4, [first])
        await this.settle()
        assert len(this.names) == 2

    async def test_it_is_replaced_at_once_if_its_job_was_out_of_the_number_before(self) -> None:
        this = await self.ready()
        first, _ = this.names
        this.says(2, 4, [first])  # its job is over and another one waits; its pod still packs up
        await this.settle()
        assert len(this.names) == 2
        this.finish(first)
        await this.settle()
        assert len(this.names) == 2 and first not in this.names

    async def test_a_word_about_others_releases_nothing(self) -> None:
        this = await self.ready()
        first, second = this.names
        this.finish(first)
        await this.settle()
        this.says(2, 4, ["somebody"])
        await this.settle()
        assert this.names == [second]

    async def test_an_exact_word_releases_everything(self) -> None:
        this = await self.ready()
        first, _ = this.names
        this.finish(first)
        await this.settle()
        this.says(2, 0, ["somebody"])
        await this.settle()
        assert len(this.names) == 2

    async def test_a_silent_listener_holds_a_place_for_a_little_over_a_minute(self) -> None:
        this = await self.ready()
        this.finish(this.names[0])
        end = await this.settle()
        assert end.again_s == pytest.approx(75, abs=2.1)
        await this.later(76)
        assert len(this.names) == 2

    async def test_the_job_of_a_scale_set_that_is_gone_holds_no_place(self) -> None:
        # The scale set was deleted at GitHub under two jobs and registered anew: its listener
        # never hears how they end, and the jobs that wait had to wait for 75 s.
        this = await self.ready()
        first, second = this.names
        this.change_set({"spec": {"ephemeralRunnerSpec": {"runnerScaleSetId": 8}}})
        this.says(2, 0)
        await this.settle()
        assert this.names == [first, second]  # they have jobs
        this.finish(first)
        this.finish(second)
        await this.settle()
        assert len(this.names) == 2 and not {first, second} & set(this.names)

    async def test_a_listener_that_names_nobody_has_spoken_with_any_change(self) -> None:
        this = World()
        this.make(replicas=2, patch_id=3)
        await this.settle()
        this.register()
        first, second = this.names
        this.take_job(first)
        await this.settle()
        this.finish(first)
        await this.settle()
        assert this.names == [second]
        this.says(2, 4)
        await this.settle()
        assert len(this.names) == 2

    async def test_without_names_a_place_is_held_for_a_moment_only(self) -> None:
        this = World()
        this.make(replicas=1, patch_id=3)
        await this.settle()
        this.register()
        this.take_job(this.names[0])
        await this.settle()
        this.finish(this.names[0])
        end = await this.settle()
        assert this.names == [] and end.again_s == pytest.approx(5, abs=2.1)
        await this.later(5.1)
        assert len(this.names) == 1

    async def test_a_runner_lost_while_idle_is_replaced_at_once(self) -> None:
        this = World()
        this.make(replicas=2, patch_id=0, settledRunners=["before"])
        await this.settle()
        this.register()
        this.disturb(this.names[0])
        await this.settle()
        assert len(this.names) == 2

    async def test_a_runner_deleted_before_it_registered_is_replaced_at_once(self) -> None:
        this = World()
        this.make(replicas=1, patch_id=0, settledRunners=["before"])
        await this.settle()
        this.finish(this.names[0])
        await this.settle()
        assert len(this.names) == 1

    async def test_a_short_job_that_was_never_stored_holds_its_place_too(self) -> None:
        this = World()
        this.make(replicas=1, patch_id=3, settledRunners=["before"])
        await this.settle()
        this.register()
        name = this.names[0]
        this.finish(name)  # exit 0, and GitHub has forgotten it: no job field, no reason
        await this.later(20)
        assert this.names == []
        this.says(1, 4, [name])
        await this.settle()
        assert len(this.names) == 1

    async def test_an_idle_runner_that_a_person_deletes_is_replaced_at_once(self) -> None:
        # The listener never names it: the job that waited had to wait for 75 s (seed 2575).
        this = World()
        this.make(replicas=1, patch_id=3, settledRunners=["before"])
        await this.settle()
        this.register()
        name = this.names[0]
        this.ask_deletion(name)
        await this.settle()
        assert [*this.going] == [name] and len(this.names) == 1
        this.vanish(name)
        await this.settle()
        assert len(this.names) == 1

    async def test_a_busy_runner_that_a_person_deletes_holds_its_place(self) -> None:
        this = await self.ready()
        first, second = this.names
        this.ask_deletion(first)
        await this.later(20)
        assert this.names == [second]

    async def test_a_runner_lost_with_its_job_holds_its_place_and_stays_as_evidence(self) -> None:
        this = await self.ready()
        first, second = this.names
        this.fail(first, reason="NodeLost")
        await this.later(20)
        assert this.names == [first, second]

    async def test_a_restart_forgets_and_never_goes_above_the_wanted_number(self) -> None:
        this = await self.ready()
        this.finish(this.names[0])
        this.restart()
        await this.settle()
        assert len(this.names) == 2

    async def test_what_the_set_lets_go_itself_holds_no_place(self) -> None:
        this = World()
        this.make(replicas=2, patch_id=0, settledRunners=["before"])
        await this.settle()
        this.register()
        this.says(1, 0, ["before"])
        await this.settle()
        this.sweep()
        this.says(2, 1, ["before"])
        await this.settle()
        assert len(this.names) == 2
