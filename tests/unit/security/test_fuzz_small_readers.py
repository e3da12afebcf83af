"""The small readers of foreign bytes, as `test_fuzz_parsers.py` does it with the big ones.

Tokens of every kind, headers, times, selectors, and what we ourselves leave in annotations: a
person, an older release or a tenant may have written that.
"""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.api.listener_word import MESSAGE_MAX, decoded
from runnerscale.api.reasons import Reason
from runnerscale.apiserver import lists
from runnerscale.apiserver.bodies import decode_any
from runnerscale.apiserver.builtin_kinds import builtin_kinds
from runnerscale.apiserver.failures import ApiFailure
from runnerscale.controllers.autoscaling_runner_set import left_behind
from runnerscale.controllers.autoscaling_runner_set.snapshot import recorded_id, recorded_s
from runnerscale.core.clock import format_time, parse_time
from runnerscale.core.secret import SecretText
from runnerscale.credentials import proxy, record
from runnerscale.credentials.record import InvalidRecord, NoRecord
from runnerscale.fake_github import addresses
from runnerscale.fake_github.app_jwt import check_app_jwt
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.refusals import Refused
from runnerscale.fake_github.sessions import capacity_from
from runnerscale.kube import status, versions
from runnerscale.node.faults import FaultRefused, decode_fault
from runnerscale.scaleset import answers, retry, transport, trust
from runnerscale.scaleset.credentials import app_credentials, personal_access_token
from runnerscale.scaleset.decode import DecodeError
from runnerscale.scaleset.errors import InvalidCertificate, InvalidCredentials
from runnerscale.scaleset.transport import Request, Response, UnusableRequest
from tests.properties import examples
from tests.unit.security.test_fuzz_parsers import (
    PIECES,
    SIZE_MAX,
    TIMES,
    Parser,
    bent,
    on_json,
    on_text,
)

NOW_S = 1_800_000_000.0
PODS = next(kind for kind in builtin_kinds() if kind.plural == "pods")
ALL_PODS = lists.Selection(PODS, "", None, "", False)
PODS_OF_ONE = lists.Selection(PODS, "ns", None, "", False)
SENT = Request("POST", "https://api.github.com/x", {"Authorization": "Bearer t"}, b"{}")
BASE64_TEXT = base64.b64encode(b"ghp_x").decode()
SECRET = json.dumps({"github_token": BASE64_TEXT, "github_app_installation_id": BASE64_TEXT})
VAULT_ITEM = '{"github_app_id":"1","github_app_installation_id":2,"github_app_private_key":"k"}'
LEFT = (
    '[{"scaleSetId":7,"githubConfigUrl":"https://github.com/o","githubConfigSecret":"s",'
    '"proxy":{"http":{"url":"http://p"}}}]'
)
WORD = json.dumps(
    {"reason": "SessionLost", "message": "m", "since": "2026-01-02T03:04:05Z", "scaleSetId": 7}
)
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIiwiaWF0IjoxLCJleHAiOjJ9.c2ln"
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


class Seen:
    """As much of a snapshot as the reader asks for."""

    def __init__(self, text: str) -> None:
        self.text = text

    def annotation(self, _key: str) -> str:
        return self.text


def read_word(text: str) -> Any:
    word = decoded(text)
    if word is not None:
        assert isinstance(word.reason, Reason)
        assert len(word.message) <= MESSAGE_MAX and word.message.isprintable()
        format_time(word.since_s)  # it is shown, and written back
    return word


def read_time(text: str) -> str:
    seconds = parse_time(text)
    shown = format_time(seconds)
    assert abs(parse_time(shown) - seconds) <= 1.0  # what it is shown as is the same moment
    return shown


def continue_token(selection: lists.Selection) -> Callable[[str], Any]:
    return lambda text: lists._read_token(selection, text)


def retry_after(text: str) -> Any:
    wait_s = retry.retry_after_s(text, now_s=NOW_S)
    assert wait_s is None or wait_s >= 0.0
    return wait_s


def rate_limit(text: str) -> Any:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": text, "date": text}
    wait_s = retry.asked_wait_s(Response(429, headers=headers), now_s=NOW_S)
    assert wait_s is None or wait_s >= 0.0
    return wait_s


def redirect(text: str) -> Any:
    following = transport.redirected(SENT, Response(307, headers={"location": text}))
    if following is not None and "github.com" not in following.url:
        assert "Authorization" not in following.headers  # no token goes to another host
    return following and following.url


def secret(kind: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    def read_data(data: bytes) -> Any:
        members = decode_any(data, "application/json")
        if not isinstance(members, dict):
            return None
        found = kind({k: v for k, v in members.items() if isinstance(v, str)})
        assert "ghp_" not in repr(found)
        return found

    return read_data


def vault(kind: Callable[[SecretText], Any]) -> Callable[[bytes], Any]:
    return on_text(lambda text: kind(SecretText(text)))


def error_of(data: bytes) -> Any:
    return str(status.error_from(409, data, {"retry-after": "5"}, method="GET", path="/x"))


RECORDS = (InvalidRecord, NoRecord, ApiFailure)
PARSERS: dict[str, Parser] = {
    "continue token": Parser(
        on_text(continue_token(ALL_PODS)),
        (ApiFailure,),
        (lists._write_token(ALL_PODS, 5, ("ns", "p")), "eyJydiI6MX0", ""),
    ),
    "continue token of one namespace": Parser(
        on_text(continue_token(PODS_OF_ONE)),
        (ApiFailure,),
        (lists._write_token(PODS_OF_ONE, 2**62, ("ns", "p")),),
    ),
    "installation or registration token": Parser(
        answers.decode_token,
        (DecodeError,),
        ('{"token":"v1.abc","expires_at":"2026-01-02T03:04:05Z"}',),
    ),
    "admin connection": Parser(
        answers.decode_connection, (DecodeError,), ('{"url":"https://h/x","token":"a.b.c"}',)
    ),
    "acquired jobs": Parser(answers.decode_acquired, (DecodeError,), ('{"value":[1,2]}',)),
    "offered jobs": Parser(
        answers.decode_acquirable,
        (DecodeError,),
        ('{"count":1,"value":[{"runnerRequestId":5}]}', '[{"runnerRequestId":5},null]', ""),
    ),
    "runner": Parser(
        lambda b: answers.decode_found_runner(b, "r"),
        (DecodeError, answers.SeveralFound),
        ('{"count":1,"value":[{"id":1,"name":"r","status":"online"}]}',),
    ),
    "runner group": Parser(
        lambda b: answers.decode_found_group(b, "g"),
        (DecodeError, answers.SeveralFound),
        ('{"count":1,"value":[{"id":1,"name":"g","isDefaultGroup":true}]}',),
    ),
    "retry after": Parser(on_text(retry_after), (), ("5", "Fri, 02 Jan 2026 03:04:05 GMT")),
    "rate limit": Parser(on_text(rate_limit), (), ("1767323045", "Fri, 02 Jan 2026 03:04:05 GMT")),
    "retry after of the API server": Parser(on_text(status.parse_retry_after), (), ("5", "01")),
    "redirect": Parser(
        on_text(redirect), (UnusableRequest, ValueError), ("https://h:8443/a?b=c", "//h/x", "../y")
    ),
    "time": Parser(on_text(read_time), (ValueError, OverflowError), TIMES),
    "recorded time": Parser(on_text(recorded_s), (), TIMES),
    "recorded id": Parser(on_text(recorded_id), (), ("7", "00", "9" * 18)),
    "resource version": Parser(
        on_text(lambda t: (versions.number_of(t), versions.is_newer(t, "5"))), (), ("17", "a")
    ),
    "word of the listener": Parser(on_text(read_word), (), (WORD,)),
    "places left behind": Parser(on_text(lambda t: left_behind.entries(Seen(t))), (), (LEFT,)),  # type: ignore[arg-type]
    "status of a refusal": Parser(
        error_of,
        (),
        (
            '{"kind":"Status","reason":"AlreadyExists","message":"m","details":'
            '{"causes":[{"field":"f"}],"retryAfterSeconds":3}}',
        ),
    ),
    "status in a watch": Parser(
        lambda b: str(status.error_from_watch(b, path="/x")), (), ('{"code":410,"reason":"Gone"}',)
    ),
    "credentials of a Secret": Parser(secret(record.record_of_secret), RECORDS, (SECRET,)),
    "credentials of a vault": Parser(
        vault(record.record_of_vault), RECORDS, (VAULT_ITEM, '{"github_token":"ghp_x"}')
    ),
    "login of a proxy": Parser(
        secret(proxy.login_of_secret),
        RECORDS,
        (json.dumps({"username": "dXNlcg==", "password": BASE64_TEXT}),),
    ),
    "login of a proxy in a vault": Parser(
        vault(proxy.login_of_vault), RECORDS, ('{"username":"u","password":"p"}',)
    ),
    "personal access token": Parser(
        on_text(personal_access_token), (InvalidCredentials,), ("ghp_x",)
    ),
    "key of an app": Parser(
        on_text(lambda t: app_credentials("1", 2, t)),
        (InvalidCredentials,),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\n",),
    ),
    "extra certificates": Parser(
        on_text(trust.check_root_ca),
        (InvalidCertificate,),
        (PEM, PEM * 3, PEM.replace("MIIB", "é")),
    ),
    "token of an app": Parser(
        on_text(lambda t: check_app_jwt(t, Options(), now_s=NOW_S)), (Refused,), (JWT,)
    ),
    "capacity of a poll": Parser(on_text(capacity_from), (Refused,), ("5", "0")),
    "address at the pretended GitHub": Parser(
        on_text(lambda t: addresses.locate(t, t)), (), ("api.github.com", "/tenant/1/_apis/x")
    ),
    "fault of the node": Parser(
        on_json(decode_fault),
        (FaultRefused, ApiFailure),
        ('{"fault":"kill","namespace":"jobs"}', '{"fault":"no-room","seconds":5}'),
    ),
}
NAMES = sorted(PARSERS)


def read(name: str, data: bytes) -> None:
    parser = PARSERS[name]
    errors = parser.errors
    try:
        value = parser.read(data)
    except errors as error:
        value = str(error)
    assert len(repr(value)) < SIZE_MAX


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_small_readers_are_good_ones_or_refused_in_order(name: str) -> None:
    for example in PARSERS[name].examples:
        read(name, example.encode())


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@examples(25)
def test_bent_examples_of_small_readers_end_in_order(name: str, data: st.DataObject) -> None:
    read(name, data.draw(bent(PARSERS[name].examples)))


@pytest.mark.parametrize("name", NAMES)
def test_much_of_the_same_ends_in_order_in_small_readers(name: str) -> None:
    for piece in PIECES:
        read(name, piece.encode() * 300)
        read(name, PARSERS[name].examples[0].encode() + piece.encode() * 50)
    for deep in (b"[" * 5000, b'{"a":' * 5000, b'[{"proxy":' * 3000):
        read(name, deep)
