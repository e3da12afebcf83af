"""What an invariant is: hears writes and GitHub's own events, is asked now and then; says breaches.

One sentence for each breach; the judge adds the time. A rule remembers what it needs and imports
nothing of what it judges.
"""

from collections.abc import Iterable
from typing import Any

from runnerscale.apiserver.handler import Served
from tests.simulation.invariants.seen import Seen
from tests.simulation.writes import Write


class Rule:
    """Base: nothing is ever wrong."""

    sentence = ""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def hear(self, write: Write) -> Iterable[str]:
        """One stored change; `seen` already has it."""
        return ()

    def happened(self, event: dict[str, object]) -> Iterable[str]:
        """One line of GitHub's event log, at the time it happens or soon after."""
        return ()

    def served(self, served: Served) -> Iterable[str]:
        """One answered request of the API server."""
        return ()

    def logged(self, component: str, line: dict[str, Any]) -> Iterable[str]:
        """One log line, at whatever level; `component`: of which process."""
        return ()

    def tick(self, world: Any) -> Iterable[str]:
        """Every few seconds."""
        return ()

    def at_rest(self, world: Any) -> Iterable[str]:
        """Once, when everything has come to rest, or the time for it is up."""
        return ()
