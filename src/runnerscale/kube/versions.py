"""Comparing resourceVersions: numbers on every real API server, since 1.35 by its contract.

Text that is no number compares as neither older nor newer: then only equality is known.
"""

DIGITS_MAX = 40  # of 20 that a server may use; beyond some thousand, Python refuses to read one


def number_of(version: str | None) -> int | None:
    """The number, or None for anything else (empty included)."""
    if not version or len(version) > DIGITS_MAX or not version.isascii():
        return None
    return int(version) if version.isdigit() else None


def is_newer(version: str | None, than: str | None) -> bool:
    """Whether `version` may follow `than`: the larger number, or just different text."""
    mine, other = number_of(version), number_of(than)
    if mine is None or other is None:
        return version != than
    return mine > other
