"""The bytes of a request, as both direct transports write them.

Pure. Target and host are the caller's to check; headers may hold what came from elsewhere (tokens
from Secrets, names from objects) and are checked here: nothing ends its line early.
"""

import re
from collections.abc import Mapping

_UNSAFE = re.compile(r"[\r\n\0]")
_NO_BODY = ("GET", "HEAD")  # whose silence about a length means that there is none


class UnsafeHeader(ValueError):
    """A header would end its line early. Its value is not shown: it may be a token."""

    def __init__(self, name: str) -> None:
        """`name`: of the header."""
        super().__init__(f"the header {name!r} holds a line end")
        self.name = name


def _culprit(headers: Mapping[str, str]) -> str:
    return next(
        name for name, value in headers.items() if _UNSAFE.search(name) or _UNSAFE.search(value)
    )


def request_bytes(
    method: str, target: str, host: str, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    """Head and body.

    Raises:
        UnsafeHeader: a name or value holds a line end or a NUL.
    """
    head = [f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n"]
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if not (lines.count("\n") == lines.count("\r") == len(headers)) or "\0" in lines:
        raise UnsafeHeader(_culprit(headers))
    head.append(lines)
    if body is not None:
        head.append(f"Content-Length: {len(body)}\r\n")
    elif method not in _NO_BODY:
        head.append("Content-Length: 0\r\n")
    head.append("\r\n")
    start = "".join(head).encode("utf-8")
    return start + body if body else start
