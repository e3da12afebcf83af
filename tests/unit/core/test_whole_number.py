"""What is no plain number is none, whatever `str` and `int` think of it."""

import pytest

from runnerscale.core.whole_number import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("0042", 42), ("9" * 18, 10**18 - 1)])
def test_plain_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1", " 1", "1 ", "1_0", "1.0", "0x1", "\u00b2", "\u0663", "9" * 19, "9" * 5000],
)
def test_what_is_no_plain_number_is_none(text: str) -> None:
    assert whole_number(text) is None
