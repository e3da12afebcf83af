"""`runnerscale values check`: read values files and tell what is wrong with them.

Opens the files and prints; all rules are in `chart_values/`. Read-only and offline. Exit code 0
when there is nothing but notes, 1 when there is a problem.
"""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from runnerscale.app.problem import Problem, UsageProblem
from runnerscale.chart_values.check import Report, check
from runnerscale.chart_values.known import SHORT_NAMES
from runnerscale.chart_values.values_file import BYTES_MAX

LINES_MAX = 200  # the rest is counted
FILES_MAX = 100

values = App(name="values", help="Look at values files of the charts.")
MoreFiles = Annotated[
    tuple[Path, ...], Parameter(name=["--values", "-f"], negative="", show_default=False)
]


@values.command(name="check")
def check_values(
    *files: Path,
    values_files: MoreFiles = (),
    chart: Literal["controller", "scale-set"] | None = None,
    release: str = "",
    namespace: str = "",
) -> int:
    """Tell what is wrong with the values of a chart, before Helm or a cluster does.

    Names values that the chart does not know, with the one that was probably meant, wrong kinds,
    rules that the chart fails on, and what ARC's chart accepted but ignored. Nothing is changed.
    Exit code 0: fine, 1: there are problems.

    Parameters
    ----------
    files
        Values files; several are merged as `helm -f` does: the last wins.
    values_files
        More of them, in Helm's spelling.
    chart
        Which chart they are for (default: told from the keys).
    release
        Name of the release: the scale set's, unless the values name one.
    namespace
        Namespace of the release.
    """
    paths = [*files, *values_files]
    if not paths:
        raise UsageProblem("no values file is given", "Run 'runnerscale values check FILE'")
    if len(paths) > FILES_MAX:
        raise UsageProblem(f"more than {FILES_MAX} values files are given", "Merge some of them")
    contents = [(str(path), _content(path)) for path in paths]
    report = check(contents, chart=chart or "", release=release, namespace=namespace)
    for line in report.lines[:LINES_MAX]:
        print(_shown(str(line)))
    print(_summary(report, len(contents)))
    return 1 if report.problems else 0


def _content(path: Path) -> bytes:
    """The bytes of a file, one more than allowed at most."""
    try:
        with path.open("rb") as file:
            return file.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Problem(f"the values file {path} cannot be read: {reason}", "Give a file") from error


def _summary(report: Report, files: int) -> str:
    notes = len(report.lines) - report.problems
    more = len(report.lines) - LINES_MAX
    parts = [f"{_count(report.problems, 'problem')}, {_count(notes, 'note')}"]
    if more > 0:
        parts.append(f"the last {more} not shown")
    what = f" as values of {SHORT_NAMES[report.chart]}" if report.chart else ""
    return f"{_count(files, 'file')}{what}: {'; '.join(parts)}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _shown(text: str) -> str:
    """On one line, and with nothing in it that a terminal would obey."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
