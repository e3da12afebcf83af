"""Waits grow, have a cap, and are not in step with others."""

import pytest

from runnerscale.core.backoff import Backoff
from runnerscale.core.clock import ManualClock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import name_suffix, seeded, uuid_text


def test_a_wait_doubles_up_to_its_cap() -> None:
    backoff = Backoff(first_s=1, cap_s=30)
    assert [backoff.delay_s(n) for n in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.delay_s(10**9) == 30
    assert backoff.delay_s(-1) == 1


def test_jitter_only_ever_shortens_a_wait() -> None:
    backoff = Backoff(first_s=8, cap_s=8, jitter=0.5)
    drawn = [backoff.delay_s(0, seeded(seed)) for seed in range(50)]
    assert all(4 <= wait <= 8 for wait in drawn)
    assert len(set(drawn)) > 40
    assert Backoff(1, 8, jitter=0).delay_s(2, seeded(1)) == 4


def test_one_seed_means_one_name() -> None:
    assert name_suffix(seeded(7)) == name_suffix(seeded(7)) != name_suffix(seeded(8))
    assert len(uuid_text(seeded(1))) == 36
    assert uuid_text(seeded(1))[14] == "4"


def test_nested_waits_share_one_budget() -> None:
    clock = ManualClock()
    deadline = Deadline.after(clock, 10)
    assert deadline.limit_s(30) == pytest.approx(10)
    clock.advance(8)
    assert deadline.left_s() == pytest.approx(2)
    assert not deadline.passed
    clock.advance(3)
    assert deadline.left_s() == 0
    assert deadline.passed


def test_the_remainder_of_a_subtraction_is_no_time_left() -> None:
    clock = ManualClock()
    deadline = Deadline.after(clock, 0.3)
    clock.advance(0.1 + 0.2 - 1e-9)
    assert deadline.left_s() == 0
