"""What an invariant is: hears writes and GitHub's own events, is asked now and then; says breaches.

One sentence for each breach; the judge adds the time. A rule remembers what it needs and imports
nothing of what it judges.
"""

from collections.abc import Iterable
from typing import Any

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

    def tick(self, world: Any) -> Iterable[str]:
        """Every few seconds, and at rest."""
        return ()
