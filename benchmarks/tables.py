"""The tables of a run, as Markdown. Pure."""

from benchmarks import goals
from benchmarks.references import ARC_TUNED, EARLIER_FLOOR, slower_than_earlier
from benchmarks.report import Report, Row, shown


def markdown(report: Report) -> str:
    """The machine, the goals, and a table for each case."""
    parts = ["### The machine\n", *(f"- {name}: {value}" for name, value in report.facts.items())]
    parts += ["", "### The goals\n", goals.table(report.rows), "", cases(report)]
    parts += [f"- failed: {each}" for each in report.failed]
    parts += [f"- left out: {each}" for each in report.left_out]
    return "\n".join(parts).rstrip() + "\n"


def cases(report: Report) -> str:
    """A table for each case."""
    parts = []
    for case in dict.fromkeys(row.case for row in report.rows):
        rows = [row for row in report.rows if row.case == case]
        parts += [f"### {case}\n", _beside_floor(rows) if rows[0].floor else _plain(rows), ""]
        parts += [f"- {row.server}: {note}" for row in rows for note in notes(row)]
        if parts[-1]:
            parts.append("")
    return "\n".join(parts)


def notes(row: Row) -> list[str]:
    """What has to be known beside the figures."""
    rounds = f"medians of {row.rounds} rounds" if row.rounds > 1 else ""
    return [each for each in (rounds, row.note, slower_than_earlier(row)) if each]


def _plain(rows: list[Row]) -> str:
    """A line for each figure, a column for each server."""
    names = list(dict.fromkeys(name for row in rows for name in row.figures))
    lines = [f"| | {' | '.join(row.server for row in rows)} |", "|---" * (len(rows) + 1) + "|"]
    for name in names:
        values = " | ".join(shown(row.figures.get(name)) for row in rows)
        lines.append(f"| {name} | {values} |")
    return "\n".join(lines)


def _beside_floor(rows: list[Row]) -> str:
    """Ours, the floor's and their ratio for each server; then what was measured earlier."""
    case = rows[0].case
    earlier, arc = EARLIER_FLOOR.get(case, {}), ARC_TUNED.get(case, {})
    titles = [f"{row.server}: {what}" for row in rows for what in ("ours", "floor", "×")]
    lines = [
        f"| | {' | '.join(titles)} | earlier floor | ARC tuned |",
        "|---" * (len(titles) + 3) + "|",
    ]
    for name in dict.fromkeys(name for row in rows for name in row.figures):
        cells = [
            shown(found.get(name)) for row in rows for found in (row.figures, row.floor, row.ratios)
        ]
        cells += [shown(earlier.get(name)), shown(arc.get(name))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
