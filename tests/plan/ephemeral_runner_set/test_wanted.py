"""How many runners a set should have, and how many it has."""

from dataclasses import replace

import pytest

from runnerscale.api import labels as keys
from runnerscale.controllers.ephemeral_runner_set.snapshot import Removal
from runnerscale.controllers.ephemeral_runner_set.wanted import (
    alive,
    missing,
    shrink_to,
    surplus,
    wanted,
)
from tests.plan.ephemeral_runner_set.values import IDLE, SEEN
from tests.plan.ephemeral_runner_set.world import World

FIVE = tuple(replace(IDLE, name=f"r{n}", uid=f"u{n}") for n in range(5))


def test_limits_only_ever_lower_the_wish() -> None:
    seen = replace(SEEN, replicas=5)
    assert wanted(seen) == 5
    assert wanted(replace(seen, hold=2)) == 2
    assert wanted(replace(seen, hold=9)) == 5
    assert wanted(seen, cap=1) == 1
    assert wanted(replace(seen, hold=3), cap=4) == 3
    assert wanted(replace(seen, replicas=-1)) == 0


def test_a_numbered_patch_shrinks_nothing_and_an_exact_one_to_the_wish() -> None:
    seen = replace(SEEN, replicas=2, runners=FIVE)
    assert shrink_to(seen) is None and surplus(seen) == 0
    assert surplus(replace(seen, exact=True)) == 3


def test_a_limit_shrinks_to_itself_and_not_to_a_numbered_wish() -> None:
    seen = replace(SEEN, replicas=2, runners=FIVE, hold=4)
    assert shrink_to(seen) == 4 and surplus(seen) == 1
    assert surplus(replace(seen, hold=0)) == 5
    assert surplus(seen, cap=1) == 4


def test_what_github_has_forgotten_is_no_capacity() -> None:
    gone = replace(FIVE[0], removal=Removal.FORGOTTEN)
    seen = replace(SEEN, replicas=5, runners=(gone, *FIVE[1:]))
    assert alive(seen) == 4


def test_its_place_is_free_when_it_is_deleted_and_not_before() -> None:
    # Made side by side with the deletion there were six of five (crash sweep, one-job).
    gone = replace(FIVE[0], removal=Removal.FORGOTTEN)
    seen = replace(SEEN, replicas=5, runners=(gone, *FIVE[1:]))
    assert missing(seen) == 0
    assert missing(replace(seen, runners=FIVE[1:])) == 1


def test_held_places_and_runners_just_made_are_not_missing() -> None:
    seen = replace(SEEN, replicas=9, runners=FIVE, held=1, made=2)
    assert missing(seen) == 1
    assert missing(replace(seen, held=8)) == 0


class TestHold:
    async def test_a_hold_empties_the_set_whatever_the_listener_says(self) -> None:
        this = World()
        this.make(replicas=3, patch_id=5)
        await this.settle()
        this.register()
        busy = this.names[0]
        this.take_job(busy)
        this.change_set({"metadata": {"annotations": {keys.HOLD: "0"}}})
        await this.settle()
        assert this.names == [busy]
        this.finish(busy)
        this.sweep()
        await this.later(100)
        assert this.names == []
        this.change_set({"metadata": {"annotations": {keys.HOLD: None}}})
        await this.settle()
        assert len(this.names) == 3

    async def test_a_hold_above_the_wish_changes_nothing(self) -> None:
        this = World()
        this.make(replicas=2, patch_id=5, meta={"annotations": {keys.HOLD: "7"}})
        await this.settle()
        this.register()
        this.says(1, 6)
        await this.settle()
        assert len(this.names) == 2

    @pytest.mark.parametrize("hold", ["many", "-1", "\u00b2", "9" * 5000])
    async def test_a_hold_that_cannot_be_read_is_taken_for_the_strictest(self, hold: str) -> None:
        this = World()
        this.make(replicas=2, patch_id=5, meta={"annotations": {keys.HOLD: hold}})
        await this.settle()
        assert this.names == []
