"""What this process remembers of its runners between passes; bounded, and only a hint.

Forgetting an entry costs at most a registration, never a job: see `snapshot.py`. Kept here
because two parts write it: the pass, and the caches' handlers that see a pod come and go
between two passes.
"""

from runnerscale.controllers.ephemeral_runner.snapshot import Hand
from runnerscale.core.clock import shifted

RUNNERS_MAX = 20_000  # the oldest are forgotten past it
UNTOUCHED = Hand()


class Memory:
    """Hands by the runner's uid."""

    def __init__(self, *, runners_max: int = RUNNERS_MAX) -> None:
        """`runners_max`: how many are remembered at most."""
        self._runners_max = runners_max
        self._hands: dict[str, Hand] = {}

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._hands)

    def of(self, uid: str) -> Hand:
        """What is remembered; an empty hand if nothing is."""
        return self._hands.get(uid, UNTOUCHED)

    def keep(self, uid: str, hand: Hand) -> None:
        """Remember, and move to the end of the row of those to be forgotten."""
        self._hands.pop(uid, None)
        if hand == UNTOUCHED:
            return
        self._hands[uid] = hand
        if len(self._hands) > self._runners_max:
            del self._hands[next(iter(self._hands))]

    def clock_jumped(self, by_s: float) -> None:
        """The wall clock was set: what was so long ago still is."""
        self._hands = {uid: shifted(hand, by_s) for uid, hand in self._hands.items()}

    def forget(self, uid: str) -> None:
        """The runner is gone."""
        self._hands.pop(uid, None)
