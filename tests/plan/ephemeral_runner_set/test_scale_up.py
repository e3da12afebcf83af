"""How many runners are made now."""

import asyncio
from dataclasses import replace

import pytest

from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner_set import apply
from runnerscale.controllers.ephemeral_runner_set.failure_policy import Verdict
from runnerscale.controllers.ephemeral_runner_set.learning import learn
from runnerscale.controllers.ephemeral_runner_set.plan import plan
from runnerscale.controllers.ephemeral_runner_set.scale_up import BATCH_MAX, creations, stage
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Check,
    ConfirmView,
    CreateRunner,
    Said,
    Template,
)
from runnerscale.core.randomness import seeded
from runnerscale.kube.controller import Controller
from runnerscale.kube.errors import Invalid, Unreachable
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.kube.reconcile import Plan
from runnerscale.scaleset.errors import JobStillRunning
from tests.plan.ephemeral_runner_set.values import IDLE, SEEN
from tests.plan.ephemeral_runner_set.world import KEY, NS, World

WISH = replace(SEEN, replicas=3, runners=(IDLE,))
WHY = trouble(Reason.CREATION_PAUSED, about="x", happened="no")


def test_what_is_missing_is_made() -> None:
    assert stage(WISH, Verdict()).actions == (CreateRunner(number=0), CreateRunner(number=1))
    assert stage(replace(WISH, replicas=1), Verdict()).actions == ()


def test_a_batch_is_bounded_and_the_next_one_comes_with_a_new_look() -> None:
    big = replace(WISH, replicas=1000)
    assert len(stage(big, Verdict()).actions) == BATCH_MAX
    after = stage(replace(big, made=BATCH_MAX), Verdict())
    assert (after.actions, after.again_s) == ((), 0.0)
    done = stage(replace(WISH, made=2), Verdict())
    assert (done.actions, done.again_s) == ((), None)


def test_the_failure_policy_has_the_last_word() -> None:
    assert stage(WISH, Verdict(at_once=0, again_s=7, trouble=WHY)).again_s == 7
    assert stage(WISH, Verdict(at_once=0, trouble=WHY)).actions == ()
    assert len(stage(WISH, Verdict(at_once=1)).actions) == 1
    assert len(stage(WISH, Verdict(reserve=1)).actions) == 1
    assert stage(WISH, Verdict(cap=1)).actions == ()
    assert stage(WISH, Verdict(trouble=WHY)).troubles == (WHY,)


@pytest.mark.parametrize("template", [Template(), Template(Check.REFUSED)])
def test_nothing_is_made_from_a_template_that_is_not_accepted(template: Template) -> None:
    assert stage(replace(WISH, template=template), Verdict()).actions == ()


def test_after_a_failure_the_rest_waits_for_the_next_pass() -> None:
    assert stage(replace(WISH, failed=True), Verdict()).actions == ()


def test_names_whose_creation_had_no_answer_come_first() -> None:
    seen = replace(WISH, undecided=("a", "b"))
    assert creations(seen, 3) == (
        CreateRunner("a", number=0),
        CreateRunner("b", number=1),
        CreateRunner("", number=2),
    )
    assert creations(seen, 1) == (CreateRunner("a", number=0),)


def test_held_places_are_looked_at_again_when_the_first_comes_free() -> None:
    held = replace(WISH, replicas=2, held=1, held_again_s=30.0)
    assert (stage(held, Verdict()).actions, stage(held, Verdict()).again_s) == ((), 30.0)
    assert len(stage(replace(held, replicas=3), Verdict()).actions) == 1


def test_before_the_first_runner_the_view_of_the_set_is_confirmed_once() -> None:
    # A new process, or a standby, may begin with an old view: it would make them all again.
    fresh = replace(WISH, confirmed=False)
    assert stage(fresh, Verdict()).actions == (ConfirmView(),)
    same = learn(fresh, [(ConfirmView(), Said.DONE)])
    assert len(stage(same, Verdict()).actions) == 2
    other = learn(fresh, [(ConfirmView(), Said.CONFLICT)])
    assert plan(other) == Plan(stale=True)
    assert learn(fresh, [(ConfirmView(), Said.GONE)]).gone


async def test_nothing_is_made_while_the_cache_shows_an_older_set_than_there_is() -> None:
    this = World()
    this.make(replicas=2)
    now = this.api.objects[("ephemeralrunnersets", NS, "set")]
    past = now["metadata"]["resourceVersion"]
    now["metadata"]["resourceVersion"] = "999999"  # the watch has not told of it yet
    for _ in range(3):
        end = await this.one_pass()
        assert this.names == []
    assert end.stale
    now["metadata"]["resourceVersion"] = past
    await this.settle()
    assert len(this.names) == 2
    reads = [read for read in this.api.reads if read[1] == "ephemeralrunnersets"]
    this.says(3, 1)
    await this.settle()
    assert [read for read in this.api.reads if read[1] == "ephemeralrunnersets"] == reads


async def test_jobs_of_a_scale_set_that_is_gone_do_not_take_the_places_of_others() -> None:
    # Seed 4 of the simulation: somebody deleted the scale set at GitHub under a long job. The new
    # one's numbers do not know of that job, and its runner was taken for the one that was wanted.
    this = World()
    this.high = 3
    this.make(replicas=1)
    await this.settle()
    old = this.names[0]
    this.register(old)
    this.take_job(old)
    this.change_set({"spec": {"ephemeralRunnerSpec": {"runnerScaleSetId": 8}}})
    await this.settle()
    assert len(this.names) == 2
    this.says(0, 0)
    this.register()
    await this.settle()
    assert this.names == [old]  # what is surplus goes, and the job stays
    this.says(5, 1)
    await this.settle()
    assert len(this.names) == 5, "the listener's own number is its own affair"


async def test_nor_do_jobs_of_it_that_only_github_knows_of() -> None:
    # Seed 17 of the simulation: the listener died as it heard of the job, and the set moved to
    # another place before the next one could be told. No object ever said that a job runs.
    this = World()
    this.high = 3
    this.make(replicas=1)
    await this.settle()
    old = this.names[0]
    this.register(old)
    this.github.answers[this.id_of(old)] = JobStillRunning("busy")
    this.change_set({"spec": {"ephemeralRunnerSpec": {"runnerScaleSetId": 8}}})
    await this.settle()
    await this.later(11.0)
    await this.settle()
    assert len(this.names) == 2
    assert old in this.names


async def test_what_runs_beside_the_listeners_number_stays_within_the_maximum() -> None:
    this = World()
    this.high = 1
    this.make(replicas=1)
    await this.settle()
    this.register()
    this.take_job(this.names[0])
    this.change_set({"spec": {"ephemeralRunnerSpec": {"runnerScaleSetId": 8}}})
    await this.settle()
    assert len(this.names) == 1


@pytest.mark.behaviour("C1 T137")
async def test_what_could_not_be_made_is_made_without_a_new_patch() -> None:
    this = World()
    this.make(replicas=5, patch_id=3)
    failures = 3

    def fault(verb: str, plural: str, name: str) -> Exception | None:
        nonlocal failures
        if verb == "create" and plural == "ephemeralrunners" and failures:
            failures -= 1
            return Invalid(422, "Invalid", "a webhook said no")
        return None

    this.api.fault = fault
    await this.one_pass()
    end = await this.one_pass()
    assert end.failed and len(this.names) == 2
    await this.settle()
    assert len(this.names) == 5


async def test_a_creation_whose_answer_is_lost_is_made_once() -> None:
    this = World()
    this.make(replicas=1)

    def lost(verb: str, plural: str, name: str) -> None:
        if plural == "ephemeralrunners":
            this.api.after = lambda *_: None
            raise Unreachable("the answer was lost")

    this.api.after = lost
    await this.settle()
    assert len(this.names) == 1


async def test_a_creation_that_stays_undecided_goes_on_under_its_name_in_the_next_pass() -> None:
    this = World()
    this.make(replicas=1)
    tried: list[str] = []

    def fault(verb: str, plural: str, name: str) -> Exception | None:
        if verb == "create" and plural == "ephemeralrunners":
            tried.append(name)
            return Unreachable("down")
        return None

    this.api.fault = fault
    await this.one_pass()
    end = await this.one_pass()
    assert end.failed and len(set(tried)) == 1 and len(tried) == 3
    this.api.fault = lambda *_: None
    await this.settle()
    assert this.names == [tried[0]]


async def test_a_foreign_runner_of_the_drawn_name_is_left_alone() -> None:
    this = World()
    this.make(replicas=0)
    await this.settle()
    names = iter(["taken", "free"])
    original = apply.runner_name
    apply.runner_name = lambda *_: next(names)  # type: ignore[assignment]
    try:
        this.api.put(EPHEMERAL_RUNNERS, NS, {"metadata": {"name": "taken"}, "spec": {}})
        this.says(1, 1)
        await this.settle()
    finally:
        apply.runner_name = original
    assert sorted(this.names) == ["free", "taken"]
    assert "ownerReferences" not in this.body("taken")["metadata"]


@pytest.mark.behaviour("C1 T138")
async def test_a_lagging_cache_never_makes_too_many() -> None:
    # The runtime starts no pass before the cache shows the last one's writes; here the cache
    # is stopped, so the key stays parked however often it is queued.
    this = World()
    this.make(replicas=0)
    await this.settle()
    own_writes = OwnWrites(clock=this.clock)
    this.reconciler._hands._own_writes = own_writes
    this.runners.is_caught_up = lambda version: not this.runners.paused
    controller = Controller(
        name="t",
        reconciler=this.reconciler,
        keys=lambda: [KEY],
        clock=this.clock,
        random=seeded(1),
        own_writes=own_writes,
        batch_max=64,
        level_period_s=1e9,
    )
    this.reconciler.connect(controller.enqueue, controller.enqueue_after)
    this.runners.paused = True
    this.says(100, 1)
    work = [asyncio.get_running_loop().create_task(controller._work()) for _ in range(3)]
    for _ in range(200):
        controller.enqueue(KEY)
        await asyncio.sleep(0)
    assert 0 < len(this.names) <= 64  # the first batch, and then it waits for the cache
    this.runners.paused = False
    for name in this.names:
        this.api._tell(EPHEMERAL_RUNNERS, NS, name)
    for task in work:
        task.cancel()
    await asyncio.wait(work)
    this.reconciler.connect(lambda *_, **__: None, lambda *_: None)
    await this.settle()
    assert len(this.names) == 100


@pytest.mark.behaviour("C1 T139")
async def test_creation_stops_early_when_the_wish_shrinks_midway() -> None:
    this = World()
    this.make(replicas=500, patch_id=1)
    await this.one_pass()  # finalizer
    await this.one_pass()  # template and the first batch
    assert len(this.names) == 64
    this.says(10, 0)
    await this.settle()
    assert len(this.names) == 64


async def test_creations_run_side_by_side_and_are_bounded() -> None:
    this = World()
    this.make(replicas=200, patch_id=1)
    await this.settle()
    assert len(this.names) == 200 and len(set(this.names)) == 200
    assert 32 < this.api.in_flight_peak <= 64
