"""How much GitHub gets from us at once, and when it has asked us to be quiet.

Kept apart from the client because it is shared between clients: the concurrency of a host
by all of them, a rate limit by those who come with the same credential (weaknesses W3, W7).
When an answer asks for a pause is decided in `retry.py`.
"""

from runnerscale.core.bounded import Gate
from runnerscale.core.clock import Clock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import Random

FRESH_DEMAND = 0  # urgency of JIT configs, sessions, acquires: before ...
CLEAN_UP = 10  # ... removals and look-ups that nobody waits for

CONCURRENCY_PER_HOST = 64
PAUSE_MAX_S = 60.0  # GitHub may ask for an hour; then we look again every minute
SPREAD_S = 1.0  # those who waited for the end of a pause do not all come in one instant
ENTRIES_MAX = 4096  # hosts and credentials ever seen; ended pauses are dropped beyond


class Pause:
    """Until when a host does not want to hear from a credential."""

    def __init__(self, clock: Clock) -> None:
        """No pause yet."""
        self._clock = clock
        self._until_s = clock.monotonic_s()

    def extend(self, seconds: float) -> None:
        """Nobody goes before `seconds` from now (60 at most)."""
        self._until_s = max(
            self._until_s, self._clock.monotonic_s() + min(max(seconds, 0.0), PAUSE_MAX_S)
        )

    def left_s(self) -> float:
        """Seconds until calls may go again, 0 when they may."""
        return max(0.0, self._until_s - self._clock.monotonic_s())

    async def passed(self, deadline: Deadline, source: Random, *, spread_s: float) -> bool:
        """Wait for the end. False, at once, if the deadline comes first."""
        while (left_s := self.left_s()) > 0.0:
            wait_s = left_s + spread_s * source.random()
            if wait_s > deadline.left_s():
                return False
            await self._clock.sleep(wait_s)  # and look again: it may have been extended
        return True


class HostLimits:
    """The gates by host and the pauses by host and credential of one process."""

    def __init__(self, clock: Clock, *, concurrency_per_host: int = CONCURRENCY_PER_HOST) -> None:
        """`concurrency_per_host`: calls at once; long polls are not counted."""
        self._clock = clock
        self._concurrency_per_host = concurrency_per_host
        self._gates: dict[str, Gate] = {}
        self._pauses: dict[tuple[str, str], Pause] = {}

    def gate(self, host: str) -> Gate:
        """The place where calls to `host` queue."""
        gate = self._gates.get(host)
        if gate is None:
            self._forget_idle_gates()
            gate = self._gates[host] = Gate(self._concurrency_per_host)
        return gate

    def pause(self, host: str, credential: str) -> Pause:
        """The pause of a credential (its fingerprint) at a host."""
        pause = self._pauses.get((host, credential))
        if pause is None:
            self._forget_ended_pauses()
            pause = self._pauses[host, credential] = Pause(self._clock)
        return pause

    def _forget_idle_gates(self) -> None:
        if len(self._gates) >= ENTRIES_MAX:
            busy = {k: gate for k, gate in self._gates.items() if gate.inside or gate.waiting}
            self._gates = busy

    def _forget_ended_pauses(self) -> None:
        if len(self._pauses) >= ENTRIES_MAX:
            self._pauses = {k: pause for k, pause in self._pauses.items() if pause.left_s() > 0.0}
