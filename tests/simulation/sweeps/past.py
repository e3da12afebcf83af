"""Which revisions of the API server's store differ for the controller: what a stale sweep shows.

How the past is shown is `tests/simulation/stale.py`. Here is only what there is to show: a write
to an object that the controller does not follow makes a revision that it cannot tell from the
one before.
"""

from dataclasses import dataclass, field

from runnerscale.apiserver.change_log import Change
from runnerscale.apiserver.lists import Selection
from runnerscale.apiserver.store import Store
from runnerscale.apiserver.watching import visible


@dataclass(slots=True)
class Past:
    """All changes since the server opened its store."""

    first: int = 0  # the revision before them
    changes: list[Change] = field(default_factory=list)
    watched: list[Selection] = field(default_factory=list)
    _seen: list[int] = field(default_factory=list)  # revisions that differ for the watcher
    _looked: int = 0  # so many changes are judged

    def follow(self, store: Store) -> None:
        """Remember from now on."""
        self.first = store.version
        store.on_change(self.changes.append)

    def revisions(self) -> list[int]:
        """The earlier ones that differ for the watcher, the present one left out."""
        for change in self.changes[self._looked :]:
            if any(_sees(selection, change) for selection in self.watched):
                self._seen.append(change.version)
        self._looked = len(self.changes)
        return [self.first, *self._seen][:-1]


def _sees(selection: Selection, change: Change) -> bool:
    same = selection.kind.resource == change.record.key[0]
    return same and visible(change, selection) is not None
