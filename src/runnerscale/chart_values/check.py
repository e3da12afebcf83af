"""The whole check of some values: which chart, what is wrong, in the order of the lines.

The way in for the command line and for whoever else has values in hand. Nothing is written,
nothing is asked of a cluster: what only a cluster knows (is the Secret there?) is left to the
controller's conditions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runnerscale.chart_values.controller_rules import controller_problems
from runnerscale.chart_values.findings import Finding, Place, ValuePath, place_of
from runnerscale.chart_values.known import Chart, charts
from runnerscale.chart_values.merge import merged, with_defaults
from runnerscale.chart_values.runner_pod_rules import runner_pod_problems
from runnerscale.chart_values.scale_set_rules import scale_set_problems
from runnerscale.chart_values.types import wrong_types
from runnerscale.chart_values.unknown_keys import unknown_keys
from runnerscale.chart_values.values_file import NotValuesError, ReadValues, read_values


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report: a finding and where it stands."""

    place: Place
    text: str
    is_problem: bool

    def __str__(self) -> str:
        """As compilers say it: `file:line: text`."""
        return f"{self.place.file}:{self.place.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in some values."""

    chart: str  # `controller` or `scale-set`; empty if it cannot be told
    lines: tuple[Line, ...]

    @property
    def problems(self) -> int:
        """How many lines are not mere notes."""
        return sum(line.is_problem for line in self.lines)


def check(
    files: Sequence[tuple[str, bytes]], *, chart: str = "", release: str = "", namespace: str = ""
) -> Report:
    """Check files, in the order of `helm -f`, as values of a chart.

    Args:
        files: name, as the report is to call it, and bytes of each.
        chart: `controller` or `scale-set`; empty: it is told from the keys.
        release: the release's name, which is the scale set's unless that has one.
        namespace: of the release.
    """
    read: list[ReadValues] = []
    for name, content in files:
        try:
            read.append(read_values(name, content))
        except NotValuesError as error:
            text = f"{error.what}. {error.remedy}."
            return Report(chart, (Line(Place(name, error.line), text, is_problem=True),))
    together = merged(read)
    told = charts().get(chart) or guess(together.values)
    found = list(together.findings)
    if told is None:
        first = Place(files[0][0] if files else "values", 1)
        return Report("", _sorted([*found, (_nobody_knows(together.values), first)]))
    findings = findings_in(told, together.values, release=release, namespace=namespace)
    found += [(f, place_of(f.path, together.places) or Place("values", 1)) for f in findings]
    return Report(told.short, _sorted(found))


def findings_in(
    chart: Chart, values: Mapping[str, Any], *, release: str = "", namespace: str = ""
) -> list[Finding]:
    """What is wrong with parsed values; rules stay silent where a kind is wrong already."""
    whole = with_defaults(values, chart.defaults)
    types = wrong_types(chart, values)
    rules = (
        controller_problems(whole, release=release, namespace=namespace)
        if chart.short == "controller"
        else scale_set_problems(whole, release=release, namespace=namespace)
        + runner_pod_problems(whole)
    )
    told = {finding.path for finding in types}
    silent = [f for f in rules if not any(_touches(f.path, path) for path in told)]
    return [*unknown_keys(chart, values), *types, *silent]


def _touches(one: ValuePath, other: ValuePath) -> bool:
    shared = min(len(one), len(other))
    return shared > 0 and one[:shared] == other[:shared]


def _nobody_knows(values: Mapping[str, Any]) -> Finding:
    """Why it cannot be told which chart is meant."""
    remedy = "Say which is meant with --chart controller or --chart scale-set"
    known = [set(chart.children(chart.schema)).intersection(values) for chart in charts().values()]
    if not values:
        what = "no value is given"
    elif not any(known):
        what = "neither chart has any of these values"
    elif all(any(key not in other for other in known for key in mine) for mine in known):
        what = "these are values of both charts together, and each chart has its own files"
        remedy = "Check each chart's files in a call of its own"
    else:
        what = "both charts have these values"
    return Finding((), what, remedy)


def guess(values: Mapping[str, Any]) -> Chart | None:
    """The chart that knows more of the top keys; None if neither knows one or both the same."""
    known = {short: set(chart.children(chart.schema)) for short, chart in charts().items()}
    both = set.intersection(*known.values())
    scores = {short: len(known[short].intersection(values) - both) for short in known}
    best = max(scores, key=lambda short: scores[short])
    others = [score for short, score in scores.items() if short != best]
    return charts()[best] if scores[best] > max(others) else None


def _sorted(found: Iterable[tuple[Finding, Place]]) -> tuple[Line, ...]:
    order: list[str] = []
    lines = [Line(at, finding.sentence(), finding.is_problem) for finding, at in found]
    for line in lines:
        if line.place.file not in order:
            order.append(line.place.file)
    return tuple(sorted(lines, key=lambda line: (order.index(line.place.file), line.place.line)))
