"""What came out: rows of figures, as JSON for those who compare; as tables by `tables.py`."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

Figures = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One case at one size on one server; figures by name, `None` where it was not measured."""

    case: str
    server: str
    figures: Figures
    floor: Figures = field(default_factory=dict)
    ratios: Figures = field(default_factory=dict)  # to the floor, medians of paired rounds
    rounds: int = 1
    note: str = ""


@dataclass(slots=True)
class Report:
    """Of one run."""

    facts: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Keep it, and say it now: a run takes minutes."""
        self.rows.append(row)
        print(line(row), flush=True)

    def fails(self, what: str) -> None:
        """A case that has no row."""
        self.failed.append(what)
        print(f"FAILED {what}", flush=True)

    def leaves_out(self, what: str) -> None:
        """A case for which there was no time."""
        self.left_out.append(what)
        print(f"left out {what}", flush=True)

    def write(self, path: Path) -> None:
        """As JSON."""
        document: dict[str, Any] = {
            "machine": self.facts,
            "rows": [asdict(r) for r in self.rows],
            "failed": self.failed,
            "left out": self.left_out,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n")


def read(path: Path) -> Report:
    """What `write` wrote."""
    document = json.loads(path.read_bytes())
    rows = msgspec.convert(document["rows"], list[Row])
    return Report(document["machine"], rows, document["failed"], document["left out"])


def line(row: Row) -> str:
    """For the terminal: the figures, and in brackets how many times the floor."""
    parts = []
    for name, value in row.figures.items():
        ratio = row.ratios.get(name)
        parts.append(f"{name} {shown(value)}" + (f" ({shown(ratio)}×)" if ratio else ""))
    return (
        f"{row.case:<18} {row.server:<15} {'  '.join(parts)}{'  ' + row.note if row.note else ''}"
    )


def shown(value: float | None) -> str:
    """Three digits, or a dash."""
    if value is None or value != value:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def median_of(rounds: Sequence[Figures]) -> Figures:
    """Figure by figure, of the rounds that have it."""
    names = dict.fromkeys(name for each in rounds for name in each)
    found: Figures = {}
    for name in names:
        known = [v for each in rounds if (v := each.get(name)) is not None and v == v]
        found[name] = statistics.median(known) if known else None
    return found


def ratios_of(ours: Sequence[Figures], others: Sequence[Figures]) -> Figures:
    """How many times the other's each figure is: the median over rounds that were made in pairs.

    A machine that gets slower meanwhile does it to both of a pair.
    """
    pairs: list[Figures] = []
    for mine, other in zip(ours, others, strict=False):
        pair: Figures = {}
        for name, value in mine.items():
            least = other.get(name)
            if value is not None and value == value and least:
                pair[name] = value / least
        pairs.append(pair)
    return median_of(pairs)
