"""Idle runners that outlived a change of the template."""

from dataclasses import replace

import pytest

from runnerscale.api import labels as keys
from runnerscale.controllers.ephemeral_runner_set.failure_policy import Verdict
from runnerscale.controllers.ephemeral_runner_set.observe import PROVEN_AFTER_S
from runnerscale.controllers.ephemeral_runner_set.replace_outdated import (
    COMES_UP_WITHIN_S,
    REGISTERS_WITHIN_S,
    stage,
)
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    AskGitHub,
    Check,
    DeleteRunner,
    Removal,
    Template,
)
from runnerscale.kube.errors import Forbidden
from tests.plan.ephemeral_runner_set.values import IDLE, NOW, SEEN
from tests.plan.ephemeral_runner_set.world import IMAGE_2, World

OLD = replace(IDLE, name="old", uid="o1", current=False)
NEW = replace(IDLE, name="new", uid="n1", created_s=NOW - 10)
WISH = replace(SEEN, replicas=2)
FINE = Verdict()


def test_the_next_old_one_is_asked_about() -> None:
    older = replace(OLD, name="older", uid="o2", created_s=NOW - 900)
    found = stage(replace(WISH, runners=(OLD, older)), FINE)
    assert found.actions == (AskGitHub("older", uid="o2", runner_id=7),)


@pytest.mark.parametrize(
    "seen",
    [
        replace(WISH, runners=(IDLE,)),  # nobody is old
        replace(WISH, runners=(replace(OLD, has_job=True),)),  # a busy one finishes
        replace(WISH, runners=(OLD, NEW)),  # the last new one has not come up yet
        replace(WISH, runners=(OLD, replace(OLD, uid="o2", removal=Removal.ASKED))),
        replace(WISH, runners=(OLD,)),  # one is missing already
        replace(WISH, replicas=1, runners=(OLD,), made=1),
        replace(WISH, runners=(OLD, OLD), template=Template(Check.REFUSED)),
        replace(WISH, runners=(OLD, OLD), template=Template()),
        replace(WISH, runners=(OLD, OLD), deleted_s=NOW),
    ],
)
def test_nobody_goes_before_the_new_ones_work(seen: object) -> None:
    assert stage(seen, FINE).actions == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("verdict", [Verdict(at_once=0), Verdict(reserve=1)])
def test_nobody_goes_for_a_template_that_has_just_failed(verdict: Verdict) -> None:
    assert stage(replace(WISH, runners=(OLD, OLD)), verdict).actions == ()


def test_a_new_one_that_does_not_come_up_holds_up_the_exchange_for_a_while_only() -> None:
    waits = stage(replace(WISH, runners=(OLD, NEW)), FINE)
    assert waits.again_s == PROVEN_AFTER_S - 10  # it may be ready by then, and has worked enough
    unready = replace(NEW, created_s=NOW - PROVEN_AFTER_S)
    waits = stage(replace(WISH, runners=(OLD, unready)), FINE)
    assert waits.again_s == COMES_UP_WITHIN_S - PROVEN_AFTER_S
    late = replace(NEW, created_s=NOW - COMES_UP_WITHIN_S)
    assert stage(replace(WISH, runners=(OLD, late)), FINE).actions != ()
    works = replace(NEW, proven=True)
    assert stage(replace(WISH, runners=(OLD, works)), FINE).actions != ()


def test_a_big_set_exchanges_one_in_ten_at_a_time() -> None:
    many = tuple(replace(OLD, name=f"o{n}", uid=f"o{n}") for n in range(30))
    assert len(stage(replace(WISH, replicas=30, runners=many), FINE).actions) == 3


def test_old_ones_that_hang_without_a_registration_go_at_once() -> None:
    stuck = replace(OLD, runner_id=0, created_s=NOW - REGISTERS_WITHIN_S)
    found = stage(replace(WISH, runners=(stuck, NEW)), FINE)
    assert [type(a) for a in found.actions] == [DeleteRunner]
    # Or it is just being registered.
    just = replace(stuck, created_s=NOW - 1)
    found = stage(replace(WISH, runners=(just, replace(NEW, proven=True))), FINE)
    assert (found.actions, found.again_s) == ((), REGISTERS_WITHIN_S - 1)


def test_old_ones_that_say_why_they_cannot_be_registered_go_at_once() -> None:
    # The scale set was gone at GitHub and is registered anew: these were made for the old id,
    # and held the places of those that could work, for two minutes.
    refused = replace(OLD, runner_id=0, created_s=NOW - 1, troubled=True)
    another = replace(refused, name="another", uid="o2")
    found = stage(replace(WISH, runners=(refused, another)), FINE)
    assert [a.uid for a in found.actions if isinstance(a, DeleteRunner)] == ["o2", "o1"]
    assert found.actions[0].resource_version == "5"  # type: ignore[union-attr]  # not if it got on


@pytest.mark.behaviour("C1 T131")
async def test_another_image_replaces_idle_runners_and_leaves_busy_ones() -> None:
    this = World()
    this.make(replicas=3, patch_id=0)
    await this.settle()
    this.register()
    busy = this.names[0]
    this.take_job(busy)
    old = set(this.names)
    this.change_set(IMAGE_2)
    for _ in range(4):
        await this.settle()
        this.register()
        for name in this.names:
            if name not in old:
                this.change(name, ready=True)
        await this.later(61)
    images = {
        name: this.body(name)["spec"]["spec"]["containers"][0]["image"] for name in this.names
    }
    assert images.pop(busy) == "img:1"
    assert sorted(images.values()) == ["img:2", "img:2"]
    assert len(old & set(this.names)) == 1


async def test_idle_runners_are_exchanged_one_at_a_time() -> None:
    this = World()
    this.make(replicas=5, patch_id=0)
    await this.settle()
    this.register()
    old = set(this.names)
    this.change_set(IMAGE_2)
    await this.settle()
    assert len(old & set(this.names)) == 4 and len(this.names) == 5
    await this.later(30)
    assert len(old & set(this.names)) == 4  # its successor has not come up yet


async def test_the_next_goes_a_minute_after_the_last_new_one_was_made() -> None:
    # It was looked at again after two, or with the next level pass.
    this = World()
    this.make(replicas=5, patch_id=0)
    await this.settle()
    this.register()
    old = set(this.names)
    this.change_set(IMAGE_2)
    await this.settle()
    this.register()
    for name in set(this.names) - old:
        this.change(name, ready=True)
    waits = await this.settle()
    assert len(old & set(this.names)) == 4
    assert waits.again_s is not None and waits.again_s <= PROVEN_AFTER_S
    await this.later(waits.again_s)
    assert len(old & set(this.names)) == 3


async def test_working_runners_are_not_exchanged_for_a_template_that_is_refused() -> None:
    this = World()
    this.make(replicas=2, patch_id=0)
    await this.settle()
    this.register()
    names = this.names
    this.api.fault = lambda verb, plural, name: (
        Forbidden(403, "Forbidden", "violates PodSecurity") if verb == "dry-run" else None
    )
    this.change_set(IMAGE_2)
    await this.later(5)
    assert this.names == names and this.github.asked == []
    assert this.condition("TemplateAccepted")["status"] == "False"
    assert "violates PodSecurity" in this.condition("TemplateAccepted")["message"]
    assert this.status["reason"] == "TemplateRefused"


async def test_runners_of_arc_are_taken_over_and_none_is_exchanged() -> None:
    # They carry ARC's hash and no fingerprint of ours: contents are compared.
    this = World()
    this.make(replicas=2, patch_id=0, meta={"annotations": {keys.INTEGRITY_HASH: "f00d"}})
    this.runner("arc-1", runnerId=1, phase="Pending", age_s=500)
    this.runner("arc-2", runnerId=2, phase="Pending", age_s=500)
    await this.later(100)
    assert this.names == ["arc-1", "arc-2"] and this.github.asked == []
    assert this.set["metadata"]["annotations"][keys.INTEGRITY_HASH] == "f00d"
