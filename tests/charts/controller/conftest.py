"""What only the tests of the controller chart need."""

import shutil
from pathlib import Path

import pytest

from tests.charts.render import CONTROLLER


@pytest.fixture(scope="session")
def chart_without_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart as Helm sees it with --skip-schema-validation: only the templates refuse."""
    folder = tmp_path_factory.mktemp("charts") / CONTROLLER.name
    shutil.copytree(CONTROLLER, folder, ignore=shutil.ignore_patterns("values.schema.json"))
    return folder
