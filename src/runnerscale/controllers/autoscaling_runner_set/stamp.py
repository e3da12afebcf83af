"""What is remembered of our name on a runner set. The rule is `competing.py`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stamp:
    """Times are wall time."""

    there: bool = False  # ours was the last that we saw
    put_s: float = 0.0  # when ours was seen there first, the last time
    losses: tuple[float, ...] = ()  # when ours was found replaced by another's
    other: str = ""  # whose
