"""Bodies that came packed unasked: read if they can be, never beyond the bound."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.scaleset.packed_body import unpacked

TEXT = b'{"count": 1}'


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (TEXT, ""),
        (TEXT, "identity"),
        (gzip.compress(TEXT, mtime=0), "gzip"),
        (gzip.compress(TEXT, mtime=0), " GZIP "),
        (zlib.compress(TEXT), "deflate"),
    ],
)
def test_what_was_packed_is_read(body: bytes, encoding: str) -> None:
    assert unpacked(body, encoding, bytes_max=100) == (TEXT, "")


def test_no_body_is_no_packed_body() -> None:
    assert unpacked(b"", "gzip", bytes_max=100) == (b"", "")


@pytest.mark.parametrize(
    ("body", "encoding", "fault"),
    [
        (gzip.compress(b"x" * 101, mtime=0), "gzip", "larger than 100 bytes"),
        (gzip.compress(TEXT, mtime=0)[:-1], "gzip", "does not end where it should"),
        (gzip.compress(TEXT, mtime=0) + b"more", "gzip", "does not end where it should"),
        (TEXT, "gzip", "cannot be unpacked"),
        (TEXT, "br", "not asked for"),
    ],
)
def test_what_cannot_be_read_is_said(body: bytes, encoding: str, fault: str) -> None:
    found, said = unpacked(body, encoding, bytes_max=100)
    assert found == b""
    assert fault in said


def test_the_bound_itself_is_still_read() -> None:
    assert unpacked(gzip.compress(b"x" * 100, mtime=0), "gzip", bytes_max=100) == (b"x" * 100, "")


@given(st.binary(max_size=200))
def test_nothing_that_comes_is_more_than_a_fault(body: bytes) -> None:
    found, said = unpacked(body, "gzip", bytes_max=100)
    assert not (found and said)
