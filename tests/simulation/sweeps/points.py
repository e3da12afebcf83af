"""Where a history can be disturbed: every write, every call that changes GitHub, every event.

A point has a number of its own in its sort, and the same number whenever the same scenario is
played, so that one of them can be played alone. In a sweep each point splits the history: the
child is disturbed there and nowhere else.
"""

from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from tests.simulation.sweeps.forks import Forks, Verdict


class Sort(StrEnum):
    """What a point is, and what is done there."""

    BEFORE = "before"  # the writer dies before its write reaches the API server
    AFTER = "after"  # it dies when the write is stored; the answer never arrives
    GITHUB_BEFORE = "github-before"  # the same with a call that changes something at GitHub
    GITHUB_AFTER = "github-after"
    STALE = "stale"  # AFTER, and the new process sees the past for a while
    GAP = "gap"  # one watch event is lost, the stream goes on


@dataclass(frozen=True, slots=True)
class Point:
    """One place in one history."""

    sort: Sort
    number: int
    by: str = ""  # the process that is hit
    what: str = ""
    at_s: float = 0.0
    revision: int = 0  # STALE: what it is shown

    def __str__(self) -> str:
        seen = f", revision {self.revision} is seen" if self.sort is Sort.STALE else ""
        if not self.by:  # as it was asked for
            return f"{self.sort} {self.number}{seen}"
        return f"{self.sort} {self.number} at {self.at_s:.1f} s: {self.by}: {self.what}{seen}"

    def arguments(self) -> str:
        """What repeats it, after `--scenario NAME`."""
        more = f" --revision {self.revision}" if self.sort is Sort.STALE else ""
        return f"--point {self.number} --{self.sort}{more}"

    def as_json(self) -> dict[str, Any]:
        """For the pipe."""
        return asdict(self)

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> "Point":
        """The way back."""
        return cls(**{**found, "sort": Sort(found["sort"])})


@dataclass(frozen=True, slots=True)
class Share:
    """Which of the stale points are played: every `stride`-th, beginning at `offset`."""

    stride: int = 1
    offset: int = 0

    def has(self, number: int) -> bool:
        """Whether the point of that number is one of them."""
        return number % self.stride == self.offset % self.stride


@dataclass(slots=True)
class Points:
    """Counts them, and says at which of them this world is disturbed."""

    sorts: frozenset[Sort] = frozenset()  # swept, by splitting
    forks: Forks | None = None
    only: Point | None = None  # this one alone, without splitting
    share: Share = Share()  # of the stale ones
    armed: bool = False
    struck: Point | None = None
    counts: Counter[Sort] = field(default_factory=Counter)
    writes: int = 0  # requests of ours that would write, refused ones too
    numbers: set[int] = field(default_factory=set)  # of the points of the sort of `only`
    same_view: int = 0  # earlier revisions that a restarted controller could not tell apart
    calls: int = 0
    events: int = 0

    def arm(self) -> None:
        """From here on there are points; not in a world that was disturbed already."""
        self.armed = self.struck is None

    def here(self, point: Point) -> bool:
        """Whether this world is to be disturbed at this point."""
        if not self.armed:
            return False
        if self.only is not None:
            return self._is_only(point) and self._strike(point)
        self.counts[point.sort] += 1
        if self.forks is None or point.sort not in self.sorts:
            return False
        if point.sort is Sort.STALE and not self.share.has(self.counts[point.sort]):
            return False
        return self.forks.split(point) and self._strike(point)

    def perhaps_here(self, point: Point) -> "Verdict | bool":
        """As `here`, before it is known whether anything will come of the request.

        True: disturb it. A verdict wants to hear whether it was a point at all.
        """
        if not self.armed:
            return False
        if self.only is not None:
            return self._is_only(point) and self._strike(point)
        if self.forks is None or point.sort not in self.sorts:
            return False
        verdict = self.forks.split_if(point)
        return self._strike(point) if verdict is None else verdict

    def _is_only(self, point: Point) -> bool:
        assert self.only is not None
        if point.sort is self.only.sort:
            self.numbers.add(point.number)
        return (point.sort, point.number) == (self.only.sort, self.only.number)

    def _strike(self, point: Point) -> bool:
        self.armed = False
        self.struck = point
        return True
