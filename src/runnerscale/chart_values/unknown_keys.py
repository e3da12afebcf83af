"""Keys that the chart does not know, with the one that was probably meant.

The charts' notes say the same after an install (`templates/_unknown_values.tpl`): an unknown
key never fails anything, since ARC's charts take every key and values files are long-lived.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from runnerscale.chart_values.findings import Finding, ValuePath, dotted
from runnerscale.chart_values.known import Chart, Node, Path, charts, ignored
from runnerscale.chart_values.nearest import in_order, nearest


def unknown_keys(chart: Chart, values: Mapping[str, Any]) -> list[Finding]:
    """Unknown keys as problems, known ones that change nothing as notes."""
    known = in_order([path for path, node in chart.paths() if not ignored(node)])
    return list(_below(chart, chart.schema, values, (), known))


def _below(
    chart: Chart, node: Node, values: Mapping[str, Any], path: Path, known: list[Path]
) -> Iterator[Finding]:
    children = chart.children(node)
    for key in sorted(values):
        here = (*path, key)
        child = children.get(key)
        if child is None:
            yield _unknown(chart, here, known)
            continue
        reason = ignored(chart.resolved(child))
        if reason:
            what = f"{dotted(here)} is accepted, since ARC's values files carry it, and ignored"
            yield Finding(here, f"{what}: {reason}", "", is_problem=False)
        elif isinstance(values[key], Mapping) and chart.children(child):
            yield from _below(chart, child, values[key], here, known)


def _unknown(chart: Chart, here: Path, known: list[Path]) -> Finding:
    path: ValuePath = here
    what = f"{dotted(path)} is not a value of this chart and changes nothing"
    for other in charts().values():
        if other is not chart and any(here == path for path, _ in other.paths()):
            return Finding(path, what, f"It is one of the chart {other.name}")
    meant = nearest(here, known)
    if meant is None:
        return Finding(path, what, "No value has a similar name; take it away")
    return Finding(path, what, f"Did you mean {dotted(meant)}?")
