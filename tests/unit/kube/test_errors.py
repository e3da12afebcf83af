"""The error tree, and which answer becomes which error."""

import json
import ssl

import aiohttp
import pytest

from runnerscale.kube import errors
from runnerscale.kube.aiohttp_transport import _mapped_errors
from runnerscale.kube.status import WAIT_MAX_S, error_from, error_from_watch, parse_retry_after

TREE = {
    "KubeError": "Exception",
    "Unreachable": "KubeError",
    "BadAnswer": "KubeError",
    "ConfigError": "KubeError",
    "ApiError": "KubeError",
    "BadRequest": "ApiError",
    "Unauthorized": "ApiError",
    "Forbidden": "ApiError",
    "NotFound": "ApiError",
    "Conflict": "ApiError",
    "AlreadyExists": "ApiError",
    "Gone": "ApiError",
    "Invalid": "ApiError",
    "TooManyRequests": "ApiError",
    "ServerFault": "ApiError",
}


def test_the_tree_is_the_one_drawn_in_the_module() -> None:
    found = {
        name: kind.__bases__[0].__name__
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert found == TREE
    assert all(name in (errors.__doc__ or "") for name in TREE)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Gone", errors.Gone),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerFault),
        (504, "Timeout", errors.ServerFault),
        (415, "UnsupportedMediaType", errors.ApiError),
    ],
)
def test_a_code_and_a_reason_make_a_class(
    code: int, reason: str, kind: type[errors.ApiError]
) -> None:
    body = json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "why"})
    error = error_from(code, body.encode(), {}, method="GET", path="/x")
    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, reason, "why")
    assert str(error) == f"GET /x: {code} {reason}: why"


def test_causes_and_the_wait_come_from_the_details() -> None:
    body = {
        "reason": "Invalid",
        "message": "Widget is invalid",
        "details": {
            "retryAfterSeconds": 3,
            "causes": [{"field": "spec.size", "reason": "FieldValueInvalid", "message": "too big"}],
        },
    }
    error = error_from(422, json.dumps(body).encode(), {}, method="POST", path="/x")
    assert error.causes == (errors.StatusCause("spec.size", "FieldValueInvalid", "too big"),)
    assert error.retry_after_s == 3.0


def test_the_header_wins_over_the_details() -> None:
    body = json.dumps({"details": {"retryAfterSeconds": 3}}).encode()
    error = error_from(429, body, {"retry-after": "7"}, method="GET", path="/x")
    assert error.retry_after_s == 7.0


@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b"[1]", b"\xff\xfe", b"null"])
def test_a_body_that_is_no_status_still_makes_an_error(body: bytes) -> None:
    error = error_from(502, body, {}, method="GET", path="/x")
    assert type(error) is errors.ServerFault
    assert error.message


def test_the_page_of_a_proxy_is_cut() -> None:
    error = error_from(503, b"x" * 100_000, {}, method="GET", path="/x")
    assert len(error.message) == 2048


def test_an_error_event_carries_its_own_code() -> None:
    raw = json.dumps({"kind": "Status", "code": 410, "reason": "Expired"}).encode()
    assert type(error_from_watch(raw, path="/x")) is errors.Gone
    assert type(error_from_watch(b"{", path="/x")) is errors.ServerFault


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), (" 0 ", 0.0), ("", None), ("-1", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)],
)
def test_retry_after_is_read_as_seconds_only(text: str, seconds: float | None) -> None:
    assert parse_retry_after(text) == seconds


KEY = aiohttp.client_reqrep.ConnectionKey("h", 1, True, True, None, None, None)


@pytest.mark.parametrize(
    ("below", "kind", "sent"),
    [
        (
            aiohttp.ClientConnectorError(KEY, ConnectionRefusedError(111, "refused")),
            "Unreachable",
            False,
        ),
        (aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "unknown")), "Unreachable", False),
        (
            aiohttp.ClientConnectorCertificateError(KEY, ssl.SSLCertVerificationError("bad")),
            "ConfigError",
            False,
        ),
        (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError("bad")), "Unreachable", False),
        (aiohttp.ConnectionTimeoutError("slow"), "Unreachable", False),
        (aiohttp.SocketTimeoutError("slow"), "Unreachable", True),
        (aiohttp.ServerDisconnectedError(), "Unreachable", True),
        (aiohttp.ClientOSError(104, "reset"), "Unreachable", True),
        (aiohttp.ClientPayloadError("cut"), "Unreachable", True),
        (ConnectionResetError(104, "reset"), "Unreachable", True),
        (TimeoutError(), "Unreachable", True),
        (ssl.SSLError("broken"), "Unreachable", True),
        (
            aiohttp.ClientResponseError(None, (), status=400, message="bad line"),  # type: ignore[arg-type]
            "BadAnswer",
            True,
        ),
    ],
)
def test_every_error_of_the_http_library_is_mapped(below: Exception, kind: str, sent: bool) -> None:
    with pytest.raises(errors.KubeError) as caught, _mapped_errors("h:1"):
        raise below
    assert type(caught.value).__name__ == kind
    assert "h:1" in str(caught.value)
    if isinstance(caught.value, errors.Unreachable):
        assert caught.value.sent is sent


def test_the_library_has_no_error_that_slips_through() -> None:
    # Everything aiohttp's client raises is a ClientError or one of these, all caught above.
    kinds = [k for k in vars(aiohttp).values() if isinstance(k, type) and issubclass(k, Exception)]
    client_side = [k for k in kinds if k.__module__ == "aiohttp.client_exceptions"]
    client_side.remove(aiohttp.WSMessageTypeError)  # we open no websockets
    assert all(issubclass(k, aiohttp.ClientError | OSError | TimeoutError) for k in client_side)


@pytest.mark.parametrize(
    ("seconds", "wait_s"), [("-5", 0.0), ("9" * 400, WAIT_MAX_S), ("9" * 5000, None)]
)
def test_a_number_of_seconds_that_is_none_ends_no_call(seconds: str, wait_s: float | None) -> None:
    body = f'{{"details": {{"retryAfterSeconds": {seconds}}}}}'.encode()
    error = error_from(429, body, {}, method="GET", path="/x")
    assert (error.code, error.retry_after_s) == (429, wait_s)
    assert parse_retry_after("9" * 400) == WAIT_MAX_S
