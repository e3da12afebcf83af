"""Whatever GitHub, or somebody in its place, answers: a usable value, or a DecodeError."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnerscale.core.secret import SecretText
from runnerscale.scaleset import answers
from runnerscale.scaleset.answers import SeveralFound
from runnerscale.scaleset.decode import DecodeError, parse_object
from runnerscale.scaleset.messages import decode_message

STATISTICS = {"totalAvailableJobs": 1, "totalAssignedJobs": 2, "totalIdleRunners": 3}
RUNNER = {"id": 5, "name": "r", "runnerScaleSetId": 1, "status": "online"}
JOB = {
    "messageType": "JobStarted",
    "runnerRequestId": 7,
    "ownerName": "o",
    "jobId": "j",
    "jobDisplayName": "build",
    "requestLabels": ["a"],
    "queueTime": "2026-01-02T03:04:05.123Z",
    "runnerId": 5,
    "runnerName": "r",
}
GOOD: dict[str, tuple[Callable[[bytes], Any], Any]] = {
    "token": (answers.decode_token, {"token": "t", "expires_at": "2026-01-02T03:04:05Z"}),
    "connection": (answers.decode_connection, {"url": "https://h/t", "token": "t"}),
    "scale set": (
        answers.decode_scale_set,
        {"id": 1, "name": "n", "labels": [{"name": "l"}], "statistics": STATISTICS},
    ),
    "runner": (answers.decode_runner, RUNNER),
    "found": (lambda b: answers.decode_found_runner(b, "r"), {"count": 1, "value": [RUNNER]}),
    "group": (lambda b: answers.decode_found_group(b, "g"), {"count": 1, "value": [{"id": 1}]}),
    "jit": (answers.decode_jit_config, {"runner": RUNNER, "encodedJITConfig": "x"}),
    "session": (
        answers.decode_session,
        {
            "sessionId": "s",
            "messageQueueUrl": "https://h/q",
            "messageQueueAccessToken": "t",
            "statistics": STATISTICS,
        },
    ),
    "acquired": (answers.decode_acquired, {"value": [1, 2]}),
    "message": (
        decode_message,
        {
            "messageId": 1,
            "messageType": "RunnerScaleSetJobMessages",
            "statistics": STATISTICS,
            "body": json.dumps([JOB, JOB]),
        },
    ),
}
ODD: list[Any] = [
    *(None, True, 0, -1, 10**30, 1.5, 1e300, "", "\x00", "\ud800", "x" * 100_000),
    *([], {}, [None], {"id": {}}, "9999-99-99T99:99:99Z", "0001-01-01T00:00:00+23:59"),
    *("9999-12-31T23:59:60Z", "https://[::1", "http://h:99999/", "../../x", "[[[["),
]


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in inside:
        found.append((*at, key))
        if isinstance(item, dict | list):
            found += paths(item, (*at, key))
    return found


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    copy = json.loads(json.dumps(value))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return copy


def usable(value: Any) -> None:
    """What was read can be written down again."""
    repr(value).encode()


def read(name: str, body: bytes) -> None:
    try:
        usable(GOOD[name][0](body))
    except (DecodeError, SeveralFound):
        pass  # nothing else may come


@pytest.mark.parametrize("name", GOOD)
def test_every_member_may_be_anything(name: str) -> None:
    decode, good = GOOD[name]
    usable(decode(json.dumps(good).encode()))
    for path in paths(good):
        for odd in ODD:
            read(name, json.dumps(changed(good, path, odd)).encode())


def test_every_member_of_a_job_may_be_anything_and_its_neighbour_still_counts() -> None:
    envelope = GOOD["message"][1]
    for name in JOB:
        for odd in ODD:
            jobs = json.dumps([changed(JOB, (name,), odd), JOB])
            message = decode_message(json.dumps({**envelope, "body": jobs}).encode())
            usable(message)
            assert message.events[-1].runner_name == "r"


@pytest.mark.parametrize("name", GOOD)
@given(body=st.binary(max_size=200))
@settings(max_examples=50)
def test_bytes_of_no_meaning_are_refused(name: str, body: bytes) -> None:
    read(name, body)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b'{"id":' + b"9" * 5000])
def test_bodies_without_end_are_refused(name: str, body: bytes) -> None:
    read(name, body)


def test_half_a_character_becomes_a_whole_one() -> None:
    # Go's decoder does the same; a text with half of one could never be sent anywhere.
    assert parse_object(b'{"a": "x\\ud800y"}').text("a") == "x\ufffdy"
    assert parse_object(b'{"a": "\\ud83d\\ude00"}').text("a") == "\N{GRINNING FACE}"
    assert parse_object(b'{"a": ["\\udfff"]}').texts("a") == ("\ufffd",)


@pytest.mark.parametrize("expiry", ["1" + "0" * 400, "1e400", "NaN", "Infinity", "[[]]", '"1"'])
def test_a_token_that_never_ends_is_no_token(expiry: str) -> None:
    claims = base64.urlsafe_b64encode(f'{{"exp": {expiry}}}'.encode()).decode()
    with pytest.raises(DecodeError):
        answers.jwt_expiry_s(SecretText(f"a.{claims}.b"))
