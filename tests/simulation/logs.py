"""The log lines of all components of this world, at every level, as the judge hears them.

Put in front of whatever structlog is configured to do, so that nothing is rendered twice; which
process speaks is the component of the context.
"""

from typing import Any

import structlog

from tests.simulation.invariants import Judge
from tests.simulation.loop import COMPONENT

Line = Any


class _Ear:
    """The judge of the world that is running."""

    judge: Judge | None = None


def _hear(_logger: object, _method: str, line: Line) -> Line:
    if _Ear.judge is not None:
        component = COMPONENT.get()
        _Ear.judge.logged("" if component is None else component.name, line)
    return line


def listen(judge: Judge) -> None:
    """From now on that judge hears every line."""
    _Ear.judge = judge
    processors = structlog.get_config()["processors"]
    if _hear not in processors:
        structlog.configure(processors=[_hear, *processors])
