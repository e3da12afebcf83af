"""Clocks of machines that do not agree: each part of the world has its own.

Only the wall clock is wrong, as on a real machine: it is off by a constant and runs a little too
fast or too slow. What passes (`monotonic_s`, `sleep`) is the same for all.
"""

from runnerscale.core.clock import Clock


class SkewedClock:
    """A clock that may be wrong; right until somebody skews it."""

    def __init__(self, true: Clock) -> None:
        self._true = true
        self._offset_s = 0.0
        self._drift = 0.0
        self._since_s = 0.0

    def skew(self, *, offset_s: float, drift: float) -> None:
        """From now on it is off by so much, and by `drift` seconds more each second."""
        self._offset_s, self._drift = offset_s, drift
        self._since_s = self._true.monotonic_s()

    def set_right(self) -> None:
        """It jumps to the right time, as after a look at a time server."""
        self._offset_s = self._drift = 0.0

    def now_s(self) -> float:
        """What this machine takes for the time."""
        if not self._offset_s and not self._drift:
            return self._true.now_s()
        passed_s = self._true.monotonic_s() - self._since_s
        return self._true.now_s() + self._offset_s + self._drift * passed_s

    def monotonic_s(self) -> float:
        """Right on every machine."""
        return self._true.monotonic_s()

    async def sleep(self, seconds: float) -> None:
        """Right on every machine."""
        await self._true.sleep(seconds)
