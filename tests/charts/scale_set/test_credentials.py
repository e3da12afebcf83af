"""The Secret with credentials for GitHub, and what is refused about them."""

import base64
from typing import Any

import pytest

from .chart import GHA, PROTECTION, RELEASE, annotations, names, one, refusal, spec

SECRET = f"{RELEASE}-gha-rs-github-secret"
APP = {
    "github_app_id": "10",
    "github_app_installation_id": "100",
    "github_app_private_key": "private_key",
}
CLEANUP = GHA + "cleanup-github-secret-name"


def data(secret: Any) -> dict[str, str]:
    """What the Secret that is made from these credentials holds."""
    found = one("Secret", {"githubConfigSecret": secret})
    return {key: base64.b64decode(text).decode() for key, text in found["data"].items()}


@pytest.mark.behaviour("C3 T35")
def test_a_token_becomes_a_secret() -> None:
    secret = one("Secret")
    assert secret.name == SECRET
    assert secret["metadata"]["finalizers"] == PROTECTION
    assert data({"github_token": "gh_token12345"}) == {"github_token": "gh_token12345"}
    assert "type" not in secret


@pytest.mark.behaviour("C3 T36")
def test_an_app_becomes_a_secret_with_three_keys() -> None:
    assert data(APP) == APP
    assert data({**APP, "github_token": ""}) == APP


@pytest.mark.behaviour("C3 T83")
@pytest.mark.parametrize("secret", [{"github_token": "t"}, APP])
def test_the_runner_set_names_the_secret_that_is_made(secret: dict[str, str]) -> None:
    assert annotations({"githubConfigSecret": secret})[CLEANUP] == SECRET
    assert spec({"githubConfigSecret": secret})["githubConfigSecret"] == SECRET


@pytest.mark.behaviour("C3 T39", "C3 T66", "C3 T84")
@pytest.mark.parametrize("name", ["pre-defined-secret", "pre-defined-secrets"])
def test_a_secret_of_the_user_is_named_and_none_is_made(name: str) -> None:
    extra = {"githubConfigSecret": name}
    assert names("Secret", extra) == []
    assert spec(extra)["githubConfigSecret"] == name
    assert CLEANUP not in annotations(extra)


@pytest.mark.behaviour("C3 T205")
@pytest.mark.parametrize("number", [98765432, 1000000, 123456789012])
def test_ids_that_are_numbers_keep_their_digits(number: int) -> None:
    app = {**APP, "github_app_id": number, "github_app_installation_id": number + 1}
    assert data(app) == {
        **APP,
        "github_app_id": str(number),
        "github_app_installation_id": str(number + 1),
    }


def test_ids_of_set_expressions_keep_their_digits() -> None:
    expressions = [f"githubConfigSecret.{key}={value}" for key, value in APP.items()]
    expressions[0] = "githubConfigSecret.github_app_id=98765432"
    found = one("Secret", {"githubConfigSecret": None}, set_values=expressions)
    assert base64.b64decode(found["data"]["github_app_id"]) == b"98765432"


def test_further_keys_are_kept_and_empty_ones_are_not() -> None:
    secret = {"github_token": "t", "more": "x", "empty": "", "none": None, "number": 1000000}
    assert data(secret) == {"github_token": "t", "more": "x", "number": "1000000"}


def test_a_key_of_many_lines_and_letters_beyond_ascii_survives() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\n-----END RSA PRIVATE KEY-----\n"
    assert data({**APP, "github_app_private_key": key})["github_app_private_key"] == key
    assert data({"github_token": 'ä"\\\n€'}) == {"github_token": 'ä"\\\n€'}


@pytest.mark.behaviour("C3 T37")
@pytest.mark.parametrize(
    "secret",
    [
        {"github_token": ""},
        {},
        {"github_token": None},
        {"other": "x"},
        {"github_app_private_key": "k", "github_app_installation_id": "1"},
    ],
)
def test_a_map_without_token_and_app_id_is_refused(secret: dict[str, Any]) -> None:
    text = refusal({"githubConfigSecret": secret})
    assert "neither a token nor an app id" in text
    assert "github_token" in text and "name of a Secret" in text


@pytest.mark.behaviour("C3 T38")
@pytest.mark.parametrize(
    "secret",
    [
        {"github_app_id": "10"},
        {"github_app_id": "10", "github_app_installation_id": "100"},
        {"github_app_id": "10", "github_app_private_key": "k"},
        {"github_app_id": "10", "github_token": "t"},  # even beside a token
    ],
)
def test_an_app_id_alone_is_refused_naming_what_is_missing(secret: dict[str, Any]) -> None:
    text = refusal({"githubConfigSecret": secret})
    assert "github_app_installation_id" in text
    assert "github_app_private_key" in text


@pytest.mark.behaviour("C3 T67")
@pytest.mark.parametrize("secret", ["", None])
def test_empty_credentials_are_refused(secret: object) -> None:
    text = refusal({"githubConfigSecret": secret})
    assert "githubConfigSecret is empty" in text
    assert "credentials are required" in text


@pytest.mark.parametrize(
    "more", [APP, {"github_app_installation_id": "1"}, {"github_app_private_key": "k"}]
)
def test_token_and_app_together_are_refused_at_once(more: dict[str, str]) -> None:
    # W-S8: rendered before, and refused by the controller later.
    text = refusal({"githubConfigSecret": {"github_token": "t", **more}})
    assert "both github_token and fields of a GitHub App" in text
    assert "Remove either" in text


@pytest.mark.parametrize("secret", [5, True, ["a"]])
def test_credentials_of_no_kind_are_refused(secret: object, chart_without_schema: Any) -> None:
    assert "/githubConfigSecret" in refusal({"githubConfigSecret": secret})
    text = refusal({"githubConfigSecret": secret}, chart=chart_without_schema)
    assert "githubConfigSecret must be a map with credentials or the name of a Secret" in text


def test_no_refusal_quotes_a_secret() -> None:
    secret = {"github_token": "ghp_private", "github_app_private_key": "private_pem"}
    for extra in (
        {"githubConfigSecret": secret},
        {"githubConfigSecret": {**secret, "github_app_id": "1"}},
        {"githubConfigSecret": {"github_app_private_key": "private_pem"}},
        {"githubConfigSecret": secret, "proxy": "http://user:private@example.com"},
        {"githubConfigSecret": secret, "proxy": {"http": "http://user:private@example.com"}},
    ):
        assert "private_pem" not in refusal(extra)
        assert "ghp_private" not in refusal(extra)
        assert "private@" not in refusal(extra)


@pytest.mark.parametrize(
    "token", ["ghp_s3cret", "github_pat_s3cret", "-----BEGIN s3cret", "s3 cret"]
)
def test_a_token_in_the_place_of_a_name_is_refused_and_not_repeated(token: str) -> None:
    # It would stand in the runner set's spec, in conditions and in Events for everybody to read.
    text = refusal({"githubConfigSecret": token})
    assert "githubConfigSecret.github_token" in text
    assert "s3" not in text


def test_a_key_that_no_secret_may_have_is_refused_before_the_server_does() -> None:
    text = refusal({"githubConfigSecret": {"github_token": "t", "a b": "x"}})
    assert "githubConfigSecret has a key that no Secret may have" in text
