"""Text from outside, fit to be shown: one line, nothing a terminal obeys, not without end.

Names and messages come from GitHub, workflows and other people's objects. Where they reach a
log, an Event or a terminal they go through here, so that nobody can forge a line, move the
cursor, hide what follows, or fill a disk with one name.
"""

CUT_MARK = "..."


def counted(number: int, one: str, many: str) -> str:
    """A number with its words: `1 job waits`, `2 jobs wait`."""
    return f"{number} {one if number == 1 else many}"


def one_line(text: str, chars_max: int) -> str:
    """What can be printed stays, the rest is written as an escape; cut at `chars_max`."""
    head = text[:chars_max]
    if not head.isprintable():
        head = "".join(c if c.isprintable() else repr(c)[1:-1] for c in head)
    if len(head) <= chars_max and len(text) <= chars_max:
        return head
    return head[: max(0, chars_max - len(CUT_MARK))] + CUT_MARK
