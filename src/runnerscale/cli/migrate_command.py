"""`runnerscale migrate check`: what would change if our controller took the place of ARC's.

Prints; looking is `app/migration.py`, the rules are `migration/`. Nothing is ever written.
"""

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from runnerscale.app.migration import IMAGE, run_check
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.cli.boundary import sentence
from runnerscale.cli.controller_command import controller_flags
from runnerscale.kube.errors import KubeError
from runnerscale.migration.check import BLIND, Report
from runnerscale.migration.findings import Weight
from runnerscale.migration.snapshot import Ours

LINES_MAX = 500  # of one weight; the rest is counted
# Known flags without effect here, and why; `controller_command.py` says the same in its help.
IDLE_FLAGS = {
    "k8s-client-rate-limiter-qps": "the API server's own flow control rules",
    "k8s-client-rate-limiter-burst": "the API server's own flow control rules",
    "workqueue-rate-limiter": "limits are per object",
    "update-strategy": "updates never take the listener away",
    "runner-max-concurrent-reconciles": "it is a lower bound, and we begin above it",
}

migrate = App(name="migrate", help="From ARC's controller to this one.")


@migrate.command(name="check")
def check_migration(
    *,
    kubeconfig: Path | None = None,
    namespace: str = "",
    image: str = IMAGE,
    output: Annotated[Literal["text", "json"], Parameter(negative="")] = "text",
) -> int:
    """Tell what would change if this controller took the place of ARC's. Only looks.

    Looks at the four kinds, their controllers, the listeners' rights and the CRDs with your own
    rights, and says what it could not see. Exit code 0: nothing stands in the way, 1: something
    does, 2: it could not be looked at, or nothing is there to take over
    (docs/migrating-from-arc.md).

    Parameters
    ----------
    kubeconfig
        How to reach the cluster (default: KUBECONFIG, then ~/.kube/config).
    namespace
        Look at the runner sets of this namespace only.
    image
        The image that would take the place of ARC's.
    output
        As sentences, or as JSON.
    """
    flags = frozenset(controller_flags().names)
    ours = Ours(version=COMPATIBLE_VERSION, image=image, flags=flags, idle_flags=IDLE_FLAGS)
    path = str(kubeconfig) if kubeconfig else ""
    try:
        report = run_check(kubeconfig=path, namespace=namespace, ours=ours)
    except KubeError as error:
        why = sentence(error)[1]
        report = Report((), (why,), BLIND, "the cluster could not be looked at")
    print(_as_json(report) if output == "json" else _as_text(report))
    return report.exit_code


def _as_text(report: Report) -> str:
    lines = []
    for weight in Weight:
        found = [finding for finding in report.findings if finding.weight is weight]
        lines += [f"{weight}: {finding.sentence()}" for finding in found[:LINES_MAX]]
        if len(found) > LINES_MAX:
            lines.append(f"{weight}: and {len(found) - LINES_MAX} more")
    lines += [f"not seen: {text}" for text in report.unseen]
    lines.append(f"{report.summary[:1].upper()}{report.summary[1:]}.")
    return "\n".join(_shown(line) for line in lines)


def _as_json(report: Report) -> str:
    document = {
        "summary": report.summary,
        "exitCode": report.exit_code,
        "findings": [
            {
                "weight": str(finding.weight),
                "topic": finding.topic,
                "about": finding.about,
                "what": finding.what,
                "remedy": finding.remedy,
            }
            for finding in report.findings
        ],
        "unseen": list(report.unseen),
    }
    return json.dumps(document, indent=2)  # ASCII: a terminal obeys some characters beyond it


def _shown(text: str) -> str:
    """On one line, and with nothing in it that a terminal would obey."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
