"""What happened, in virtual time: a hash that must not differ between two runs of one seed,
and the last lines for people."""

import hashlib
from collections import deque
from dataclasses import dataclass, field

LINES_MAX = 20_000
WRITES_MAX = 2_000
SHOWN_MAX = 30
BEATS = ("leases kube-node-lease/",)
COLUMNS = ("at", "who", "verb", "object", "version")

Row = tuple[float, str, str, str, str]


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
        self.writes.append((now_s, who, verb, name, version))

    def last_writes(self, until_s: float) -> list[Row]:
        """Those before that time that tell something: heartbeats are left out."""
        told = [row for row in self.writes if row[0] <= until_s and not row[3].startswith(BEATS)]
        return told[-SHOWN_MAX:]

    def table(self, until_s: float) -> str:
        """The last writes until then, in columns."""
        written = self.last_writes(until_s)
        rows = [COLUMNS, *((f"{now_s:.3f} s", *rest) for now_s, *rest in written)]
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
