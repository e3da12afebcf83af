"""A planted defect, as data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file under `src/runnerscale`."""

    name: str
    kind: str  # the sort of mistake, in the words of the issue
    file: str
    old: str  # occurs exactly once in the file
    new: str
    danger: str  # what it would do to a user
    seen_by: str  # the invariant that is to see it
    needs: tuple[str, ...] = ()  # kinds of faults without one of which it cannot matter; (): none
