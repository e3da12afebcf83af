"""Invariant 2: a JIT config reaches at most one started container; a name is registered once.

That it is *used* only once GitHub sees by itself (`JIT config started twice`); here is the start
of the container, which comes first. A name may be registered again once its earlier registration
is gone (a start-up configuration that grew too old is made anew), but never beside it, in no
tenant: also not while a runner moves from one place to another.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from tests.simulation.invariants.names import FOREIGN_SCALE_SET
from tests.simulation.invariants.rule import Rule
from tests.simulation.invariants.seen import Seen


class OneStartPerConfig(Rule):
    """No two containers were ever started with one JIT config."""

    sentence = "a JIT config reaches at most one started container"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._starts: Counter[str] = Counter()
        self._looked = 0

    def tick(self, world: Any) -> Iterable[str]:
        """Those that were started since."""
        started = world.runner_program.started
        for secret in started[self._looked :]:
            self._starts[secret] += 1
            if self._starts[secret] == 2:  # once is enough to say so
                runner = self.seen.github.runners_by_secret.get(secret)
                yield f"that of {runner.name if runner else 'nobody'} was started with twice"
        self._looked = len(started)


class OneRegistrationPerName(Rule):
    """No name is registered twice at once."""

    sentence = "a name is never registered twice at once"

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._ids: dict[str, set[object]] = defaultdict(set)

    def happened(self, event: dict[str, object]) -> Iterable[str]:
        """A registration that comes or goes."""
        if event["kind"] != "runner":
            return
        ids = self._ids[str(event["runner"]).casefold()]
        if event["state"] == "forgotten":
            ids.discard(event["id"])
        elif event["state"] == "registered" and not self._foreign(event["id"]):
            ids.add(event["id"])
            if len(ids) > 1:
                yield f"{event['runner']} is registered as {sorted(ids, key=str)}"

    def _foreign(self, runner_id: object) -> bool:
        runner = self.seen.github.runners.get(int(str(runner_id)))
        scale_set = self.seen.github.scale_sets.get(runner.scale_set_id) if runner else None
        return scale_set is not None and scale_set.name == FOREIGN_SCALE_SET
