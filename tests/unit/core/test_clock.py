"""Times travel as RFC 3339 text; waits go through the clock that was handed in."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.core.clock import (
    JUMP_MIN_S,
    FollowingClock,
    LoopClock,
    ManualClock,
    SystemClock,
    format_micro_time,
    format_time,
    parse_time,
    shifted,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-01-02T03:04:05Z", 1767323045.0),
        ("2026-01-02T03:04:05.1234567Z", 1767323045.123456),  # .NET's seven digits
        ("2026-01-02T03:04:05.5+01:00", 1767319445.5),
    ],
)
def test_a_time_with_an_offset_is_read(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("text", ["", "soon", "2026-01-02T03:04:05", "2026-13-01T00:00:00Z"])
def test_a_time_without_an_offset_or_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


def test_times_are_written_as_kubernetes_writes_them() -> None:
    assert format_time(1767323045.9) == "2026-01-02T03:04:05Z"
    assert format_micro_time(1767323045.25) == "2026-01-02T03:04:05.250000Z"
    assert format_micro_time(1767323045.0) == "2026-01-02T03:04:05.000000Z"
    zero = "0001-01-01T00:00:00Z"  # Go's zero time, as some clients write it
    assert format_time(parse_time(zero)) == zero


def test_a_manual_clock_moves_only_when_told_or_slept() -> None:
    clock = ManualClock(now_s=100.0)
    clock.advance(5)
    asyncio.run(clock.sleep(2))
    assert (clock.now_s(), clock.monotonic_s(), clock.slept_s) == (107.0, 7.0, [2])


def test_on_a_virtual_loop_hours_pass_at_once(run_virtual: Callable[[Any], Any]) -> None:
    async def hours() -> tuple[float, float]:
        clock = LoopClock(epoch_s=1000.0)
        before_s = SystemClock().monotonic_s()
        await clock.sleep(7200)
        return clock.now_s() - 1000.0, SystemClock().monotonic_s() - before_s

    assert run_virtual(hours()) == (7200.0, 7200.0)


class SetClock(ManualClock):
    """A clock whose wall time somebody sets."""

    ahead_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.ahead_s


def test_a_wall_clock_that_was_set_is_noticed_once_and_one_that_drifts_is_not() -> None:
    clock, heard = SetClock(), list[float]()
    following = FollowingClock(clock, jumped=heard.append)
    clock.advance(1000.0)
    assert following.now_s() == clock.now_s() and heard == []
    clock.ahead_s = JUMP_MIN_S - 0.5
    assert following.now_s() == clock.now_s() and heard == []
    clock.ahead_s = 4000.0
    assert following.now_s() == clock.now_s() and heard == [pytest.approx(4000.0)]
    assert following.now_s() == clock.now_s() and len(heard) == 1
    clock.ahead_s = 0.0
    assert following.now_s() == clock.now_s()
    assert heard == [pytest.approx(4000.0), pytest.approx(-4000.0)]


def test_who_asks_for_the_time_has_heard_of_a_jump_before() -> None:
    clock, heard = SetClock(), list[float]()
    following = FollowingClock(clock, jumped=heard.append)
    clock.ahead_s = 4000.0
    assert following.monotonic_s() == clock.monotonic_s() and heard == []
    assert following.now_s() == clock.now_s()
    assert heard == [pytest.approx(4000.0)]


@dataclass(frozen=True)
class Inner:
    at_s: float | None
    tries: int = 3


@dataclass(frozen=True)
class Outer:
    inner: Inner
    rows: tuple[tuple[str, float], ...]
    table: dict[str, Inner]
    last: deque[float]
    never_s: float = float("-inf")


def test_all_instants_of_a_record_are_moved_and_nothing_else() -> None:
    before = Outer(Inner(10.0), (("a", 1.0),), {"k": Inner(None)}, deque([2.0], maxlen=4))
    after = shifted(before, -5.0)
    assert after == Outer(Inner(5.0), (("a", -4.0),), {"k": Inner(None)}, deque([-3.0]))
    assert after.last.maxlen == 4
    same = Inner(None)
    assert shifted(same, 7.0) is same


class Quick(msgspec.Struct, frozen=True):
    inner: Inner
    at_s: float | None = None


class Message(msgspec.Struct):
    seconds: float


def test_the_instants_of_a_frozen_struct_are_moved_and_what_came_by_wire_is_left() -> None:
    assert shifted(Quick(Inner(10.0), 3.0), -5.0) == Quick(Inner(5.0), -2.0)
    same, message = Quick(Inner(None)), Message(3.0)
    assert shifted(same, 7.0) is same
    assert shifted(message, 7.0) is message


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59-00:01", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"]
)
def test_every_time_that_is_read_can_be_written_again(text: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        parse_time(text)
    for edge in ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"):
        assert format_time(parse_time(edge))[-15:] == edge[-15:]


@given(st.floats(-62_135_596_800, 253_402_300_000) | st.integers(0, 2_000_000_000).map(float))
def test_times_are_rounded_and_written_as_datetime_does(seconds: float) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    for write, spec in ((format_time, "seconds"), (format_micro_time, "microseconds")):
        assert write(seconds) == moment.isoformat(timespec=spec).removesuffix("+00:00") + "Z"
    assert parse_time(format_micro_time(seconds)) == parse_time(moment.isoformat())
