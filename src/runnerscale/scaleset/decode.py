"""JSON, read as leniently and as strictly as the Go client reads it.

Go's rules, which the service relies on: names match in any case, unknown ones are ignored,
null leaves the zero value, a leading byte-order mark and anything after the first value do
not matter; but integers have neither fraction nor quotes, and times are RFC 3339 with an
offset. Which members an answer must have is `answers.py`; the queue's envelopes are
`messages.py`.

Pure. Contract: github-service-and-listener 2.1 (body decoding).
"""

import json
import re
from typing import Any, NoReturn, TypeVar

from runnerscale.core.clock import parse_time

T = TypeVar("T")

BOM = b"\xef\xbb\xbf"
INT64_MAX = 2**63 - 1
_HALF = re.compile("[\ud800-\udfff]")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


class DecodeError(ValueError):
    """A body that is not what it should be; says where. Never quotes a value."""


class Fields:
    """A JSON object, read by name. `path` is for error texts."""

    def __init__(self, members: dict[str, Any], path: str = "") -> None:
        """Index the members by their lower-case names; the exact name wins over others."""
        self._members = members
        self._folded = {name.lower(): value for name, value in members.items()}
        self._path = path

    def text(self, name: str) -> str:
        """A string; "" for null or absent."""
        return _whole(self._of(name, str, "a string") or "")

    def integer(self, name: str) -> int:
        """An integer without fraction or quotes; 0 for null or absent."""
        value = self._of(name, int, "an integer")
        if value is None:
            return 0
        if isinstance(value, bool) or not -INT64_MAX - 1 <= value <= INT64_MAX:
            self._refuse(name, "a 64-bit integer")
        return value

    def boolean(self, name: str) -> bool:
        """True or false; false for null or absent."""
        return self._of(name, bool, "true or false") or False

    def time_s(self, name: str) -> float:
        """An RFC 3339 time with offset, in seconds since the epoch; 0.0 for "never"."""
        value = self._value(name)
        if value is None:
            return 0.0
        if not isinstance(value, str) or not _RFC3339.fullmatch(value):
            self._refuse(name, "an RFC 3339 time with an offset")
        try:
            # Go's zero time, the year 1, is how "never" is written.
            return max(0.0, parse_time(value.upper()))
        except (ValueError, OverflowError):
            self._refuse(name, "a time that exists")

    def object(self, name: str) -> "Fields | None":
        """A nested object; None for null or absent."""
        value = self._of(name, dict, "an object")
        return None if value is None else Fields(value, f"{self._path}{name}.")

    def array(self, name: str) -> list[Any] | None:
        """A list, its elements as they are; None for null or absent."""
        return self._of(name, list, "a list")

    def objects(self, name: str) -> "list[Fields]":
        """A list of objects; empty for null or absent."""
        return [
            Fields(element, f"{self._path}{name}[{place}].")
            if isinstance(element, dict)
            else self._refuse(name, "a list of objects")
            for place, element in enumerate(self.array(name) or [])
        ]

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; null elements are empty strings."""
        return tuple(
            ""
            if element is None
            else _whole(element)
            if isinstance(element, str)
            else self._refuse(name, "a list of strings")
            for element in self.array(name) or []
        )

    def has(self, name: str) -> bool:
        """Present and not null."""
        return self._value(name) is not None

    def _value(self, name: str) -> Any:
        if name in self._members:
            return self._members[name]
        return self._folded.get(name.lower())

    def _of(self, name: str, kind: type[T], called: str) -> T | None:
        value = self._value(name)
        if not (value is None or isinstance(value, kind)):
            self._refuse(name, called)
        return value

    def _refuse(self, name: str, called: str) -> NoReturn:
        raise DecodeError(f"{self._path}{name} is not {called}")


def parse(body: bytes) -> Any:
    """The first JSON value of a body.

    Raises:
        DecodeError: there is none.
    """
    text = body.removeprefix(BOM).decode(errors="replace").lstrip(" \t\r\n")
    if not text:
        raise DecodeError("the body is empty (EOF)")
    try:
        value, _ = _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise DecodeError(f"the body is not JSON ({why})") from None
    return value


def parse_object(body: bytes) -> Fields:
    """The JSON object in a body; a literal `null` is one without members.

    Raises:
        DecodeError: something else is in it.
    """
    value = parse(body)
    if value is None:
        return Fields({})
    if not isinstance(value, dict):
        raise DecodeError("the body is not a JSON object")
    return Fields(value)


def _whole(text: str) -> str:
    """Half a character (`\\ud800` alone) as the replacement character, as Go reads it.

    Kept as it is, no request, log line or patch could ever hold the text.
    """
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def _no_constant(_: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
