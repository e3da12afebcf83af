"""Invariant 3: no runner is created beyond the maximum then known to the one that creates it.

Two hops, each judged by itself. The listener asks for no more than a maximum that it can have
read; the controller makes no more than it can have been asked for. What a component *can* have
known: the values in force since it last had a chance to hear. While nothing is broken that is
`HEARD_WITHIN_S` ago; else since the calm before the disturbance, at most `REMEMBERED_S`. (Watches
deliver in milliseconds and own writes are waited for; a request under way lasts up to fifteen
seconds when its answer is slow, and a mounted file is looked at every five.)
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from runnerscale.fake_github.model import JobState
from tests.simulation.invariants.names import (
    LISTENER_MARK,
    RUNNER_SETS,
    RUNNERS,
    SCALE_SETS,
    TERMINAL,
    Json,
    is_going,
    owner,
    phase,
)
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.seen import Seen
from tests.simulation.writes import Write

HEARD_WITHIN_S = 15.0
REMEMBERED_S = 150.0  # whatever is broken: watches end, and are begun anew, within so long
UNBOUNDED = 2**31 - 1
RUNNING = "Running"


@dataclass(slots=True)
class Values:
    """What a number was, and since when."""

    times: deque[tuple[float, int]] = field(default_factory=deque)

    def now(self, now_s: float, value: int) -> None:
        """It is this from now on."""
        if not self.times or self.times[-1][1] != value:
            self.times.append((now_s, value))
        while len(self.times) > 1 and self.times[1][0] < now_s - REMEMBERED_S:
            self.times.popleft()

    def most_since(self, since_s: float) -> int:
        """The largest that was in force at or after that time."""
        most = self.times[-1][1]
        for place in range(len(self.times) - 1, 0, -1):
            if self.times[place][0] <= since_s:
                break
            most = max(most, self.times[place - 1][1])
        return most


class NoRunnerBeyondTheMaximum(Rule):
    """Those count that are neither finished nor being deleted."""

    sentence = "no runner beyond the maximum"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._maxima: dict[str, Values] = {}  # of runner sets
        self._wanted: dict[str, Values] = {}  # of EphemeralRunnerSets, by uid
        self._alive: dict[str, set[str]] = defaultdict(set)  # by uid of their set

    def hear(self, write: Write) -> Iterable[str]:
        """A maximum, a wanted number, or a runner that comes or goes."""
        now_s = self.seen.now_s()
        if write.resource == SCALE_SETS and write.after is not None:
            maximum = write.after["spec"].get("maxRunners", UNBOUNDED)
            self._maxima.setdefault(write.name, Values()).now(now_s, maximum)
        elif write.resource == RUNNER_SETS and write.after is not None:
            yield from self._asked_for(write, write.after, now_s)
        elif write.resource == RUNNERS:
            yield from self._comes_or_goes(write)

    def _since_s(self) -> float:
        """Since when a component may not have heard."""
        return min(self.seen.now_s(), self.seen.calm_began_s) - HEARD_WITHIN_S

    def _asked_for(self, write: Write, after: dict[str, Any], now_s: float) -> Iterable[str]:
        replicas = after["spec"].get("replicas", 0)
        before = (write.before or {}).get("spec", {}).get("replicas", 0)
        self._wanted.setdefault(write.uid, Values()).now(now_s, replicas)
        maxima = self._maxima.get(str(owner(after).get("name", "")))
        if replicas <= before or maxima is None or LISTENER_MARK not in write.by:
            return
        most = maxima.most_since(self._since_s())
        if replicas > most:
            yield f"{write.by} asked for {replicas} runners of {write.name}, at most {most} may be"

    def _comes_or_goes(self, write: Write) -> Iterable[str]:
        reference = owner(write.after or write.before)
        alive = self._alive[reference.get("uid", "")]
        if write.after is None or is_going(write.after) or phase(write.after) in TERMINAL:
            alive.discard(write.uid)
            return
        alive.add(write.uid)
        wanted = self._wanted.get(reference.get("uid", ""))
        if write.before is not None or wanted is None:
            return
        most = wanted.most_since(self._since_s()) + self._strays(write)
        if len(alive) > most:
            yield f"{write.by} made {write.name}, number {len(alive)} of {most} wanted at most"

    def _strays(self, write: Write) -> int:
        """Runners that work for another scale set than the one that is served now (it is gone, or
        was left): the listener's number has no place for them, and the jobs of the new one are
        not to wait for theirs, within the maximum. One that says `Running` works: that GitHub calls
        its job complete is told to a queue that went with its scale set.
        """
        jobs = self.seen.github.jobs.values()
        busy = {job.runner_name for job in jobs if job.state is JobState.RUNNING}
        now = _scale_set_of(write.after)
        return sum(
            (name in busy or phase(runner) == RUNNING)
            and namespace == write.namespace
            and _scale_set_of(runner) != now
            for (namespace, name), runner in self.seen.objects[RUNNERS].items()
        )


def _scale_set_of(runner: Json | None) -> object:
    return (runner or {}).get("spec", {}).get("runnerScaleSetId")
