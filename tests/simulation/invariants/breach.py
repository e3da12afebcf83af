"""An invariant that did not hold: one sentence with object and time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Breach:
    """`rule`: which invariant; `detail`: what was seen."""

    rule: str
    detail: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.at_s:.3f} s: {self.rule}: {self.detail}"
