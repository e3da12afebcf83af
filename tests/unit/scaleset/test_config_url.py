import pytest

from runnerscale.scaleset.config_url import (
    Scope,
    force_ghes_in,
    parse_config_url,
    without_secrets,
)
from runnerscale.scaleset.errors import InvalidConfigUrl

INSTALLATION = "/app/installations/123/access_tokens"


@pytest.mark.behaviour("C2 T1")
@pytest.mark.parametrize(
    ("text", "scope", "slug", "hosted"),
    [
        ("https://github.com/org/repo", Scope.REPOSITORY, "org/repo", True),
        ("https://github.com/org/repo/", Scope.REPOSITORY, "org/repo", True),
        ("https://github.com/org", Scope.ORGANIZATION, "org", True),
        (
            "https://github.com/enterprises/my-enterprise",
            Scope.ENTERPRISE,
            "enterprises/my-enterprise",
            True,
        ),
        (
            "https://github.com/enterprises/my-enterprise/",
            Scope.ENTERPRISE,
            "enterprises/my-enterprise",
            True,
        ),
        ("https://www.github.com/org", Scope.ORGANIZATION, "org", True),
        ("https://www.github.com/org/", Scope.ORGANIZATION, "org", True),
        ("https://github.localhost/org", Scope.ORGANIZATION, "org", True),
        ("https://my-ghes.com/org", Scope.ORGANIZATION, "org", False),
        ("https://my-ghes.com/org/", Scope.ORGANIZATION, "org", False),
        ("https://my-ghes.ghe.com/org/", Scope.ORGANIZATION, "org", True),
    ],
)
def test_a_config_url_names_its_place(text: str, scope: Scope, slug: str, hosted: bool) -> None:
    place = parse_config_url(text)
    assert (place.scope, place.slug, place.hosted) == (scope, slug, hosted)
    assert place.text == text.strip("/")
    names = (place.enterprise, place.organization, place.repository)
    parts = slug.split("/")
    expected = {
        Scope.ENTERPRISE: (parts[-1], "", ""),
        Scope.ORGANIZATION: ("", parts[0], ""),
        Scope.REPOSITORY: ("", parts[0], parts[-1]),
    }
    assert names == expected[scope]


@pytest.mark.behaviour("C2 T2", "C2 T7")
@pytest.mark.parametrize(
    "text",
    [
        "https://github.com",
        "https://github.com/",
        "https://github.com/some/random/path",
        "https://github.com/org//repo",
        "https://github.com/o%2Fr/x",
        "https://github.com/../org",
        "",
    ],
)
def test_a_url_that_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigUrl, match="should point to an enterprise, org, or repository"):
        parse_config_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://my host/org",
        "https://h.example/%zz",
        "https://h.example:port/org",
        "https:///org",
        "ftp://github.com/org",
        "https://exa\nmple.com/org",
        "https://h$x/org",
    ],
)
def test_what_is_no_url_is_told_so(text: str) -> None:
    with pytest.raises(InvalidConfigUrl, match="failed to parse URL"):
        parse_config_url(text)


@pytest.mark.behaviour("C2 T8")
@pytest.mark.parametrize("text", ["github.com/org", "github.com/org/repo", "//github.com/org"])
def test_a_url_without_a_scheme_is_refused(text: str) -> None:
    # Upstream takes the host for an organization (weakness W41).
    with pytest.raises(InvalidConfigUrl, match="https://"):
        parse_config_url(text)


@pytest.mark.behaviour("C2 T3", "C2 T4")
@pytest.mark.parametrize("value", ["1", ""])
def test_force_ghes_makes_every_host_an_enterprise_server(value: str) -> None:
    forced = force_ghes_in({"GITHUB_ACTIONS_FORCE_GHES": value})
    place = parse_config_url("https://test.ghe.com/org/repo", force_ghes=forced)
    assert place.api_url("/some/path") == "https://test.ghe.com/api/v3/some/path"
    assert not place.hosted
    assert not force_ghes_in({})


@pytest.mark.behaviour("C2 T5")
@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://github.com/org/repo", f"https://api.github.com{INSTALLATION}"),
        ("https://www.github.com/org/repo", f"https://api.github.com{INSTALLATION}"),
        ("http://github.localhost/org/repo", f"http://api.github.localhost{INSTALLATION}"),
        ("https://my-instance.com/org/repo", f"https://my-instance.com/api/v3{INSTALLATION}"),
        ("http://localhost/org/repo", f"http://localhost/api/v3{INSTALLATION}"),
        ("https://github.ghe.com/org/repo", f"https://api.github.ghe.com{INSTALLATION}"),
        ("https://ghes.com/org/repo", f"https://ghes.com/api/v3{INSTALLATION}"),
        ("http://127.0.0.1:8080/org", f"http://127.0.0.1:8080/api/v3{INSTALLATION}"),
        ("http://[::1]:8080/org", f"http://[::1]:8080/api/v3{INSTALLATION}"),
        # Ours: neither a port nor the case of a host makes another GitHub of it (W42).
        ("https://github.com:443/org", f"https://api.github.com{INSTALLATION}"),
        ("https://GitHub.com/org", f"https://api.github.com{INSTALLATION}"),
        ("https://foo.GHE.com/org", f"https://api.foo.ghe.com{INSTALLATION}"),
        ("https://x.ghe.com:8443/org", f"https://api.x.ghe.com:8443{INSTALLATION}"),
        ("https://ghe.com/org", f"https://ghe.com/api/v3{INSTALLATION}"),
    ],
)
def test_the_rest_api_is_where_the_host_says(text: str, url: str) -> None:
    assert parse_config_url(text).api_url(INSTALLATION) == url


@pytest.mark.behaviour("C2 T6")
def test_the_word_enterprises_may_be_in_any_case() -> None:
    place = parse_config_url("https://github.com/ENTERPRISES/e")
    assert (place.scope, place.enterprise) == (Scope.ENTERPRISE, "e")


def test_enterprises_alone_is_an_organization_of_that_name() -> None:
    assert parse_config_url("https://github.com/enterprises").organization == "enterprises"
    assert parse_config_url("https://github.com//org").organization == "org"


@pytest.mark.parametrize("tail", ["?x=1", "#f", ""])
def test_what_decorates_a_url_is_sent_but_never_shown(tail: str) -> None:
    text = f"https://user:pass@github.com/org{tail}"
    place = parse_config_url(text)
    assert (place.text, place.organization) == (text, "org")
    assert str(place) == "https://github.com/org"
    assert "pass" not in repr(place) and "x=1" not in repr(place)


def test_an_error_about_a_url_hides_its_user_info() -> None:
    with pytest.raises(InvalidConfigUrl) as caught:
        parse_config_url("https://user:hush@github.com/a/b/c?token=hush")
    assert "hush" not in str(caught.value)
    assert without_secrets("https://a:hush@h/p?q=hush#hush") == "https://h/p"


def test_slugs_are_encoded_where_they_enter_a_path() -> None:
    place = parse_config_url("https://github.com/my%20org/re%3Fpo")
    assert place.runners_path == "/repos/my%20org/re%3Fpo/actions/runners"
