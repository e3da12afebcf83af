"""How soon the next runner may be made, after some have failed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner_set.failure_policy import (
    EVIDENCE_MAX,
    EVIDENCE_TTL_S,
    STORM_FREE_MIN,
    STORM_PAUSE_S,
    Verdict,
    judge,
    outdated,
)
from runnerscale.controllers.ephemeral_runner_set.snapshot import Retired, Snapshot, Unlisted
from tests.plan.ephemeral_runner_set.values import FAILED, IDLE, NOW, SEEN

WISH = replace(SEEN, replicas=10)
PROVEN = replace(IDLE, name="works", uid="w1", proven=True, created_s=NOW - 1000)
REFUSED = replace(FAILED, name="old", phase="Outdated", reason="Outdated", message="")
HOPELESS = replace(FAILED, reason="InvalidPod", message="no container")


def failures(number: int, like: Retired = FAILED) -> tuple[Retired, ...]:
    """The newest first, a second apart."""
    return tuple(
        replace(like, name=f"f{n}", uid=f"f{n}", since_s=like.since_s - n) for n in range(number)
    )


def seen_with(*retired: Retired, at_s: float = NOW, **more: object) -> Snapshot:
    return replace(WISH, now_s=at_s, retired=retired, **more)  # type: ignore[arg-type]


def test_without_evidence_everything_may_be_made() -> None:
    assert judge(WISH) == Verdict()


@pytest.mark.parametrize("reason", ["PodLost", "Evicted", "NodeLost", "PodRefusedByNode"])
def test_a_disturbance_from_outside_costs_nothing_and_stays_as_evidence(reason: str) -> None:
    verdict = judge(seen_with(replace(FAILED, reason=reason)))
    assert verdict == Verdict(keep=frozenset({"f1"}))


def test_a_failure_after_a_job_costs_nothing() -> None:
    assert judge(seen_with(replace(FAILED, had_job=True))) == Verdict(keep=frozenset({"f1"}))


def test_a_failure_of_another_spec_costs_nothing() -> None:
    assert judge(seen_with(replace(FAILED, current=False))) == Verdict(keep=frozenset({"f1"}))
    old = replace(HOPELESS, current=False)
    assert judge(seen_with(old)) == Verdict(keep=frozenset({"f1"}))


@pytest.mark.parametrize(("number", "pause_s"), [(1, 5), (2, 10), (3, 20), (4, 40), (5, 80)])
def test_where_nothing_works_it_is_one_at_a_time_with_growing_pauses(
    number: int, pause_s: float
) -> None:
    bad = failures(number, replace(FAILED, since_s=NOW))
    waits = judge(seen_with(*bad))
    assert (waits.at_once, waits.again_s) == (0, pause_s)
    assert waits.trouble is not None and waits.trouble.reason is Reason.CREATION_PAUSED
    assert "exit code 1" in waits.trouble.happened
    due = judge(seen_with(*bad, at_s=NOW + pause_s))
    assert (due.at_once, due.again_s) == (1, None)


def test_the_half_open_breaker_waits_for_its_one_runner() -> None:
    probe = replace(IDLE, created_s=NOW + 6)
    verdict = judge(seen_with(replace(FAILED, since_s=NOW), at_s=NOW + 60, runners=(probe,)))
    assert verdict.at_once == 0
    sibling = replace(IDLE, created_s=NOW - 3)  # of the same burst: says nothing yet
    verdict = judge(seen_with(replace(FAILED, since_s=NOW), at_s=NOW + 60, runners=(sibling,)))
    assert verdict.at_once == 1


def test_where_others_work_only_the_failed_places_wait() -> None:
    verdict = judge(seen_with(*failures(2), runners=(PROVEN,)))
    assert (verdict.at_once, verdict.reserve, verdict.again_s) == (None, 2, 9)
    later = judge(seen_with(*failures(2), at_s=NOW + 9, runners=(PROVEN,)))
    assert (later.at_once, later.reserve, later.trouble) == (None, 0, None)


def test_evidence_is_kept_ten_minutes_and_at_most_five() -> None:
    many = failures(EVIDENCE_MAX + 3)
    assert judge(seen_with(*many)).keep == {r.uid for r in many[:EVIDENCE_MAX]}
    old = replace(FAILED, since_s=NOW - EVIDENCE_TTL_S)
    assert judge(seen_with(old)) == Verdict()


def test_legacy_succeeded_ones_are_no_evidence() -> None:
    assert judge(seen_with(replace(FAILED, phase="Succeeded"))) == Verdict()


@pytest.mark.parametrize(("number", "pause_s"), [(1, 60), (2, 120), (3, 240), (4, 480), (5, 600)])
def test_what_can_never_work_is_probed_slowly(number: int, pause_s: float) -> None:
    bad = failures(number, replace(HOPELESS, since_s=NOW))
    waits = judge(seen_with(*bad))
    assert (waits.at_once, waits.again_s, waits.cap) == (0, pause_s, None)
    assert waits.trouble is not None and waits.trouble.reason is Reason.INVALID_POD
    due = judge(seen_with(*bad, at_s=NOW + pause_s))
    assert due.at_once == 1


def test_the_evidence_of_a_block_outlives_its_time() -> None:
    bad = failures(7, replace(HOPELESS, since_s=NOW - 5000))
    assert judge(seen_with(*bad)).keep == {r.uid for r in bad[:EVIDENCE_MAX]}


def test_beside_the_evidence_of_a_block_there_is_room_for_other() -> None:
    other = replace(FAILED, uid="x", had_job=True)
    assert judge(seen_with(HOPELESS, other)).keep == {"f1", "x"}


def test_a_block_ends_when_a_later_runner_works() -> None:
    works = replace(PROVEN, created_s=NOW)
    verdict = judge(seen_with(HOPELESS, runners=(works,)))
    assert not verdict.blocks and verdict.cap is None
    earlier = replace(PROVEN, created_s=NOW - 500)
    assert judge(seen_with(HOPELESS, runners=(earlier,))).blocks


def test_a_hopeless_reason_after_a_job_is_no_block() -> None:
    assert judge(seen_with(replace(HOPELESS, had_job=True))) == Verdict(keep=frozenset({"f1"}))


def test_a_refused_version_leaves_only_busy_runners_and_the_probe() -> None:
    busy = replace(IDLE, uid="b", has_job=True)
    idle = replace(IDLE, uid="i")
    verdict = judge(seen_with(REFUSED, runners=(busy, idle)))
    assert (verdict.at_once, verdict.cap) == (0, 1)
    due = judge(seen_with(REFUSED, at_s=NOW + 60, runners=(busy,)))
    assert (due.at_once, due.cap) == (1, 2)
    probe = replace(IDLE, uid="p", created_s=NOW + 61)
    probing = judge(seen_with(REFUSED, at_s=NOW + 70, runners=(busy, probe)))
    assert (probing.at_once, probing.cap) == (0, 2)
    assert verdict.trouble is not None and verdict.trouble.reason is Reason.OUTDATED


def test_which_runner_shows_that_the_version_is_refused() -> None:
    assert outdated(WISH) is None
    assert outdated(seen_with(FAILED)) is None
    assert outdated(seen_with(REFUSED)) == REFUSED
    assert outdated(seen_with(replace(REFUSED, current=False))) is None
    works = replace(PROVEN, created_s=NOW)
    assert outdated(seen_with(REFUSED, runners=(works,))) is None


def test_an_unknown_reason_is_treated_as_a_failure() -> None:
    verdict = judge(seen_with(replace(FAILED, reason="TooManyPodFailures", message="")))
    assert verdict.at_once == 0 and verdict.trouble is not None
    assert "RunnerFailed" in verdict.trouble.happened


class TestStorm:
    def lost(self, number: int, last_s: float = NOW) -> tuple[float, ...]:
        return tuple(last_s - n * 0.1 for n in range(number))

    def test_some_disturbances_are_free(self) -> None:
        assert judge(replace(SEEN, disturbed_s=self.lost(STORM_FREE_MIN))) == Verdict()
        assert judge(replace(WISH, disturbed_s=self.lost(20))) == Verdict()

    def test_a_storm_pauses_creation_and_then_tries_one(self) -> None:
        storm = replace(WISH, disturbed_s=self.lost(21))
        verdict = judge(storm)
        assert (verdict.at_once, verdict.again_s) == (0, STORM_PAUSE_S)
        assert verdict.trouble is not None and "lost from outside" in verdict.trouble.happened
        later = replace(storm, now_s=NOW + STORM_PAUSE_S)
        assert judge(later).at_once == 1
        probe = replace(IDLE, created_s=NOW + STORM_PAUSE_S)
        assert judge(replace(later, runners=(probe,))).at_once == 0
        assert judge(replace(later, runners=(replace(probe, proven=True),))).at_once == 1

    def test_old_disturbances_are_forgotten(self) -> None:
        assert judge(replace(WISH, disturbed_s=self.lost(50, NOW - 301))) == Verdict()


def test_runners_known_as_numbers_say_the_same_as_one_by_one() -> None:
    works = Unlisted(alive=1, works_s=NOW - 900, newest_s=NOW - 900)
    verdict = judge(seen_with(*failures(2), unlisted=works))
    assert (verdict.at_once, verdict.reserve) == (None, 2)
    probe = Unlisted(alive=1, newest_s=NOW + 6)
    bad = replace(FAILED, since_s=NOW)
    assert judge(seen_with(bad, at_s=NOW + 60, unlisted=probe)).at_once == 0
    proven = Unlisted(alive=1, works_s=NOW, newest_s=NOW)
    assert not judge(seen_with(HOPELESS, unlisted=proven)).blocks
    assert judge(seen_with(REFUSED, unlisted=Unlisted(alive=3, busy=2))).cap == 2


EVIDENCE = st.builds(
    Retired,
    name=st.text("ab", min_size=1, max_size=2),
    uid=st.uuids().map(str),
    phase=st.sampled_from(["Failed", "Outdated", "Succeeded"]),
    reason=st.sampled_from(["RunnerFailed", "InvalidPod", "Evicted", "", "?"]),
    since_s=st.floats(NOW - 2000, NOW),
    had_job=st.booleans(),
    current=st.booleans(),
)


@given(st.lists(EVIDENCE, max_size=12), st.floats(0, 3000))
def test_evidence_stays_bounded_and_a_pause_always_has_an_end(
    retired: list[Retired], passed_s: float
) -> None:
    verdict = judge(seen_with(*retired, at_s=NOW + passed_s))
    assert len(verdict.keep) <= EVIDENCE_MAX
    assert verdict.keep <= {r.uid for r in retired}
    if verdict.blocks:  # nobody lives here, so only time can unblock
        assert verdict.again_s is not None and 0 < verdict.again_s <= 600
        assert verdict.trouble is not None
