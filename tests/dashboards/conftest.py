"""The programs that some of these tests need, and the run that several look at."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import prometheus as programs  # noqa: E402 - the path comes first

from tests.dashboards.observed import Observed, observe  # noqa: E402 - as above


@pytest.fixture(scope="session")
def prometheus_folder() -> Path:
    """Where prometheus and promtool are; without them these tests cannot be run."""
    try:
        return programs.folder()
    except programs.Missing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def observed(
    prometheus_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Observed]:
    """What a Prometheus and a person saw of a short run."""
    folder = tmp_path_factory.mktemp("observed")
    seen = asyncio.run(observe(prometheus_folder / "prometheus", folder))
    try:
        yield seen
    finally:
        seen.prometheus.stop()
