"""A point in time after which a piece of work is not worth finishing."""

import asyncio

import msgspec

from runnerscale.core.clock import WAIT_MIN_S, Clock


class Deadline(msgspec.Struct, frozen=True):
    """Made once at the top of a call and handed down, so that nested waits share one budget."""

    clock: Clock
    at_s: float  # on the clock's monotonic reading

    @classmethod
    def after(cls, clock: Clock, seconds: float) -> "Deadline":
        """The point `seconds` from now."""
        return cls(clock, clock.monotonic_s() + seconds)

    def left_s(self) -> float:
        """Seconds left, at least 0. Less than an event loop can wait for counts as nothing."""
        left_s = self.at_s - self.clock.monotonic_s()
        return left_s if left_s >= WAIT_MIN_S else 0.0

    @property
    def passed(self) -> bool:
        """Nothing is left."""
        return self.left_s() <= 0.0

    def limit_s(self, seconds: float) -> float:
        """`seconds`, or what is left if that is less."""
        return min(seconds, self.left_s())

    def timeout(self) -> asyncio.Timeout:
        """`async with deadline.timeout():` raises TimeoutError when the time is up."""
        return asyncio.timeout(self.left_s())


def end_now(scope: asyncio.Timeout) -> None:
    """Have the work within this entered timeout end at once, as if its time were up.

    Harmless where it is ending already, by its own time or by an earlier call: asyncio itself
    raises then.
    """
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())
