"""JSON that is nested too deeply, found without following it down.

A decoder that meets a few thousand open brackets gives up with a RecursionError, and so does
every rule that walks over a template. The API server stores such objects (an open template takes
anything), so one hostile object could stop whoever lists its kind. Pure; what happens to an
object that is found so is `watch.py` and `informer.py`.
"""

import re

# No kind that we read needs more than about 25; rules that walk over a template by recursion
# have room for a multiple of this.
DEPTH_MAX = 100
# Stands where something was cut off. It cannot be part of a name, so it changes no identity.
CUT = b'"\\u0000nested too deeply"'
TOO_DEEP = f"it is nested deeper than {DEPTH_MAX} levels"

# A whole string (kept together with its escapes), or one bracket. A string that never ends goes
# to the end of the text: else each of its quotes would be tried as the beginning of another.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[][{}]', re.DOTALL)


def is_too_deep(text: bytes, limit: int = DEPTH_MAX) -> bool:
    """Whether JSON goes down more than `limit` levels. Cheap where there are few brackets."""
    if text.count(b"{") + text.count(b"[") <= limit:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in b"{[":
            depth += 1
            if depth > limit:
                return True
        elif first in b"}]":
            depth -= 1
    return False


def cut_below(text: bytes, limit: int) -> bytes:
    """The same JSON with `CUT` in the place of every value below `limit` levels."""
    parts: list[bytes] = []
    depth, kept_from = 0, 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in b"{[":
            if depth == limit:
                parts += (text[kept_from : token.start()], CUT)
            depth += 1
        elif first in b"}]":
            depth -= 1
            if depth == limit:
                kept_from = token.end()
    parts.append(text[kept_from:] if depth <= limit else b"")
    return b"".join(parts)
