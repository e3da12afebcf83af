"""What all tests share: how a test runs on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import async_solipsism
import pytest

R = TypeVar("R")


@pytest.fixture
def run_virtual() -> Callable[[Coroutine[Any, Any, R]], R]:
    """Run a coroutine on a loop whose time only moves when everybody waits."""

    def run(work: Coroutine[Any, Any, R]) -> R:
        with asyncio.Runner(loop_factory=async_solipsism.EventLoop) as runner:
            return runner.run(work)

    return run
