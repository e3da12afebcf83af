"""Comparing resourceVersions: numbers on every real API server, since 1.35 by its contract.

Text that is no number compares as neither older nor newer: then only equality is known.
"""


def number_of(version: str | None) -> int | None:
    """The number, or None for anything else (empty included)."""
    return int(version) if version and version.isascii() and version.isdigit() else None


def is_newer(version: str | None, than: str | None) -> bool:
    """Whether `version` may follow `than`: the larger number, or just different text."""
    mine, other = number_of(version), number_of(than)
    if mine is None or other is None:
        return version != than
    return mine > other
