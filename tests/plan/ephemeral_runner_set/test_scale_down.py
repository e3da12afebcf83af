"""Which idle runners a set lets go. No other rule can kill a user's build."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner_set.scale_down import (
    ASK_AGAIN_S,
    ASKED_AT_ONCE_MAX,
    JOB_WORD_HOLDS_S,
    NEVER_S,
    ONLINE_GRACE_S,
    UNREGISTERED_STUCK_S,
    in_order,
    may_be_asked,
    next_question_s,
    stage,
)
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    AskGitHub,
    DeleteRunner,
    Removal,
    Runner,
)
from runnerscale.core.clock import format_time
from runnerscale.scaleset.errors import JobStillRunning, Unavailable
from tests.plan.ephemeral_runner_set.values import IDLE, NOW, SEEN
from tests.plan.ephemeral_runner_set.world import NS, World

BUSY = replace(IDLE, name="busy", uid="u2", created_s=NOW - 900, has_job=True)
EXACT = replace(SEEN, replicas=0, exact=True)


@pytest.mark.behaviour("C1 T58")
def test_a_runner_with_a_job_is_not_asked_even_while_its_phase_lags() -> None:
    # An older listener writes the job id but never Running (contract 1.7, T58).
    seen = replace(EXACT, runners=(BUSY, IDLE))
    assert stage(seen).actions == (AskGitHub("idle", uid="u1", runner_id=7),)


def test_a_forgotten_runner_is_deleted_even_when_the_set_has_grown_again() -> None:
    gone = replace(IDLE, removal=Removal.FORGOTTEN)
    seen = replace(SEEN, replicas=5, runners=(gone,))
    (action,) = stage(seen).actions
    assert isinstance(action, DeleteRunner)
    assert (action.name, action.uid, action.resource_version) == ("idle", "u1", "5")


def test_a_forgotten_runner_that_has_a_job_after_all_is_left_to_its_own_controller() -> None:
    gone = replace(IDLE, removal=Removal.FORGOTTEN, has_job=True)
    assert stage(replace(EXACT, runners=(gone,))).actions == ()


def test_a_numbered_patch_asks_about_nobody() -> None:
    assert stage(replace(SEEN, replicas=0, runners=(IDLE,))).actions == ()


def test_questions_on_their_way_count_and_answers_are_waited_for() -> None:
    runners = tuple(replace(IDLE, name=f"r{n}", uid=f"u{n}", runner_id=n + 1) for n in range(4))
    asked = replace(runners[0], removal=Removal.ASKED)
    seen = replace(EXACT, replicas=2, runners=(asked, *runners[1:]))
    assert stage(seen).actions == (AskGitHub("r1", uid="u1", runner_id=2),)
    seen = replace(EXACT, replicas=3, runners=(asked, *runners[1:]))
    assert stage(seen).actions == ()


def test_no_more_questions_than_the_bound_are_on_their_way() -> None:
    many = tuple(replace(IDLE, name=f"r{n}", uid=f"u{n}", runner_id=n + 1) for n in range(200))
    assert len(stage(replace(EXACT, runners=many)).actions) == ASKED_AT_ONCE_MAX


def test_job_still_running_is_not_counted_and_the_next_is_tried() -> None:
    told = replace(BUSY, has_job=False, removal=Removal.HAS_JOB, removal_s=NOW - 1)
    seen = replace(EXACT, replicas=1, runners=(told, IDLE))
    found = stage(seen)
    assert found.actions == (AskGitHub("idle", uid="u1", runner_id=7),)
    alone = stage(replace(EXACT, runners=(told,)))
    assert alone.actions == () and alone.again_s == JOB_WORD_HOLDS_S - 1


def test_no_answer_is_told_and_asked_again_later() -> None:
    why = trouble(Reason.GITHUB_UNAVAILABLE, about="x", happened="500")
    told = replace(IDLE, removal=Removal.NO_ANSWER, removal_s=NOW, removal_trouble=why)
    found = stage(replace(EXACT, runners=(told,)))
    assert (found.actions, found.troubles, found.again_s) == ((), (why,), ASK_AGAIN_S)
    later = replace(EXACT, now_s=NOW + ASK_AGAIN_S, runners=(told,))
    assert stage(later).actions == (AskGitHub("idle", uid="u1", runner_id=7),)
    assert stage(replace(EXACT, replicas=1, runners=(told,))).troubles == ()  # nobody is to go


def test_who_never_registered_goes_after_a_while_without_a_question() -> None:
    stuck = replace(IDLE, runner_id=0, created_s=NOW - UNREGISTERED_STUCK_S - 1)
    (action,) = stage(replace(EXACT, runners=(stuck,))).actions
    assert isinstance(action, DeleteRunner) and action.resource_version == "5"
    young = replace(stuck, created_s=NOW - 1)
    assert stage(replace(EXACT, runners=(young,))).actions == ()
    assert stage(replace(EXACT, replicas=1, runners=(stuck,))).actions == ()
    busy = replace(stuck, has_job=True)
    assert stage(replace(EXACT, runners=(busy,))).actions == ()


def test_old_templates_go_first_then_pending_then_the_oldest() -> None:
    older = replace(IDLE, name="older", created_s=NOW - 500)
    running = replace(IDLE, name="running", created_s=NOW - 900, phase="Running")
    outdated = replace(IDLE, name="outdated", created_s=NOW - 1, current=False)
    found = in_order([running, IDLE, older, outdated])
    assert [r.name for r in found] == ["outdated", "older", "idle", "running"]


def test_when_github_may_be_asked_about_a_runner() -> None:
    assert may_be_asked(IDLE, now_s=NOW)
    fresh = replace(IDLE, online_s=NOW - 4)
    assert next_question_s(fresh, now_s=NOW) == ONLINE_GRACE_S - 4
    assert next_question_s(replace(fresh, online_s=NOW - 60), now_s=NOW) == 0
    for word in (Removal.ASKED, Removal.FORGOTTEN):
        assert next_question_s(replace(IDLE, removal=word), now_s=NOW) == NEVER_S
    assert not may_be_asked(BUSY, now_s=NOW) and next_question_s(BUSY, now_s=NOW) == 0


RUNNERS = st.builds(
    Runner,
    name=st.text("abc", min_size=1, max_size=3),
    uid=st.uuids().map(str),
    created_s=st.floats(NOW - 1000, NOW),
    phase=st.sampled_from(["", "Pending", "Running", "Unknown"]),
    runner_id=st.integers(0, 3),
    has_job=st.booleans(),
    current=st.booleans(),
    removal=st.sampled_from(list(Removal)),
    removal_s=st.floats(NOW - 100, NOW),
)


@given(
    st.lists(RUNNERS, max_size=12),
    st.integers(0, 12),
    st.booleans(),
    st.none() | st.integers(0, 5),
)
def test_nobody_with_a_job_is_ever_touched_and_never_more_than_the_surplus_is_asked_about(
    runners: list[Runner], replicas: int, exact: bool, hold: int | None
) -> None:
    seen = replace(SEEN, replicas=replicas, exact=exact, hold=hold, runners=tuple(runners))
    by_uid = {r.uid: r for r in runners}
    actions = stage(seen).actions
    assert not any(by_uid[a.uid].has_job for a in actions)  # type: ignore[union-attr]
    asks = [a for a in actions if isinstance(a, AskGitHub)]
    assert all(by_uid[a.uid].runner_id == a.runner_id != 0 for a in asks)
    floor = replicas if exact and hold is None else min(replicas, hold or 0) if exact else hold
    alive = sum(1 for r in runners if r.removal is not Removal.FORGOTTEN)
    asked = sum(1 for r in runners if r.removal is Removal.ASKED)
    assert len(asks) + asked <= max(asked, 0 if floor is None else max(0, alive - floor))


class TestJobsAndScaleDown:
    """Must be shown 5: a job landing on a runner that scale-down has just chosen."""

    async def chosen(self) -> World:
        this = World()
        this.make(replicas=1, patch_id=0)
        await this.settle()
        this.register()
        this.github.hangs.clear()
        this.says(0, 0)
        await this.one_pass()
        assert len(this.reconciler.removals) == 1  # the question is on its way
        return this

    async def test_github_gives_the_job_before_it_is_asked(self) -> None:
        this = await self.chosen()
        (name,) = this.names
        this.github.answers[this.id_of(name)] = JobStillRunning("a job still runs on it")
        this.github.hangs.set()
        await this.settle()
        assert this.names == [name]  # GitHub's word is final, though no job is stored yet
        this.take_job(name)
        await this.later(3600)
        assert this.names == [name]

    async def test_githubs_word_is_known_to_others_as_long_as_it_holds(self) -> None:
        # Seed 369: a move need not wait for a runner of which GitHub says that it has a job.
        this = await self.chosen()
        (name,) = this.names
        this.github.answers[this.id_of(name)] = JobStillRunning("a job still runs on it")
        runner = this.runners.store.get(f"{NS}/{name}")
        assert runner is not None
        assert not this.reconciler.is_said_busy(runner)  # asked, and not answered
        this.github.hangs.set()
        await this.settle()
        assert this.reconciler.is_said_busy(runner)
        this.says(1, 1)  # nobody is surplus, so that it is not asked again
        await this.later(JOB_WORD_HOLDS_S)
        assert not this.reconciler.is_said_busy(runner)

    async def test_the_job_is_stored_while_the_question_is_on_its_way(self) -> None:
        # GitHub then says "never heard of it": the job is over, and its registration gone.
        this = await self.chosen()
        (name,) = this.names
        this.take_job(name)
        this.github.hangs.set()
        await this.settle()
        assert this.names == [name]  # a runner with a job is never deleted by its set

    async def test_the_job_is_stored_between_the_answer_and_the_deletion(self) -> None:
        # The cache has not heard of it: only the version that the deletion carries can tell.
        this = await self.chosen()
        (name,) = this.names
        this.runners.paused = True
        this.take_job(name)
        this.github.hangs.set()
        for _ in range(3):
            await this.one_pass()
        assert this.names == [name]
        this.runners.paused = False
        this.api._tell(EPHEMERAL_RUNNERS, NS, name)
        await this.settle()
        assert this.names == [name]

    async def test_a_hanging_github_does_not_hold_up_new_demand(self) -> None:
        this = await self.chosen()
        this.says(3, 1)
        await this.passes(4)
        assert len(this.names) == 3 and len(this.reconciler.removals) == 1

    async def test_growing_again_keeps_what_github_did_not_forget(self) -> None:
        this = await self.chosen()
        (name,) = this.names
        this.says(1, 1)
        this.github.answers[this.id_of(name)] = Unavailable("down")
        this.github.hangs.set()
        await this.settle()
        assert this.names == [name]

    async def test_a_forgotten_runner_is_deleted_even_when_the_set_has_grown_again(self) -> None:
        this = await self.chosen()
        (name,) = this.names
        this.says(1, 1)
        this.github.hangs.set()
        await this.settle()
        assert name not in this.names and len(this.names) == 1

    async def test_one_that_has_just_come_online_is_not_touched_for_a_moment(self) -> None:
        this = World()
        this.make(replicas=0, patch_id=0)
        online = {
            "type": "Online",
            "status": "True",
            "reason": "Well",
            "message": "",
            "lastTransitionTime": format_time(this.clock.now_s()),
        }
        this.runner("fresh", runnerId=1, phase="Pending", ready=True, conditions=[online])
        end = await this.settle()
        assert this.github.asked == [] and end.again_s == pytest.approx(10, abs=2)
        await this.later(10)
        assert this.github.asked == [1]
