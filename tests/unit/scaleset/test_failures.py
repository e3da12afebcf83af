"""The table of contract 2.1: an answer on the left, an error on the right."""

import json

import pytest

from runnerscale.scaleset.errors import (
    BadAnswer,
    CredentialsRefused,
    JobStillRunning,
    ProxyDenied,
    QueueTokenExpired,
    RateLimited,
    Refused,
    RunnerExists,
    RunnerNotFound,
    ScaleSetError,
    ScaleSetNotFound,
    SessionConflict,
    SessionLost,
    Unavailable,
)
from runnerscale.scaleset.failures import Subject, answered_failure, unanswered_failure
from runnerscale.scaleset.transport import NoAnswer, ProxyRefused, Request, Response
from tests.unit.scaleset.stub import exception, reply

REQUEST = Request("GET", "https://user:hush@example.com/org/repo?sig=hush")
SUBJECT = Subject("look at a repo")


def failure(response: Response, subject: Subject = SUBJECT, *, attempts: int = 1) -> ScaleSetError:
    return answered_failure(REQUEST, response, subject, attempts=attempts, now_s=0.0)


@pytest.mark.behaviour("C2 T57")
def test_no_response_keeps_its_cause() -> None:
    cause = NoAnswer("connection reset")
    error = unanswered_failure(REQUEST, cause, SUBJECT, attempts=1, sent=True)
    assert "request GET https://example.com/org/repo failed: connection reset" in str(error)
    assert error.__cause__ is cause
    assert "hush" not in str(error)


@pytest.mark.parametrize("status", [403, 407, 502])
def test_a_proxy_that_says_no_is_not_github_being_away(status: int) -> None:
    fault = ProxyRefused(f"the proxy answered {status} No", status=status)
    error = unanswered_failure(REQUEST, fault, SUBJECT, attempts=1, sent=False)
    assert type(error) is (Unavailable if status == 502 else ProxyDenied)
    assert (error.sent, f"the proxy answered {status}" in str(error)) == (False, True)
    assert ("Correct the proxy's credentials" in str(error)) == (status != 502)


def test_in_plain_http_the_proxy_answers_in_githubs_place() -> None:
    assert type(failure(reply(407))) is ProxyDenied


@pytest.mark.behaviour("C2 T58", "C2 T61")
@pytest.mark.parametrize("response", [reply(500), reply(500, b""), reply(500, b"\xef\xbb\xbf")])
def test_an_empty_body_is_an_unknown_error(response: Response) -> None:
    error = failure(response)
    assert isinstance(error, Unavailable)
    assert "unknown error" in str(error)


@pytest.mark.behaviour("C2 T59")
def test_status_and_both_ids_are_told() -> None:
    error = failure(reply(404, ActivityId="activity-id", X_GitHub_Request_Id="request-id"))
    assert (
        'failed(status="404 Not Found", activity_id="activity-id", '
        'github_request_id="request-id"): unknown error'
    ) in str(error)
    assert error.answer.activity_id == "activity-id"
    assert error.answer.request_id == "request-id"


@pytest.mark.behaviour("C2 T60")
def test_a_body_that_broke_off_is_told() -> None:
    error = failure(Response(400, "Bad Request", body_fault="connection reset"))
    assert isinstance(error, Refused)
    assert "failed to read error response body: connection reset" in str(error)


@pytest.mark.behaviour("C2 T62")
def test_plain_text_is_quoted() -> None:
    error = failure(reply(400, text="example plain text error"))
    assert type(error) is Refused
    assert ": example plain text error." in str(error)
    assert error.answer.body == "example plain text error"


@pytest.mark.behaviour("C2 T63")
def test_a_class_that_is_settled_stays_whatever_the_body_says() -> None:
    body = exception(404, "AgentExistsException", "taken")
    error = failure(body, Subject("x", decided=RunnerNotFound))
    assert type(error) is RunnerNotFound
    assert "AgentExistsException" in str(error)
    # Weakness W25: the fields are kept for a settled class too.
    expired = failure(body, Subject("x", decided=QueueTokenExpired))
    assert expired.answer.exception_message == "taken"


@pytest.mark.behaviour("C2 T64", "C2 T68")
@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (409, "AgentExistsException", RunnerExists),
        (404, "AgentNotFoundException", RunnerNotFound),
        (409, "JobStillRunningException", JobStillRunning),
        (500, "JobStillRunningException", JobStillRunning),
        (409, "GitHub.DistributedTask.WebApi.TaskAgentExistsException, GitHub.X", RunnerExists),
        (
            409,
            "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionConflictException, "
            "GitHub.Actions.Runtime.WebApi",
            SessionConflict,
        ),
        (400, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionExpiredException", SessionLost),
        (400, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetNotFoundException", ScaleSetNotFound),
    ],
)
def test_githubs_exceptions_have_their_class(
    status: int, name: str, kind: type[ScaleSetError]
) -> None:
    error = failure(exception(status, name, "its message"))
    assert type(error) is kind
    assert "its message" in str(error)


@pytest.mark.behaviour("C2 T65")
def test_what_is_no_json_is_quoted_and_keeps_its_class() -> None:
    error = failure(reply(400, b"not-json", content_type="application/json"))
    assert type(error) is Refused  # weakness W23: upstream forgets that it was a 400
    assert 'failed to unmarshal error response body: "not-json"' in str(error)
    assert error.answer.status == 400


@pytest.mark.behaviour("C2 T66", "C2 T67")
def test_an_unknown_exception_keeps_its_fields() -> None:
    error = failure(exception(500, "SomeException", "example error message"))
    assert isinstance(error, Unavailable)
    assert error.answer.exception_name == "SomeException"
    assert error.answer.exception_message == "example error message"
    assert "SomeException: example error message" in str(error)


@pytest.mark.behaviour("C2 T69")
def test_a_rest_error_is_told_by_its_message() -> None:
    error = failure(reply(404, {"message": "Not Found", "documentation_url": "https://docs"}))
    assert type(error) is Refused
    assert ": Not Found." in str(error)
    assert error.answer.exception_name == ""


@pytest.mark.behaviour("C2 T87")
def test_what_ran_out_of_attempts_says_everything() -> None:
    response = exception(503, "Busy", "later", ActivityId="a", X_GitHub_Request_Id="r")
    error = failure(response, attempts=5)
    assert "giving up after 5 attempt(s)" in str(error)
    answer = error.answer
    assert (answer.status, answer.attempts) == (503, 5)
    assert (answer.activity_id, answer.request_id) == ("a", "r")
    assert json.loads(answer.body) == {"typeName": "Busy", "message": "later"}


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (reply(401), CredentialsRefused),
        (reply(403), CredentialsRefused),
        (reply(403, retry_after="5"), RateLimited),
        (reply(403, {"message": "You have exceeded a secondary rate limit"}), RateLimited),
        (reply(429), RateLimited),
        (reply(400), Refused),
        (reply(501), Refused),
        (reply(500), Unavailable),
        (reply(201), BadAnswer),
        (reply(302), BadAnswer),
    ],
)
def test_a_bare_status_has_its_class(response: Response, kind: type[ScaleSetError]) -> None:
    assert type(failure(response)) is kind


def test_what_the_caller_knows_of_a_status_comes_after_githubs_own_word() -> None:
    subject = Subject("x", by_status={404: ScaleSetNotFound})
    assert type(failure(reply(404), subject)) is ScaleSetNotFound
    assert type(failure(exception(404, "AgentNotFoundException"), subject)) is RunnerNotFound


def test_a_long_body_is_cut() -> None:
    error = failure(reply(400, text="x" * 100_000))
    assert len(error.answer.body) == 4096
    assert len(str(error)) < 1000


def test_every_text_ends_with_what_comes_next() -> None:
    for response in (reply(401), reply(404), reply(409), reply(429), reply(500), reply(200)):
        text = str(failure(response))
        assert text.startswith("look at a repo: request GET ")
        assert text.endswith(".") and ". " in text and ".." not in text
