"""What can be asked of the snapshot."""

from dataclasses import replace

from runnerscale.api import labels as keys
from runnerscale.controllers.autoscaling_runner_set.snapshot import (
    Runners,
    Snapshot,
    once,
    recorded_s,
)
from tests.plan.autoscaling_runner_set.world import KEY, URL, World

OTHER = "https://github.com/other-org"


def fresh() -> Snapshot:
    found = World().reconciler.observe(KEY)
    assert found is not None
    return found


def test_an_id_is_a_number_in_plain_digits() -> None:
    seen = fresh()
    for text, number in {"7": 7, "0": 0, "-3": 0, "abc": 0, "": 0, "٧": 0, "1e3": 0}.items():
        seen.runner_set.metadata.annotations = {keys.SCALE_SET_ID: text}
        assert seen.scale_set_id == number


def test_an_id_is_good_at_the_place_that_it_was_issued_for() -> None:
    seen = fresh()
    seen.runner_set.metadata.annotations = {keys.SCALE_SET_ID: "7", keys.ISSUED_FOR: URL}
    assert (seen.is_moving, seen.registered_id) == (False, 7)
    seen.runner_set.metadata.annotations = {keys.SCALE_SET_ID: "7", keys.ISSUED_FOR: OTHER}
    assert (seen.is_moving, seen.registered_id) == (True, 0)
    assert not seen.is_leaving
    seen.runner_set.metadata.annotations |= {keys.MOVING_SINCE: "2027-01-15T08:00:00Z"}
    assert seen.is_leaving


async def test_where_nothing_is_recorded_the_set_in_use_says_the_place() -> None:
    # Written by ARC, which records no URL.
    world = World()
    await world.settle()
    world.edit_meta(annotations={keys.ISSUED_FOR: None})
    world.edit(githubConfigUrl=OTHER)
    seen = world.reconciler.observe(KEY)
    assert seen is not None
    assert seen.issued_for == URL
    assert seen.is_moving


def test_jobs_and_neighbours_are_found_by_address_and_id() -> None:
    seen = replace(
        fresh(),
        runners=Runners(busy_places=frozenset({(URL, 7)})),
        neighbours=frozenset({(OTHER, 8)}),
    )
    assert seen.is_busy(URL + "/", 7)
    assert not seen.is_busy(URL, 8)
    assert seen.is_neighbours("https://GitHub.com/Other-Org", 8)
    assert not seen.is_neighbours(URL, 7)


def test_an_id_that_no_number_can_hold_is_none() -> None:
    # Python raises for thousands of digits; one such annotation stopped every pass.
    seen = fresh()
    for text, number in {
        "9" * 5000: 0,
        "9" * 20: 0,
        str(2**63): 0,
        str(2**63 - 1): 2**63 - 1,
    }.items():
        seen.runner_set.metadata.annotations = {keys.SCALE_SET_ID: text}
        assert seen.scale_set_id == number


def test_a_time_that_a_hand_has_spoilt_is_none() -> None:
    assert recorded_s("2027-01-15T08:00:00Z") == 1_800_000_000.0
    for text in ("", "yesterday", "2027-01-15T08:00:00", "9" * 30):
        assert recorded_s(text) is None


def test_a_rule_is_asked_once_for_a_snapshot_and_again_for_a_changed_one() -> None:
    asked = []

    @once
    def rule(seen: Snapshot) -> float:
        asked.append(seen.now_s)
        return seen.now_s

    seen = fresh()
    later = replace(seen, now_s=seen.now_s + 1)
    assert rule(seen) == rule(seen) == seen.now_s
    assert rule(later) == later.now_s
    assert asked == [seen.now_s, later.now_s]
    assert replace(seen) == seen  # what was worked out is no part of it
