"""From an error of the layers below to what a person reads."""

import inspect

import pytest

from runnerscale.controllers.troubles import github_trouble, kube_trouble
from runnerscale.credentials.place import PlaceTrouble
from runnerscale.kube.errors import Forbidden, Invalid, KubeError, Unreachable
from runnerscale.scaleset import errors
from runnerscale.scaleset.errors import Answer, ScaleSetError

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
