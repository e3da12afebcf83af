"""The form of what a listener says on its set."""

import json

import pytest

from runnerscale.api.listener_word import MESSAGE_MAX, ListenerWord, decoded, encoded
from runnerscale.api.reasons import Reason

WORD = ListenerWord(Reason.SCALE_SET_GONE, "GitHub answered 404", 1_800_000_000.0, 7)
GOOD = {"reason": "ScaleSetGone", "message": "m", "since": "2027-01-15T08:00:00Z"}


def test_it_is_read_as_it_was_written() -> None:
    assert json.loads(encoded(WORD)) == {
        "reason": "ScaleSetGone",
        "message": "GitHub answered 404",
        "since": "2027-01-15T08:00:00Z",
        "scaleSetId": 7,
    }
    assert decoded(encoded(WORD)) == WORD


def test_the_scale_set_may_be_left_out() -> None:
    word = decoded(json.dumps(GOOD))
    assert word == ListenerWord(Reason.SCALE_SET_GONE, "m", 1_800_000_000.0)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "7",
        "null",
        json.dumps({**GOOD, "reason": "SomethingNew"}),
        json.dumps({**GOOD, "reason": None}),
        json.dumps({**GOOD, "reason": []}),
        json.dumps({**GOOD, "since": "yesterday"}),
        json.dumps({**GOOD, "since": 7}),
        json.dumps({"reason": "ScaleSetGone"}),
        json.dumps({**GOOD, "message": 1}),
        json.dumps({**GOOD, "scaleSetId": True}),
        json.dumps({**GOOD, "scaleSetId": -1}),
        json.dumps({**GOOD, "scaleSetId": 1.5}),
        json.dumps({**GOOD, "message": "x" * 5000}),
        "[" * 4000,
    ],
)
def test_what_says_nothing_that_we_know_is_passed_over(text: str | None) -> None:
    assert decoded(text) is None


def test_a_message_is_one_line_and_not_too_long() -> None:
    long = ListenerWord(Reason.GITHUB_REFUSED, "a\n\tb\x00" + "x" * 10_000, 0.0, 7)
    word = decoded(encoded(long))
    assert word is not None
    assert word.message.startswith("a b xxx") and len(word.message) == MESSAGE_MAX
    assert word.message.endswith("…")
