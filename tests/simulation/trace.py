"""What happened, in virtual time: a hash that must not differ between two runs of one seed,
and the last lines for people."""

import hashlib
from collections import deque
from dataclasses import dataclass, field

LINES_MAX = 20_000
WRITES_MAX = 30
COLUMNS = ("at", "who", "verb", "object", "version")

Row = tuple[str, str, str, str, str]


@dataclass(slots=True)
class Trace:
    """Every write, every answer, every event at GitHub, every fault; in order."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_MAX))
    writes: deque[Row] = field(default_factory=lambda: deque(maxlen=WRITES_MAX))
    count: int = 0
    _hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, now_s: float, who: str, what: str) -> None:
        """One line."""
        line = f"{now_s:10.3f}  {who:<34} {what}"
        self._hash.update(line.encode())
        self.lines.append(line)
        self.count += 1

    def wrote(self, now_s: float, who: str, verb: str, name: str, version: str) -> None:
        """One write, for the table of the last ones."""
        self.writes.append((f"{now_s:.3f} s", who, verb, name, version))

    def table(self) -> str:
        """The last writes in columns."""
        rows = [COLUMNS, *self.writes]
        widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    @property
    def digest(self) -> str:
        """Of all lines so far."""
        return self._hash.hexdigest()[:16]

    def tail(self, count: int) -> str:
        """The last lines."""
        return "\n".join(list(self.lines)[-count:])
