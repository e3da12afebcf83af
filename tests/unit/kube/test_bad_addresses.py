"""Addresses and tokens that no request could carry are refused where they are read."""

from pathlib import Path

import pytest

from runnerscale.core.clock import ManualClock
from runnerscale.core.secret import SecretText
from runnerscale.kube.aiohttp_transport import AiohttpTransport
from runnerscale.kube.credentials import StaticToken, TokenFile
from runnerscale.kube.errors import ConfigError
from runnerscale.kube.httptools_transport import HttptoolsTransport
from runnerscale.kube.kubeconfig import read_kubeconfig
from runnerscale.kube.transport import Endpoint

KUBECONFIG = """
current-context: c
clusters: [{{name: k, cluster: {{server: "{server}", proxy-url: "{proxy}"}}}}]
contexts: [{{name: c, context: {{cluster: k, user: u}}}}]
users: [{{name: u, user: {{token: x}}}}]
"""
BAD = (
    *("https://", "https://127.0.0.1:99999", "https://[::1", "https://a b/", "https://h/\\n"),
    *("https://a..b:1", "https://.:1", f"https://{'a' * 64}:1"),  # no resolver takes these
)


def kubeconfig(folder: Path, *, server: str = "https://h:1", proxy: str = "") -> Path:
    path = folder / "config"
    path.write_text(KUBECONFIG.format(server=server, proxy=proxy))
    return path


def test_a_good_address_is_taken(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, server="https://[::1]:6443", proxy="http://u:p@h:3128")
    assert read_kubeconfig([path]).server == "https://[::1]:6443"


@pytest.mark.parametrize("url", BAD)
def test_an_address_that_is_none_is_refused_with_its_place(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="cluster 'k': server is no address"):
        read_kubeconfig([kubeconfig(tmp_path, server=url)])


@pytest.mark.parametrize("kind", [HttptoolsTransport, AiohttpTransport])
async def test_a_name_that_no_resolver_takes_is_said(
    kind: type[HttptoolsTransport] | type[AiohttpTransport],
) -> None:
    transport = kind(Endpoint("http://a..b:1"))
    with pytest.raises(ConfigError, match=r"a\.\.b:1 holds no name"):
        await transport.request("GET", "/x")
    await transport.close()


def test_a_bad_proxy_is_refused_and_its_password_not_shown(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, proxy="http://user:pa55word@[::1")
    with pytest.raises(ConfigError, match="proxy-url is no address") as caught:
        read_kubeconfig([path])
    assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize("text", ["clusters: " + "[" * 50_000, "a: 2026-99-99T99:99:99Z"])
def test_yaml_that_ends_its_reader_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError, match="config"):
        read_kubeconfig([path])


@pytest.mark.parametrize("token", ["q1\r\nX: y", "q1 q2", "q1\u2603", "q1\x00"])
async def test_a_token_that_no_header_can_hold_is_never_sent_nor_shown(
    tmp_path: Path, token: str
) -> None:
    with pytest.raises(ConfigError, match="no token has") as caught:
        StaticToken(SecretText(token))
    assert token not in str(caught.value)
    path = tmp_path / "token"
    path.write_text(token, encoding="utf-8")
    with pytest.raises(ConfigError, match="no token has"):
        await TokenFile(path, clock=ManualClock()).authorization()


async def test_the_line_end_of_a_token_file_is_not_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("abc\n")
    header = await TokenFile(path, clock=ManualClock()).authorization()
    assert header is not None
    assert header.reveal() == "Bearer abc"
