"""From an error of the layers below to what a person reads."""

import inspect

import pytest

from runnerscale.controllers.troubles import github_trouble, kube_trouble
from runnerscale.credentials.place import PlaceTrouble
from runnerscale.kube.errors import Forbidden, Invalid, KubeError, Unreachable
from runnerscale.scaleset import errors
from runnerscale.scaleset.errors import Answer, ScaleSetError
from runnerscale.scaleset.failures import Subject, answered_failure
from runnerscale.scaleset.transport import Request, Response

ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ScaleSetError)
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_client_has_a_reason(kind: type[ScaleSetError]) -> None:
    told = github_trouble(kind("in GitHub's words"), about="Thing ns/x")
    assert told.happened == "in GitHub's words"
    assert told.about == "Thing ns/x"
    assert told.remedy


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.InvalidConfigUrl("x"), "ConfigUrlInvalid"),
        (errors.InvalidCredentials("x"), "CredentialsInvalid"),
        (errors.InvalidCertificate("x"), "CertificateInvalid"),
        (errors.InvalidProxy("x"), "ProxyInvalid"),
        (errors.Unavailable("x"), "GitHubUnavailable"),
        (errors.ProxyDenied("x"), "ProxyRefused"),
        (errors.RateLimited("x"), "GitHubRateLimited"),
        (errors.BadAnswer("x"), "GitHubUnavailable"),
        (errors.CredentialsRefused("x"), "CredentialsRefused"),
        (errors.RunnerGroupNotFound("x"), "RunnerGroupNotFound"),
        (errors.ScaleSetNotFound("x"), "ScaleSetGone"),
        (errors.ScaleSetAmbiguous("x"), "ScaleSetAmbiguous"),
        (errors.SessionConflict("x"), "SessionHeldElsewhere"),
        (errors.SessionLost("x"), "SessionLost"),
        (errors.Refused("x"), "GitHubRefused"),
        (PlaceTrouble("VaultFailed", "x", "y"), "VaultFailed"),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, Exception) else item,
)
def test_which_reason_it_is(error: ScaleSetError | PlaceTrouble, reason: str) -> None:
    assert github_trouble(error, about="x").reason == reason


def test_the_activity_id_is_told_once() -> None:
    answer = Answer(activity_id="act-1")
    assert github_trouble(errors.Refused("no.", answer), about="x").happened == (
        "no (activity id act-1)"
    )
    told = github_trouble(errors.Refused("no (act-1)", answer), about="x")
    assert told.happened == "no (act-1)"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Forbidden(403, "Forbidden", 'User "x" cannot create resource "roles"'), "RightsMissing"),
        (Forbidden(403, "Forbidden", 'pods "p" is forbidden: exceeded quota: q'), "QuotaExceeded"),
        (Forbidden(403, "Forbidden", "admission webhook denied the request"), "ApiServerRefused"),
        (Invalid(422, "Invalid", "spec.x: Required value"), "ApiServerRefused"),
        (Unreachable("no answer"), "ApiServerRefused"),
    ],
)
def test_a_refusal_of_the_api_server_is_told_in_its_words(error: KubeError, reason: str) -> None:
    told = kube_trouble(error, about="x", doing="create its Role")
    assert told.reason == reason
    assert told.happened.startswith("could not create its Role: ")


def test_who_lacks_which_right_is_told_as_what_to_allow() -> None:
    said = (
        'secrets "x" is forbidden: User "system:serviceaccount:arc:manager" cannot create resource '
        '"secrets" in API group "" in the namespace "runners"'
    )
    told = kube_trouble(Forbidden(403, "Forbidden", said), about="x", doing="store it")
    begin = "Allow system:serviceaccount:arc:manager to `create` secrets in namespace runners. "
    assert told.remedy.startswith(begin)
    assert told.remedy.endswith("docs/single-machine.md")
    everywhere = (
        'User "me" cannot list resource "pods/log" in API group "x.io" at the cluster scope'
    )
    told = kube_trouble(Forbidden(403, "Forbidden", everywhere), about="x", doing="look")
    assert told.remedy.startswith("Allow me to `list` pods/log.x.io in the whole cluster. ")
    other = Forbidden(403, "Forbidden", "it cannot get resource at all")
    assert kube_trouble(other, about="x", doing="look").remedy.startswith("Upgrade the chart")


def test_a_refusal_of_github_is_told_with_one_remedy() -> None:
    request = Request("GET", "https://api.github.com/orgs/o", {})
    answer = Response(401, "Unauthorized", {"content-type": "text/plain"}, b"Bad credentials")
    error = answered_failure(request, answer, Subject("register"), attempts=1, now_s=0.0)
    assert "Check that the token" in str(error)  # of the client alone there is no other word
    told = github_trouble(error, about="x")
    assert told.happened.endswith("Bad credentials")
    assert told.remedy.startswith("Renew the token")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><h1>503</h1></html>", "the answer is a web page, none of GitHub's API"),
        (b'say "no"', 'the answer is no JSON: "say "no""'),
    ],
)
def test_a_page_where_json_was_due_is_told_as_that(body: bytes, words: str) -> None:
    request = Request("GET", "https://api.github.com/orgs/o", {})
    answer = Response(503, "Service Unavailable", {}, body)
    error = answered_failure(request, answer, Subject("register"), attempts=1, now_s=0.0)
    assert "failed to unmarshal error response body" in str(error)
    happened = github_trouble(error, about="x").happened
    assert happened.endswith(f'failed(status="503 Service Unavailable"): {words}')
