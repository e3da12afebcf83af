"""What the check finds, as values: how much it matters, about what, and what to do. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """How much a finding matters."""

    IN_THE_WAY = "in the way"  # to be put right before the exchange
    CHANGES = "changes"  # the exchange itself changes this
    NOTE = "note"  # nothing happens; worth knowing


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence or two. `topic` is stable, for programs that read the report."""

    weight: Weight
    topic: str
    about: str
    what: str
    remedy: str = ""

    def sentence(self) -> str:
        """As a person reads it."""
        parts = [self.what, self.remedy] if self.remedy else [self.what]
        return f"{self.about}: " + " ".join(f"{text.rstrip('.')}." for text in parts)


def guarded(found: Iterable[Finding], about: str) -> Iterator[Finding]:
    """The same; an object with a field of a type that nobody expects spoils no other's report."""
    try:
        yield from found
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        what = f"a field of it cannot be read: {error}"
        yield in_the_way("unreadable", about, what, "Look at it with kubectl get -o yaml")


def in_the_way(topic: str, about: str, what: str, remedy: str) -> Finding:
    """It stands in the way."""
    return Finding(Weight.IN_THE_WAY, topic, about, what, remedy)


def changes(topic: str, about: str, what: str, remedy: str = "") -> Finding:
    """It will be otherwise."""
    return Finding(Weight.CHANGES, topic, about, what, remedy)


def note(topic: str, about: str, what: str, remedy: str = "") -> Finding:
    """It is worth knowing."""
    return Finding(Weight.NOTE, topic, about, what, remedy)
