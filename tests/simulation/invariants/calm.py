"""Since when nothing breaks: what may be asked of the system then, and not before.

A fault that runs, one that stands at GitHub for a time, a part that is down or stopped: each is
a disturbance. A fault at GitHub that waits for its next victim is none; that it struck is.
"""

from collections.abc import Iterable
from typing import Any

from tests.simulation.invariants.rule import Rule


class Calm(Rule):
    """Keeps `seen.calm_since_s`; never wrong."""

    def happened(self, event: dict[str, object]) -> Iterable[str]:
        """A fault at GitHub that strikes."""
        if event["kind"] == "fault":
            self.seen.disturbed("GitHub: " + str(event["name"]))
        return ()

    def tick(self, world: Any) -> Iterable[str]:
        """What stands in the way now."""
        for what in disturbances(world):
            self.seen.disturbed(what)
            break
        return ()


def disturbances(world: Any) -> Iterable[str]:
    """All that is broken at this moment."""
    yield from world.striking
    if any(rule.until_s is not None for rule in world.hub.faults.rules.values()):
        yield "GitHub has a lasting fault"
    if world.api is None or not _alive(world.api_component):
        yield "no API server"
    if not any(_alive(process.component) and process.leads for process in world.controllers):
        yield "no controller at work"
    if not any(_alive(component) for component in world.nodes):
        yield "no node agent"


def _alive(component: Any) -> bool:
    return not component.dead and not component.paused
