"""What came out: rows of figures, as a table for people and as JSON for those who compare."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One case at one size on one server; figures by name, `None` where it was not measured."""

    case: str
    server: str
    figures: dict[str, float | None]
    note: str = ""


@dataclass(slots=True)
class Report:
    """Of one run."""

    facts: dict[str, str]
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Keep it, and say it now: a run takes minutes."""
        self.rows.append(row)
        print(line(row), flush=True)

    def write(self, path: Path) -> None:
        """As JSON."""
        document: dict[str, Any] = {"machine": self.facts, "rows": [asdict(r) for r in self.rows]}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n")

    def markdown(self) -> str:
        """One table for each case."""
        parts = []
        for case in dict.fromkeys(row.case for row in self.rows):
            rows = [row for row in self.rows if row.case == case]
            names = list(dict.fromkeys(name for row in rows for name in row.figures))
            parts.append(f"### {case}\n")
            parts.append("| server | " + " | ".join(names) + " |")
            parts.append("|---" * (len(names) + 1) + "|")
            for row in rows:
                values = [shown(row.figures.get(name)) for name in names]
                parts.append(f"| {row.server} | " + " | ".join(values) + " |")
            parts.append("")
        return "\n".join(parts)


def line(row: Row) -> str:
    """For the terminal."""
    figures = "  ".join(f"{name} {shown(value)}" for name, value in row.figures.items())
    return f"{row.case:<18} {row.server:<15} {figures}{'  ' + row.note if row.note else ''}"


def shown(value: float | None) -> str:
    """Three digits, or a dash."""
    if value is None or value != value:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def median_of(rounds: Sequence[dict[str, float | None]]) -> dict[str, float | None]:
    """Figure by figure."""
    names = dict.fromkeys(name for each in rounds for name in each)
    found: dict[str, float | None] = {}
    for name in names:
        values = [each[name] for each in rounds if each.get(name) is not None]
        known = [v for v in values if v is not None and v == v]
        found[name] = statistics.median(known) if known else None
    return found


def with_ratios(
    ours: dict[str, float | None], floor: dict[str, float | None], names: Sequence[str]
) -> dict[str, float | None]:
    """Ours, the floor's, and how many times the floor ours is."""
    found: dict[str, float | None] = dict(ours)
    for name in names:
        mine, least = ours.get(name), floor.get(name)
        found[f"floor {name}"] = least
        found[f"× {name}"] = mine / least if mine is not None and least else None
    return found
