"""The loop's stalls, and who is to blame."""

import asyncio
import sys
import time

import pytest

from runnerscale.app import stall_watch
from runnerscale.app.stall_watch import Stall, StallWatch, culprit, threshold_s
from runnerscale.core.clock import SystemClock

OVER_S = 0.02
PATIENCE_S = 20.0  # of a machine that has other work, not of the test


@pytest.mark.parametrize(
    ("text", "wanted"), [("50", 0.05), ("1000", 1.0), ("0", None), ("", None), ("-5", None)]
)
def test_it_is_off_unless_a_number_asks_for_it(text: str, wanted: float | None) -> None:
    assert threshold_s({"RUNNERSCALE_STALL_MS": text}) == wanted
    assert threshold_s({}) is None


def test_who_is_told_of_is_the_innermost_function_and_the_innermost_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = sys._getframe()
    name = "test_who_is_told_of_is_the_innermost_function_and_the_innermost_of_ours"
    assert culprit(frame).startswith(f"{name} (test_stall_watch.py:")
    monkeypatch.setattr(stall_watch, "OURS", "/tests/")
    assert culprit(frame).startswith(f"{name} (unit/app/test_stall_watch.py:")
    called_by = [culprit(f) for f in _frames_of_a_sort()]
    assert any(" called by " in text for text in called_by)
    assert culprit(None) == ""


def _frames_of_a_sort() -> list[object]:
    from dataclasses import make_dataclass

    seen: list[object] = []

    class Key:
        def __repr__(self) -> str:
            seen.append(sys._getframe(1))  # the dataclass's own __repr__, which is nobody's file
            return "key"

    repr(make_dataclass("Wrapped", ["key"])(Key()))
    return seen


def _the_culprit(watch: StallWatch) -> None:
    """Keeps the loop until it is a stall and the thread has looked."""
    begin_s = time.monotonic()
    stalled_s, end_s = begin_s + 3 * OVER_S, begin_s + PATIENCE_S
    while time.monotonic() < (stalled_s if "_the_culprit" in watch._seen else end_s):
        pass


async def test_a_loop_that_stands_still_is_told_with_the_culprit() -> None:
    told: list[Stall] = []
    heard = asyncio.Event()

    def hear(stall: Stall) -> None:
        told.append(stall)
        heard.set()

    watch = StallWatch(OVER_S, clock=SystemClock(), told=hear)
    task = asyncio.get_running_loop().create_task(watch.run())
    await asyncio.sleep(0)  # it has begun
    _the_culprit(watch)
    async with asyncio.timeout(PATIENCE_S):
        await heard.wait()
    task.cancel()
    await asyncio.wait({task})
    assert "_the_culprit (" in told[0].culprit
    assert told[0].wall_s > OVER_S
    assert watch._stopped.is_set()  # its thread ends too


def test_the_garbage_collector_says_itself_what_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = StallWatch(OVER_S, clock=SystemClock())
    watch._seen = "whoever made the last object"
    times = iter([10.0, 10.3, 11.0, 11.1])
    monkeypatch.setattr(stall_watch.time, "perf_counter", lambda: next(times))
    for _ in range(2):
        watch._collects("start", {})
        watch._collects("stop", {})
    assert watch._blamed(0.5) == "the garbage collector, for 400 ms"
    assert watch._blamed(1.0) == "whoever made the last object"
