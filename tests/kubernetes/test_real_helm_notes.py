"""What the helm binary prints after an install names unknown values, as the check before it does.

The offline tests render with Helm 4's engine; people have the binary of Helm 3, and its notes are
only seen on an install. That both render the same objects is asked in the charts' own files.
"""

import random
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import kube

from runnerscale.chart_values.findings import dotted
from runnerscale.chart_values.known import Chart, charts, ignored
from runnerscale.chart_values.nearest import in_order, nearest
from runnerscale.chart_values.unknown_keys import unknown_keys
from tests.charts.render import CHARTS, CONTROLLER, render_notes
from tests.charts.test_schemas import SCALE_SET_NEEDS
from tests.charts.test_unknown_values import named
from tests.charts.values_corpus import ALL_FILES, chart_of
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.test_controller_chart_on_the_server import OPERATOR_KINDS, operator_crd

RELEASE = "arc-notes"
NAMESPACE = "arc-notes"
SEED = 48211


@pytest.fixture(scope="module")
def furnished(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The cluster with every kind that the charts render: a dry run asks for them."""
    cluster.apply_crds(CONTROLLER / "crds")
    folder = tmp_path_factory.mktemp("operator")
    for kind, plural in OPERATOR_KINDS.items():
        (folder / f"{plural}.yaml").write_text(yaml.safe_dump(operator_crd(kind, plural)))
    cluster.apply_crds(folder)
    return cluster


def notes(cluster: Cluster, chart: Path, *files: Path) -> str:
    """What helm prints; nothing is stored in the cluster."""
    values = [f"--values={file}" for file in files]
    done = cluster.helm(
        *("install", RELEASE, str(chart), f"--namespace={NAMESPACE}", "--dry-run=client", *values)
    )
    return done.stdout.partition("\nNOTES:\n")[2].strip()


@pytest.mark.parametrize("file", ALL_FILES, ids=lambda file: file.stem)
def test_helm_prints_the_notes_that_the_other_tests_see(furnished: Cluster, file: Path) -> None:
    ours = render_notes(chart_of(file), [file], release=RELEASE, namespace=NAMESPACE)
    assert notes(furnished, chart_of(file), file) == ours.strip()


def slips(chart: Chart, count: int) -> dict[str, Any]:
    """Known values with two letters swapped, at all depths, and a few from nowhere."""
    rng = random.Random(SEED)
    known = {path for path, _ in chart.paths()}
    values: dict[str, Any] = {}
    for path in rng.sample(sorted(known), count):
        word = path[-1]
        at = rng.randrange(len(word) - 1)
        slip = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        if (*path[:-1], slip) in known or path[0] in SCALE_SET_NEEDS:
            continue
        place = values
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[slip] = rng.choice([1, "x", [], {"a": "b"}, True, None])
    return {**values, "nowhere": {"deep": [1, 2]}, "QQQ": "x"}


@pytest.mark.parametrize("short", ["controller", "scale-set"])
def test_helm_names_every_slip_with_what_was_meant(
    furnished: Cluster, tmp_path: Path, short: str
) -> None:
    chart = charts()[short]
    known = in_order([path for path, node in chart.paths() if not ignored(node)])
    for round_number in range(3):
        values = slips(chart, 14 + round_number)
        needed = SCALE_SET_NEEDS if short == "scale-set" else {}
        file = tmp_path / f"{round_number}.yaml"
        file.write_text(yaml.safe_dump({**needed, **values}))
        expected = {
            dotted(finding.path): dotted(nearest(tuple(map(str, finding.path)), known) or ())
            for finding in unknown_keys(chart, values)
            if finding.is_problem
        }
        said = named(notes(furnished, CHARTS / chart.name, file))
        assert len(expected) >= 3
        assert said == expected


def test_a_packaged_chart_says_the_same(furnished: Cluster, tmp_path: Path) -> None:
    for chart in charts().values():
        folder = CHARTS / chart.name
        furnished.helm("package", str(folder), f"--destination={tmp_path}")
        (archive,) = tmp_path.glob(f"{chart.name}-[0-9]*.tgz")
        with tarfile.open(archive) as packed:
            names = {name.partition("/")[2] for name in packed.getnames()}
        assert {"Chart.yaml", "README.md", "values.yaml", "values.schema.json"} <= names
        assert "templates/_unknown_values.tpl" in names
        needed = SCALE_SET_NEEDS if chart.short == "scale-set" else {}
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump({**needed, "lables": {}}))
        assert named(notes(furnished, archive, file)) == {"lables": "labels"}


def test_the_readme_that_helm_shows_has_the_table() -> None:
    helm = str(kube.bin_dir() / "helm")
    for chart in charts().values():
        done = subprocess.run(
            [helm, "show", "readme", str(CHARTS / chart.name)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        rows = re.findall(r"(?m)^\| `([\w.]+)` \|", done.stdout)
        assert len(rows) > 25
