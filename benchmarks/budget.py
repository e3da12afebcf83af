"""How much of what was asked for fits into the time there is. Pure: the clock is handed in.

What is most important comes first and is left out last; further rounds of a case are made only
where all later cases have room for their first. How long a case takes is reckoned from earlier
runs, and corrected by how slow this machine turns out to be.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

SLOWNESS_MIN = 0.5  # one quick case does not make a quick machine
BOUND_FACTOR = 8.0  # a case that takes so much longer than reckoned hangs
BOUND_MIN_S = 240.0
CLEAN_UP_S = 15.0  # kept for ending processes, within the whole time


@dataclass(frozen=True, slots=True)
class Step:
    """One case at one size on one server."""

    case: str
    server: str
    size: int
    rounds: int  # at most; the first is enough for a row
    round_s: float  # of one round on an idle machine

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.case} {self.size} on {self.server}" if self.size else self.case


class Rounds:
    """The rounds of one case: as many as were asked for, until there is no time for one more."""

    def __init__(self, asked: int, *, ends_s: float, now: Callable[[], float]) -> None:
        """`ends_s`: on the clock `now`."""
        self.asked = asked
        self.done = 0
        self._ends_s = ends_s
        self._now = now

    def __iter__(self) -> Iterator[int]:
        longest_s = 0.0
        while self.done < self.asked:
            began_s = self._now()
            if self.done and began_s + longest_s > self._ends_s:
                return
            yield self.done
            self.done += 1
            longest_s = max(longest_s, self._now() - began_s)

    @property
    def note(self) -> str:
        """Whether some were left out."""
        if self.done >= self.asked:
            return ""
        return f"{self.done} of {self.asked} rounds: no time for more"


class Budget:
    """The time of a whole run; None: as long as it takes."""

    def __init__(self, seconds: float | None, *, now: Callable[[], float]) -> None:
        """It begins now."""
        self._now = now
        self._ends_s = None if seconds is None else now() + seconds - CLEAN_UP_S
        self._reckoned_s = 0.0
        self._took_s = 0.0

    @property
    def slowness(self) -> float:
        """How many times as long as reckoned things take here."""
        if not self._reckoned_s:
            return 1.0
        return max(SLOWNESS_MIN, self._took_s / self._reckoned_s)

    def took(self, step: Step, seconds: float, rounds: int) -> None:
        """One that has been measured."""
        self._reckoned_s += step.round_s * max(1, rounds)
        self._took_s += seconds

    def left_s(self) -> float | None:
        """Until everything has to be over."""
        return None if self._ends_s is None else self._ends_s - self._now()

    def fits(self, step: Step) -> bool:
        """Whether its first round does."""
        left_s = self.left_s()
        return left_s is None or step.round_s * self.slowness <= left_s

    def rounds(self, step: Step, later: Sequence[Step]) -> Rounds:
        """Of this step, with room for the first round of each later one."""
        left_s = self.left_s()
        if left_s is None:
            return Rounds(step.rounds, ends_s=float("inf"), now=self._now)
        free_s = left_s - self.slowness * sum(each.round_s for each in later)
        return Rounds(step.rounds, ends_s=self._now() + free_s, now=self._now)

    def bound_s(self, step: Step) -> float:
        """When it is ended from outside, whatever it does."""
        bound_s = max(BOUND_MIN_S, BOUND_FACTOR * step.round_s * step.rounds)
        left_s = self.left_s()
        return bound_s if left_s is None else max(1.0, min(bound_s, left_s))
