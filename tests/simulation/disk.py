"""What the embedded API server has on disk: outlives its process, needs no thread."""

from collections.abc import Callable, Iterable

from runnerscale.apiserver.record import Key
from runnerscale.apiserver.store import Row


class Disk:
    """A journal in memory that a later server opens again."""

    def __init__(self) -> None:
        self.version = 0
        self._rows: dict[Key, Row] = {}

    def load(self) -> tuple[int, Iterable[Row]]:
        """The last version and every object, in the order of their last writes."""
        return self.version, sorted(self._rows.values(), key=lambda row: row.version)

    def start(self, done: Callable[[int], None], failed: Callable[[str], None]) -> None:
        """Nothing to start."""

    def append(self, row: Row) -> bool:
        """Durable at once."""
        self.version = row.version
        if row.data is None:
            self._rows.pop(row.key, None)
        else:
            self._rows[row.key] = row
        return True

    async def close(self) -> None:
        """Nothing to stop."""
