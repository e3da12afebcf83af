"""A whole number out of text that anybody may have written: annotations, addresses, URLs.

A file of its own, because each of the short ways is wrong: `isdigit` says yes to "²", which
`int` refuses, and of some thousand digits Python reads none.
"""

DIGITS_MAX = 18  # of what surely fits 64 bits


def whole_number(text: str, *, digits_max: int = DIGITS_MAX) -> int | None:
    """The number, where the text is nothing but plain digits and not too many; else None."""
    if text.isascii() and text.isdigit() and len(text) <= digits_max:
        return int(text)
    return None
