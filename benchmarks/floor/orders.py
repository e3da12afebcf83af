"""What the floor's process is told before it begins: patterns and places, and nothing else.

A pattern is a whole request, ready to be sent once the marks in it are exchanged for a runner's
name, its uid, its JIT config. Its length is set then.
"""

import base64
from pathlib import Path

import msgspec


def base64_text(text: str) -> str:
    """As Secrets hold it."""
    return base64.b64encode(text.encode()).decode()


# Marks: what stands in patterns until the real value is known.
NAME = "floor-runner-pattern"
UID = "00000000-0000-0000-0000-f1008f1008f1"
VERSION = "999999999999"
NUMBER = "777777777777"  # of a registration or a message
CONFIG = "FLOORCONFIG"
JOB = "FLOORJOB"
NAME_BASE64 = base64_text(NAME)
NUMBER_BASE64 = base64_text(NUMBER)
CONFIG_BASE64 = base64_text(CONFIG)


class Pattern(msgspec.Struct):
    """Head without its length and last line end, and body; both with marks in them."""

    head: str
    body: str = ""


class Orders(msgspec.Struct):
    """A file that only we can read: there are tokens in it."""

    api: str  # https://host:port
    ca_pem: str
    github: str  # http://host:port
    prefix: str  # of the runners' names
    own_connections: bool  # ours instead of the raw ones
    runner: Pattern
    jit: Pattern
    pending: Pattern
    secret: Pattern
    pod: Pattern
    read: Pattern
    running: Pattern
    delete_pod: Pattern
    delete_runner: Pattern
    finalizers: Pattern
    poll: Pattern  # with the number of the last message
    acknowledge: Pattern

    def write(self, path: Path) -> None:
        """As JSON."""
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode(self))


def read(path: Path) -> Orders:
    """What `write` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=Orders)


def whole(head: bytes, body: bytes) -> bytes:
    """A request to send."""
    return b"%b\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


class Cut:
    """A pattern cut at its marks once, joined again with values often."""

    def __init__(self, pattern: Pattern, *marks: str) -> None:
        """`marks`: in the order in which `filled` is given their values."""
        self._head, self._head_order = _cut(pattern.head, marks)
        self._body, self._body_order = _cut(pattern.body, marks)

    def filled(self, *values: bytes) -> bytes:
        """The request to send."""
        return whole(
            _joined(self._head, self._head_order, values),
            _joined(self._body, self._body_order, values),
        )


def _cut(text: str, marks: tuple[str, ...]) -> tuple[list[bytes], list[int]]:
    """The text between the marks, and which mark is at each cut."""
    parts, order = [text], list[int]()
    for number, mark in enumerate(marks):
        new_parts, new_order = list[str](), list[int]()
        for at, part in enumerate(parts):
            pieces = part.split(mark)
            new_parts += pieces
            new_order += [number] * (len(pieces) - 1) + order[at : at + 1]
        parts, order = new_parts, new_order
    return [part.encode() for part in parts], order


def _joined(parts: list[bytes], order: list[int], values: tuple[bytes, ...]) -> bytes:
    found = [parts[0]]
    for part, number in zip(parts[1:], order, strict=True):
        found.append(values[number])
        found.append(part)
    return b"".join(found)
