"""What happened, in order, for the live table and for tests: bounded, with growing ids."""

from collections import deque


class EventLog:
    """Keeps the last `kept_max` events; readers ask for what came after the id they know."""

    def __init__(self, kept_max: int) -> None:
        """`kept_max`: older events are dropped; a reader is told that it missed some."""
        self._events: deque[dict[str, object]] = deque(maxlen=max(1, kept_max))
        self._last = 0

    @property
    def last_id(self) -> int:
        """The id of the newest event, 0 before the first."""
        return self._last

    def add(self, now_s: float, kind: str, **fields: object) -> None:
        """Append an event."""
        self._last += 1
        self._events.append({"id": self._last, "time_s": round(now_s, 3), "kind": kind} | fields)

    def after(self, event_id: int, limit: int = 1_000) -> tuple[list[dict[str, object]], bool]:
        """Events newer than `event_id`, oldest first, and whether some in between are gone."""
        oldest = self._last - len(self._events) + 1
        start = max(event_id + 1, oldest) - oldest
        found: list[dict[str, object]] = []
        for place in range(max(0, start), min(len(self._events), max(0, start) + limit)):
            found.append(self._events[place])
        return found, event_id + 1 < oldest and self._last > 0
