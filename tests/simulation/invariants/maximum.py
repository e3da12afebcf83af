"""Invariant 3: no runner is created beyond the maximum then known."""

from collections import defaultdict, deque
from collections.abc import Iterable

from tests.simulation.invariants.names import (
    RUNNERS,
    SCALE_SETS,
    TERMINAL,
    is_going,
    owner,
    phase,
)
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.seen import Seen
from tests.simulation.writes import Write

MAX_REMEMBERED_S = 150.0  # a lowered maximum is known to everybody after so long
UNBOUNDED = 2**31 - 1


class NoRunnerBeyondTheMaximum(Rule):
    """Those that count: neither finished nor being deleted."""

    sentence = "no runner beyond the maximum"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._maxima: dict[str, deque[tuple[float, int]]] = {}
        self._alive: dict[str, set[str]] = defaultdict(set)

    def hear(self, write: Write) -> Iterable[str]:
        """A maximum, or a runner that comes or goes."""
        now_s = self.seen.now_s()
        if write.resource == SCALE_SETS and write.after is not None:
            maxima = self._maxima.setdefault(write.name, deque())
            maxima.append((now_s, write.after["spec"].get("maxRunners", UNBOUNDED)))
            while len(maxima) > 1 and maxima[1][0] < now_s - MAX_REMEMBERED_S:
                maxima.popleft()
        if write.resource != RUNNERS:
            return
        name = str(owner(write.after or write.before).get("name", ""))
        alive = self._alive[name]
        if write.after is None or is_going(write.after) or phase(write.after) in TERMINAL:
            alive.discard(write.uid)
            return
        alive.add(write.uid)
        known = self._maxima.get(name)
        if write.before is None and known and len(alive) > max(m for _, m in known):
            yield f"{len(alive)} runners of {name}, at most {max(m for _, m in known)} were allowed"
