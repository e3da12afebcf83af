import pytest

from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import Proxy, ProxyServer
from runnerscale.credentials.proxy import (
    Login,
    flattened,
    login_of_secret,
    login_of_vault,
    references,
)
from runnerscale.credentials.record import InvalidRecord
from runnerscale.scaleset.errors import InvalidProxy
from runnerscale.scaleset.proxy import ProxyRules
from tests.unit.credentials.cluster import base64_of

LOGINS = {
    "http-secret": Login("http-user", SecretText("p@ss:word")),
    "https-secret": Login("https user", SecretText("x/y")),
}
BOTH = Proxy(
    http=ProxyServer("http://proxy:8080", "http-secret"),
    https=ProxyServer("https://old:gone@proxy:8443/", "https-secret"),
    no_proxy=("example.com", "example.org"),
)


@pytest.mark.behaviour("C1 T183")
def test_each_target_takes_its_proxy_with_its_login_and_exempt_hosts_take_none() -> None:
    rules = flattened(BOTH, LOGINS)
    assert rules.http == SecretText("http://http-user:p%40ss%3Aword@proxy:8080")
    assert rules.https == SecretText("https://https%20user:x%2Fy@proxy:8443")
    assert "p%40ss" not in repr(rules)
    http, https = rules.server_for("http://github.com/"), rules.server_for("https://github.com/")
    assert http is not None and https is not None
    assert (http.url, http.username, http.password) == (
        "http://proxy:8080",
        "http-user",
        SecretText("p@ss:word"),
    )
    assert (https.url, https.username) == ("https://proxy:8443", "https user")
    assert https.password == SecretText("x/y")
    for host in ("example.com", "example.org"):
        assert rules.server_for(f"https://{host}/") is None
        assert rules.server_for(f"http://{host}/") is None


def test_without_a_login_the_url_stays_as_it_is() -> None:
    proxy = Proxy(https=ProxyServer(" http://user:own@proxy:1 "))
    assert flattened(proxy, {}).https == SecretText("http://user:own@proxy:1")
    assert flattened(None, {}) == ProxyRules()
    assert flattened(Proxy(no_proxy=("a",)), {}) == ProxyRules(no_proxy=("a",))


def test_each_secret_is_read_once() -> None:
    assert references(BOTH) == ("http-secret", "https-secret")
    same = Proxy(http=ProxyServer("http://p", "s"), https=ProxyServer("http://p", "s"))
    assert references(same) == ("s",)
    assert references(Proxy(http=ProxyServer("http://p"))) == references(None) == ()


@pytest.mark.parametrize("url", ["", "socks5://hush@p", "http://"])
def test_an_unusable_url_is_named_by_its_field_and_not_quoted(url: str) -> None:
    with pytest.raises(InvalidProxy, match=r"proxy\.https\.url") as caught:
        flattened(Proxy(https=ProxyServer(url)), {})
    assert "hush" not in str(caught.value)


def test_a_login_is_read_from_both_forms() -> None:
    login = Login("u", SecretText(" p "))
    assert login_of_secret(base64_of({"username": "u\n", "password": " p \n"})) == login
    assert login_of_vault(SecretText('{"username":"u","password":" p "}')) == login


@pytest.mark.parametrize("values", [{}, {"username": "u"}, {"password": "p"}])
def test_half_a_login_is_none(values: dict[str, str]) -> None:
    with pytest.raises(InvalidRecord):
        login_of_secret(base64_of(values))


@pytest.mark.parametrize("text", ["{}", '{"username":"u","password":4}', "x"])
def test_a_vault_item_without_a_login_is_told(text: str) -> None:
    with pytest.raises(InvalidRecord):
        login_of_vault(SecretText(text))
