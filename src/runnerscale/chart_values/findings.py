"""What a check finds, as values: where, what, and what to do about it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_PLAIN = re.compile("[A-Za-z0-9_-]{1,80}")
ValuePath = tuple[str | int, ...]  # keys and list indexes from the top of the values


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line of a file, counted from 1."""

    file: str
    line: int


Places = Mapping[ValuePath, Place]


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one place. Never holds a value that may be a secret."""

    path: ValuePath
    what: str
    remedy: str
    is_problem: bool = True  # False: a note, nothing is wrong

    def sentence(self) -> str:
        """Without its place."""
        parts = [self.what, self.remedy] if self.remedy else [self.what]
        return " ".join(part if part.endswith("?") else f"{part}." for part in parts)


def place_of(path: ValuePath, places: Places) -> Place | None:
    """The place of a path, else of the nearest thing around it."""
    for length in range(len(path), -1, -1):
        found = places.get(path[:length])
        if found is not None:
            return found
    return None


def dotted(path: ValuePath) -> str:
    """As people write it: `template.spec.containers[0].name`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if _PLAIN.fullmatch(part) else repr(part)
            text += f".{shown}" if text else shown
    return text
