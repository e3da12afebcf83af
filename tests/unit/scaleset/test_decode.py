"""Go's decoding rules, as pairs of bytes and value."""

import base64
import json
from typing import Any

import pytest

from runnerscale.core.secret import SecretText
from runnerscale.scaleset import answers
from runnerscale.scaleset.decode import DecodeError, parse, parse_object
from runnerscale.scaleset.model import RunnerScaleSet


@pytest.mark.behaviour("C2 T33")
@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"foo":"bar"}', {"foo": "bar"}),
        (b'\xef\xbb\xbf{"foo":"bar"}', {"foo": "bar"}),
        (b' \r\n\t{"foo":"bar"}  trailing', {"foo": "bar"}),
        (b"null", None),
        (b'"\xff"', "\ufffd"),
    ],
)
def test_the_first_value_counts(body: bytes, value: Any) -> None:
    assert parse(body) == value


@pytest.mark.behaviour("C2 T33", "C2 T114")
@pytest.mark.parametrize("body", [b"", b"  ", b"\xef\xbb\xbf"])
def test_no_value_is_the_end_of_file(body: bytes) -> None:
    with pytest.raises(DecodeError, match="EOF"):
        parse(body)


@pytest.mark.parametrize("body", [b"{", b"nul", b"NaN", b"[Infinity]", b"[" * 100_000])
def test_what_is_no_json_is_told_so(body: bytes) -> None:
    with pytest.raises(DecodeError, match="not JSON"):
        parse(body)


def test_an_object_is_asked_for() -> None:
    with pytest.raises(DecodeError, match="not a JSON object"):
        parse_object(b"[]")
    assert parse_object(b"null").text("x") == ""


def test_names_match_in_any_case_the_exact_one_first() -> None:
    fields = parse_object(b'{"NAME":"other","name":"exact","Id":3,"flag":true,"none":null}')
    assert fields.text("name") == "exact"
    assert fields.integer("id") == 3
    assert fields.boolean("FLAG")
    assert fields.text("none") == "" and not fields.has("none")
    assert (fields.integer("gone"), fields.boolean("gone"), fields.array("gone")) == (
        0,
        False,
        None,
    )


@pytest.mark.parametrize("value", ["1.0", "1.5", '"1"', "true", "false", "[]", "1e3", str(2**63)])
def test_integers_are_integers(value: str) -> None:
    with pytest.raises(DecodeError):
        parse_object(f'{{"n":{value}}}'.encode()).integer("n")


def test_the_path_of_a_bad_member_is_told_and_its_value_is_not() -> None:
    body = b'{"labels":[{"name":"a"},{"name":{"hush":1}}]}'
    with pytest.raises(DecodeError, match=r"labels\[1\]\.name is not a string") as caught:
        [label.text("name") for label in parse_object(body).objects("labels")]
    assert "hush" not in str(caught.value)
    with pytest.raises(DecodeError, match="list of objects"):
        parse_object(b'{"labels":[1]}').objects("labels")


def jwt(claims: Any) -> SecretText:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return SecretText(f"e30.{part}.sig")


@pytest.mark.parametrize("exp", [1_800_000_000, 1_800_000_000.5])
def test_the_end_of_a_jwt_is_read_without_its_signature(exp: float) -> None:
    assert answers.jwt_expiry_s(jwt({"exp": exp})) == exp


@pytest.mark.parametrize(
    "token", [SecretText("a.b"), SecretText("a.é.c"), jwt([1]), jwt({"exp": True})]
)
def test_a_jwt_without_an_end_is_told(token: SecretText) -> None:
    with pytest.raises(DecodeError):
        answers.jwt_expiry_s(token)


def test_a_token_may_come_without_its_end_or_with_a_broken_one() -> None:
    assert answers.decode_token(b'{"token":"t"}') == (SecretText("t"), 0.0)
    assert answers.decode_token(b'{"token":"t","expires_at":"soon"}') == (SecretText("t"), 0.0)
    with pytest.raises(DecodeError, match="token is missing"):
        answers.decode_token(b"{}")


def test_a_scale_set_without_an_id_is_none() -> None:
    with pytest.raises(DecodeError, match="no id"):
        answers.decode_scale_set(b'{"name":"x"}')
    assert answers.decode_scale_set(b'{"id":3}') == RunnerScaleSet(3, "")


SESSION = {
    "sessionId": "6c7c3d6e-6d53-4b1a-9b57-3a4a4c1b1a11",
    "messageQueueUrl": "https://q/msg?sig=hush",
    "messageQueueAccessToken": "hush",
    "statistics": {"totalAssignedJobs": 1},
}


def test_a_session_is_shown_without_its_secrets() -> None:
    session = answers.decode_session(json.dumps(SESSION).encode())
    assert "hush" not in repr(session)
    assert session.queue_url.reveal() == "https://q/msg?sig=hush"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("sessionId", ""),
        ("sessionId", answers.NIL_UUID),
        ("sessionId", None),
        ("messageQueueUrl", ""),
        ("messageQueueUrl", "q/msg"),
        ("messageQueueUrl", "ftp://q/msg"),
        ("messageQueueAccessToken", ""),
        ("messageQueueAccessToken", None),
    ],
)
def test_a_session_that_cannot_be_used_is_an_error(member: str, value: Any) -> None:
    # Weakness W46: upstream polls an empty address.
    with pytest.raises(DecodeError):
        answers.decode_session(json.dumps(SESSION | {member: value}).encode())


@pytest.mark.parametrize(
    ("body", "ids"),
    [(b'{"count":2,"value":[1,2]}', [1, 2]), (b'{"value":null}', []), (b"{}", [])],
)
def test_acquired_ids_are_the_array(body: bytes, ids: list[int]) -> None:
    assert answers.decode_acquired(body) == ids


@pytest.mark.parametrize("body", [b'{"value":["1"]}', b'{"value":[true]}', b'{"value":{}}'])
def test_acquired_ids_are_integers(body: bytes) -> None:
    with pytest.raises(DecodeError):
        answers.decode_acquired(body)


def test_an_unusable_session_still_tells_its_id() -> None:
    assert answers.decode_session_id(b'{"sessionId":"s"}') == "s"
    assert answers.decode_session_id(b"x") == ""
    assert answers.decode_session_id(json.dumps({"sessionId": answers.NIL_UUID}).encode()) == ""
