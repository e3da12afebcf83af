"""From an answer that says no to the error that says why. Pure.

The server's body is a `Status` where it comes from the API server itself, and anything at
all where a proxy in between made it up. How long to wait is read from `details` or from the
Retry-After header. Who repeats what is `client.py`.
"""

from collections.abc import Mapping

import msgspec

from runnerscale.kube import errors

MESSAGE_MAX = 2048  # a proxy's error page is not worth more of anybody's log
CAUSES_MAX = 32
WAIT_MAX_S = 86_400  # nobody waits as long as this; a larger number may fit no float

_BY_CODE: dict[int, type[errors.ApiError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Gone,
    422: errors.Invalid,
    429: errors.TooManyRequests,
}


class _Cause(msgspec.Struct, rename="camel"):
    field: str | None = None
    reason: str | None = None
    message: str | None = None


class _Details(msgspec.Struct, rename="camel"):
    causes: list[_Cause] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, rename="camel"):
    """The part of `meta/v1 Status` that says why."""

    kind: str | None = None
    status: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_decoder = msgspec.json.Decoder(Status)


def error_from(
    code: int, body: bytes, headers: Mapping[str, str], *, method: str, path: str
) -> errors.ApiError:
    """The error for an HTTP answer with a code of 400 or more; `headers` in lower case."""
    try:
        status = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body[:MESSAGE_MAX].decode("utf-8", errors="replace").strip()
        status = Status(message=text or "the answer had no body")
    wait_s = parse_retry_after(headers.get("retry-after", ""))
    return error_from_status(status, code=code, method=method, path=path, retry_after_s=wait_s)


def error_from_watch(body: bytes | msgspec.Raw, *, path: str) -> errors.ApiError:
    """The error for the object of an `ERROR` event in a watch."""
    try:
        status = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = Status(message="an ERROR event without a readable Status")
    return error_from_status(status, code=status.code or 500, method="WATCH", path=path)


def error_from_status(
    status: Status, *, code: int, method: str, path: str, retry_after_s: float | None = None
) -> errors.ApiError:
    """The class follows the code; a 409 is told apart by its reason."""
    kind = _BY_CODE.get(code)
    if kind is None:
        kind = errors.ServerFault if code >= 500 else errors.ApiError
    if code == 409 and status.reason == "AlreadyExists":
        kind = errors.AlreadyExists
    if status.reason == "Expired":
        kind = errors.Gone
    details = status.details or _Details()
    if retry_after_s is None and details.retry_after_seconds is not None:
        retry_after_s = float(max(0, min(details.retry_after_seconds, WAIT_MAX_S)))
    causes = tuple(
        errors.StatusCause(cause.field or "", cause.reason or "", cause.message or "")
        for cause in (details.causes or [])[:CAUSES_MAX]
    )
    return kind(
        code=code,
        reason=status.reason or "",
        message=(status.message or "")[:MESSAGE_MAX],
        method=method,
        path=path,
        retry_after_s=retry_after_s,
        causes=causes,
    )


def parse_retry_after(text: str) -> float | None:
    """Seconds of a Retry-After header; the API server never sends the date form, so None."""
    text = text.strip()
    return min(float(text), WAIT_MAX_S) if text.isascii() and text.isdigit() else None
