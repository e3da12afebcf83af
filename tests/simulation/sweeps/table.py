"""The table that a sweep prints: how many points of each sort there are, and how many held.

A row a scenario, printed as soon as it is swept, and a line for all of them. Of the stale points
only a share is played as a rule: that cell says of how many, and the last line what share it is.
"""

from collections.abc import Collection, Sequence

from tests.simulation.sweeps.points import Sort
from tests.simulation.sweeps.sweep import Swept

NAME_WIDTH, WIDTH = 20, 14
STALE_WIDTH = 22
UNASKED = "-"


def head() -> str:
    """What the columns are."""
    sorts = [_cell(sort, str(sort)) for sort in Sort]
    return f"{'scenario':<{NAME_WIDTH}}" + "".join(sorts) + _end(("CPU s", "latest s"))


def row(swept: Swept, sorts: Collection[Sort]) -> str:
    """Points that held of those that were played, by sort."""
    cells = [_cell(sort, _count(swept, sort) if sort in sorts else UNASKED) for sort in Sort]
    ends = (f"{swept.cpu_s:.0f}", f"{swept.latest_s:.0f}")
    return f"{swept.name:<{NAME_WIDTH}}" + "".join(cells) + _end(ends)


def last_words(rows: Sequence[Swept], sorts: Collection[Sort]) -> str:
    """How many points in all, and what was left out."""
    total = Swept.total(rows)
    played, failed = total.played.total(), len(total.failed)
    found = f"{len(rows)} scenarios, {played} points: {played - failed} held, {failed} failed"
    if Sort.STALE in sorts:
        there = total.counts[Sort.STALE]
        found += (
            f"; stale: {total.played[Sort.STALE]} of {there} points"
            f" (and {total.same_view} that show the controller nothing new)"
        )
    return found


def _count(swept: Swept, sort: Sort) -> str:
    failed = sum(ending.point.sort is sort for ending in swept.failed)
    played, there = swept.played[sort], swept.counts[sort]
    left_out = f" of {there}" if played != there else ""
    return f"{played - failed}/{played}{left_out}"


def _cell(sort: Sort, text: str) -> str:
    return f"{text:>{STALE_WIDTH if sort is Sort.STALE else WIDTH}}"


def _end(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>10}" for cell in cells)
