import pytest

from runnerscale.core.secret import SecretText
from runnerscale.scaleset.errors import InvalidProxy
from runnerscale.scaleset.proxy import (
    ProxyRules,
    ProxyServer,
    goes_direct,
    parse_proxy,
    proxies_in,
    split_no_proxy,
)


@pytest.mark.behaviour("C2 T82")
@pytest.mark.parametrize(
    ("no_proxy", "host", "port", "direct"),
    [
        ("example.com:" + "9" * 5000, "example.com", 443, False),
        ("example.com", "example.com", 443, True),
        ("example.com", "a.example.com", 443, True),
        ("example.com", "EXAMPLE.com", 443, True),
        ("EXAMPLE.com", "example.com.", 443, True),
        ("example.com", "notexample.com", 443, False),
        (".example.com", "example.com", 443, False),
        (".example.com", "a.example.com", 443, True),
        ("*.example.com", "a.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "11.1.2.3", 443, False),
        ("10.0.0.0/8", "example.com", 443, False),
        ("10.0.0.1", "10.0.0.1", 443, True),
        ("10.0.0.1", "10.0.0.10", 443, False),
        ("fd00::/8", "fd00::1", 443, True),
        ("fd00::1", "fd00::1", 443, True),
        ("[fd00::1]:8443", "fd00::1", 8443, True),
        ("*", "anything.example", 80, True),
        ("example.com:8443", "example.com", 8443, True),
        ("example.com:8443", "example.com", 443, False),
        ("10.0.0.1:80", "10.0.0.1", 80, True),
        ("10.0.0.1:80", "10.0.0.1", 443, False),
        ("a, b ,, example.com ", "example.com", 443, True),
        ("nonsense/99", "example.com", 443, False),
        ("nonsense/99", "10.0.0.1", 443, False),
        ("", "localhost", 443, True),
        ("", "127.0.0.1", 443, True),
        ("", "127.8.9.1", 443, True),
        ("", "::1", 443, True),
        ("", "example.com", 443, False),
    ],
)
def test_what_goes_direct(no_proxy: str, host: str, port: int, direct: bool) -> None:
    assert goes_direct(host, port, split_no_proxy(no_proxy)) is direct


@pytest.mark.behaviour("C2 T175")
@pytest.mark.parametrize(
    "environ",
    [
        {"http_proxy": "http://p"},
        {"HTTPS_PROXY": "http://p"},
        {"no_proxy": "example.com"},
    ],
)
def test_any_variable_is_a_configuration(environ: dict[str, str]) -> None:
    assert proxies_in(environ).configured
    assert not proxies_in({}).configured


def test_the_upper_case_variable_wins_unless_it_is_empty() -> None:
    found = proxies_in({"HTTP_PROXY": " http://upper ", "http_proxy": "http://lower"})
    assert found.http == SecretText("http://upper")
    found = proxies_in({"HTTP_PROXY": "", "http_proxy": "http://lower", "NO_PROXY": "a,b"})
    assert (found.http, found.no_proxy) == (SecretText("http://lower"), ("a", "b"))


@pytest.mark.behaviour("C2 T81")
def test_the_targets_scheme_chooses_the_proxy() -> None:
    rules = ProxyRules(SecretText("http://p1:3128"), SecretText("https://p2"), ("direct.example",))
    assert rules.server_for("http://example.com/x") == ProxyServer("http://p1:3128")
    assert rules.server_for("https://example.com/x") == ProxyServer("https://p2")
    assert rules.server_for("https://direct.example/x") is None
    assert rules.server_for("http://127.0.0.1:99/x") is None
    assert ProxyRules().server_for("https://example.com/") is None


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("http://user:pa%40ss@p:3128/", ProxyServer("http://p:3128", "user", SecretText("pa@ss"))),
        ("http://user@p", ProxyServer("http://p", "user")),
        ("p:3128", ProxyServer("http://p:3128")),
        ("user:x@p:3128", ProxyServer("http://p:3128", "user", SecretText("x"))),
        ("https://[fd00::1]:99", ProxyServer("https://[fd00::1]:99")),
    ],
)
def test_a_proxys_credentials_are_taken_out_of_its_url(url: str, server: ProxyServer) -> None:
    assert parse_proxy(url) == server
    assert "pa@ss" not in repr(server)


@pytest.mark.parametrize(
    "url",
    [
        *("socks5://hush@p", "http://", "http://hush:hush@p:port", "http://hu%3Ash@p", ""),
        *("not a url", "http://hush:hush@a host:3128", "http://hush@p:3128\nX: y"),
    ],
)
def test_an_unusable_proxy_is_told_without_its_secrets(url: str) -> None:
    with pytest.raises(InvalidProxy) as caught:
        parse_proxy(url)
    assert "hush" not in str(caught.value)
    if url:
        with pytest.raises(InvalidProxy):
            ProxyRules(https=SecretText(url)).checked()
