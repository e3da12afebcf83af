"""The fixture of this folder."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.apiserver.harness import Api, serving


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """A server in memory, real time."""
    async with serving() as running:
        yield running
