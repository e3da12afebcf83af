"""One scenario, disturbed at all its points: what was played and what did not hold."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation.sweeps import history
from tests.simulation.sweeps.forks import Told, apart
from tests.simulation.sweeps.points import Point, Points, Share, Sort
from tests.simulation.sweeps.scenarios import Canonical

Json = dict[str, Any]
TOLD_MAX = 4  # of what is wrong with one point
TEXT_MAX = 240
# A lost event is found by the comparison of each minute (`kube/consistency.py`); what follows has
# its own time: a level pass, an empty poll of 50 s, a finished runner's place of 75 s.
FOUND_WITHIN_S = 180.0


class Unsound(Exception):
    """The undisturbed history itself does not hold: nothing can be compared with it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a disturbed history ended."""

    point: Point
    wrong: tuple[str, ...]
    late_s: float = 0.0  # at rest so much later than the undisturbed history
    trace: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether anything did not hold."""
        return bool(self.wrong)

    def __str__(self) -> str:
        if not self.wrong:
            return f"{self.point}: all held, at rest {self.late_s:.0f} s later than undisturbed"
        told = "; ".join(each[:TEXT_MAX] for each in self.wrong[:TOLD_MAX])
        more = len(self.wrong) - TOLD_MAX
        return f"{self.point}: {told}" + (f"; and {more} more" if more > 0 else "")


@dataclass(slots=True)
class Swept:
    """The sweep of one scenario."""

    name: str
    counts: Counter[Sort] = field(default_factory=Counter)  # points there are
    played: Counter[Sort] = field(default_factory=Counter)
    same_view: int = 0  # pairs of a crash and a revision that shows the controller nothing new
    failed: list[Ending] = field(default_factory=list)
    cpu_s: float = 0.0
    latest_s: float = 0.0  # virtual: the rest that came latest, after the undisturbed one
    latest: str = ""  # and of which point

    def repeat(self, ending: Ending) -> str:
        """The command that plays that point alone."""
        where = f"--scenario {self.name} {ending.point.arguments()}"
        return f'make sweeps ARGS="{where}"'

    @classmethod
    def total(cls, rows: Sequence["Swept"]) -> "Swept":
        """The last line of the table."""
        found = cls("all")
        for row in rows:
            found.counts.update(row.counts)
            found.played.update(row.played)
            found.same_view += row.same_view
            found.failed += row.failed
            found.cpu_s += row.cpu_s
            found.latest_s = max(found.latest_s, row.latest_s)
        return found


def sweep(
    canonical: Canonical,
    sorts: frozenset[Sort],
    base: Path,
    *,
    share: Share,
    alive: int,
    say: Callable[[str], None] = lambda _text: None,
) -> Swept:
    """Every point of these sorts; of the stale ones a share. `say` hears of failures.

    Raises:
        Unsound: the undisturbed history does not hold.
    """
    reference = _reference(canonical, base)
    points = Points(sorts=sorts, share=share)
    swept = Swept(canonical.name)

    def heard(told: Told) -> None:
        ending = _ending(told.label, told.report, reference)
        if ending.failed:
            say(f"  FAILED {ending}\n    repeat: {swept.repeat(ending)}")

    found = apart(
        lambda: history.split(canonical, points, base, reference["end"], alive=alive, heard=heard)
    )
    swept.counts.update({Sort(sort): count for sort, count in found["counts"].items()})
    swept.same_view = found["same_view"]
    swept.cpu_s = found["children_cpu_s"]
    for told in found["told"]:
        ending = _ending(Point.of_json(told["label"]), told["report"], reference)
        swept.played[ending.point.sort] += 1
        if ending.late_s > swept.latest_s:
            swept.latest_s, swept.latest = ending.late_s, str(ending.point)
        if ending.failed:
            swept.failed.append(ending)
    return swept


def play_one(canonical: Canonical, point: Point, base: Path) -> Ending:
    """One point alone, with its trace."""
    reference = _reference(canonical, base)
    points = Points(only=point)
    found = apart(lambda: history.alone(canonical, points, base, reference["end"]))
    if found["point"] is None:
        there_are = ", ".join(map(str, found["numbers"])) or "none of this sort"
        why = f"scenario {canonical.name} has no such point; there are: {there_are}"
        return Ending(point, (why,), trace=_trace(found))
    there = Point.of_json({**found["point"], "revision": point.revision})
    return _ending(there, found, reference)


def _reference(canonical: Canonical, base: Path) -> Json:
    reference = apart(lambda: history.undisturbed(canonical, base))
    wrong = [*reference["breaches"], *reference["missing"]]
    if wrong:
        raise Unsound(f"{canonical.name}, undisturbed: {'; '.join(wrong)}")
    return reference


def _ending(point: Point, report: Json | None, reference: Json) -> Ending:
    if report is None:
        return Ending(point, ("its history did not end in its time, or broke off",))
    wrong = [*report["breaches"], *report["missing"], *report["unlike"]]
    late_s = report["virtual_s"] - reference["virtual_s"]
    if point.sort is Sort.GAP and late_s > FOUND_WITHIN_S:
        wrong.append(f"found after {late_s:.0f} s only, at most {FOUND_WITHIN_S:.0f} s are allowed")
    return Ending(point, tuple(wrong), late_s, _trace(report))


def _trace(report: Json) -> tuple[str, ...]:
    return tuple(report["trace"])
