"""Write the files that are made from the code, or say which are stale (`--check`).

One entry per generated file or marked part of a file. The values come from the rooms
themselves; this file only knows where they go.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "tools"))

import behaviours  # noqa: E402 - the path comes first
import chart_tables  # noqa: E402 - the path comes first
import command_help  # noqa: E402 - the path comes first
import dashboard  # noqa: E402 - the path comes first
import metric_page  # noqa: E402 - the path comes first

from runnerscale.api import catalogue, crds, phase, reasons  # noqa: E402 - the path comes first

CRD_FOLDER = Path("charts/gha-runner-scale-set-controller/crds")


def crd_files() -> dict[Path, str]:
    """The CRDs of the chart."""
    return {
        CRD_FOLDER / crds.file_name(document): crds.render_yaml(document)
        for document in crds.crd_documents()
    }


def architecture() -> dict[Path, str]:
    """The phase picture in docs/architecture.md."""
    path = Path("docs/architecture.md")
    return {path: between(path, "phases", phase.diagram())}


def troubleshooting() -> dict[Path, str]:
    """The reasons in docs/troubleshooting.md."""
    path = Path("docs/troubleshooting.md")
    return {path: between(path, "reasons", catalogue.as_markdown(reasons.Reason))}


def between(path: Path, mark: str, text: str) -> str:
    """The file with `text` between its markers `<!-- mark:begin -->` and `<!-- mark:end -->`."""
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    head, found, rest = (ROOT / path).read_text().partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        sys.exit(f"{path}: the markers {begin} and {end} are missing; put them where it goes")
    return f"{head}{begin}\n{text}\n{end}{tail}"


def behaviour_page() -> dict[Path, str]:
    """Which test proves which behaviour."""
    return {Path("docs/behaviours.md"): behaviours.render(behaviours.collect())}


def commands() -> dict[Path, str]:
    """Every command's own help."""
    return {Path("docs/commands.md"): command_help.render()}


def metrics() -> dict[Path, str]:
    """What each process publishes."""
    return {Path("docs/metrics.md"): metric_page.render()}


def grafana() -> dict[Path, str]:
    """The dashboard."""
    return {Path("dashboards/runnerscale.json"): dashboard.render()}


def chart_values() -> dict[Path, str]:
    """The charts' tables of values, their notes on unknown ones, and the package's copy."""
    files = {chart_tables.PACKAGED: chart_tables.packaged()}
    for name in chart_tables.CHART_NAMES:
        folder = Path("charts") / name
        files[folder / chart_tables.TEMPLATE] = chart_tables.template()
        values = (ROOT / folder / "values.yaml").read_text()
        table = chart_tables.readme_table(chart_tables.chart_of(name), values)
        files[folder / "README.md"] = between(folder / "README.md", "values", table)
    return files


SOURCES: tuple[Callable[[], dict[Path, str]], ...] = (
    crd_files,
    architecture,
    troubleshooting,
    behaviour_page,
    commands,
    chart_values,
    metrics,
    grafana,
)


def main() -> int:
    """Write, or with `--check` only compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    check = parser.parse_args().check
    stale = []
    for source in SOURCES:
        for path, text in source().items():
            target = ROOT / path
            if target.exists() and target.read_text() == text:
                continue
            stale.append(path)
            if not check:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
    for path in stale:
        print(f"{path}: {'stale; run make generate' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
