"""Names and the hashes in them, against the golden vectors of contract 2.5-2.8."""

import pytest

from runnerscale.api import names
from runnerscale.core.randomness import seeded


@pytest.mark.behaviour("C1 T19", "C1 T20")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("test-ns@testgroup@https://github.com/owner/repo", "c7fb7467b"),
        ("arc-runners@@https://github.com/octo-org/octo-repo", "5b5868b7c8"),
        ("arc-runners@Default@https://github.com/octo-org", "6d5dd7cbd8"),
        ("ns1@@https://github.com/enterprises/acme", "79bdf969bd"),
        ("arc-runners", "754b578df7"),
    ],
)
def test_the_hash_of_a_text(text: str, wanted: str) -> None:
    assert names.hash_text(text) == wanted


def test_fnv_is_the_published_one() -> None:
    assert names.fnv1a32(b"test-ns@testgroup@https://github.com/owner/repo") == 739630236
    assert names.fnv1a32(b"") == 0x811C9DC5
    assert names.fnv1a32(b"foobar") == 0xBF9CF968  # test vector of its authors


def test_digits_become_letters_that_spell_nothing() -> None:
    assert names.safe_encode("0123456789") == "456789bcdf"


@pytest.mark.behaviour("C1 T19")
def test_a_listener_is_named_after_set_namespace_group_and_url() -> None:
    name = names.listener_name(
        namespace="test-ns",
        runner_set="x",
        runner_group="testgroup",
        config_url="https://github.com/owner/repo",
    )
    assert name == "x-c7fb7467-listener"


@pytest.mark.behaviour("C1 T22")
def test_its_secrets_are_named_after_it() -> None:
    assert names.listener_config_name("l") == "l-config"
    assert names.listener_proxy_name("l") == "l-proxy"


@pytest.mark.behaviour("C1 T21")
@pytest.mark.parametrize(
    ("namespace", "wanted"),
    [
        ("arc-runners", "e-754b578d-runner-proxy"),
        ("test-ns", "e-574d8446-runner-proxy"),
        ("default", "e-68c4584d-runner-proxy"),
    ],
)
def test_the_runners_proxy_secret(namespace: str, wanted: str) -> None:
    assert names.runner_proxy_name(namespace=namespace, runner_set="e") == wanted


def test_a_name_of_45_characters_still_fits_a_label_value() -> None:
    # 46 is refused by the CRD and told by the controller; 45 is exactly what fits (2.5).
    longest = names.listener_name(
        namespace="arc-runners",
        runner_set="x" * names.RUNNER_SET_NAME_MAX,
        runner_group="",
        config_url="https://github.com/octo-org/octo-repo",
    )
    assert len(longest) == names.LABEL_VALUE_MAX


@pytest.mark.behaviour("C1 T32")
def test_the_hash_of_a_secret_is_arcs_and_one_byte_changes_it() -> None:
    data = {
        "http_proxy": b"http://username:password@proxy.example.com:8080",
        "https_proxy": b"https://username:password@proxy.example.com:8080",
        "no_proxy": b"noproxy.example.com,noproxy2.example.com",
    }
    assert names.hash_secret(data) == "54787b4cb"
    assert names.hash_secret(data | {"no_proxy": b"noproxy.example.com,noproxy2.example.con"}) != (
        "54787b4cb"
    )


@pytest.mark.behaviour("C1 T24", "C1 T25")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("o" * 64, "o" * 58 + "-trim"),
        ("o" * 63, "o" * 63),
        (".github", "github"),
        ("-_.a.b_c-_.", "a.b_c"),
        ("...", ""),
        ("", ""),
    ],
)
def test_a_text_is_made_to_fit_a_label(text: str, wanted: str) -> None:
    assert names.label_value(text) == wanted


def test_runner_names_look_as_the_servers_own_and_never_grow_too_long() -> None:
    name = names.runner_name("set", seeded(1))
    assert name.startswith("set-runner-")
    assert len(name) == len("set-runner-") + 5
    assert set(name[-5:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert len(names.runner_name("x" * 80, seeded(1))) == 63
    assert names.runner_name("set", seeded(1)) == name  # one seed, one history
