"""The marks that all chart tests share; the renderer itself is `render.py`."""

import pytest

from .render import CONTROLLER, SCALE_SET


@pytest.fixture(params=[CONTROLLER, SCALE_SET], ids=lambda path: path.name)
def each_chart(request: pytest.FixtureRequest) -> object:
    """Once with each chart."""
    return request.param
