"""What only the tests of the scale-set chart need."""

import shutil
from pathlib import Path

import pytest

from tests.charts.render import SCALE_SET


@pytest.fixture(scope="session")
def chart_without_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart as Helm sees it with --skip-schema-validation: only the templates refuse."""
    folder = tmp_path_factory.mktemp("charts") / SCALE_SET.name
    shutil.copytree(SCALE_SET, folder, ignore=shutil.ignore_patterns("values.schema.json"))
    return folder
