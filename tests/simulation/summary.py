"""What many seeds have shown: how often each kind of fault struck, which pairs met, what it cost.

A long run must have seen enough: each kind so many times, and each two kinds that can meet in one
history at least once. What is missing is named.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.scenario import HOUR_KINDS

Json = dict[str, Any]

STRUCK_MIN = 500  # of each kind, in a long run
NAMED_MAX = 20  # so many missing pairs are printed; all are in the JSON


def possible_pairs(kinds: Iterable[str]) -> set[str]:
    """Every two kinds that a seed may draw together: of the hour-long ones there is only one."""
    names = sorted(kinds)
    return {
        f"{one}+{other}"
        for place, one in enumerate(names)
        for other in names[place + 1 :]
        if not (one in HOUR_KINDS and other in HOUR_KINDS)
    }


@dataclass(slots=True)
class Summary:
    """Of many seeds."""

    kinds: tuple[str, ...]
    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    slowest: tuple[float, int] = (0.0, 0)  # until at rest after the last fault; the seed

    def add(self, result: Json) -> None:
        """One seed more, as `run.result` tells it."""
        self.seeds += 1
        self.steps += result.get("steps", 0)
        self.virtual_s += result.get("virtual_s", 0.0)
        self.cpu_s += result.get("cpu_s", 0.0)
        self.slowest = max(self.slowest, (result.get("settled_s", 0.0), result["seed"]))
        struck = result.get("struck", [])
        self.struck.update(struck)
        names = sorted(set(struck))
        self.pairs.update(f"{a}+{b}" for i, a in enumerate(names) for b in names[i + 1 :])
        if result["failed"]:
            self.failed.append(result["seed"])

    @property
    def rare(self) -> list[str]:
        """Kinds that struck less often than a long run wants, with how often."""
        found = [(self.struck[kind], kind) for kind in self.kinds]
        return [f"{kind} ({count})" for count, kind in sorted(found) if count < STRUCK_MIN]

    @property
    def unseen(self) -> list[str]:
        """Pairs that can meet and never did."""
        return sorted(possible_pairs(self.kinds) - self.pairs.keys())

    def as_json(self) -> Json:
        """For those who add up."""
        possible = possible_pairs(self.kinds)
        return {
            "seeds": self.seeds,
            "failed": sorted(self.failed),
            "steps": self.steps,
            "virtual_s": round(self.virtual_s),
            "cpu_s": round(self.cpu_s, 1),
            "wall_s": round(self.wall_s, 1),
            "at_rest_after_s": self.slowest[0],
            "faults": {kind: self.struck[kind] for kind in sorted(self.kinds)},
            "pairs_seen": len(possible & self.pairs.keys()),
            "pairs": len(possible),
        }

    def table(self) -> str:
        """For people."""
        each = max(1, self.seeds)
        counts = sorted(self.struck[kind] for kind in self.kinds) or [0]
        told = self.as_json()
        rows = [
            ("seeds", f"{self.seeds}"),
            ("violations", f"{len(self.failed)}" + _named(sorted(map(str, self.failed)))),
            ("wall time", f"{self.wall_s:.0f} s"),
            ("CPU", f"{self.cpu_s:.0f} s, {self.cpu_s / each:.2f} s a seed"),
            ("steps", f"{self.steps}"),
            (
                "virtual time",
                f"{self.virtual_s / 3600:.0f} h, {self.virtual_s / each:.0f} s a seed",
            ),
            ("at rest", f"at most {self.slowest[0]:.0f} s after a fault, seed {self.slowest[1]}"),
            ("faults that struck", f"{sum(counts)} of {len(self.kinds)} kinds"),
            ("each kind", f"{counts[0]} to {counts[-1]} times"),
            ("pairs of kinds", f"{told['pairs_seen']} seen of {told['pairs']} that can meet"),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)

    def lacks(self) -> list[str]:
        """What a long run should have seen and has not: a sentence each."""
        found = []
        if self.rare:
            found.append(f"struck less than {STRUCK_MIN} times:{_named(self.rare)}")
        if self.unseen:
            found.append(f"{len(self.unseen)} pairs never met:{_named(self.unseen)}")
        return found


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f" {', '.join(names[:NAMED_MAX])}{more}" if names else ""
