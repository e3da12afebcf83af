"""The message queue of one scale set: envelopes with growing ids, kept until deleted.

Job messages wait here one by one and are put into envelopes of at most 50 when somebody
polls (contract C2 0, 2.15 item 6, 4.5). An envelope keeps its id and content however often
it is delivered; the statistics beside it are the truth at the moment of delivery and are
added by `sessions.py`. Pure: no time, no sessions, no tokens.
"""

from collections import deque
from dataclasses import dataclass

FIRST_ID = 100_000_001  # where live ids begin (C2 Annex A)
MESSAGES_MAX = 50  # job messages in one envelope


@dataclass(slots=True)
class Envelope:
    """What a poll returns, apart from the statistics."""

    id: int
    messages: tuple[dict[str, object], ...]
    deliveries: int = 0


class MessageQueue:
    """Never loses an undeleted message, never changes an id, keeps the order."""

    def __init__(self, *, undeleted_max: int = 10_000) -> None:
        """`undeleted_max`: beyond it the oldest envelope is dropped, and counted."""
        self._undeleted_max = undeleted_max
        self._next_id = FIRST_ID
        self._pending: deque[dict[str, object]] = deque()
        self._undeleted: dict[int, Envelope] = {}  # insertion order is id order
        self._news = False
        self._replay: Envelope | None = None
        self._last: Envelope | None = None
        self.dropped = 0

    @property
    def pending(self) -> int:
        """Job messages not in an envelope yet."""
        return len(self._pending)

    @property
    def undeleted(self) -> list[int]:
        """Ids of the envelopes that nobody has deleted."""
        return list(self._undeleted)

    @property
    def last_id(self) -> int:
        """The highest id given out, or the one before the first."""
        return self._next_id - 1

    def add(self, message: dict[str, object]) -> None:
        """Put a job message at the end."""
        self._pending.append(message)

    def add_news(self) -> None:
        """The statistics changed: worth an envelope even without a job message."""
        self._news = True

    def next_after(self, cursor: int) -> Envelope | None:
        """The lowest undeleted envelope with an id above `cursor`; makes one if need be."""
        if self._replay is not None:
            envelope, self._replay = self._replay, None
        else:
            kept = next((e for e in self._undeleted.values() if e.id > cursor), None)
            made = kept or self._make()
            if made is None or made.id <= cursor:
                return None
            envelope = made
        envelope.deliveries += 1
        self._last = envelope
        return envelope

    def delete(self, message_id: int) -> bool:
        """Forget an envelope; false if there was none (deleting twice is no error)."""
        return self._undeleted.pop(message_id, None) is not None

    def repeat_last(self) -> bool:
        """Fault: the next poll gets the envelope delivered last once more, deleted or not."""
        self._replay = self._last
        return self._replay is not None

    def reverse_pending(self) -> None:
        """Fault: what waits to be put into envelopes is delivered in the wrong order."""
        self._pending.reverse()

    def _make(self) -> Envelope | None:
        if not self._pending and not self._news:
            return None
        count = min(MESSAGES_MAX, len(self._pending))
        messages = tuple(self._pending.popleft() for _ in range(count))
        self._news = False
        envelope = Envelope(self._next_id, messages)
        self._next_id += 1
        self._undeleted[envelope.id] = envelope
        if len(self._undeleted) > self._undeleted_max:
            self._undeleted.pop(next(iter(self._undeleted)))
            self.dropped += 1
        return envelope
