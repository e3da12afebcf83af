"""How answers come back into the snapshot."""

from dataclasses import replace

from runnerscale.api import labels as keys
from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.autoscaling_runner_set.learning import learn
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    CreateListener,
    CreateScaleSet,
    DeleteListener,
    DeleteScaleSet,
    DeleteSet,
    FindGroup,
    FindScaleSet,
    GetScaleSet,
    Look,
    PatchSelf,
    Snapshot,
    UpdateScaleSet,
)
from runnerscale.scaleset.model import RunnerGroup, RunnerScaleSet
from tests.plan.autoscaling_runner_set.world import KEY, World

STORED = RunnerScaleSet(7, "linux", 1, "Default", ("linux",), True)
REFUSAL = trouble(Reason.GITHUB_UNAVAILABLE, about="x", happened="no answer")


def fresh() -> Snapshot:
    found = World().reconciler.observe(KEY)
    assert found is not None
    return found


def test_a_failure_ends_the_questions_of_this_pass_and_pauses_the_next() -> None:
    seen = fresh()
    assert seen.wish.place is not None
    failed = learn(seen, [(FindGroup(seen.wish.place, "g"), REFUSAL)])
    assert failed.github.trouble is REFUSAL
    assert not failed.may_ask_github
    later = replace(failed, github=type(failed.github)(), now_s=failed.now_s + 1.9)
    assert not later.may_ask_github
    assert replace(later, now_s=failed.now_s + 2).may_ask_github
    # A changed object is tried at once.
    changed = replace(later, known=replace(later.known, failed_generation=0))
    assert changed.may_ask_github


def test_any_good_answer_ends_the_row_of_failures() -> None:
    seen = fresh()
    assert seen.wish.place is not None
    ask = FindGroup(seen.wish.place, "g")
    healed = learn(seen, [(ask, REFUSAL), (ask, RunnerGroup(2, "g"))])
    assert healed.known.failures == 0
    assert healed.known.trouble is None


def test_credentials_have_worked_once_a_call_with_them_has_succeeded() -> None:
    seen = fresh()
    place = seen.wish.place
    assert place is not None
    assert not seen.credentials_work
    assert learn(seen, [(FindScaleSet(place, "linux", 1), Look.ABSENT)]).credentials_work
    assert learn(seen, [(GetScaleSet(place, 7), STORED)]).credentials_work
    other = replace(place, secret_name="other")
    assert not learn(seen, [(GetScaleSet(other, 7), STORED)]).credentials_work


def test_an_id_that_github_denies_is_no_registration() -> None:
    seen = fresh()
    seen.runner_set.metadata.annotations = {keys.SCALE_SET_ID: "7"}
    place = seen.wish.place
    assert place is not None
    assert seen.registered_id == 7
    assert learn(seen, [(GetScaleSet(place, 7), Look.ABSENT)]).registered_id == 0
    assert learn(seen, [(UpdateScaleSet(place, 7, name="x"), Look.ABSENT)]).registered_id == 0


def test_what_was_created_is_also_what_is_found() -> None:
    seen = fresh()
    assert seen.wish.place is not None
    made = learn(seen, [(CreateScaleSet(seen.wish.place, "linux", 1, ("linux",)), STORED)])
    assert made.github.by_name is STORED
    assert made.github.settings_told
    assert made.known.scale_set is STORED


def test_deleted_scale_sets_are_told_apart_from_refusals() -> None:
    seen = fresh()
    assert seen.wish.place is not None
    place = seen.wish.place
    assert learn(seen, [(DeleteScaleSet(place, 7), None)]).github.deleted == {(place.config_url, 7)}
    assert learn(seen, [(DeleteScaleSet(place, 7), REFUSAL)]).github.trouble is REFUSAL
    left = learn(seen, [(DeleteScaleSet(place, 7, left_behind=True), REFUSAL)])
    assert left.github.trouble is None
    assert left.github.left_troubles == {(place.config_url, 7): REFUSAL}


async def test_children_come_and_go() -> None:
    world = World()
    await world.settle()
    seen = world.reconciler.observe(KEY)
    assert seen is not None
    (listener,), (ers,) = seen.listeners, seen.sets
    gone = learn(seen, [(DeleteListener(listener.metadata.name or "", "u"), None)])
    assert gone.listeners == ()
    assert learn(gone, [(CreateListener({}), listener)]).listeners == (listener,)
    assert learn(seen, [(DeleteSet(ers.metadata.name or "", "u"), None)]).sets == ()


def test_an_object_that_is_gone_is_held_by_nothing() -> None:
    seen = learn(fresh(), [(PatchSelf({}), None)])
    assert seen.meta.deletion_timestamp
    assert not seen.meta.finalizers
    assert not seen.meta.uid
