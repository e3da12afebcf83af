"""What all tests share: how a test runs on virtual time, and that its log settings end with it."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import async_solipsism
import pytest
import structlog
from structlog.testing import capture_logs

from tests import properties

R = TypeVar("R")
properties.fix()


@pytest.fixture
def run_virtual() -> Callable[[Coroutine[Any, Any, R]], R]:
    """Run a coroutine on a loop whose time only moves when everybody waits."""

    def run(work: Coroutine[Any, Any, R]) -> R:
        with asyncio.Runner(loop_factory=async_solipsism.EventLoop) as runner:
            return runner.run(work)

    return run


@pytest.fixture
def quiet() -> Iterator[None]:
    """Nothing is printed of what is logged: where thousands of passes are made."""
    with capture_logs():
        yield


@pytest.fixture(autouse=True)
def _log_settings_end_with_their_test() -> Iterator[None]:
    """A logger that was used while a command had set up its log would keep that command's stream,
    which is a captured one here and closed after the test: so none is kept, and none stays set up.
    """
    configure = structlog.configure

    def without_memory(**settings: Any) -> None:
        configure(**{**settings, "cache_logger_on_first_use": False})

    structlog.configure = without_memory
    try:
        yield
    finally:
        structlog.configure = configure
        if structlog.is_configured():
            structlog.reset_defaults()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """A word that no test has is a slip of the pen, and is said to be one."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and config.option.keyword:
        terminalreporter.write_line(
            f"no test that was looked at has {config.option.keyword!r} in its name, file or folder"
        )
