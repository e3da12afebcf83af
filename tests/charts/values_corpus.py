"""The values files under `values/`: together they set every value that the charts know.

Each name begins with the chart it is for. tests/kubernetes installs the same files on a real
cluster and renders them with the helm binary.
"""

from pathlib import Path

from .render import CONTROLLER, SCALE_SET

FOLDER = Path(__file__).parent / "values"
CONTROLLER_FILES = sorted(FOLDER.glob("controller-*.yaml"))
SCALE_SET_FILES = sorted(FOLDER.glob("scale-set-*.yaml"))
ALL_FILES = [*CONTROLLER_FILES, *SCALE_SET_FILES]


def chart_of(file: Path) -> Path:
    """The chart's folder."""
    return CONTROLLER if file.name.startswith("controller-") else SCALE_SET


def short_of(file: Path) -> str:
    """The chart as `runnerscale values check --chart` calls it."""
    return "controller" if file.name.startswith("controller-") else "scale-set"
