"""Points in time at which the state has to be looked at again, in one heap.

A timer says only *when to look* at *what*; what then happens is in `settlement.py`. Timers are
never cancelled: who looks finds out that it is not yet, or no longer, time.
"""

import heapq
from enum import StrEnum


class Due(StrEnum):
    """What is looked at when a timer rings; the key beside it says which one."""

    SESSION = "session"
    ASSIGNMENT = "assignment"
    DELAYED_JOB = "delayed job"
    OFFER = "offer"
    HANDOVER = "handover"
    RUNNER = "runner"
    RUNNING_JOB = "running job"
    CANCEL = "cancel"
    FORGET = "forget"


class Timers:
    """A heap of (time, what, key)."""

    def __init__(self) -> None:
        """Empty."""
        self._heap: list[tuple[float, int, Due, str]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, due_s: float, what: Due, key: object) -> None:
        """Look at `what` with `key` when `due_s` is reached."""
        self._count += 1
        heapq.heappush(self._heap, (due_s, self._count, what, str(key)))

    def next_s(self) -> float | None:
        """When the first one rings."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_s: float) -> tuple[Due, str] | None:
        """The first one that is due, taken out; None if none is."""
        if not self._heap or self._heap[0][0] > now_s:
            return None
        _, _, what, key = heapq.heappop(self._heap)
        return what, key
