"""What is written: the head is ours from the first letter to the empty line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.core.http_request import UnsafeHeader, request_bytes


def test_a_request_is_its_line_its_headers_and_its_body() -> None:
    assert request_bytes("POST", "/a?b=c", "h:1", {"X": "y"}, b"body") == (
        b"POST /a?b=c HTTP/1.1\r\nHost: h:1\r\nX: y\r\nContent-Length: 4\r\n\r\nbody"
    )


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_without_a_body_a_length_of_nothing_is_said(method: str) -> None:
    assert b"\r\nContent-Length: 0\r\n\r\n" in request_bytes(method, "/", "h", {}, None)
    assert b"Content-Length" not in request_bytes("GET", "/", "h", {}, None)


TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


@given(st.dictionaries(TEXT, TEXT, max_size=4))
def test_headers_are_as_many_lines_as_there_are_headers(headers: dict[str, str]) -> None:
    if any(mark in text for pair in headers.items() for text in pair for mark in "\r\n\0"):
        with pytest.raises(UnsafeHeader):
            request_bytes("GET", "/", "h", headers, None)
        return
    raw = request_bytes("GET", "/", "h", headers, None)
    assert raw.count(b"\r\n") == 3 + len(headers)
    assert raw.endswith(b"\r\n\r\n")
