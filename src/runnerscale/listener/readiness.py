"""Whether a listener can do its work now: said by `loop.py`, served by `server.py`.

A file of its own, because what serves it is large and only loaded where metrics are wanted.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether jobs would be heard of now, and the sentence that says why not."""

    ready: bool
    why: str
