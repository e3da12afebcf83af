"""What happened, in virtual time: a hash that must not differ between two runs of one seed,
and the last lines for people."""

import hashlib
from collections import deque
from dataclasses import dataclass, field

LINES_MAX = 20_000


@dataclass(slots=True)
class Trace:
    """Every write, every answer, every event at GitHub, every fault; in order."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_MAX))
    count: int = 0
    _hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, now_s: float, who: str, what: str) -> None:
        """One line."""
        line = f"{now_s:10.3f}  {who:<34} {what}"
        self._hash.update(line.encode())
        self.lines.append(line)
        self.count += 1

    @property
    def digest(self) -> str:
        """Of all lines so far."""
        return self._hash.hexdigest()[:16]

    def tail(self, count: int) -> str:
        """The last lines."""
        return "\n".join(list(self.lines)[-count:])
