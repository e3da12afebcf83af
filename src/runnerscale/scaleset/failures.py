"""Which answer becomes which error, and what the error says.

One table of exception names GitHub is known to send, then what the caller knows about a
status (a 404 on a scale set's own path, a 409 on its sessions), then the status alone.
Nothing that GitHub said is dropped (weaknesses W9, W23-W25). The tree is `errors.py`.

Pure. Contract: github-service-and-listener 2.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runnerscale.scaleset.config_url import without_secrets
from runnerscale.scaleset.decode import BOM, DecodeError, parse_object
from runnerscale.scaleset.errors import (
    Answer,
    BadAnswer,
    CredentialsRefused,
    JobStillRunning,
    ProxyDenied,
    QueueTokenExpired,
    RateLimited,
    Refused,
    RunnerExists,
    RunnerGroupNotFound,
    RunnerNotFound,
    ScaleSetAmbiguous,
    ScaleSetError,
    ScaleSetNotFound,
    SessionConflict,
    SessionLost,
    Unavailable,
)
from runnerscale.scaleset.retry import asked_wait_s, is_passing, is_rate_limited
from runnerscale.scaleset.transport import ProxyRefused, Request, Response, TransportFault

BODY_KEPT_CHARS = 4096

# Parts of the `typeName` (which comes with namespace and assembly), the longer names first.
KNOWN_EXCEPTIONS: tuple[tuple[str, type[Refused]], ...] = (
    ("RunnerScaleSetSessionConflictException", SessionConflict),
    ("RunnerScaleSetSessionExpiredException", SessionLost),
    ("RunnerScaleSetSessionNotFoundException", SessionLost),
    ("RunnerScaleSetNotFoundException", ScaleSetNotFound),
    ("RunnerGroupNotFoundException", RunnerGroupNotFound),
    ("AgentExistsException", RunnerExists),
    ("AgentNotFoundException", RunnerNotFound),
    ("JobStillRunningException", JobStillRunning),
)

REMEDIES: Mapping[type[ScaleSetError], str] = {
    CredentialsRefused: "Check that the token or GitHub App is valid, not expired, and may "
    "administer self-hosted runners there",
    RateLimited: "We ask again when GitHub's time is up; fewer scale sets per credential help",
    ProxyDenied: "Correct the proxy's credentials, or let it allow this host",
    RunnerExists: "Look the runner up by its name: it may be our own lost call",
    RunnerNotFound: "Nothing is left to be removed at GitHub",
    JobStillRunning: "The runner is left alone until its job ends",
    ScaleSetNotFound: "It has to be created anew",
    ScaleSetAmbiguous: "Remove or rename all but one of them at GitHub",
    RunnerGroupNotFound: "Create the runner group at GitHub, or name another one",
    SessionConflict: "A session ends by itself some time after its holder is gone; we try again",
    SessionLost: "A new session has to be opened",
    QueueTokenExpired: "The token of the queue was renewed and refused again; we try again",
    Refused: "Trying the same again is useless; check URL, names and permissions",
    Unavailable: "We try again later",
    BadAnswer: "The call may have taken effect; we look before we try again",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a call is about, for the error's text and its class.

    `by_status`: what a refusal with this status means here, where no known exception says
    it. `decided`: the class is settled, whatever the body says. `doubt`: what to add when an
    earlier attempt may have taken effect. `several`: what it means that a lookup by name
    found more than one.
    """

    what: str
    by_status: Mapping[int, type[Refused]] = field(default_factory=dict)
    decided: type[ScaleSetError] | None = None
    doubt: str = ""
    several: type[Refused] = Refused


def answered_failure(
    request: Request,
    response: Response,
    subject: Subject,
    *,
    attempts: int,
    now_s: float,
    doubted: bool = False,
) -> ScaleSetError:
    """The error for an answer that is not what the caller needs."""
    detail, name, message = _read_body(response)
    kind = _kind(response, name, subject)
    answer = Answer(
        status=response.status,
        reason=response.reason,
        activity_id=response.header("activityid"),
        request_id=response.header("x-github-request-id"),
        exception_name=name,
        exception_message=message,
        body=_text(response.body)[:BODY_KEPT_CHARS],
        attempts=attempts,
        retry_after_s=asked_wait_s(response, now_s=now_s),
    )
    if 200 <= response.status <= 399 and not response.body_fault:
        detail = f"unexpected status code {response.status}: {detail}"
    if attempts > 1 and (is_passing(response.status) or is_rate_limited(response)):
        detail = f"giving up after {attempts} attempt(s): {detail}"
    if doubted and subject.doubt:
        detail = f"{detail}. {subject.doubt}"
    return kind(_sentence(request, answer, subject.what, detail, kind), answer)


def unanswered_failure(
    request: Request, fault: TransportFault, subject: Subject, *, attempts: int, sent: bool
) -> Unavailable:
    """The error for a call that got no answer at all. `sent`: by any of its attempts."""
    detail = str(fault)
    if attempts > 1:
        detail = f"giving up after {attempts} attempt(s): {detail}"
    denied = isinstance(fault, ProxyRefused) and fault.denied
    kind = ProxyDenied if denied else Unavailable
    error = _unavailable(request, subject, detail, Answer(attempts=attempts), sent=sent, kind=kind)
    error.__cause__ = fault
    return error


def late_failure(
    request: Request, subject: Subject, *, attempts: int, sent: bool, timeout_s: float
) -> Unavailable:
    """The error for a call whose whole time passed before anything came back."""
    detail = f"no answer within the {timeout_s:g} s that this call has"
    return _unavailable(request, subject, detail, Answer(attempts=attempts), sent=sent)


def hushed_failure(request: Request, subject: Subject, *, left_s: float) -> RateLimited:
    """The error for a call that is not made because GitHub asked to be left alone."""
    detail = f"not sent: GitHub's rate limit asks to wait {left_s:.0f} s more"
    answer = Answer(retry_after_s=left_s)
    text = _sentence(request, answer, subject.what, detail, RateLimited)
    return RateLimited(text, answer, sent=False)


def _unavailable(
    request: Request,
    subject: Subject,
    detail: str,
    answer: Answer,
    *,
    sent: bool,
    kind: type[Unavailable] = Unavailable,
) -> Unavailable:
    text = _sentence(request, answer, subject.what, detail, kind)
    return kind(text, answer, sent=sent)


def bad_answer(request: Request, response: Response, what: str, why: str) -> ScaleSetError:
    """The error for a success whose body cannot be used."""
    return unusable_answer(request, response, what, why, BadAnswer)


def unusable_answer(
    request: Request, response: Response, what: str, why: str, kind: type[ScaleSetError]
) -> ScaleSetError:
    """The error of a given class for a success that says what we cannot accept."""
    answer = Answer(
        status=response.status,
        reason=response.reason,
        activity_id=response.header("activityid"),
        request_id=response.header("x-github-request-id"),
        attempts=1,
    )
    return kind(_sentence(request, answer, what, why, kind), answer)


def _kind(response: Response, exception_name: str, subject: Subject) -> type[ScaleSetError]:
    status = response.status
    if subject.decided is not None:
        return subject.decided
    if is_rate_limited(response):
        return RateLimited
    for part, known in KNOWN_EXCEPTIONS:
        if part in exception_name:
            return known
    if status in subject.by_status:
        return subject.by_status[status]
    if status == 407:  # in plain HTTP a proxy answers in GitHub's place
        return ProxyDenied
    if status in (401, 403):
        return CredentialsRefused
    if 400 <= status <= 499 or status == 501:
        return Refused
    return Unavailable if status >= 500 else BadAnswer


def _read_body(response: Response) -> tuple[str, str, str]:
    """What the body says: in words, and the exception's name and message if it is one."""
    if response.body_fault:
        return f"failed to read error response body: {response.body_fault}", "", ""
    text = _text(response.body)
    if not text:
        return "unknown error", "", ""
    if "text/plain" in response.header("content-type").lower():
        return _cut(text), "", ""
    try:
        body = parse_object(response.body)
        name, message = body.text("typeName"), body.text("message")
    except DecodeError:
        return f'failed to unmarshal error response body: "{_cut(text)}"', "", ""
    if not name and not message:
        return _cut(text), "", ""
    return f"{name}: {message}" if name else message, name, message


def _sentence(
    request: Request, answer: Answer, what: str, detail: str, kind: type[ScaleSetError]
) -> str:
    seen = []
    if answer.status:
        seen.append(f'status="{answer.status} {answer.reason}'.rstrip() + '"')
    if answer.activity_id:
        seen.append(f'activity_id="{answer.activity_id}"')
    if answer.request_id:
        seen.append(f'github_request_id="{answer.request_id}"')
    ids = f"({', '.join(seen)})" if seen else ""
    remedy = next((REMEDIES[base] for base in kind.__mro__ if base in REMEDIES), "")
    where = f"request {request.method} {without_secrets(request.url)} failed{ids}"
    return f"{what}: {where}: {detail}. {remedy}."


def _text(body: bytes) -> str:
    return body.removeprefix(BOM).decode(errors="replace").strip()


def _cut(text: str) -> str:
    return text if len(text) <= 512 else f"{text[:512]}..."
