"""The dashboard file, read as Grafana would: panels, queries, variables put in."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "dashboards" / "runnerscale.json"
# Not ours: kube-state-metrics and cAdvisor.
EXTERNAL = re.compile(r"\b(kube|container)_[a-z_]+")


@dataclass(frozen=True)
class Asked:
    """One query of a panel."""

    panel: str
    ref_id: str
    expr: str

    @property
    def external(self) -> bool:
        """Whether it needs what no process of ours publishes."""
        return bool(EXTERNAL.search(self.expr))


def dashboard() -> dict[str, Any]:
    """The file."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def panels() -> list[dict[str, Any]]:
    """All panels that show something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> list[Asked]:
    """All queries of all panels, in their order."""
    return [
        Asked(panel["title"], target["refId"], target["expr"])
        for panel in panels()
        for target in panel["targets"]
    ]


def filled(expr: str, chosen: dict[str, list[str]]) -> str:
    """The query as Grafana sends it: `a`, or `(a|b)` where several values are chosen."""
    times = {"__rate_interval": "2m", "__range": "5m"}
    for name, values in chosen.items():
        text = "|".join(re.escape(value).replace("\\", "\\\\") for value in values)
        times[name] = text if len(values) == 1 else f"({text})"
    return re.sub(r"\$(\w+)", lambda found: times[found[1]], expr)
