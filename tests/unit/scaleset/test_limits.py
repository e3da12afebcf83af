from runnerscale.core.clock import ManualClock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import seeded
from runnerscale.scaleset import limits as rules
from runnerscale.scaleset.limits import HostLimits, Pause


async def test_a_pause_is_never_longer_than_a_minute_and_never_shortened() -> None:
    clock = ManualClock()
    pause = Pause(clock)
    assert pause.left_s() == 0.0
    pause.extend(3600)
    assert pause.left_s() == 60.0
    pause.extend(1)
    pause.extend(-5)
    assert pause.left_s() == 60.0
    assert not await pause.passed(Deadline.after(clock, 59), seeded(1), spread_s=0.0)
    assert await pause.passed(Deadline.after(clock, 61), seeded(1), spread_s=0.0)
    assert clock.slept_s == [60.0]


async def test_those_who_waited_come_apart_and_look_again() -> None:
    clock = ManualClock()
    pause = Pause(clock)
    pause.extend(10)

    class Extending(ManualClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if len(self.slept_s) == 1:
                pause.extend(5)

    clock = Extending()
    pause = Pause(clock)
    pause.extend(10)
    assert await pause.passed(Deadline.after(clock, 60), seeded(1), spread_s=1.0)
    first, second = clock.slept_s
    assert 10.0 < first < 11.0
    assert 5.0 < second < 6.0


def test_one_gate_a_host_and_one_pause_a_host_and_credential() -> None:
    limits = HostLimits(ManualClock())
    assert limits.gate("a") is limits.gate("a")
    assert limits.gate("a") is not limits.gate("b")
    assert limits.pause("a", "x") is limits.pause("a", "x")
    assert limits.pause("a", "x") is not limits.pause("a", "y")


async def test_what_is_remembered_is_bounded() -> None:
    limits = HostLimits(ManualClock())
    held = limits.gate("held")
    paused = limits.pause("h", "paused")
    paused.extend(30)
    async with held.enter():
        for number in range(rules.ENTRIES_MAX + 10):
            limits.gate(f"h{number}")
            limits.pause("h", str(number))
        assert limits.gate("held") is held
        assert limits.pause("h", "paused") is paused
    assert len(limits._gates) <= rules.ENTRIES_MAX + 1
    assert len(limits._pauses) <= rules.ENTRIES_MAX + 1
