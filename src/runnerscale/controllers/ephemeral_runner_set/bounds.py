"""What the runner set of a set asks for at least and at most, as the cache shows it.

The listener has these numbers in its word; who doubts that word, or adds to it, needs them too.
Pure but for the cache it looks into.
"""

from runnerscale.api.autoscaling_runner_set import MAX_RUNNERS_UNLIMITED, AutoscalingRunnerSet
from runnerscale.api.ephemeral_runner_set import EphemeralRunnerSet
from runnerscale.kube.objects import controller_of
from runnerscale.kube.store import Store


class Bounds:
    """By set; None: its runner set is not known."""

    def __init__(self, runner_sets: Store[AutoscalingRunnerSet]) -> None:
        """Nothing is kept."""
        self._runner_sets = runner_sets

    def low(self, item: EphemeralRunnerSet) -> int | None:
        """Idle runners that are kept on top of demand."""
        found = self._of(item)
        return None if found is None else found.spec.min_runners or 0

    def high(self, item: EphemeralRunnerSet) -> int | None:
        """Never more runners than this."""
        found = self._of(item)
        if found is None:
            return None
        most = found.spec.max_runners
        return MAX_RUNNERS_UNLIMITED if most is None else most

    def _of(self, item: EphemeralRunnerSet) -> AutoscalingRunnerSet | None:
        owner = controller_of(item)
        found = owner and self._runner_sets.get(f"{item.metadata.namespace}/{owner.name}")
        return found if owner and found and found.metadata.uid == owner.uid else None
