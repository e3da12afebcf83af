"""What an entry of a closed catalogue of words consists of; the entries are `reasons.py`.

A file of its own, so that the catalogue itself is nothing but its entries.
"""

from collections.abc import Iterable
from enum import StrEnum


class Severity(StrEnum):
    """How an Event about it is typed, and how loudly it is logged."""

    INFO = "info"  # will pass by itself; told so that nobody wonders
    WARNING = "warning"  # something does not work and heals when its cause does
    ERROR = "error"  # needs a person


class Entry(StrEnum):
    """Each: word, severity, meaning, what we do, what you can do. Words are stable."""

    severity: Severity
    meaning: str
    what_we_do: str
    what_you_can_do: str

    def __new__(
        cls, word: str, severity: Severity, meaning: str, what_we_do: str, what_you_can_do: str
    ) -> "Entry":
        """One member of the catalogue."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.severity = severity
        member.meaning = meaning
        member.what_we_do = what_we_do
        member.what_you_can_do = what_you_can_do
        return member

    def happened_in(self, message: str) -> str:
        """What a stored message says happened, without this entry's remedy, if that is in it."""
        return message.removesuffix(self.what_you_can_do).rstrip(". ")


def as_markdown(entries: Iterable[Entry]) -> str:
    """The catalogue as a page part: a heading for each entry, by name."""
    parts = []
    for reason in sorted(entries):
        parts += [
            f"### {reason}",
            "",
            f"*{reason.severity}*: {reason.meaning}",
            "",
            f"- What we do: {reason.what_we_do}",
            f"- What you can do: {reason.what_you_can_do}",
            "",
        ]
    return "\n".join(parts).rstrip()
