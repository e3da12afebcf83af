"""Invariant 8: no hot loop; what each component does to each object is bounded, minute by minute.

Counted from outside: writes and Events of an object, requests about it, calls at GitHub, log
lines, passes on a key, and the steps that a process takes at all (a loop that waits for nothing
and writes nothing shows there). Bounds are a few times what the busiest minute of 200 seeds
showed, faults included; each is far below what a loop without a pause would do.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from runnerscale.apiserver.handler import Served
from tests.simulation.invariants.names import (
    OUR_USERS,
    RUNNER_SETS,
    RUNNERS,
    SCALE_SETS,
    owner,
)
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.seen import Seen
from tests.simulation.writes import Write

MINUTE_S = 60.0
LONG_LIVED = (RUNNER_SETS, SCALE_SETS)  # whose numbers change with every runner
BOUNDS = {
    "writes of an object": 60,
    "writes of a set": 80,
    "runners made for a set": 40,
    "Events about an object": 20,
    # One a second where every answer is a 503, tries within tries.
    "requests about an object": 90,
    "calls at GitHub": 60,
    "log lines": 400,
    "passes on a key": 100,
    "steps": 8_000,
}
# In the first minute without GitHub a runner is asked about four times (after 2, 4, 8 s: a call's
# own tries take some seconds), with five tries each, and what fails on a connection that was used
# before the HTTP library sends once more.
CALLS_FOR_A_RUNNER = 4 * 5 * 2
# What is asked about one runner. All else is asked for a set or for all of a place, and has no
# reason to be asked more often where there are more runners: a message that names many of them is
# one poll and one acknowledgement. Its bound is that of `BOUNDS` for each set: the busiest minute
# of 570 seeds had 25 of one operation for a set.
ABOUT_A_RUNNER = ("jit-config", "find-runner", "get-runner", "remove-runner")


class NoHotLoop(Rule):
    """Counts in windows of a minute; says once for each thing that is too busy."""

    sentence = "no hot loop"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._began_s = 0.0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._told: set[tuple[str, str]] = set()
        self._calls: Counter[tuple[str, str, str]] = Counter()  # at GitHub, at the last tick
        self._steps: dict[str, int] = {}
        self._counted: set[str] = set()  # controllers whose passes are counted
        self._over: list[str] = []  # found where nobody listens
        self.busiest: Counter[str] = Counter()

    def hear(self, write: Write) -> Iterable[str]:
        """One more write of an object."""
        if not write.by.startswith(OUR_USERS):
            return ()
        if write.resource == "events":
            about = (write.after or write.before or {}).get("involvedObject") or {}
            return self._one_more(
                "Events about an object", f"{about.get('kind')} {about.get('name')}"
            )
        what = "writes of a set" if write.resource in LONG_LIVED else "writes of an object"
        over = self._one_more(what, f"{write.resource} {write.name}")
        if write.resource == RUNNERS and write.before is None:
            over += self._one_more("runners made for a set", str(owner(write.after).get("name")))
        return over

    def served(self, served: Served) -> Iterable[str]:
        """One more request."""
        if not served.user.startswith(OUR_USERS):
            return ()
        asked = served.request
        if asked.plural in ("events", "leases"):
            return ()
        which = f"{asked.verb} {asked.plural} {asked.name} by {served.user_agent}"
        return self._one_more("requests about an object", which)

    def logged(self, component: str, line: dict[str, Any]) -> Iterable[str]:
        """One more line."""
        return self._one_more("log lines", component)

    def tick(self, world: Any) -> Iterable[str]:
        """What is only counted now and then."""
        yield from self._over
        self._over.clear()
        yield from self._at_github(world.hub.calls)
        for component in _components(world):
            took = component.steps - self._steps.get(component.name, 0)
            self._steps[component.name] = component.steps
            yield from self._one_more("steps", component.name, took)
        for process in world.controllers:
            self._count_passes(process)
        if self.seen.now_s() - self._began_s >= MINUTE_S:
            self._began_s = self.seen.now_s()
            self._counts.clear()

    def _at_github(self, calls: Counter[tuple[str, str, str]]) -> Iterable[str]:
        sets = max(1, len(self.seen.all(SCALE_SETS)))
        for_sets = BOUNDS["calls at GitHub"] * sets
        for_runners = max(for_sets, CALLS_FOR_A_RUNNER * len(self.seen.all(RUNNERS)))
        for key, count in calls.items():
            more = count - self._calls[key]
            if more:
                client, operation, _ = key
                self._calls[key] = count
                which = f"{operation} by {client}"
                most = for_runners if operation in ABOUT_A_RUNNER else for_sets
                yield from self._one_more("calls at GitHub", which, more, most=most)

    def _count_passes(self, process: Any) -> None:
        if process.component.name in self._counted:
            return
        self._counted.add(process.component.name)
        for controller in process.manager._controllers:
            one_pass = controller._pass

            async def counted(key: str, of: Any = controller, call: Any = one_pass) -> None:
                self._over += self._one_more("passes on a key", f"{of.name} {key}")
                await call(key)

            controller._pass = counted

    def _one_more(self, what: str, which: str, count: int = 1, most: int = 0) -> list[str]:
        key, most = (what, which), most or BOUNDS[what]
        self._counts[key] += count
        done = self._counts[key]
        if done > self.busiest[what]:
            self.busiest[what] = done
        if done <= most or key in self._told:
            return []
        self._told.add(key)
        return [f"{done} {what} within a minute: {which}; at most {most} may be"]


def _components(world: Any) -> Iterable[Any]:
    yield from (process.component for process in world.controllers)
    yield from (process.component for process in world.machine.started if process.exit is None)
