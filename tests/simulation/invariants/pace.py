"""Invariant 8: no hot loop; what is bounded, for each object and minute."""

from collections import defaultdict, deque
from collections.abc import Iterable

from tests.simulation.invariants.names import OUR_USERS, RUNNER_SETS
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.seen import Seen
from tests.simulation.writes import Write

MINUTE_S = 60.0
WRITES_A_MINUTE_MAX = 60  # of one object: a runner's whole life takes nine


class NoHotLoop(Rule):
    """No object is written without end."""

    sentence = "no hot loop"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._recent: dict[tuple[str, str, str], deque[float]] = defaultdict(deque)

    def hear(self, write: Write) -> Iterable[str]:
        """One more write of an object."""
        if not write.by.startswith(OUR_USERS) or write.resource == "events":
            return
        recent = self._recent[(write.resource, write.namespace, write.name)]
        now_s = self.seen.now_s()
        recent.append(now_s)
        while recent and recent[0] < now_s - MINUTE_S:
            recent.popleft()
        if len(recent) == WRITES_A_MINUTE_MAX and not write.resource.startswith(RUNNER_SETS):
            yield f"{write.resource} {write.name} was written {len(recent)} times within a minute"
